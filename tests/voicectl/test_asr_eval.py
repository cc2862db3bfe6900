"""voicectl asr eval: the arithmetic by hand and by hypothesis, and a run on the sample recording's two turns."""

from __future__ import annotations

import json
import shutil
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from sounds import noise, to_int16
from voicectl import asr, extras
from voicectl.__main__ import main
from voicectl.evaluation import clips, recognizers, scores, sounds, tracks
from voicectl.evaluation.measure import end_tokens
from voiced.api import InputError, Library, ModelError, UsageError, Vad, Words, defaults

SAMPLE = Path(__file__).resolve().parents[2] / "daemon" / "voiced" / "data" / "sample.flac"
TURNS = {"lights": (30_480, 54_480, "Turn on the lights in the kitchen."), "clock": (167_760, 181_840, "What time is it?")}
"""Where each turn's speech begins and ends, as sample.json has it, and its words."""

LEAD, TAIL = 1600, 4000
"""Samples of the recording kept before and after a turn's speech."""

# ── texts ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("What time is it?", "what time is it"),
        ("Philip Steels, etc.", "philip steels etc"),
        ("What’s the weather—today", "what's the weather today"),
        ("'Tis the boys' twenty-one", "tis the boys twenty one"),
        ("  set\ta_timer  for five…", "set a timer for five"),
        ("Café 5", "café 5"),
        ("'' — !", ""),
    ],
)
def test_texts_are_compared_without_case_and_punctuation(text: str, plain: str) -> None:
    assert scores.normalised(text) == plain


@given(st.text())
def test_a_normal_text_stays_as_it_is(text: str) -> None:
    once = scores.normalised(text)
    assert scores.normalised(once) == once
    assert once == " ".join(once.split())


def test_figures_and_nothing_are_no_reference() -> None:
    assert scores.no_reference("one oh seven crystal lake drive") == ""
    assert "'107'" in scores.no_reference("at 107 Crystal Lake Drive")
    assert scores.no_reference(" … ") == "its text is empty"


def test_word_errors_by_hand() -> None:
    # lights → light; "in" is left out; "please" is put in
    found = scores.word_errors("Turn on the lights in the kitchen.", "turn on the light the kitchen please")
    assert found == scores.WordErrors(substitutions=1, deletions=1, insertions=1, words=7)
    assert found.count == 3
    assert scores.word_errors("what time is it", "") == scores.WordErrors(0, 4, 0, 4)
    with pytest.raises(ValueError, match="a reference that has words"):
        scores.word_errors("…", "a")


def test_slots_are_whole_words() -> None:
    assert scores.slots_found(["light roast", "coffee"], "Can I have a light roast coffee?") == 2
    assert scores.slots_found(["light roast", "coffee"], "can i have a light roasted coffee") == 1


# ── how sure ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_rate_and_its_interval() -> None:
    counts = [(1, 4), (0, 6), (3, 5), (2, 5)]
    found = scores.rate(counts, seed=7)
    assert found is not None
    assert (found.value, found.part, found.whole, found.clips) == (0.3, 6, 20, 4)
    assert 0 <= found.low < 0.3 < found.high <= 0.6
    assert scores.rate(counts, seed=7) == found
    assert scores.rate(counts, seed=8) != found
    assert scores.rate([], seed=0) is None
    assert scores.rate([(0, 0)], seed=0) is None


def test_a_bootstrap_of_two_clips_by_hand() -> None:
    """Drawn with replacement, two clips give (0, 0), (0, 1), (1, 0), (1, 1): a quarter of the draws are 0, a quarter 1."""
    found = scores.rate([(0, 3), (3, 3)], seed=0)
    assert found is not None
    assert (found.low, found.value, found.high) == (0, 0.5, 1)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 20)), min_size=1, max_size=30), st.integers(0, 5))
def test_an_interval_lies_between_the_clips_extremes(counts: list[tuple[int, int]], seed: int) -> None:
    found = scores.rate(counts, seed)
    assert found is not None
    each = [part / whole for part, whole in counts]
    assert min(each) - 1e-9 <= found.low <= found.high <= max(each) + 1e-9


