"""The recipe of a wake head: recordings and voices in, an .onnx file out.

What lives here: which examples are gathered, in which amounts, and the command. What must not: how each is made (wake_data.py,
wake_voices.py), the training itself (head.py).

    python -m voiced_train.wake_train "PHRASE" … --data DIR --out DIR [--cache DIR] [--recordings DIR] [--no-voices]

DIR of the data has manifest.jsonl, which must have sound without a phrase; recordings of the phrase are used where it has any. All that is
computed is kept in the cache, so a second run, or another phrase, begins where the first one was. One thread.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from voiced.errors import InputError, ModelError, UsageError, VoicedError
from voiced.models import DEFAULT_IDS, cache_directory, default_library
from voiced.stages.features import WakeFeatures

from . import onnx_file
from .features import read_sound
from .head import Examples, Head, Recipe, Round, moved, stretched, train
from .near_words import normal
from .sound import Sound
from .voices import Speaker, cache_folder
from .wake_data import Said, Scene, examples, foreign_tracks, phrase_tracks, recorded, said, scene
from .wake_split import Part, Recording, holds, part, read, saying
from .wake_tracks import Progress, Tracks, cached, join, listen, silent, without
from .wake_voices import Speaks, near_lines, phrase_lines, sayings, spoken

REAL_COPIES, VOICE_COPIES, JUDGE_COPIES = 4, 3, 2
NEAR_ALONE = {"train": 2, "dev": 0}
"""Voices that say each near word for itself, beside the one that says it among others: alone it is what a phrase is."""
READS_S = {"train": 2400.0, "dev": 900.0}
"""Seconds of what was read aloud: the rest of the foreign sound is of more kinds."""

RECIPE = Recipe()

THRESHOLD_LOGIT = 2.197
"""Of a score of 0.9."""

LOOSE = 0.25
"""Where a head's scores pass 0.9: so far from foreign sound at its highest to a phrase at its least clear. Not in the middle: the first
stage is loose, the second confirms, and a looser one knows the phrase a hop earlier, when it ends. The daemon's own is lower still."""

SPREAD_LOGITS = 4.0
"""Between foreign sound at its highest and a phrase at its least clear, a head's logits are stretched so far: a score is then no 0.9999."""


def default_cache() -> Path:
    return cache_directory() / "wake"


@dataclass(frozen=True, slots=True)
class Workshop:
    """What one run needs for every phrase. `speaker` is None where no voices are wanted."""

    manifest: Path
    cache: Path
    recordings: tuple[Recording, ...]
    features: WakeFeatures
    scene: Scene
    speaker: Speaks | None
    progress: Progress = silent


def workshop(data: Path, cache: Path, speaker: Speaks | None, progress: Progress = silent) -> Workshop:
    """Raises InputError where the data cannot be used, ModelError where the embedding is not there."""
    manifest = data / "manifest.jsonl"
    recordings = tuple(read(manifest))
    if not any(one.part == "train" and one.free and not one.phrase for one in recordings):
        raise InputError(str(manifest), "has no sound without a phrase that a head may learn from", "add talk, music and noise to it")
    embedding = next(one for one in DEFAULT_IDS if default_library().model(one).role == "wake-embedding")
    features = WakeFeatures(default_library().find(embedding).files["model"])
    return Workshop(manifest, cache, recordings, features, scene(recordings, manifest), speaker, progress)


def own_recordings(folder: Path, where: Part) -> list[Said]:
    """A user's own recordings of the phrase, one a file, in parts by their names. Raises InputError where there are none."""
    kinds = (".wav", ".flac", ".ogg", ".opus", ".mp3")
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in kinds)
    if not paths:
        raise InputError(str(folder), f"has no recording ({', '.join(kinds)})", "one saying of the phrase a file, some 2 s long")
    found = []
    for path in paths:
        name = str(path.relative_to(folder))
        if part(name, {"test": 0.3, "dev": 0.1}) == where:
            try:
                found.append(said(f"own {name}", read_sound(path)))
            except ValueError:
                raise InputError(str(path), "nothing is said in it", "take it out of the folder") from None
    return found


def gather(shop: Workshop, phrase: str, where: Part, own: Sequence[Said] = ()) -> Examples:
    """Windows of the part: real recordings and voices of the phrase against foreign sound, other phrases and near words."""
    learns = where == "train"
    mine = [one for one in shop.recordings if one.part == where and (one.free or not learns)]
    real = [*recorded(one for one in mine if one.phrase and holds(one.phrase, phrase)), *own]
    copies = REAL_COPIES if learns else JUDGE_COPIES
    what = f"{phrase} ({where})"
    phrases = [_phrases(shop, f"{what} recorded", real, copies)]
    foreign = [foreign_tracks(shop.features, shop.recordings, where, READS_S[where], shop.cache, shop.progress)]
    for other in sorted({one.phrase for one in mine if one.phrase and not holds(one.phrase, phrase)}):
        foreign.append(_others(shop, other, where, [one for one in mine if one.phrase == other]))
    if shop.speaker:
        voices = shop.speaker.voices()
        lines = list(spoken(phrase_lines(phrase, voices, where), shop.speaker, shop.cache / "voices", shop.progress, f"{what} by voices"))
        phrases.append(_phrases(shop, f"{what} spoken", sayings(lines, phrase), VOICE_COPIES if learns else JUDGE_COPIES))
        foreign.append(near_tracks(shop, phrase, where, 1, NEAR_ALONE[where]))
    if not len(join(phrases).starts):
        raise UsageError("PHRASE", f"nobody says {phrase!r}: no recording has it, and no voices were asked for")
    return examples(join(phrases), without(join(foreign), saying(mine, phrase)))


