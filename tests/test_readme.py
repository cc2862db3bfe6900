"""What README.md shows of the sample is what the golden set has of it, and its figures are those that were kept."""

from __future__ import annotations

import json
import math
import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest
import readme
from benches import page
from benches.__main__ import BENCHES
from benches.rows import COLUMNS, Row
from shipping.commandline import read
from voicectl import timeline
from voicectl.__main__ import parser as voicectl_parser
from voicectl.replay import HOP
from voiced.__main__ import parser as voiced_parser
from voiced.models import default_library
from voiced.settings import defaults
from voiced.units import to_ms

GOLDEN = json.loads((readme.PICTURE.parent / "whole.turn.json").read_text(encoding="utf-8"))
TURN = [line for line in GOLDEN["events"] if line["turn"] == 1]

ANEW = "PYTHONPATH=tests .venv/bin/python tests/readme.py makes it anew"

SVG = "{http://www.w3.org/2000/svg}"


def told(line: dict[str, Any]) -> tuple[str, str] | None:
    """What a terminal shows of an event: its word, and how what follows begins."""
    match line["event"]:
        case "Wake":
            return "wake", f"{line['phrase']} ("
        case "SpeechStarted":
            return "speech", ""
        case "Partial":
            return "partial", f"{line['text']} …"
        case "Endpoint":
            return "endpoint", f"{line['reason']}, {to_ms(line['sample'] - line['speech_end']):.0f} ms after the last speech"
        case "Final":
            return "final", f"{line['text']}  ({line['source']}, "
    return None


def test_what_tools_run_ends_with_is_what_is_heard() -> None:
    *lines, more = readme.example().splitlines()
    shown = [found.groups() for line in lines if (found := readme.LINE.fullmatch(line))]
    expected = [(line["sample"], *what) for line in TURN if (what := told(line))]
    assert more.strip() == "…" and len(shown) == len(lines)
    assert [what for _, what, _ in shown] == [what for _, what, _ in expected], ANEW
    for (at, word, said), (sample, _, begins) in zip(shown, expected, strict=True):
        late_ms = float(at) * 1000 - to_ms(sample)
        assert said.startswith(begins), ANEW
        assert -to_ms(HOP) - 10 <= late_ms <= (1000 if word == "final" else to_ms(HOP) + 10), ANEW  # a final waits for the second pass


def test_the_picture_is_of_what_is_heard() -> None:
    drawn = ET.fromstring(readme.PICTURE.read_text(encoding="utf-8"))
    texts = [(one.text or "", one.attrib) for one in drawn.iter(f"{SVG}text")]
    rows = {about["y"]: text for text, about in texts if about["x"] == str(timeline.LEFT - 8)}
    names = list(rows.values())
    words = [line["text"].split()[-1] for line in TURN if line["event"] == "Partial"]
    closed, final = TURN[-1], next(line for line in TURN if line["event"] == "Final")
    assert f"turn 1: {final['text']}  ({closed['reason']})" in [text for text, _ in texts], ANEW
    assert names.count("partial") == len(words), ANEW
    assert [text for text, about in texts if rows.get(about["y"]) == "partial" and text != "partial"] == words, ANEW
    assert {"speech", "phrase end", "stage 2", "second pass 1", "likely end", "endpoint", "final"} <= set(names), ANEW


def test_the_picture_is_small_and_can_be_read_on_any_ground() -> None:
    said = readme.PICTURE.read_text(encoding="utf-8")
    assert len(said.encode()) < 40_000
    drawn = ET.fromstring(said)
    ground = next(drawn.iter(f"{SVG}rect"))
    assert (ground.get("width"), ground.get("height"), ground.get("fill")) == ("100%", "100%", "white")
    assert all(one.get("fill") for one in drawn.iter() if one.tag in (f"{SVG}text", f"{SVG}rect")), "no colour is left to who shows it"
    assert f"({readme.PICTURE.relative_to(readme.CHECKOUT)})" in readme.README.read_text(encoding="utf-8")


# ── what it says of commands and defaults ──────────────────────────────────────────────────────────────────────────────


def lines_of(program: str) -> list[str]:
    """Command lines of that program, without what is said beside them."""
    said = readme.README.read_text(encoding="utf-8").splitlines()
    return [line.partition("#")[0].strip() for line in said if re.match(rf"    {program}\b", line)]


def test_every_command_is_told_and_has_the_options_that_are_told() -> None:
    for program, parser in (("voicectl", voicectl_parser()), ("voiced", voiced_parser())):
        command = read(parser)
        leaves = list(command.leaves()) or [command]
        told: set[tuple[str, ...]] = set()
        for line in lines_of(program):
            words = set(re.findall(r"[\w-]+", line))
            meant = [leaf for leaf in leaves if words.issuperset(leaf.path)]
            known = {flag for leaf in meant for option in leaf.options for flag in option.flags}
            assert meant and known.issuperset(re.findall(r"(?<!\S)\[?(--?[a-z][\w-]*)", line)), line
            told |= {leaf.path for leaf in meant}
        assert told == {leaf.path for leaf in leaves}


def test_numbers_of_the_text_are_the_defaults() -> None:
    said = " ".join(readme.README.read_text(encoding="utf-8").split())
    wanted = defaults()
    model = default_library().model(wanted.models.transducer)
    assert f"only after a chunk and its look-ahead, {model.chunk_ms + model.lookahead_ms:g} ms here" in said
    assert f"an end token, or {wanted.endpoint.likely_end_ms:g} ms of silence" in said
    assert f"streaming transducer | models/{model.id} by sherpa-onnx" in said


# ── the figures ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_figures_are_those_that_were_kept() -> None:
    assert set(page.kept()) == set(BENCHES)
    assert page.written() == page.block(page.kept()), "PYTHONPATH=daemon:tools .venv/bin/python -m benches.page writes them anew"


def test_a_block_names_each_machine_and_moment_once() -> None:
    rows = [Row("idle", "one", 1.234, "ms", aim=2.0, note="why").plain(), Row("idle", "two", math.nan, "MB").plain()]
    here = {"date": "2026-11-30 22:00 UTC", "processor": "A", "load": "0.1"}
    said = page.block(
        {
            "idle": {"machine": here, "rows": rows},
            "memory": {"machine": here | {"date": "2026-12-01 01:00 UTC"}, "rows": rows},
            "wake": {"machine": here | {"processor": "B"}, "rows": rows},
        }
    )
    lines = said.splitlines()
    assert [line for line in lines if line.startswith("On ")] == ["On processor A:", "On processor B:"]
    assert [line.split("*")[2] for line in lines if line.startswith("**")] == ["idle", "memory", "wake"]
    assert "(date 2026-12-01 01:00 UTC, load 0.1)" in said
    head = f"| {' | '.join(COLUMNS)} |"
    table = lines[lines.index(head) :][:4]
    assert table[2:] == ["| one | 1.23 |  | ms |  | 2 | yes | why |", "| two | — |  | MB |  |  |  |  |"]
    assert {line.count("|") for line in table} == {len(COLUMNS) + 1}


def test_a_figure_is_kept_as_it_was_told(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "FIGURES", tmp_path / "figures.json")
    page.FIGURES.write_text('{"idle": {"machine": {}, "rows": []}}')
    row = Row("wake", "w", 1.5, "ms", bare=1.0, aim=2.0, note="n")
    page.keep("wake", {"date": "d"}, [row])
    assert list(page.kept()) == ["idle", "wake"]
    assert [Row.from_plain(plain) for plain in page.kept()["wake"]["rows"]] == [row]