def test_wilsons_interval_by_hand() -> None:
    """For none in n it is [0, z² / (n + z²)]."""
    none = scores.share([False] * 4)
    assert none is not None
    assert none.value == 0
    assert none.low == pytest.approx(0)
    assert none.high == pytest.approx(1.959964**2 / (4 + 1.959964**2))
    some = scores.share([True] * 8 + [False] * 2)
    assert some is not None
    assert (round(some.low, 3), round(some.high, 3)) == (0.490, 0.943)  # as any table of Wilson's has it
    assert scores.share([]) is None


def test_medians() -> None:
    assert scores.spread([10, 20, 30]) == scores.Spread(20, 28, 3)
    assert scores.spread([]) is None


# ── end tokens and delays on made tracks ───────────────────────────────────────────────────────────────────────────────

END = 32_000


def track(*words: Words, decodes: Sequence[int] = ()) -> tracks.Track:
    return tracks.Track(words, tuple(decodes), 64_000, 0.1)


def test_an_end_token_that_stays() -> None:
    found = tracks.ending(
        track(
            Words(28_000, "what"),
            Words(38_000, "what time", 33_600, -0.5),
            Words(43_000, "what time", 33_600, -0.5),
            Words(64_000, "what time", 33_600, -0.5),
        ),
        END,
        -3,
    )
    assert found == tracks.Ending(stands=1600, known=6000, early=False)
    assert found.within(1600)
    assert not found.within(1599)


def test_an_end_token_taken_back_is_early_and_does_not_stay() -> None:
    words = track(Words(20_000, "set", 16_000, -1.0), Words(25_000, "set a timer"), Words(64_000, "set a timer", 34_000, -1.0))
    assert tracks.ending(words, END, -3) == tracks.Ending(2000, 32_000, early=True)
    assert not tracks.ending(words, END, -3).within(99_999)


def test_an_end_token_below_the_threshold_is_none() -> None:
    words = track(Words(38_000, "what time", 33_600, -3.5))
    assert tracks.ending(words, END, -3) == tracks.Ending(None, None, early=False)
    assert tracks.ending(words, END, -4).stands == 1600


def test_a_token_on_the_last_speech_frames_is_not_early() -> None:
    for stands, early in ((END - tracks.EARLY + 1, False), (END - tracks.EARLY, True)):
        assert tracks.ending(track(Words(38_000, "x", stands, -1.0)), END, -3).early is early


@given(st.lists(st.tuples(st.booleans(), st.one_of(st.none(), st.integers(-8000, 20_000)), st.booleans()), max_size=30))
def test_every_ending_has_one_place(rows: list[tuple[bool, int | None, bool]]) -> None:
    """Within the widest limit, early, never, later: exactly one holds; cut-off sentences are counted apart."""
    endings = [(tracks.Ending(at, None if at is None else at + 100, early), complete) for early, at, complete in rows]
    found = end_tokens(endings)
    assert (found is None) == (not rows)
    whole = [one for one, complete in endings if complete]
    if found is not None and whole:
        widest, early, never = found.within[800], found.early, found.never
        assert widest is not None
        assert early is not None
        assert never is not None
        later = sum(not one.early and one.stands is not None and one.stands > 12_800 for one in whole)
        assert widest.part + early.part + never.part + later == len(whole)
        assert found.within[200] is not None
        assert found.within[200].part <= widest.part


def test_a_token_in_a_pause() -> None:
    start, end = 16_000, 24_000
    for stands, inside in ((start - tracks.EARLY, False), (start - 100, True), (end - 1, True), (end, False)):
        # taken back when speech goes on, and still it stood there
        words = track(Words(22_000, "call", stands, -1.0), Words(40_000, "call mom"))
        assert tracks.in_pause(words, start, end, -3) is inside
    assert not tracks.in_pause(track(Words(22_000, "call", start, -4.0)), start, end, -3)


