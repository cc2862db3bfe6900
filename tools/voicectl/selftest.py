"""`voicectl selftest handover`: phrase and query in one breath, and no word lost between them. No daemon is needed.

What lives here: the command, from its options to its table. What must not: how it is measured (evaluation/handover.py). Exit codes: 0 no
word lost, none added and every phrase woke; 1 it was not so; 2 options; 65 a recording cannot be read; 66 a model is missing or damaged.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voiced.api import PhraseSettings, UsageError, __version__, default_library, defaults, runtime_directory

if TYPE_CHECKING:
    from .evaluation.handover import Case, Row, Saying

GAPS_MS = (0, 50, 100, 300, 800)
LATE_MS = (0, 500, 2000)

WHAT = (
    "Gap: quiet between phrase and query. Stage 2 late: so much sound was heard before its answer came. Chime: two tones of -26 dBFS, "
    "150 ms after the wake.",
    "Woke after, phrase end off: from the phrase's end in the recording to the sample at which the wake was certain, and to where it said "
    "that the phrase ended.",
    "Lost: words of which half of the letters or more are not in the text, though more are every time that the query is heard alone, by "
    "the same recognizer.",
    "Added: words of the text without a letter of the query, which are not there when the query is heard alone.",
)


def handover_arguments(one: argparse.ArgumentParser) -> None:
    """Adds the options of `selftest handover`."""
    one.add_argument(
        "--phrase-audio", metavar="FILE", type=Path, help="the phrase, from its first sound to its last (default: of the sample)"
    )
    one.add_argument("--query-audio", metavar="FILE", type=Path, help="a query, cut the same way (default: three of the sample)")
    one.add_argument("--text", metavar="TEXT", default="", help="what --query-audio says (default: what is heard of it alone)")
    one.add_argument("--phrase", metavar="ID", help="the phrase's head model (default: the settings' first)")
    one.add_argument("--path", metavar="DIR", default="", help="folder that is searched for models first (the setting models.path)")
    one.add_argument("--quick", action="store_true", help="one query, and stage 2 as fast as it is and 2 s late")
    one.add_argument("--json", action="store_true", help="one JSON document")


def handover(options: argparse.Namespace) -> int:
    """Runs all cases and prints a row each; 1 where a word was lost or added, or a phrase did not wake. Raises VoicedError."""
    if options.text and not options.query_audio:
        raise UsageError("--text", "says what --query-audio says, which is not given", "--query-audio FILE")
    from voiced.api import pipeline

    from .evaluation.handover import Handover

    settings = defaults()
    if options.phrase:
        wanted = next((entry for entry in settings.wake.phrases if entry.phrase == options.phrase), PhraseSettings(options.phrase))
        settings = replace(settings, wake=replace(settings.wake, phrases=(wanted,)))
    sayings, cases = _sayings(options.phrase_audio, options.query_audio, options.text), _cases(LATE_MS)
    if options.quick:
        sayings, cases = sayings[:1], _cases(LATE_MS[::2])
    with runtime_directory() as runtime:
        measure = Handover(pipeline(settings, default_library(options.path), runtime))
        rows = [row for saying in sayings for row in measure.rows(saying, cases)]
    bad = sum(not row.good for row in rows)
    print(json.dumps(document(rows), ensure_ascii=False) if options.json else told(rows))
    return 1 if bad else 0


def _cases(lates_ms: Sequence[float]) -> list[Case]:
    from .evaluation.handover import Case

    return [*(Case(gap_ms, late_ms) for gap_ms in GAPS_MS for late_ms in lates_ms), Case(GAPS_MS[-1], chime=True)]


def _sayings(phrase_audio: Path | None, query_audio: Path | None, text: str) -> list[Saying]:
    """The phrase and three queries of the sample; a file takes the place of either. Raises InputError."""
    from voiced.api import read_audio

    from .evaluation.handover import Saying

    with resources.as_file(resources.files("voiced") / "data") as data:
        facts: dict[str, Any] = json.loads((data / "sample.json").read_text(encoding="utf-8"))
        sample, _ = read_audio(data / "sample.flac")
    first, second = facts["turns"]
    phrases = {id(turn): sample[turn["phrase_start"] : turn["phrase_end"]] for turn in (first, second)}
    queries = [(first, first), (second, second), (first, facts["talk"][0])]
    found = [
        Saying(
            " ".join(said["text"].lower().split()[:2]), phrases[id(turn)], sample[said["speech_start"] : said["speech_end"]], said["text"]
        )
        for turn, said in queries
    ]
    if phrase_audio:
        phrase, _ = read_audio(phrase_audio)
        found = [replace(one, phrase=phrase) for one in found]
    if query_audio:
        query, _ = read_audio(query_audio)
        found = [Saying(query_audio.name, found[0].phrase, query, text)]
    return found


def document(rows: Sequence[Row]) -> dict[str, Any]:
    """Everything, in plain values; keys may be added, none changes its meaning."""
    counts = {"cases": len(rows), "good": sum(row.good for row in rows), "lost": sum(len(row.lost) for row in rows)}
    return {"voiced": __version__, **counts, "rows": [asdict(row) | {"good": row.good} for row in rows], "what": list(WHAT)}


def told(rows: Sequence[Row]) -> str:
    """A line a case, the sum, and what the columns mean."""
    from .evaluation.tables import aligned

    table = [["query", "gap", "stage 2 late", "chime", "woke after", "phrase end off", "lost", "added", "first pass", "final"]]
    for row in rows:
        case = row.case
        woke = "no wake" if row.woke_ms is None else f"{row.woke_ms:+.0f} ms"
        end = "" if row.phrase_end_ms is None else f"{row.phrase_end_ms:+.0f} ms"
        late = f"{case.late_ms / 1000:g} s" if case.late_ms else ""
        chime = "yes" if case.chime else ""
        losses = (" ".join(row.lost) or "-", " ".join(row.added) or "-")
        table.append([row.saying, f"{case.gap_ms:g} ms", late, chime, woke, end, *losses, row.first_pass, row.final])
    lost, added = sum(len(row.lost) for row in rows), sum(len(row.added) for row in rows)
    asleep = sum(row.woke_ms is None for row in rows)
    line = f"{len(rows)} cases: {lost} words lost, {added} added, {asleep} phrases that did not wake."
    return "\n\n".join([aligned(table), line, "\n".join(WHAT)])
