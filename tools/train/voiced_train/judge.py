"""How good a model is: the exported files, through sherpa-onnx and the daemon's own transducer stage, on recordings held out from training.

What lives here: the sets, the figures, a table. What must not: PyTorch, anything that trains.

    python -m voiced_train.judge NAME=DIR… --data DIR --held-out held-out.txt [--synthetic MANIFEST] [--json FILE]

DIR has encoder.int8.onnx (or encoder.onnx), decoder.onnx, joiner.onnx and tokens.txt; the manifest's numbers for starter-en hold. Word
error rates have a 95 % bootstrap interval over recordings. The true end of a recording is where its energy ends (speech_bounds_in_noise); a
token is early when it stands 240 ms or more before it. A pause is half a second of the recording's own quiet, put into the quietest moment
of the sentence's middle. The words of the spoken orders are only a machine's, so their slots alone count.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from voiced.audio import Samples
from voiced.errors import InputError, UsageError, VoicedError
from voiced.stages.transducer import Transducer

from .data import Refused, Utterance, normal, read, read_held_out, split
from .features import read_sound
from .sound import RATE, Sound, floor_db, room_noise, speech_bounds_in_noise
from .utterances import quietest

WITHIN_MS = (200, 400, 800)
PAUSES_MS = (300, 500, 800, 1200)

_TAIL_S = 2.0
_EARLY = round(0.24 * RATE)
_BLOCK = 512
_BOOTSTRAPS = 1000
_ORDERS = "picovoice-speech-to-intent-benchmark"
_COMMANDS = ("ohf-speech-to-phrase-recordings", "assistant-command-recordings")
"""Not assistant-repo-recordings: wake words, and one command in half a minute of other speech."""


@dataclass(frozen=True, slots=True)
class Clip:
    """A recording to judge by: its text (None where only slots are known), slots, and whether it is a whole query."""

    path: str
    text: str | None
    slots: tuple[str, ...] = ()
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Heard:
    """What a model made of a clip. Samples count from the clip's start.

    token  where the last end token stands, told when it was known (both None without one)
    early  an end token stood 240 ms or more before the true end, taken back or not
    """

    clip: Clip
    text: str
    end: int
    token: int | None
    told: int | None
    early: bool
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Figures:
    """A set's figures; what does not apply is None."""

    clips: int
    wer: float | None = None
    wer_low: float | None = None
    wer_high: float | None = None
    slots: float | None = None
    within: dict[int, float] = field(default_factory=dict)
    early: float | None = None
    told_ms: float | None = None
    at_pause: dict[int, float] = field(default_factory=dict)
    real_time_factor: float = 0.0