def test_the_last_words_delay_by_hand() -> None:
    decodes = (8_704, 13_824, 18_944, 24_064, 29_184)
    words = track(
        Words(13_824, "turn on"), Words(29_184, "turn on it"), Words(40_000, "turn on it", 20_000, -1.0), Words(64_000, "turn on it"),
        decodes=decodes,
    )  # fmt: skip
    assert tracks.last_word_known(words) == 29_184
    assert tracks.first_word_known(words) == 13_824
    # the word ends at 16,000, and 2,560 ahead are heard: the decode at 18,944 could have said it, the second after that did
    assert tracks.emission_delay(words, 16_000, 2_560) == 29_184 - 18_944
    assert tracks.emission_delay(words, 60_000, 2_560) is None
    assert tracks.last_word_known(track(Words(64_000, ""))) is None


# ── sound ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def turn(name: str) -> Any:
    first, last, _ = TURNS[name]
    samples, _ = soundfile.read(SAMPLE, dtype="int16", start=first - LEAD, stop=last + TAIL)
    return samples


@pytest.fixture(scope="module")
def vad(library: Library) -> Vad:
    return Vad(library.find("silero-vad").files["model"])


@pytest.mark.parametrize("name", TURNS)
@pytest.mark.parametrize("room_db", [None, -60.0, -45.0])
def test_the_end_of_speech_is_where_it_was_made(vad: Vad, name: str, room_db: float | None) -> None:
    samples = turn(name)
    if room_db is not None:
        samples = to_int16(samples / 32768 + noise(len(samples), "pink") * 10 ** (room_db / 20))
    first, last, _ = TURNS[name]
    bounds = sounds.speech_bounds(samples, vad.track(samples), on=defaults().vad.on, off=defaults().vad.off)
    assert abs(bounds.end - (last - first + LEAD)) <= 1280  # 80 ms: a fading vowel drowns first in the room's noise
    assert abs(bounds.start - LEAD) <= 1600
    assert bounds.start < sounds.pause_place(samples, bounds) < bounds.end


def test_no_speech_is_said_so(vad: Vad) -> None:
    hiss = to_int16(noise(16_000, "pink") * 0.01)
    with pytest.raises(ValueError, match="finds no speech"):
        sounds.speech_bounds(hiss, vad.track(hiss), on=0.5, off=0.35)


def test_a_pause_goes_into_the_gap_between_two_words() -> None:
    rng = np.random.default_rng(1)
    words = to_int16(rng.normal(size=20_000) * 0.1)
    words[9_000:10_200] //= 100
    bounds = sounds.Bounds(0, 20_000, ((0, 20_000),))
    at = sounds.pause_place(words, bounds)
    assert 9_300 <= at <= 9_900
    # where the VAD has found one, it is there, whatever is quieter
    assert sounds.pause_place(words, sounds.Bounds(0, 20_000, ((0, 7_000), (11_000, 20_000)))) == 9_000
    longer = sounds.with_quiet(words, at, 8_000, (0, 1))
    assert len(longer) == 28_000
    assert (longer[:at] == words[:at]).all()
    assert (longer[at + 8_000 :] == words[at:]).all()
    assert (longer == sounds.with_quiet(words, at, 8_000, (0, 1))).all()
    assert (longer != sounds.with_quiet(words, at, 8_000, (0, 2))).any()


@given(st.integers(1600, 40_000), st.integers(-80, -30))
def test_a_rooms_quiet_is_as_loud_as_it_is_asked_for(count: int, dbfs: int) -> None:
    made = sounds.room_noise(count, dbfs, np.random.default_rng(0))
    assert len(made) == count
    power = float((made.astype(np.float64) ** 2).mean()) / 32768**2
    # a least step of int16 is -101 dB a sample, so rounding counts for little
    assert 10 * np.log10(power) == pytest.approx(dbfs, abs=0.5)


# ── manifests ──────────────────────────────────────────────────────────────────────────────────────────────────────────

Make = Callable[..., Path]


@pytest.fixture
def folder(tmp_path: Path) -> Make:
    """folder(entry, …): a data folder whose manifest has these lines (text as it is), a mapping filled up with what every line has."""

    def make(*entries: dict[str, Any] | str) -> Path:
        lines = []
        for entry in entries:
            common = {"role": "asr", "source": "made", "seconds": 2.0, "licence": "CC0", "speaker": "somebody"}
            lines.append(entry if isinstance(entry, str) else json.dumps({**common, **entry}))
        (tmp_path / "manifest.jsonl").write_text("\n".join(lines) + "\n")
        return tmp_path

    return make


