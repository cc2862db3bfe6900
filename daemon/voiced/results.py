"""What a folder of recordings gave, as files: texts, what each model said and took, and how that compares with what the vendor aims at.

What lives here: `results/lane<N>.txt` (a line an utterance), `model_outputs/lane<N>.jsonl` (a line a model and utterance: model, audio_s,
compute_ms, rtf, lane, utterance, result, and where it was said), `config.json`, `metrics.json`. What must not: how anything is heard.

A thread of its own writes: a slow disk keeps no lane waiting. Its queue is bounded; what does not fit is counted, and told in metrics.json.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from .desk import News, Published
from .errors import OutputError, UsageError
from .events import CloseReason, Final, TextSource, TurnClosed
from .folder import Folder
from .receipts import Receipt
from .settings import Settings, roles, to_plain
from .statistics import percentile
from .units import RATE, counted

WAITING = 1000
"""Lines that may wait for the disk: some minutes of eight lanes."""

FLUSH_SECONDS = 10.0
"""What still waits at the end has so long to be written."""

TARGETS = {"frame_latency_ms": 50.0, "second_pass_rtf": 0.4}
"""What the vendor's Multi-Stream ASR application for the K3 aims at: the mean time from a frame's arrival to its end in the online model,
and the real-time factor of the offline model. Aims, not results: it publishes none.