def near_tracks(shop: Workshop, phrase: str, where: Part, times: int, alone: int) -> Tracks:
    """The phrase's near words by voices of the part, as spoken; `times` and `alone` as in `near_lines`."""
    assert shop.speaker
    lines = near_lines(phrase, shop.speaker.voices(), where, times, alone)
    what = f"near {phrase} ({where})"

    def make() -> Tracks:
        assert shop.speaker
        said_lines = spoken(lines, shop.speaker, shop.cache / "voices", shop.progress, f"{what} by voices")
        return listen(shop.features, ((line.name, np.pad(sound, (0, 16_000)).astype(np.float32)) for line, sound in said_lines))

    return cached(shop.cache, what, [line.name for line in lines], make)


def _phrases(shop: Workshop, what: str, sayings_: Sequence[Said], copies: int) -> Tracks:
    key = [str(copies), *(f"{one.name} {one.start} {one.end}" for one in sayings_)]
    return cached(shop.cache, what, key, lambda: phrase_tracks(shop.features, sayings_, shop.scene, copies, shop.progress, what))


def _others(shop: Workshop, phrase: str, where: Part, recordings: Iterable[Recording]) -> Tracks:
    group = list(recordings)

    def sounds() -> Iterable[tuple[str, Sound]]:
        for at, one in enumerate(group):
            shop.progress(f"other phrases: {phrase} ({where})", at + 1, len(group))
            yield one.name, np.pad(read_sound(one.path), (0, 8000)).astype(np.float32)

    return cached(shop.cache, f"other {phrase} {where}", [one.name for one in group], lambda: listen(shop.features, sounds()))


def spoken_to_judge(phrase: str, cache: Path, progress: Progress = silent) -> list[Said]:
    """The phrase by the voices that never train. Raises FetchError, ModelError, UsageError."""
    speaker = ready_voices()
    lines = phrase_lines(phrase, speaker.voices(), "test", 2)
    return sayings(list(spoken(lines, speaker, cache / "voices", progress, f"{phrase} (test) by voices")), phrase)


def ready_voices() -> Speaker:
    """The voices that are at hand. Raises ModelError, which names the command that fetches them."""
    folder = cache_folder()
    if any(not (folder / name).exists() for name in ("joe.onnx", "kokoro.onnx", "styles")):
        raise ModelError(
            str(folder), "the voices that say the phrase are not there", "fetch them with: python -m voiced_train.synthesize fetch"
        )
    return Speaker(folder)


def settled(head: Head, judge: Examples) -> Head:
    """Shifted and stretched so that a score of 0.9 lies between the judging part's foreign sound (its twentieth hop) and its
    phrases (all but one in twenty)."""
    foreign = np.sort(head.track_logits(judge.foreign))
    low = float(foreign[-min(20, len(foreign))])
    best = np.full(int(judge.hit_of.max()) + 1, -np.inf, np.float32)
    np.maximum.at(best, judge.hit_of, head.logits(judge.phrases.take(judge.hits)))
    high = max(float(np.quantile(best[np.isfinite(best)], 0.05)), low + 1e-3)
    factor = min(SPREAD_LOGITS / (high - low), 3.0)
    return moved(stretched(head, factor), (low + LOOSE * (high - low)) * factor - THRESHOLD_LOGIT)


def make(shop: Workshop, phrase: str, out: Path, recordings: Path | None = None, recipe: Recipe = RECIPE) -> Path:
    """Trains the phrase's head and writes it; its path. Raises VoicedError."""
    plain = normal(phrase)
    learn, judge = (gather(shop, plain, where, own_recordings(recordings, where) if recordings else ()) for where in ("train", "dev"))

    done = 0

    def told(result: Round) -> None:
        nonlocal done
        done += 1
        shop.progress(f"{plain}: training, {result.missed:.1%} missed", done, recipe.rounds * recipe.heads)

    head = settled(train(learn, judge, recipe, told), judge)
    path = out / f"{plain.replace(' ', '-').replace(chr(39), '')}.onnx"
    onnx_file.write(path, head, {"phrase": plain, "licence": "Apache-2.0", "made by": "voiced_train.wake_train"})
    return path


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m voiced_train.wake_train", description="Train wake heads.")
    parser.add_argument("phrases", nargs="+", metavar="PHRASE")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder with manifest.jsonl")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--cache", type=Path, metavar="DIR", help=f"default: {default_cache()}")
    parser.add_argument("--recordings", type=Path, metavar="DIR", help="more recordings of the phrase, one saying a file")
    parser.add_argument("--no-voices", action="store_true", help="learn from recordings alone")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    try:
        speaker: Speaks | None = None
        if not options.no_voices:
            speaker = ready_voices()
        shop = workshop(options.data, options.cache or default_cache(), speaker, _lines)
        for phrase in options.phrases:
            print(make(shop, phrase, options.out, options.recordings, RECIPE.seeded(options.seed)), flush=True)
        return 0
    except VoicedError as error:
        print(f"wake_train: {error}", file=sys.stderr)
        return error.exit_code


def _lines(what: str, done: int, total: int) -> None:
    """A line at a piece's end, and at each of its tenths."""
    if total and (done == total or done * 10 // total > (done - 1) * 10 // total):
        print(f"{what}: {done} of {total}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