def test_a_manifest_becomes_sets(folder: Make) -> None:
    found = clips.read_clips(
        folder(
            {"path": "a.flac", "source": "librispeech-x", "speaker": "ls1", "text": "a book"},
            {"path": "b.flac", "source": "librispeech-y", "speaker": "ls2", "text": "two books"},
            {"path": "c.flac", "role": "command", "text": "lights on"},
            {"path": "d.flac", "role": "command", "intent": {"slots": {"size": "Twelve-ounce"}}},
            {"path": "e.flac", "role": "synthetic", "text": "set a timer for", "complete": False},
            {"path": "f.flac", "role": "noise"},
            {"path": "g.flac", "lang": "de", "text": "guten Tag"},
            {"path": "h.flac", "text": "hello there", "vad_labels": "h,0.0,0.2,0,0.2,0.7,1,0.7,0.9,0,0.9,1.5,1,1.5,2.0,0"},
        ),
        frozenset({"ls1"}),
    )
    assert list(found.sets) == ["librispeech", "commands", "orders", "made", "synthetic, cut off"]
    assert [clip.name for clip in found.sets["librispeech"]] == ["a.flac"]
    assert found.trained == {"librispeech": 1}
    assert found.sets["orders"][0].slots == ("twelve ounce",)
    assert not found.sets["synthetic, cut off"][0].complete
    assert found.sets["made"][0].speech_end == 24_000
    assert found.other == {"noise": 1, "asr in de": 1}
    assert found.left_out == ()
    assert list(clips.choose(found, (), None, 0).sets) == ["librispeech", "commands", "orders"]
    assert list(clips.choose(found, ("all",), None, 0).sets) == list(found.sets)
    with pytest.raises(UsageError, match=r"no set 'books'.*there are: librispeech"):
        clips.choose(found, ("books",), None, 0)


def test_what_is_no_clip_is_named(folder: Make) -> None:
    bad: list[tuple[dict[str, Any] | str, str, str]] = [
        ("{", "manifest.jsonl:1", "is not JSON"),
        ({"path": "a", "text": ""}, "a", "its text is empty"),
        ({"path": "b", "text": "at 5"}, "b", "may be said in several ways"),
        ({"path": "c"}, "c", "nobody knows its words"),
        ({"path": "d", "text": "jarvis", "keyword": "jarvis"}, "d", "a wake phrase"),
        ({"path": "e", "text": "a" * 70}, "e", "too short"),
        ({"path": "f", "text": "two words", "seconds": 34.5}, "f", "more than its 2 words"),
        ({"path": "g", "text": 5}, "g", "no text"),
        ({"path": "h", "text": "hello", "seconds": None}, "h", "float"),
        ({"path": "i", "intent": {"slots": {}}}, "i", "no slots"),
        ('{"path": "j", "role": "asr", "text": "no source"}', "j", "has no 'source'"),
        ({"path": "k", "text": "hello", "vad_labels": "k,0.0,2.0,0"}, "k", "no speech"),
        ("[]", "manifest.jsonl:13", "list"),
    ]
    found = clips.read_clips(folder(*(entry for entry, _, _ in bad)))
    assert [one.name for one in found.left_out] == [name for _, name, _ in bad]
    for one, (_, _, why) in zip(found.left_out, bad, strict=True):
        assert why in one.why
    with pytest.raises(InputError, match=r"has no clip to measure by; the first of 13 left out: manifest\.jsonl:1: is not JSON"):
        clips.choose(found, (), None, 0)


def test_a_draw_depends_on_its_seed_and_set_alone(folder: Make) -> None:
    entries = [{"path": f"{n}.flac", "text": "hello", "source": f"s{n % 2}"} for n in range(40)]
    found = clips.read_clips(folder(*entries))
    one = clips.choose(found, ("s1",), 5, 3).sets["s1"]
    assert len(one) == 5
    assert one == clips.choose(found, ("all",), 5, 3).sets["s1"]
    assert one != clips.choose(found, ("s1",), 5, 4).sets["s1"]


