"""The measurement: every clip through every model, and the figures of each set.

What lives here: which streams a clip is made into, what is taken from each, and how a set's figures come from its clips. What must not:
reading a manifest, printing. A clip goes through all models before the next one is read, so that whatever else the machine does while it
runs hits them alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from voiced.api import HARD_CAP_MS, InputError, Samples, Transducer, Vad, defaults, read_audio, to_ms, to_samples

from .clips import Clip, LeftOut, clip_seed
from .recognizers import Export, hear
from .scores import Rate, Spread, WordErrors, normalised, rate, share, slots_found, spread, word_errors
from .sounds import Bounds, pause_place, speech_bounds, with_quiet
from .tracks import Ending, Track, emission_delay, ending, first_word_known, in_pause, last_word_known

WITHIN_MS = (200, 400, 800)

_QUIET = to_samples(2000)
"""Put after a clip where the end token is measured: what a microphone gives when the speaker has finished."""
_SHORTEST = to_samples(200)
"""Less is no word: a clip cut to its start."""
_LONGEST = to_samples(HARD_CAP_MS)
_WORDS_AROUND_A_PAUSE = 4
"""A sentence of fewer words has no middle."""


@dataclass(frozen=True, slots=True)
class Rules:
    """threshold: log-probability from which an end token counts; pauses_ms: lengths of the pauses that are put in."""

    threshold: float
    pauses_ms: tuple[int, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class Heard:
    """What one model made of one clip; None where it does not apply. Samples count from the end of speech.

    text, errors        by the clip as it is; errors where its words are known
    slots               how many of the clip's slots are in the text
    ending              with a quiet tail, of a model that has an end token
    last_word           when the last word was there, and `delay` beyond the wait for chunk and look-ahead: with a quiet tail, where the
                        last word is the right one
    first_word          when the first word was there, from the start of speech
    pauses              for each length that was put in (ms): whether an end token stood in it
    """

    clip: Clip
    model: int
    text: str
    seconds: float
    cpu_seconds: float
    errors: WordErrors | None
    slots: int | None
    ending: Ending | None
    last_word: int | None
    delay: int | None
    first_word: int | None
    pauses: Mapping[int, bool]


@dataclass(frozen=True, slots=True)
class EndToken:
    """Shares of clips: within the last of WITHIN_MS, early, never, and what is later still add up to one.

    within     of complete clips: the token stands within so many ms after the end of speech, and none came early
    early      of complete clips: a token stood 240 ms or more before the end of speech, taken back or not
    never      of complete clips: no token, or one that was taken back
    cut_off    of clips whose sentence does not end: any token
    stands     where it stands, from the end of speech; known: when it was told (clips that have one, none early)
    """

    within: Mapping[int, Rate | None]
    early: Rate | None
    never: Rate | None
    cut_off: Rate | None
    stands: Spread | None
    known: Spread | None


@dataclass(frozen=True, slots=True)
class Figures:
    """One model on one set."""

    set: str
    model: int
    clips: int
    seconds: float
    wer: Rate | None
    slots: Rate | None
    orders: Rate | None
    end_token: EndToken | None
    pauses: Mapping[int, Rate | None]
    last_word: Spread | None
    emission_delay: Spread | None
    first_word: Spread | None
    real_time_factor: float


Progress = Callable[[str, int, int], None]
"""Told the set, the clips done and the clips there are."""


def measure(
    sets: Mapping[str, Sequence[Clip]],
    models: Sequence[tuple[Export, Transducer]],
    vad: Vad,
    rules: Rules,
    progress: Progress,
    left_out: Callable[[LeftOut], None],
) -> Iterator[Heard]:
    """Every clip through every model. A clip that is no sound, too short, too long for a turn or without speech is told to `left_out`."""
    for name, clips in sets.items():
        for row, clip in enumerate(clips):
            progress(name, row, len(clips))
            try:
                samples, bounds = _read(clip, vad)
            except (InputError, ValueError) as error:
                left_out(LeftOut(name, clip.name, error.what if isinstance(error, InputError) else str(error)))
                continue
            streams = _streams(clip, samples, bounds, rules)
            for number, (export, stage) in enumerate(models):
                yield _heard(clip, number, export, stage, samples, bounds, streams, rules)
        progress(name, len(clips), len(clips))


def _read(clip: Clip, vad: Vad) -> tuple[Samples, Bounds]:
    samples, _ = read_audio(clip.path)
    if len(samples) < _SHORTEST:
        raise ValueError(f"is too short: {to_ms(len(samples)):.0f} ms")
    if len(samples) > _LONGEST:
        raise ValueError(f"is too long for a turn: {to_ms(len(samples)) / 1000:.1f} s, the daemon's longest is {HARD_CAP_MS / 1000:.0f} s")
    settings = defaults().vad
    bounds = speech_bounds(samples, vad.track(samples), on=settings.on, off=settings.off)
    if clip.speech_end is not None:
        bounds = Bounds(bounds.start, min(clip.speech_end, len(samples)), bounds.stretches)
    return samples, bounds


@dataclass(frozen=True, slots=True)
class _Streams:
    """A clip made longer: with a quiet tail, and with a pause of each length (ms → sound, the pause's start and end)."""

    tail: Samples
    pauses: Mapping[int, tuple[Samples, int, int]]


def _streams(clip: Clip, samples: Samples, bounds: Bounds, rules: Rules) -> _Streams:
    seed = clip_seed(clip, rules.seed)
    tail = with_quiet(samples, len(samples), _QUIET, seed)
    pauses = {}
    words = _WORDS_AROUND_A_PAUSE if clip.text is None else len(normalised(clip.text).split())  # an order is a sentence
    if clip.complete and words >= _WORDS_AROUND_A_PAUSE:
        at = pause_place(samples, bounds)
        for length_ms in rules.pauses_ms:
            length = to_samples(length_ms)
            pauses[length_ms] = (with_quiet(samples, at, length, (*seed, length_ms)), at, at + length)
    return _Streams(tail, pauses)


def _heard(
    clip: Clip, number: int, export: Export, stage: Transducer, samples: Samples, bounds: Bounds, streams: _Streams, rules: Rules
) -> Heard:
    plain, tail = hear(stage, samples), hear(stage, streams.tail)
    last = last_word_known(tail) if _ends_right(clip, tail) else None
    first = first_word_known(tail)
    pauses = {}
    if export.end_token:
        pauses = {ms: in_pause(hear(stage, sound), start, end, rules.threshold) for ms, (sound, start, end) in streams.pauses.items()}
    return Heard(
        clip=clip,
        model=number,
        text=plain.text,
        seconds=to_ms(plain.samples) / 1000,
        cpu_seconds=plain.cpu_seconds,
        errors=None if clip.text is None else word_errors(clip.text, plain.text),
        slots=slots_found(clip.slots, plain.text) if clip.slots else None,
        ending=ending(tail, bounds.end, rules.threshold) if export.end_token else None,
        last_word=None if last is None else last - bounds.end,
        delay=None if last is None else emission_delay(tail, bounds.end, export.lookahead),
        first_word=None if first is None else first - bounds.start,
        pauses=pauses,
    )


def _ends_right(clip: Clip, track: Track) -> bool:
    """Another word than the last may have been there before the last was spoken."""
    heard = normalised(track.text).split()
    return clip.text is not None and heard[-1:] == normalised(clip.text).split()[-1:]


def figures(heard: Sequence[Heard], seed: int) -> Figures:
    """Of one model on one set. `heard` is not empty."""
    worded = [(one.errors.count, one.errors.words) for one in heard if one.errors is not None]
    ordered = [(one.slots, len(one.clip.slots)) for one in heard if one.slots is not None]
    lengths = sorted({ms for one in heard for ms in one.pauses})
    seconds = sum(one.seconds for one in heard)
    return Figures(
        set=heard[0].clip.set,
        model=heard[0].model,
        clips=len(heard),
        seconds=seconds,
        wer=rate(worded, seed),
        slots=rate(ordered, seed),
        orders=share([found == wanted for found, wanted in ordered]),
        end_token=end_tokens([(one.ending, one.clip.complete) for one in heard if one.ending is not None]),
        pauses={ms: share([one.pauses[ms] for one in heard if ms in one.pauses]) for ms in lengths},
        last_word=spread([to_ms(one.last_word) for one in heard if one.last_word is not None]),
        emission_delay=spread([to_ms(one.delay) for one in heard if one.delay is not None]),
        first_word=spread([to_ms(one.first_word) for one in heard if one.first_word is not None]),
        real_time_factor=sum(one.cpu_seconds for one in heard) / seconds,
    )


def end_tokens(endings: Sequence[tuple[Ending, bool]]) -> EndToken | None:
    """(ending, whether the sentence ends) of each clip; None where the model has no end token."""
    if not endings:
        return None
    whole = [one for one, complete in endings if complete]
    cut_off = [one for one, complete in endings if not complete]
    timely = [one for one in whole if not one.early]
    return EndToken(
        within={ms: share([one.within(to_samples(ms)) for one in whole]) for ms in WITHIN_MS},
        early=share([one.early for one in whole]),
        never=share([one.stands is None and not one.early for one in whole]),
        cut_off=share([one.early or one.stands is not None for one in cut_off]),
        stands=spread([to_ms(one.stands) for one in timely if one.stands is not None]),
        known=spread([to_ms(one.known) for one in timely if one.known is not None]),
    )


def all_figures(heard: Sequence[Heard], seed: int) -> list[Figures]:
    """Set by set in the order they were heard, in each the models in theirs."""
    groups: dict[tuple[str, int], list[Heard]] = {}
    for one in heard:
        groups.setdefault((one.clip.set, one.model), []).append(one)
    return [figures(group, seed) for group in groups.values()]


def vad_of(path: Path) -> Vad:
    vad = Vad(path)
    vad.warm_up()
    return vad
