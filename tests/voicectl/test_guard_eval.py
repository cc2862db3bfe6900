"""voicectl asr guard: pieces and figures by hand, and a run on the sample recording and on noise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from livedaemon import SAMPLE
from sounds import at_level, noise, sound, to_int16
from voicectl.__main__ import main
from voicectl.evaluation.clips import LeftOut
from voicectl.evaluation.guard_measure import NoiseHeard, SpeechHeard, made, noise_figures, noises, speech_figures, tables


def folder(path: Path, *entries: dict[str, Any]) -> Path:
    (path / "manifest.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def test_a_file_of_noise_is_cut_into_turns(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "rain.wav", np.ones(16_000 * 25, np.int16), 16_000)
    soundfile.write(tmp_path / "click.wav", np.ones(16_000 // 4, np.int16), 16_000)
    rain = {"path": "rain.wav", "role": "noise", "seconds": 25, "source": "sky"}
    data = folder(tmp_path, rain, {**rain, "path": "click.wav"}, {**rain, "path": "gone.wav"}, {**rain, "role": "asr"})
    left: list[LeftOut] = []
    pieces = list(noises(data, None, left.append))
    assert [(piece.name, len(piece.samples)) for piece in pieces] == [
        ("rain.wav", 160_000), ("rain.wav+10s", 160_000), ("rain.wav+20s", 80_000)
    ]  # fmt: skip
    assert [one.name for one in left] == ["gone.wav"]
    assert len(list(noises(data, 1, left.append))) == 1


def test_what_is_made_is_silence_rooms_and_hum() -> None:
    pieces = {piece.name: piece.samples for piece in made()}
    assert not pieces["silence"].any()
    assert all(len(samples) == 160_000 for samples in pieces.values())
    hum = np.abs(np.fft.rfft(pieces["hum of 50 Hz"]))
    assert int(hum.argmax()) == 500  # 50 Hz of 10 s


def heard(text: str, refused: str, turn_unguarded: str, turn: str) -> NoiseHeard:
    return NoiseHeard("sky", "rain.wav", 6.0, 0.0, "", None, text, refused, turn_unguarded, turn, "no speech")


def test_the_shares_by_hand() -> None:
    pieces = [heard("You", "not asked", "", ""), heard("♪♪", "", "you", ""), heard("Thanks", "", "thanks", "thanks"), heard("", "", "", "")]
    (row,) = noise_figures(pieces)
    assert (row.pieces, row.minutes) == (4, 0.4)
    assert [rate.value for rate in (row.alone_unguarded, row.alone, row.turn_unguarded, row.turn)] == [0.5, 0.25, 0.5, 0.25]

    def clip(right: bool, refused: str, lost: bool = False) -> SpeechHeard:
        return SpeechHeard("orders", "a.wav", 2.0, None, "a tea", 0.4, "A tea.", refused, "", right, lost)

    (figures,) = speech_figures([clip(True, ""), clip(True, "unlike"), clip(False, "too long", lost=True), clip(False, "")])
    assert figures.refused and figures.kept
    assert (figures.refused.value, figures.kept.value, figures.lost.value) == (0.5, 0.5, 0.25)
    head, row_of_all = tables(pieces, [])[0]
    assert (head[0], row_of_all[:3]) == ("noise", ["sky", "4", "0.4"])


@pytest.mark.slow
def test_a_run_on_noise_and_a_query(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    soundfile.write(tmp_path / "rain.wav", to_int16(at_level(noise(48_000, "pink"), -30)), 16_000)
    soundfile.write(tmp_path / "query.wav", sound(SAMPLE)[28_080:60_000], 16_000)
    rain = {"path": "rain.wav", "role": "noise", "seconds": 3, "source": "sky"}
    query = {"path": "query.wav", "role": "command", "seconds": 2, "source": "desk", "text": "turn on the lights in the kitchen"}
    arguments = ["asr", "guard", "--data", str(folder(tmp_path, rain, query)), "--tapes", str(tmp_path / "tapes"), "--json"]
    assert main(arguments) == 0
    told = json.loads(capsys.readouterr().out)
    (clip,) = told["clips"]
    assert (clip["right"], clip["refused"], clip["lost"]) == (True, "", False)
    assert [piece["set"] for piece in told["pieces"]] == ["made"] * 6 + ["sky"]
    assert all(not piece["turn"] for piece in told["pieces"])
    assert main(arguments) == 0  # from the tapes
    assert json.loads(capsys.readouterr().out) == told


def test_what_cannot_be_measured_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["asr", "guard", "--data", str(tmp_path)]) == 65
    assert main(["asr", "guard", "--data", str(folder(tmp_path)), "--limit", "-1"]) == 2
    assert main(["asr", "guard", "--data", str(tmp_path), "--model", "no-such"]) == 66
    assert "no-such" in capsys.readouterr().err