# ── models ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def varint(value: int) -> bytes:
    return bytes([value & 0x7F | 0x80]) + varint(value >> 7) if value > 0x7F else bytes([value])


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def onnx(facts: dict[str, str], graph: int = 300) -> bytes:
    """A file with metadata and a graph of so many bytes, as ONNX has them: a version first, the metadata at the end."""
    entries = b"".join(field(14, field(1, key.encode()) + field(2, value.encode())) for key, value in facts.items())
    return varint(1 << 3) + varint(9) + varint(2 << 3 | 5) + struct.pack("<f", 1) + field(7, bytes(graph)) + entries


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=300), max_size=8), st.integers(0, 70_000))
def test_metadata_come_back(tmp_path_factory: pytest.TempPathFactory, facts: dict[str, str], graph: int) -> None:
    path = tmp_path_factory.getbasetemp() / "made.onnx"
    path.write_bytes(onnx(facts, graph))
    assert recognizers.metadata(path) == facts


def test_a_real_models_metadata(library: Library) -> None:
    facts = recognizers.metadata(library.find("starter-en").files["encoder"])
    assert (facts["model_type"], facts["decode_chunk_len"]) == ("conformer", "32")


@pytest.mark.parametrize("data", [b"", b"RIFF and so on", b"\x3a\xff\xff\xff\x7f", b"\xff" * 12, bytes(40)])
def test_what_is_no_onnx_file_is_said_so(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.onnx").write_bytes(data)
    with pytest.raises(ModelError, match=r"x\.onnx: is no ONNX model"):
        recognizers.metadata(tmp_path / "x.onnx")


@pytest.fixture
def export(tmp_path: Path, library: Library) -> Path:
    """starter-en as a folder of an export."""
    out = tmp_path / "export"
    out.mkdir()
    for part, path in library.find("starter-en").files.items():
        if part in ("encoder", "decoder", "joiner", "tokens", "language"):
            shutil.copy(path, out / path.name)
    return out


def test_a_folder_says_its_own_times(export: Path, library: Library) -> None:
    (byid,) = recognizers.find("starter-en", lambda: library)
    (found,) = recognizers.find(f"new={export}", lambda: library)
    assert found.name == "new"
    assert (found.chunk_ms, found.lookahead_ms, found.tail_ms, found.frame_ms) == (320, 160, 510, 40)
    assert (byid.chunk_ms, byid.lookahead_ms, byid.tail_ms, byid.frame_ms) == (320, 160, 510, 40)
    assert found.end_token
    assert found.form == "int8"
    recognizers.try_out(found)


def test_a_folder_with_both_encoders_is_two_models(export: Path, library: Library) -> None:
    shutil.copy(export / "encoder.int8.onnx", export / "encoder.onnx")
    assert [one.form for one in recognizers.find(str(export), lambda: library)] == ["int8", "fp32"]


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        ({"model_type": "conformer", "decode_chunk_len": "32"}, "have T ''"),
        ({"model_type": "conformer", "T": "51", "decode_chunk_len": "-1"}, "have decode_chunk_len '-1'"),
        ({"model_type": "conformer", "T": "30", "decode_chunk_len": "32"}, "contradict each other: T 30"),
        ({"model_type": "hammer", "T": "51"}, "have model_type 'hammer'; expected one of conformer"),
    ],
)
def test_metadata_that_do_not_fit_are_named(export: Path, library: Library, facts: dict[str, str], what: str) -> None:
    (export / "encoder.int8.onnx").write_bytes(onnx(facts))
    with pytest.raises(ModelError) as told:
        recognizers.find(str(export), lambda: library)
    assert what in str(told.value)


def test_a_damaged_model_ends_its_own_process_alone(export: Path, library: Library) -> None:
    """Metadata of a model, and no graph: whatever sherpa-onnx does of it, it is one line here."""
    (export / "encoder.int8.onnx").write_bytes(onnx({"model_type": "conformer", "T": "51", "decode_chunk_len": "32"}))
    (found,) = recognizers.find(str(export), lambda: library)
    with pytest.raises(ModelError) as told:
        recognizers.try_out(found)
    assert str(export) in str(told.value)
    assert "\n" not in str(told.value)