def sets(data: Path, held_out: frozenset[str], synthetic: Path | None, count: int) -> dict[str, list[Clip]]:
    """The sets of the table, each at most `count` clips, spread over its whole."""
    manifest = data / "manifest.jsonl"
    items: list[Utterance | Refused] = list(read(manifest))
    if synthetic is not None:
        items += read(synthetic)
    tested = split(items, dev=0, test=0, held_out=held_out)[0]["test"]
    found: dict[str, list[Clip]] = {"LibriSpeech, other readers": [], "Common Voice": [], "commands, recorded": []}
    found |= {"orders, recorded": [], "commands, synthetic": [], "cut off, synthetic": []}
    for item in tested:
        clip = Clip(item.path, item.text, complete=item.complete)
        if item.source.startswith("synthetic"):
            found["commands, synthetic" if item.complete else "cut off, synthetic"].append(clip)
        elif item.source.startswith("librispeech"):
            found["LibriSpeech, other readers"].append(clip)
        elif item.source == "common-voice-en-clips":
            found["Common Voice"].append(clip)
        elif item.source in _COMMANDS:
            found["commands, recorded"].append(clip)
    for line in manifest.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if entry["source"] == _ORDERS and Path(entry["path"]).stem in held_out:
            slots = tuple(normal(value) for value in entry["intent"]["slots"].values())
            found["orders, recorded"].append(Clip(str(data / entry["path"]), None, slots))
    return {name: clips[:: max(len(clips) // count, 1)][:count] for name, clips in found.items() if clips}


def with_tail(sound: Sound, seconds: float = _TAIL_S) -> Sound:
    return np.concatenate([sound, room_noise(round(seconds * RATE), floor_db(sound), np.random.default_rng(0))])


def with_pause(sound: Sound, milliseconds: float) -> tuple[Sound, int, int]:
    """The sound with a pause in its middle, and the samples where it begins and ends."""
    start, end = speech_bounds_in_noise(sound)
    length = end - start
    at = quietest(sound, start + round(0.3 * length), start + round(0.7 * length))
    quiet = room_noise(round(milliseconds * RATE / 1000), floor_db(sound), np.random.default_rng(0))
    return np.concatenate([sound[:at], quiet, sound[at:]]), at, at + len(quiet)


def tokens(stage: Transducer, sound: Sound, threshold: float = -np.inf) -> Iterator[tuple[int | None, int, str]]:
    """(where the end token stands, when that was known, the text) at each change, by blocks of 32 ms; the last is the final.

    threshold  log-probability that a token must have to count, as the daemon's endpoint.token_threshold
    """
    samples: Samples = np.clip(np.round(sound * 32768), -32768, 32767).astype(np.int16)
    stage.start(0)
    for begin in range(0, len(samples), _BLOCK):
        words = stage.step(samples[begin : begin + _BLOCK])
        if words is not None:
            yield words.end_token if words.log_probability >= threshold else None, words.sample, words.text
    words = stage.finish()
    yield words.end_token if words.log_probability >= threshold else None, words.sample, words.text


def hear(stage: Transducer, clip: Clip, threshold: float = -np.inf) -> Heard:
    """Raises InputError where a clip is no sound."""
    sound = read_sound(clip.path)
    try:
        end = speech_bounds_in_noise(sound)[1]
    except ValueError as error:
        raise InputError(clip.path, str(error)) from None
    whole = with_tail(sound)
    started = time.process_time()
    changes = list(tokens(stage, whole, threshold))
    spent = time.process_time() - started
    last = changes[-1]
    told = next((when for at, when, _ in changes if at is not None and at == last[0]), None)
    early = any(at is not None and at < end - _EARLY for at, _, _ in changes)
    return Heard(clip, last[2], end, last[0], told, early, len(whole) / RATE, spent)


def at_pause(stage: Transducer, clip: Clip, milliseconds: int, threshold: float = -np.inf) -> bool:
    """Whether an end token comes in a pause of the sentence's middle."""
    sound, start, end = with_pause(read_sound(clip.path), milliseconds)
    return any(at is not None and start - _EARLY < at < end for at, _, _ in tokens(stage, with_tail(sound), threshold))


def word_errors(wanted: str, heard: str) -> tuple[int, int]:
    """(errors, words)."""
    import jiwer

    found = jiwer.process_words(wanted, heard)
    return found.substitutions + found.deletions + found.insertions, len(wanted.split())


def interval(values: Sequence[tuple[float, float]], seed: int = 0) -> tuple[float, float]:
    """95 % of the ratios of sums of (part, whole) over recordings drawn with replacement."""
    table = np.array(values, float)
    drawn = table[np.random.default_rng(seed).integers(len(table), size=(_BOOTSTRAPS, len(table)))].sum(1)
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], [0.025, 0.975])
    return float(low), float(high)


def slots_right(heard: Heard) -> tuple[int, int]:
    text = f" {heard.text} "
    return sum(f" {slot} " in text for slot in heard.clip.slots), len(heard.clip.slots)


def figures(heard: Sequence[Heard], pauses: dict[int, float]) -> Figures:
    """Sums it up. `heard` is not empty."""
    wer = low = high = slots = None
    if all(one.clip.text is not None for one in heard):
        errors = [word_errors(one.clip.text or "", one.text) for one in heard]
        wer = sum(wrong for wrong, _ in errors) / sum(words for _, words in errors)
        low, high = interval(errors)
    if any(one.clip.slots for one in heard):
        right = [slots_right(one) for one in heard]
        slots = sum(found for found, _ in right) / sum(wanted for _, wanted in right)
    late = [(one.token - one.end) * 1000 / RATE if one.token is not None else float("inf") for one in heard]
    told = [(one.told - one.end) * 1000 / RATE for one in heard if one.told is not None and not one.early]
    within = {limit: sum(-240 <= ms <= limit for ms in late) / len(heard) for limit in WITHIN_MS}
    return Figures(
        clips=len(heard),
        wer=wer,
        wer_low=low,
        wer_high=high,
        slots=slots,
        within=within,
        early=sum(one.early for one in heard) / len(heard),
        told_ms=float(np.median(told)) if told else None,
        at_pause=pauses,
        real_time_factor=sum(one.cpu_seconds for one in heard) / sum(one.seconds for one in heard),
    )


def judge(
    stage: Transducer, clips: dict[str, list[Clip]], pauses: Sequence[int], say: Callable[[str], None], threshold: float = -np.inf
) -> dict[str, Figures]:
    """Every set's figures. A recording that cannot be read is named through `say` and left out of its set."""
    results = {}
    for name, members in clips.items():
        heard = []
        for clip in members:
            try:
                heard.append(hear(stage, clip, threshold))
            except InputError as error:
                say(f"left out: {error}")
        if not heard:
            raise InputError(name, "has no recording that can be read")
        whole = [one.clip for one in heard if one.clip.complete]
        shares = {ms: sum(at_pause(stage, clip, ms, threshold) for clip in whole) / len(whole) for ms in pauses} if whole else {}
        results[name] = figures(heard, shares)
    return results


def table(results: dict[str, dict[str, Figures]]) -> str:
    """Markdown: a line a set and model."""

    def share(value: float | None) -> str:
        return "" if value is None else f"{value:.0%}"

    head = ["set", "model", "clips", "WER", "slots", *(f"`</s>` in {ms} ms" for ms in WITHIN_MS), "early", "known after (median)"]
    waits = sorted({ms for one in results.values() for row in one.values() for ms in row.at_pause})
    head += [*(f"at a pause of {ms} ms" for ms in waits), "RTF"]
    lines = [" | ".join(head), " | ".join(["---"] * len(head))]
    for name in next(iter(results.values())):
        for model, sets_ in results.items():
            row = sets_[name]
            wer = "" if row.wer is None else f"{row.wer:.1%} ({row.wer_low:.1%} … {row.wer_high:.1%})"
            told = "" if row.told_ms is None else f"{row.told_ms:.0f} ms"
            cells = [name, model, str(row.clips), wer, share(row.slots), *(share(row.within[ms]) for ms in WITHIN_MS)]
            cells += [share(row.early), told, *(share(row.at_pause.get(ms)) for ms in waits), f"{row.real_time_factor:.3f}"]
            lines.append(" | ".join(cells))
    return "\n".join(f"| {line} |" for line in lines)


def open_model(folder: Path, provider: str, chunk_ms: float, lookahead_ms: float) -> Transducer:
    """starter-en's form of export, from any folder."""
    encoder = folder / "encoder.int8.onnx"
    parts = {"encoder": encoder if encoder.exists() else folder / "encoder.onnx", "tokens": folder / "tokens.txt"}
    parts |= {part: folder / f"{part}.onnx" for part in ("decoder", "joiner")}
    return Transducer(
        "conformer",
        parts,
        frame_ms=40,
        chunk_ms=chunk_ms,
        lookahead_ms=lookahead_ms,
        tail_ms=chunk_ms + lookahead_ms + 30,
        end_token=True,
        provider=provider,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    from voiced.runtime_dir import runtime_directory
    from voiced.stages.sherpa import provider

    parser = argparse.ArgumentParser(prog="python -m voiced_train.judge", description="Measure exported models on held-out recordings.")
    parser.add_argument("models", nargs="+", metavar="NAME=DIR")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="a folder with manifest.jsonl")
    parser.add_argument("--held-out", type=Path, required=True, metavar="FILE")
    parser.add_argument("--synthetic", type=Path, metavar="MANIFEST")
    parser.add_argument("--count", type=int, default=60, metavar="N", help="clips a set at the most (default: %(default)s)")
    parser.add_argument("--pause-ms", type=int, action="append", choices=PAUSES_MS, help="may be repeated (default: 500)")
    parser.add_argument("--threshold", type=float, default=-np.inf, metavar="X", help="log-probability an end token must have")
    parser.add_argument("--chunk-ms", type=float, default=320, metavar="N")
    parser.add_argument("--lookahead-ms", type=float, default=160, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        named = [model.partition("=") for model in options.models]
        if wrong := [name for name, equals, folder in named if not (name and equals and folder)]:
            raise UsageError("a model", f"must be NAME=DIR, got {wrong[0]!r}")
        clips = sets(options.data, read_held_out(options.held_out), options.synthetic, options.count)
        results = {}

        def say(text: str) -> None:
            print(text, file=sys.stderr, flush=True)

        with runtime_directory() as runtime:
            for name, _, folder in named:
                stage = open_model(Path(folder), provider(runtime), options.chunk_ms, options.lookahead_ms)
                results[name] = judge(stage, clips, options.pause_ms or [500], say, options.threshold)
        if options.json:
            values = {name: {key: asdict(row) for key, row in rows.items()} for name, rows in results.items()}
            options.json.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
        print(table(results))
        return 0
    except VoicedError as error:
        print(f"judge: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
