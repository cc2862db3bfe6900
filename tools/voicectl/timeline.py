"""A turn's receipt as a timeline: lines of text, an SVG, a PNG.

What lives here: which spans a picture has, and how they are drawn. What must not: where a receipt is from (trace.py), what it says
(voiced's receipts). A receipt is in its plain form: what is not known is not there. All times are milliseconds since the turn's first
sample: the position of what happened, and, later, when it was known by the clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from voiced.api import to_ms

from .extras import need

STRIP = 40
"""Columns of a timeline in the terminal."""


class Kind(Enum):
    """What a span is, and the colour it is drawn in."""

    SOUND = "#7aa6c2"
    WAIT = "#c9c9c9"
    COMPUTE = "#4f8a4c"
    WASTED = "#c98b3a"
    MARK = "#3b3b3b"


@dataclass(frozen=True, slots=True)
class Span:
    """From one time to another; both the same: a point."""

    begin_ms: float
    end_ms: float
    kind: Kind
    text: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    spans: tuple[Span, ...]


# ── which spans ────────────────────────────────────────────────────────────────────────────────────────────────────────


def rows(receipt: Mapping[str, Any]) -> list[Row]:
    """From the top: speech, what woke it, each partial (from its last word to when it was told), the second pass, the end."""
    first = receipt["first"]

    def at(sample: int) -> float:
        return to_ms(sample - first)

    marks: list[Mapping[str, Any]] = receipt["marks"]
    found = []
    if "speech_first" in receipt and "speech_end" in receipt:
        found.append(Row("speech", (Span(at(receipt["speech_first"]), at(receipt["speech_end"]), Kind.SOUND),)))
    found += [_mark(one, at) for one in marks if one["what"] in ("phrase end", "stage 1", "stage 2", "hand-over", "opened")]
    for one in marks:
        if one["what"] == "partial":
            heard = at(one["sample"])
            spans = [Span(at(one["word_end"]), heard, Kind.WAIT)] if "word_end" in one else []
            words = one["text"].split()
            spans.append(Span(heard, max(heard, one.get("clock_ms", heard)), Kind.COMPUTE, words[-1] if words else ""))
            found.append(Row("partial", tuple(spans)))
    found += [Row(f"second pass {one['attempt']}", tuple(_attempt(one, at))) for one in receipt["attempts"]]
    ends = ("likely end", "resumed", "last speech", "end token", "endpoint", "final")
    return found + [_mark(one, at) for one in marks if one["what"] in ends]


def _mark(one: Mapping[str, Any], at: Any) -> Row:
    begin = at(one["sample"])
    return Row(one["what"], (Span(begin, max(begin, one.get("clock_ms", begin)), Kind.MARK, one.get("note", "")),))


def _attempt(one: Mapping[str, Any], at: Any) -> Iterator[Span]:
    kind = Kind.WASTED if one["wasted"] else Kind.COMPUTE
    if "started_ms" in one:
        yield Span(one.get("queued_ms", one["started_ms"]), one["started_ms"], Kind.WAIT)
        yield Span(one["started_ms"], max(one["started_ms"], one.get("done_ms", one["started_ms"])), kind, one["outcome"])
    elif "sample" in one:
        yield Span(at(one["sample"]), at(one["sample"]) + one["compute_ms"], kind, one["outcome"])


def span_ms(found: list[Row]) -> tuple[float, float]:
    """The least and the greatest time of all, never the same."""
    times = [time for row in found for span in row.spans for time in (span.begin_ms, span.end_ms)] + [0.0]
    return min(times), max(*times, min(times) + 1.0)


# ── text ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def text(receipt: Mapping[str, Any]) -> Iterator[str]:
    """Lines: what the turn was, each thing that happened, what the second pass was asked, the latencies."""
    at = f", {datetime.fromtimestamp(receipt['realtime_us'] / 1e6):%H:%M:%S}" if receipt["realtime_us"] else ""
    lane = f" of {receipt['lane']}" if receipt["lane"] else ""
    yield f"turn {receipt['turn']}{lane}{at}: {receipt['phrase'] or 'opened by a client'}; {receipt['reason']}"
    if receipt["text"]:
        why = f", {receipt['note']}" if receipt["note"] else ""
        yield f"  {receipt['text']}  ({receipt['source']}{why})"
    if receipt["second_pass"] and receipt["second_pass"] != receipt["text"]:
        yield f"  second pass: {receipt['second_pass']}"
    if receipt["first_pass"] and receipt["first_pass"] != receipt["text"]:
        yield f"  first pass: {receipt['first_pass']}"
    yield ""
    yield from _marks(receipt)
    if receipt["attempts"]:
        yield ""
    for one in receipt["attempts"]:
        waited = f"waited {one['queue_ms']:.0f} ms, " if "queue_ms" in one else ""
        yield f"  second pass {one['attempt']}: {waited}computed {one['compute_ms']:.0f} ms; {one['outcome']}"
    if receipt["margins"]:
        yield "  margins: " + ", ".join(f"{name} {value:.3g}" for name, value in receipt["margins"].items())
    if "queue_ms" in receipt:
        yield f"  longest wait for the recognizer: {receipt['queue_ms']:.0f} ms"
    if receipt["lost_samples"] or receipt["lost_events"]:
        yield f"  lost: {to_ms(receipt['lost_samples']):.0f} ms of sound, {receipt['lost_events']} events"
    yield ""
    yield f"  latencies ({'measured' if receipt['clocked'] else 'reckoned: no clock was read'}):"
    for name, values in receipt["latencies"].items():
        shown = f"{values[0]:.0f} ms" if len(values) == 1 else f"{min(values):.0f} to {max(values):.0f} ms ({len(values)})"
        yield f"    {name.removesuffix('_ms').replace('.', ': ').replace('_', ' '):<30} {shown}"


def _marks(receipt: Mapping[str, Any]) -> Iterator[str]:
    """Where in the sound, when by the clock, how much later, and both on a strip: ● where, ▸ when."""
    first = receipt["first"]
    begin, end = span_ms(rows(receipt))
    clocked = receipt["clocked"]
    yield f"  {'sound s':>8}" + (f" {'clock s':>8} {'later ms':>8}" if clocked else "")
    for one in receipt["marks"]:
        where, when = to_ms(one["sample"] - first), one.get("clock_ms")
        clock = f" {when / 1000:8.3f} {when - where:8.0f}" if when is not None else f"{'':18}" if clocked else ""
        said = one["text"] or one["note"]
        yield f"  {where / 1000:8.3f}{clock}  {strip(where, when, begin, end)}  {one['what']:<11} {said}".rstrip()


def strip(where_ms: float, when_ms: float | None, begin_ms: float, end_ms: float) -> str:
    """STRIP columns from `begin_ms` to `end_ms`; what lies outside is at its border."""

    def column(time_ms: float) -> int:
        return min(STRIP - 1, max(0, int((time_ms - begin_ms) / (end_ms - begin_ms) * STRIP)))

    cells = ["·"] * STRIP
    if when_ms is not None:
        for cell in range(column(where_ms), column(when_ms)):
            cells[cell] = "─"
        cells[column(when_ms)] = "▸"
    cells[column(where_ms)] = "●"
    return "".join(cells)


# ── pictures ───────────────────────────────────────────────────────────────────────────────────────────────────────────

LEFT, WIDTH, HEIGHT, TOP = 110, 860, 18, 48
"""Of an SVG, in pixels: beside the names, the timeline, a row, above the rows."""


def svg(receipt: Mapping[str, Any]) -> str:
    """A whole SVG document (SVG 1.1: rect, line, text), on a ground of its own: it is the same on a dark page."""
    found = rows(receipt)
    begin, end = span_ms(found)
    bottom = TOP + HEIGHT * len(found)

    def x(time_ms: float) -> float:
        return LEFT + (time_ms - begin) / (end - begin) * WIDTH

    wide, high = LEFT + WIDTH + 40, bottom + 28
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="18" font-size="13" fill="#222">{_clean(title(receipt))}</text>',
    ]
    for tick in ticks(begin, end):
        out.append(f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{TOP - 6}" y2="{bottom}" stroke="#e4e4e4"/>')
        out.append(f'<text x="{x(tick):.1f}" y="{TOP - 10}" text-anchor="middle" fill="#777">{tick / 1000:g} s</text>')
    for number, row in enumerate(found):
        y = TOP + HEIGHT * number
        out.append(f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end" fill="#222">{_clean(row.name)}</text>')
        for span in row.spans:
            width = max(2.0, x(span.end_ms) - x(span.begin_ms))
            out.append(f'<rect x="{x(span.begin_ms):.1f}" y="{y + 4}" width="{width:.1f}" height="10" fill="{span.kind.value}"/>')
            if span.text:  # beside its span, on the side that has more room
                right = x(span.end_ms) < LEFT + WIDTH / 2
                edge, anchor = (x(span.begin_ms) + width + 4, "start") if right else (x(row.spans[0].begin_ms) - 4, "end")
                out.append(f'<text x="{edge:.1f}" y="{y + 13}" text-anchor="{anchor}" fill="#444">{_clean(span.text)}</text>')
    return "\n".join([*out, "</svg>", ""])


def title(receipt: Mapping[str, Any]) -> str:
    return f"turn {receipt['turn']}: {receipt['text'] or '(no text)'}  ({receipt['reason']})"


def ticks(begin_ms: float, end_ms: float) -> list[float]:
    """Round times, ten at the most."""
    step = next((step for step in (100, 200, 500, 1000, 2000) if (end_ms - begin_ms) / step <= 10), 5000)
    return [step * number for number in range(-int(-begin_ms // step), int(end_ms // step) + 1)]


def _clean(said: str) -> str:
    """What XML may hold: no control characters."""
    return escape("".join(each if each.isprintable() else " " for each in said))


def can_draw() -> None:
    """Raises UsageError where matplotlib is not installed."""
    need("matplotlib", "--png", "is drawn with", "take --svg")


def png(path: Path, receipt: Mapping[str, Any]) -> None:
    """Draws what `svg` draws. OSError where the file cannot be written."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = rows(receipt)
    begin, end = span_ms(found)
    figure, axes = pyplot.subplots(figsize=(11, 1.2 + 0.24 * len(found)))
    for number, row in enumerate(found):
        for span in row.spans:
            width = max((end - begin) / 400, span.end_ms - span.begin_ms)
            axes.barh(number, width / 1000, left=span.begin_ms / 1000, height=0.6, color=span.kind.value)
            if span.text:
                right = span.end_ms < (begin + end) / 2
                edge = span.begin_ms + width if right else row.spans[0].begin_ms
                axes.annotate(
                    span.text, (edge / 1000, number), (4 if right else -4, 0), textcoords="offset points",
                    ha="left" if right else "right", va="center", fontsize=8,
                )  # fmt: skip
    axes.set_yticks(range(len(found)), [row.name for row in found], fontsize=8)
    axes.invert_yaxis()
    axes.set(xlabel="seconds since the turn's first sample", title=title(receipt).replace("$", r"\$"))
    axes.grid(axis="x", alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, format="png", dpi=120)
    pyplot.close(figure)