def test_a_language_model_that_is_none_ends_its_own_process_alone(export: Path, library: Library) -> None:
    shutil.copy(export / "joiner.onnx", export / "language.onnx")
    (found,) = recognizers.find(str(export), lambda: library)
    with pytest.raises(ModelError, match=r"sherpa-onnx ended its process on it .*metadata"):
        recognizers.try_out(found)


# ── the command ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def data(folder: Make, tmp_path: Path) -> Path:
    """The sample's two turns, and what cannot be measured."""
    for name in TURNS:
        soundfile.write(tmp_path / f"{name}.flac", turn(name), 16_000)
    soundfile.write(tmp_path / "order.flac", turn("lights"), 16_000)
    soundfile.write(tmp_path / "tiny.flac", turn("clock")[:1600], 16_000)
    soundfile.write(tmp_path / "hiss.flac", to_int16(noise(32_000, "pink") * 0.01), 16_000)
    soundfile.write(tmp_path / "long.flac", np.tile(turn("clock"), 40), 16_000)
    (tmp_path / "noise.flac").write_bytes(bytes(5000))
    command = {"role": "command", "source": "commands"}
    return folder(
        *({"path": f"{name}.flac", "text": text, **command} for name, (_, _, text) in TURNS.items()),
        {"path": "order.flac", "role": "command", "intent": {"slots": {"action": "turn on", "where": "attic"}}},
        *({"path": f"{name}.flac", "text": "hello", **command} for name in ("tiny", "hiss", "noise", "gone")),
        {"path": "long.flac", "text": "what " * 20, **command, "seconds": 40},
        {"path": "mute.flac", "text": "", **command},
    )