Ours is the mean over what a lane's ears heard of a turn, a window of 32 ms each: from the arrival of the block that had its last sample
to when the transducer was done with it. Most windows only add to a chunk, and are done at once: that it is not full yet is not a wait."""


class Results:
    """`news` and `begin` are called in main's loop, the others before and after it. Raises OutputError where the folder cannot be made,
    UsageError where it has results already."""

    def __init__(self, directory: Path, settings: Settings, folder: Folder, *, verbose: bool = False) -> None:
        self._directory, self._folder, self._verbose = directory, folder, verbose
        self._models = roles(settings)
        self._began = time.monotonic()
        self._final: dict[int, Final] = {}
        self._utterances = dict.fromkeys((lane.name for lane in folder.lanes), 0)
        self._written: dict[str, tuple[Path, int, int]] = {}  # by lane, its last one: the file, where that began, where it ended in it
        self._rtf: dict[str, list[float]] = {"first_pass": [], "second_pass": []}
        self._audio_s = 0.0
        self._receipt: Callable[[int], Receipt]
        self.lost = 0
        self._closed = False
        self._error: OSError | None = None
        self._lines: queue.Queue[tuple[str, str] | None] = queue.Queue(WAITING)
        if (directory / "config.json").exists():
            raise UsageError("--results", f"{directory} has results already", "name another folder")
        files: dict[str, list[str]] = {lane.name: [] for lane in folder.lanes}
        for number, path in enumerate(folder.files):
            files[f"lane{number % len(folder.lanes) + 1}"].append(str(path))
        self._config = {"settings": to_plain(settings), "files": files}
        try:
            for name in ("results", "model_outputs"):
                (directory / name).mkdir(parents=True, exist_ok=True)
            for lane in self._utterances:  # also of a lane in which nobody speaks
                (directory / "results" / f"{lane}.txt").touch()
                (directory / "model_outputs" / f"{lane}.jsonl").touch()
        except OSError as error:
            raise OutputError(str(directory), f"cannot be written: {error.strerror}", "name another folder") from None
        self._thread = threading.Thread(target=self._run, name="results", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """All is warm: from now on the folder has results. OutputError where that cannot be written."""
        try:
            _write(self._directory / "config.json", self._config)
        except OSError as error:
            raise OutputError(str(self._directory), f"cannot be written: {error.strerror}", "make room") from None

    def follow(self, receipt: Callable[[int], Receipt]) -> None:
        """`receipt` gives that of a turn that is over."""
        self._receipt = receipt

    def news(self, item: News) -> None:
        if not isinstance(item, Published):
            return
        if isinstance(item.event, Final):
            self._final[item.event.turn] = item.event
        elif isinstance(item.event, TurnClosed):
            final = self._final.pop(item.event.turn, None)
            again = item.event.reason is CloseReason.RESTARTED  # it will be heard, from its file's beginning
            if final and final.text and not again:
                self._utterance(item.lane, final, self._receipt(item.event.turn))

    def _utterance(self, lane: str, final: Final, receipt: Receipt) -> None:
        file, began = self._folder.playing(lane)
        before, at, ended = self._written.get(lane, (file, began, 0))
        if before == file and began > at and receipt.first - began < ended:  # its lane was begun again, and it is written already
            return
        self._written[lane] = file, began, receipt.last - began
        self._utterances[lane] += 1
        said = {
            "lane": lane,
            "utterance": self._utterances[lane],
            "file": file.name,
            "first_s": round((receipt.first - began) / RATE, 3),
            "last_s": round((receipt.last - began) / RATE, 3),
        }
        length = receipt.last - receipt.first
        outputs = [("first_pass", self._models["transducer"], length, final.measured.get("transducer_ms", 0.0), final.first_pass)]
        for attempt in receipt.attempts:
            if attempt.attempt == final.attempt and attempt.samples:
                outputs.append(("second_pass", self._models["second pass"], attempt.samples, attempt.compute_ms, final.second_pass))
        self._put(f"results/{lane}.txt", final.text)
        for role, model, samples, compute_ms, result in outputs:
            rtf = compute_ms / 1000 * RATE / samples
            self._rtf[role].append(rtf)
            used = (role == "second_pass") == (final.source is TextSource.SECOND_PASS)
            line = {"model": model, "role": role, "audio_s": round(samples / RATE, 3), "compute_ms": compute_ms, "rtf": round(rtf, 4)}
            self._put(f"model_outputs/{lane}.jsonl", json.dumps(line | said | {"result": result, "used": used}, ensure_ascii=False))

    def _put(self, name: str, line: str) -> None:
        try:
            self._lines.put_nowait((name, line))
        except queue.Full:
            self.lost += 1

    def _run(self) -> None:
        files: dict[str, TextIO] = {}
        try:
            while (item := self._lines.get()) is not None:
                name, line = item
                if name not in files:
                    files[name] = (self._directory / name).open("a", encoding="utf-8")
                files[name].write(line + "\n")
                files[name].flush()
        except OSError as error:
            self._error = error
        finally:
            for file in files.values():
                try:
                    file.close()
                except OSError as error:
                    self._error = self._error or error

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """Nothing comes any more. Returns when all lines are written, or the disk stands still; a second time at once."""
        if self._closed:
            return
        self._closed = True
        with suppress(queue.Full):
            self._lines.put(None, timeout=FLUSH_SECONDS)
        self._thread.join(FLUSH_SECONDS)

    def finish(self, statistics: Mapping[str, float]) -> str:
        """Writes what is left, and the metrics; a table for whoever waits. OutputError where something could not be written."""
        took_s = time.monotonic() - self._began
        metrics = self._metrics(statistics, took_s)
        self.close()
        lost = self.lost + self._lines.qsize()
        try:
            if self._error:
                raise self._error
            _write(self._directory / "metrics.json", metrics | {"lines_lost": lost})
        except OSError as error:
            raise OutputError(str(self._directory), f"cannot be written: {error.strerror}", "make room") from None
        if lost:
            raise OutputError(str(self._directory), f"{lost} lines could not be written in time", "name a faster disk")
        return _table(metrics)

    def _metrics(self, statistics: Mapping[str, float], took_s: float) -> dict[str, Any]:
        lanes = list(self._utterances)
        heard_s = [statistics.get(f"{lane}.position", 0) / RATE for lane in lanes]
        ours = {"frame_latency_ms": mean_ms(statistics, lanes, "scribe_late"), "second_pass_rtf": _mean(self._rtf["second_pass"])}
        metrics: dict[str, Any] = {
            "lanes": len(lanes),
            "files": sum(self._folder.formats.values()),
            "formats": dict(self._folder.formats),
            "audio_s": round(sum(heard_s), 2),
            "took_s": round(took_s, 2),
            "utterances": sum(self._utterances.values()),
            **{name: value if value is None else round(value, 4) for name, value in ours.items()},
            "first_pass_rtf": _round(_mean(self._rtf["first_pass"])),
            "targets": TARGETS,
            "met": {name: None if (value := ours[name]) is None else value <= target for name, target in TARGETS.items()},
            "second_pass_refused": int(statistics.get("second_pass_refused", 0)),
            "lane_restarts": int(statistics.get("lane_restarts", 0)),
            "samples_lost": int(sum(statistics.get(f"{lane}.samples_lost", 0) for lane in lanes)),
        }
        if self._verbose:
            spread = {f"{role}_rtf": _percentiles(values) for role, values in self._rtf.items() if values}
            metrics["metrics_detail"] = {"utterances": self._utterances, **spread, "statistics": dict(statistics)}
        return metrics


def mean_ms(statistics: Mapping[str, float], lanes: Sequence[str], of: str) -> float | None:
    """The mean of a lateness (ears_late, scribe_late, scribe_waits) over all that these lanes counted; None where none did."""
    counts = [statistics.get(f"{lane}.{of}_count", 0) for lane in lanes]
    means = [statistics.get(f"{lane}.{of}_mean_ms", 0.0) for lane in lanes]
    return sum(count * mean for count, mean in zip(counts, means, strict=True)) / sum(counts) if sum(counts) else None


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _round(value: float | None) -> float | None:
    return value if value is None else round(value, 4)


def _percentiles(values: Sequence[float]) -> dict[str, float]:
    return {f"p{percent}": round(percentile(values, percent), 4) for percent in (50, 90, 95, 99)}


def _write(path: Path, plain: Mapping[str, Any]) -> None:
    """Whole or not at all."""
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(plain, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    beside.replace(path)


def _table(metrics: Mapping[str, Any]) -> str:
    """What was heard, and the vendor's aims beside ours."""
    files, lanes, utterances = (counted(metrics[name], name.removesuffix("s")) for name in ("files", "lanes", "utterances"))
    lines = [f"{files} in {lanes}: {metrics['audio_s']} s of sound, {utterances}"]
    if len(metrics["formats"]) > 1:
        kinds = "; ".join(f"{count} of {form}" for form, count in sorted(metrics["formats"].items(), key=lambda one: (-one[1], one[0])))
        lines.append(f"mixed formats, each converted to mono at 16 kHz: {kinds}")
    for name, title in (("frame_latency_ms", "frame latency, mean (ms)"), ("second_pass_rtf", "second pass, real-time factor")):
        ours = metrics[name]
        lines.append(f"{title:<32}{'—' if ours is None else f'{ours:.3g}':>8}   K3 application's aim ≤ {metrics['targets'][name]:g}")
    lines.append("frame latency: from the arrival of 32 ms of sound to the transducer's end with them; a chunk's length is not in it")
    return "\n".join(lines)