def test_a_run_on_the_sample(data: Path, export: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["asr", "eval", "--data", str(data), "--model", "starter-en", "--model", f"same={export}", "--pause-ms", "500"]
    assert main([*arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""  # no terminal, no progress
    found = json.loads(out)
    assert [model["label"] for model in found["models"]] == ["starter-en", "same"]
    assert {name: row["clips"] for name, row in found["sets"].items()} == {"commands": 7, "orders": 1}
    assert found["seed"] == 0
    assert found["token_threshold"] == defaults().endpoint.token_threshold
    assert {"sherpa-onnx", "jiwer", "python"} <= set(found["versions"])

    by_model = {row["model"]: row for row in found["figures"] if row["set"] == "commands"}
    row = by_model["starter-en"]
    assert row["clips"] == 2
    assert row["wer"]["whole"] == 11  # seven words and four
    texts = {one["clip"]: one for one in found["clips"] if one["model"] == "starter-en"}
    assert texts["clock.flac"]["text"] == "what time is it"
    assert texts["clock.flac"]["errors"] == {"substitutions": 0, "deletions": 0, "insertions": 0, "words": 4}
    counted = (scores.word_errors(one["reference"], one["text"]).count for one in texts.values() if one["reference"])
    assert row["wer"]["part"] == sum(counted)
    token = row["end_token"]
    assert token["within"]["800"]["part"] + token["early"]["part"] + token["never"]["part"] <= 2
    assert texts["clock.flac"]["end_token"]["stands_ms"] == pytest.approx(0, abs=400)
    assert row["pauses"]["500"]["clips"] == 2
    assert row["real_time_factor"] > 0

    # the same model in a folder says the same
    assert [one["text"] for one in found["clips"] if one["model"] == "same"] == [one["text"] for one in texts.values()]
    assert {**by_model["same"], "model": 0, "real_time_factor": 0} == {**row, "model": 0, "real_time_factor": 0}
    (order,) = (row for row in found["figures"] if row["set"] == "orders" and row["model"] == "same")
    assert (order["slots"]["part"], order["slots"]["whole"]) == (1, 2)
    assert order["orders"]["part"] == 0
    assert order["wer"] is None

    left_out = {one["name"]: one["why"] for one in found["left_out"]}
    assert set(left_out) == {"tiny.flac", "hiss.flac", "noise.flac", "gone.flac", "long.flac", "mute.flac"}
    assert left_out["tiny.flac"] == "is too short: 100 ms"
    assert "finds no speech" in left_out["hiss.flac"]
    assert "is too long for a turn" in left_out["long.flac"]
    assert "cannot be read" in left_out["gone.flac"]
    assert left_out["mute.flac"] == "its text is empty"


def test_tables_for_a_card_and_for_a_terminal(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["asr", "eval", "--data", str(data), "--sets", "commands", "--pause-ms"]
    assert main([*arguments, "--markdown"]) == 0
    card = capsys.readouterr().out
    rows = [line for line in card.splitlines() if line.startswith("|")]
    assert rows[0].startswith("| set | clips | model | WER |")
    assert rows[2].startswith("| commands | 2 | starter-en | ")
    heads = [line.count("|") for line in rows]
    for at, line in enumerate(rows):
        if line.startswith("| ---"):
            assert heads[at - 1] == heads[at] == heads[at + 1]
    assert "in a pause of" not in card
    assert "- Left out: 6 clips." in card
    assert "gone.flac" in card
    assert main(arguments) == 0
    plain = capsys.readouterr().out
    assert "| ---" not in plain
    assert "commands  2      starter-en  " in plain


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--data", "{empty}"], 65, "manifest.jsonl: cannot be read"),
        (["--data", "{data}", "--sets", "books"], 2, "there is no set 'books'"),
        (["--data", "{data}", "--limit", "0"], 2, "--limit: must be a number of clips from 1"),
        (["--data", "{data}", "--paths", "4", "17"], 2, "--paths: must be 1 to 16, got 17"),
        (["--data", "{data}", "--language", "0.3", "2"], 2, "--language: must be 0 to 1, got 2"),
        (["--data", "{data}", "--pause-ms", "7"], 2, "--pause-ms: must be 100 to 5000, got 7"),
        (["--data", "{data}", "--seed", "-1"], 2, "--seed: must be"),
        (["--data", "{data}", "--model", "starter-em"], 66, "did you mean starter-en?"),
        (["--data", "{data}", "--model", "silero-vad"], 66, "one for transducer is expected"),
        (["--data", "{data}", "--model", "x={empty}"], 66, "has no encoder"),
        (["--data", "{data}", "--model", "x=/nowhere"], 66, "/nowhere: is no folder"),
        (["--data", "{data}", "--held-out", "/nowhere"], 65, "/nowhere: cannot be read"),
    ],
)
def test_what_cannot_be_run_is_one_line(data: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, told: str) -> None:
    empty = data / "empty"
    empty.mkdir()
    filled = [argument.format(data=data, empty=empty) for argument in arguments]
    assert main(["asr", "eval", *filled]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert told in err


def test_clips_of_which_none_can_be_measured(folder: Make, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["asr", "eval", "--data", str(folder({"path": "gone.flac", "text": "hello"}))]) == 65
    assert "none of its clips can be measured; gone.flac: cannot be read" in capsys.readouterr().err


def test_what_was_left_out_is_told_and_of_much_the_first() -> None:
    some = [clips.LeftOut("orders", f"{number}.flac", "is silent") for number in range(25)]
    assert clips.told([], "clip") == [] and clips.first_of([]) == ""
    assert clips.told(some[:1], "clip") == ["Left out: 1 clip.", "  0.flac: is silent"]
    lines = clips.told(some, "file")
    assert (lines[0], lines[-2:], len(lines)) == ("Left out: 25 files.", ["  19.flac: is silent", "  … and 5 more: --json names all."], 22)
    assert clips.first_of(some) == "; the first of 25 left out: 0.flac: is silent"


def test_without_jiwer_it_says_how_to_get_it(data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "path", [])  # nothing that is not yet imported is found
    monkeypatch.delitem(sys.modules, "jiwer", raising=False)
    assert main(["asr", "eval", "--data", str(data)]) == 2
    assert f"jiwer, which is not installed; {extras.install('jiwer')}\n" in capsys.readouterr().err


def test_the_held_out_list_is_found_in_a_checkout() -> None:
    assert "ls1088" in clips.read_held_out(asr.HELD_OUT)
