"""Wake heads: the maths, the file, the examples, and a small head from sound to onnxruntime."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sounds import noise, sound
from voiced.errors import InputError, ModelError, UsageError
from voiced.models import Library
from voiced.stages.features import HOP, WakeFeatures
from voiced.stages.wake import Stage1
from voiced_train import head as heads
from voiced_train import near_words, onnx_file, voices, wake_data, wake_split, wake_tracks, wake_train, wake_voices
from voiced_train.augment import Scenery
from voiced_train.head import SIZE, Examples, Head, Recipe
from voiced_train.wake_tracks import Tracks

SAMPLE = Path(__file__).resolve().parents[2] / "daemon" / "voiced" / "data" / "sample.flac"
PHRASES = ((19_120, 28_080), (154_800, 163_760))
"""Where “jarvis” is said in the sample (sample.json)."""


def a_head(seed: int = 0, hidden: int = 32) -> Head:
    random = np.random.default_rng(seed)
    shapes = ((SIZE, hidden), (hidden,), (hidden,), (1,))
    return Head(*((random.standard_normal(shape) * 0.05).astype(np.float32) for shape in shapes))


def some_tracks(seed: int, hops: tuple[int, ...], shift: float = 0.0) -> Tracks:
    random = np.random.default_rng(seed)
    lengths = [15 + count for count in hops]
    rows = (random.standard_normal((sum(lengths), 96)) + shift).astype(np.float16)
    starts = np.cumsum([0, *lengths[:-1]]).astype(np.int64)
    return Tracks(rows, starts, tuple(f"{seed}-{at}" for at in range(len(hops))))


# ── tracks ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.integers(1, 12), min_size=1, max_size=6), st.integers(0, 5))
def test_a_window_is_sixteen_rows_of_one_recording(hops: list[int], seed: int) -> None:
    tracks = some_tracks(seed, tuple(hops))
    windows = tracks.all_windows()
    assert len(windows) == sum(hops)
    assert list(tracks.hops) == hops
    taken = tracks.take(windows)
    for at, first in enumerate(windows):
        assert (taken[at] == tracks.rows[first : first + 16].astype(np.float32).reshape(-1)).all()
        track = int(np.searchsorted(tracks.starts, first, side="right")) - 1
        end = tracks.starts[track + 1] if track + 1 < len(tracks.starts) else len(tracks.rows)
        assert tracks.starts[track] <= first
        assert first + 16 <= end


def test_joined_tracks_keep_their_windows() -> None:
    one, other = some_tracks(1, (3, 5)), some_tracks(2, (4,))
    both = wake_tracks.join([one, other])
    assert both.names == (*one.names, *other.names)
    assert (both.take(both.all_windows())[8:] == other.take(other.all_windows())).all()
    assert len(wake_tracks.join([]).all_windows()) == 0


def test_what_was_computed_is_kept_and_a_torn_file_is_made_anew(tmp_path: Path) -> None:
    made = []

    def make() -> Tracks:
        made.append(1)
        return some_tracks(3, (2, 2))

    first = wake_tracks.cached(tmp_path, "some sound", ["a", "b"], make)
    again = wake_tracks.cached(tmp_path, "some sound", ["a", "b"], make)
    assert len(made) == 1
    assert (first.rows == again.rows).all()
    assert first.names == again.names
    wake_tracks.cached(tmp_path, "some sound", ["a"], make)
    assert len(made) == 2
    for path in tmp_path.glob("*.npz"):
        path.write_bytes(path.read_bytes()[:100])
    wake_tracks.cached(tmp_path, "some sound", ["a", "b"], make)
    assert len(made) == 3


# ── the head ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_rows_multiplied_once_give_the_windows_own_scores() -> None:
    head, tracks = a_head(), some_tracks(4, (40, 1, 17))
    assert np.abs(head.track_logits(tracks) - head.logits(tracks.take(tracks.all_windows()))).max() < 1e-4


def test_the_gradient_is_the_slope_of_the_loss() -> None:
    head, random = a_head(hidden=3), np.random.default_rng(5)
    windows = random.standard_normal((20, SIZE)).astype(np.float32)
    wanted, weigh = (random.random(20) < 0.5).astype(np.float32), random.random(20).astype(np.float32)

    def loss(at: Head) -> float:
        logits = at.logits(windows).astype(np.float64)
        return float((weigh * (np.logaddexp(0, logits) - wanted * logits)).sum())

    gradient = heads._gradient(head, windows, wanted, weigh)
    for name in ("w1", "b1", "w2", "b2"):
        value, slope = getattr(head, name), getattr(gradient, name)
        place = np.unravel_index(int(np.abs(slope).argmax()), slope.shape)
        moved = []
        for step in (-1e-2, 1e-2):
            changed = {each: getattr(head, each).copy() for each in ("w1", "b1", "w2", "b2")}
            changed[name][place] += step
            moved.append(loss(Head(**changed)))
        assert (moved[1] - moved[0]) / 2e-2 == pytest.approx(float(slope[place]), rel=0.05), name
        assert value.shape == slope.shape


def examples_that_differ(seed: int) -> Examples:
    """Phrases whose rows lie a little higher than those of foreign sound."""
    phrases, foreign = some_tracks(seed, (6,) * 12, shift=0.25), some_tracks(seed + 100, (40,) * 10)
    hits = phrases.all_windows()
    return Examples(phrases, hits, np.repeat(np.arange(12), 6), hits[:0], foreign)


def test_training_tells_apart_what_differs_and_repeats_itself() -> None:
    recipe = Recipe(rounds=3, steps=40, batch=96)
    learn, judge = examples_that_differ(1), examples_that_differ(2)
    rounds: list[heads.Round] = []
    head = heads.train(learn, judge, recipe, rounds.append)
    assert [each.number for each in rounds] == [1, 2, 3] * recipe.heads
    assert heads.validated(head, judge, 0, 1).missed < 0.1
    assert heads.validated(a_head(), judge, 0, 1).missed > 0.5  # which is no credit to the examples
    again = heads.train(learn, judge, recipe)
    assert (again.w1 == head.w1).all()
    other = heads.train(learn, judge, recipe.seeded(1))
    assert (other.w1 != head.w1).any()


def test_nothing_to_learn_from_is_refused() -> None:
    learn = examples_that_differ(1)
    nothing = Examples(learn.phrases, learn.hits[:0], learn.hit_of[:0], learn.others, learn.foreign)
    with pytest.raises(ValueError, match="windows of the phrase and foreign ones"):
        heads.train(nothing, learn)


def test_a_settled_head_has_the_default_threshold_between_foreign_sound_and_phrases() -> None:
    learn, judge = examples_that_differ(1), examples_that_differ(2)
    head = wake_train.settled(heads.train(learn, judge, Recipe(rounds=2, steps=40, batch=96)), judge)
    scores = 1 / (1 + np.exp(-head.track_logits(judge.foreign)))
    assert (scores > 0.9).sum() <= 20
    hits = 1 / (1 + np.exp(-head.logits(judge.phrases.take(judge.hits)).reshape(12, 6).max(1)))
    assert (hits > 0.9).mean() > 0.9


# ── the file ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("count", [1, 7])
def test_the_file_gives_the_heads_scores(tmp_path: Path, count: int) -> None:
    head = a_head(9)
    onnx_file.write(tmp_path / "head.onnx", head, {"phrase": "hey kitchen", "about": "Grüße"})
    session = onnxruntime.InferenceSession(str(tmp_path / "head.onnx"), providers=["CPUExecutionProvider"])
    windows = np.random.default_rng(1).standard_normal((count, 16, 96)).astype(np.float32) * 5
    (scores,) = session.run(None, {"embeddings": windows})
    assert scores.shape == (count, 1)
    assert np.abs(scores - onnx_file.scores(head, windows)).max() < 1e-5
    assert session.get_modelmeta().custom_metadata_map == {"phrase": "hey kitchen", "about": "Grüße"}
    assert [path.name for path in tmp_path.iterdir()] == ["head.onnx"]
    assert (tmp_path / "head.onnx").stat().st_size < 210_000


# ── which recordings ───────────────────────────────────────────────────────────────────────────────────────────────────

LINE = '{{"path": "{path}", "role": "{role}", "source": "s", "licence": "{licence}", "seconds": 1.5{more}}}'


def write_manifest(folder: Path, *lines: str) -> Path:
    path = folder / "manifest.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_recording_is_in_one_part_and_a_speaker_too(tmp_path: Path) -> None:
    lines = [LINE.format(path=f"a/{at}.opus", role="wake", licence="CC0", more=', "keyword": "jarvis"') for at in range(400)]
    lines += [LINE.format(path=f"b/{at}.opus", role="asr", licence="CC0", more=f', "speaker": "p{at % 7}"') for at in range(70)]
    found = wake_split.read(write_manifest(tmp_path, *lines))
    phrases = [one for one in found if one.phrase]
    shares = [sum(one.part == where for one in phrases) / 400 for where in ("train", "dev", "test")]
    assert shares == pytest.approx([0.5, 0.1, 0.4], abs=0.08)
    parts: dict[int, set[str]] = {}
    for one in found:
        if not one.phrase:
            parts.setdefault(int(one.path.stem) % 7, set()).add(one.part)
    assert all(len(each) == 1 for each in parts.values())


def test_share_alike_sound_only_judges(tmp_path: Path) -> None:
    lines = [LINE.format(path=f"m/{at}.opus", role="music", licence="CC BY-SA 3.0", more="") for at in range(50)]
    assert {one.part for one in wake_split.read(write_manifest(tmp_path, *lines))} == {"test"}


def test_a_phrase_within_another_is_not_foreign_to_it(tmp_path: Path) -> None:
    names = ("jarvis", "computer", "hey computer", "hey computer (es)")
    lines = [
        LINE.format(path=f"{name}{at}", role="wake", licence="CC0", more=f', "keyword": "{name}"') for name in names for at in range(60)
    ]
    lines.append(LINE.format(path="x", role="wake", licence="CC0", more=', "keyword": "(not-wake)"'))
    found = wake_split.read(write_manifest(tmp_path, *lines))
    others = [*wake_split.without_phrase(found, "computer", "train"), *wake_split.without_phrase(found, "computer", "test")]
    assert {one.phrase for one in others} == {"jarvis", "", "hey computer (es)"}
    assert {one.phrase for one in wake_split.of_phrase(found, "jarvis", "train")} == {"jarvis"}


def test_a_recording_whose_words_hold_the_phrase_is_left_out_of_what_is_foreign(tmp_path: Path) -> None:
    more = (
        ', "text": "Computer, what time is it"',
        ', "text": "computers"',
        ', "keyword": "hey computer"',
        ', "asr_moonshine_tiny": "A computer."',
        ', "keyword": "hey computer (es)"',
        ', "keyword": "hey computer (es)", "text": "oye, computer"',
    )
    lines = [LINE.format(path=f"{at}", role="command", licence="CC0", more=each) for at, each in enumerate(more)]
    names = wake_split.saying(wake_split.read(write_manifest(tmp_path, *lines)), "computer")
    assert names == {"0", "2", "3", "5"}
    tracks = some_tracks(8, (3, 4, 5))
    kept = wake_tracks.without(tracks, frozenset({tracks.names[1], "nobody"}))
    assert kept.names == (tracks.names[0], tracks.names[2])
    windows = tracks.all_windows()
    assert (kept.take(kept.all_windows()) == tracks.take(np.concatenate((windows[:3], windows[7:])))).all()
    assert wake_tracks.without(tracks, frozenset()) is tracks


@pytest.mark.parametrize(
    ("line", "what"),
    [("{", "manifest.jsonl:2: is not JSON"), ('{"path": "a"}', "manifest.jsonl:2: needs path, role, source, licence and seconds")],
)
def test_a_bad_manifest_is_named_with_its_line(tmp_path: Path, line: str, what: str) -> None:
    good = LINE.format(path="a", role="noise", licence="CC0", more="")
    with pytest.raises(InputError, match=what):
        wake_split.read(write_manifest(tmp_path, good, line))
    with pytest.raises(InputError, match="cannot be read"):
        wake_split.read(tmp_path / "nowhere.jsonl")


# ── examples ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def features(library: Library) -> WakeFeatures:
    return WakeFeatures(library.find("speech-embedding").files["model"])


@pytest.fixture(scope="module")
def around() -> wake_data.Scene:
    talk = (sound(SAMPLE)[40_000:100_000] / np.float32(32768)).astype(np.float32)
    room = np.exp(-np.arange(4000) / 800).astype(np.float32)
    hiss = (noise(32_000, "pink") * 3000).astype(np.int16)
    return wake_data.Scene(Scenery((hiss,), (room / np.sqrt((room**2).sum()),)), (talk,))


def sayings() -> list[wake_data.Said]:
    whole = np.asarray(sound(SAMPLE) / np.float32(32768), np.float32)
    return [wake_data.said(f"sample {at}", whole[start - 1600 : end + 1600]) for at, (start, end) in enumerate(PHRASES)]


def test_the_phrase_is_found_in_its_recording() -> None:
    for one, (start, end) in zip(sayings(), PHRASES, strict=True):
        assert abs(one.end - one.start - (end - start)) < 1600
    start, end = PHRASES[0]
    hiss = (noise(end - start + 8000, "pink") * 0.001).astype(np.float32)
    hiss[4000:-4000] += sound(SAMPLE)[start:end] / np.float32(32768)
    padded = wake_data.said("between zeros", np.pad(hiss, 8000))  # as some sets are
    assert abs(padded.end - (12_000 + end - start)) < 1600
    assert abs(padded.start - 12_000) < 1600
    with pytest.raises(ValueError, match=r"are no phrase|wants sound"):
        wake_data.said("nobody", np.zeros(16_000, np.float32))


def test_windows_are_sorted_by_their_distance_from_the_phrases_end(features: WakeFeatures, around: wake_data.Scene) -> None:
    tracks = wake_data.phrase_tracks(features, sayings(), around, 3)
    assert len(tracks.starts) == 6
    found = wake_data.examples(tracks, some_tracks(7, (30,)))
    for track, (name, start) in enumerate(zip(tracks.names, tracks.starts, strict=True)):
        ends = [(first - start + 1) * HOP - wake_data.phrase_end(name) for first in found.hits[found.hit_of == track]]
        assert len(ends) == 8
        assert all(wake_data.EARLY_MS * 16 <= end <= wake_data.LATE_MS * 16 for end in ends)
    assert not set(found.hits) & set(found.others)
    again = wake_data.phrase_tracks(features, sayings()[1:], around, 3)
    assert (again.rows == tracks.rows[tracks.starts[3] :]).all()  # whatever else there is
    with pytest.raises(ValueError, match="does not say where its phrase ends"):
        wake_data.phrase_end("x")


def test_from_sound_to_a_head_that_stage_1_runs(features: WakeFeatures, around: wake_data.Scene, library: Library, tmp_path: Path) -> None:
    """Two sayings are no data; but what was learnt is heard again, through the file and the daemon's own stage."""
    phrases = wake_data.phrase_tracks(features, sayings(), around, 12)
    whole = np.asarray(sound(SAMPLE) / np.float32(32768), np.float32)
    foreign = wake_tracks.listen(
        features, [("talk", whole[60_000:150_000].astype(np.float32)), ("hiss", (noise(160_000, "pink") * 0.05).astype(np.float32))]
    )
    learn = wake_data.examples(phrases, foreign)
    head = wake_train.settled(heads.train(learn, learn, Recipe(rounds=3, steps=60, batch=192)), learn)
    onnx_file.write(tmp_path / "jarvis.onnx", head, {})
    stage = Stage1({"jarvis": tmp_path / "jarvis.onnx"}, library.find("speech-embedding").files["model"])
    pcm = np.asarray(sound(SAMPLE), np.int16)
    scores = [stage.step(pcm[at : at + HOP])[0] for at in range(0, len(pcm) - HOP, HOP)]
    heard = [max(scores[end // HOP - 3 : end // HOP + 6]) for _, end in PHRASES]
    assert min(heard) > 0.9
    assert min(heard) > max(scores[60_000 // HOP : 150_000 // HOP])


# ── near words, voices ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("phrase", [*near_words.BY_HAND, "hey kitchen", "zorblax", "ok"])
def test_at_least_fifty_near_words_and_none_is_the_phrase(phrase: str) -> None:
    words = near_words.near_words(phrase)
    assert len(words) >= 50
    assert len(set(words)) == len(words)
    assert not any(f" {word.lower()} ".count(f" {phrase} ") for word in words)


@pytest.mark.parametrize(
    ("phrase", "what"), [("", "must be words to say"), (" ?! ", "must be words"), ("route 66", "has '6'"), ("a+b", r"has '\+'")]
)
def test_a_phrase_that_cannot_be_said_is_refused(phrase: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        near_words.near_words(phrase)


class Buzzer:
    """Says everything with a buzz, as long as the text; counts what it says. A voice's place, not a voice."""

    def __init__(self, seconds_a_letter: float = 0.06) -> None:
        self.said: list[str] = []
        self._each = seconds_a_letter

    def voices(self) -> list[str]:
        return [f"v{at}" for at in range(60)]

    def say(self, text: str, voice: str, speed: float = 1.0) -> tuple[NDArray[np.float32], int]:
        self.said.append(text)
        count = round(24_000 * self._each * len(text) / speed)
        pitch = 80 + int.from_bytes(hashlib.sha256(voice.encode()).digest()[:1], "big")
        buzz = np.sign(np.sin(2 * np.pi * pitch * np.arange(count) / 24_000)).astype(np.float32) * 0.3
        return np.pad(buzz, 2400).astype(np.float32), 24_000


def test_a_voice_that_judges_never_trains_and_near_words_are_all_said() -> None:
    voices = Buzzer().voices()
    by_part = {where: wake_voices.phrase_lines("hey kitchen", voices, where) for where in ("train", "dev", "test")}
    speakers = [{line.voice for line in lines} for lines in by_part.values()]
    assert set.union(*speakers) == set(voices)
    assert sum(map(len, speakers)) == len(voices)
    text = " ".join(line.text for line in wake_voices.near_lines("hey kitchen", voices, "train", 1))
    assert all(word in text for word in near_words.near_words("hey kitchen"))


def test_near_words_are_said_alone_too_by_other_voices_each_time() -> None:
    words, voices = near_words.near_words("hey kitchen"), Buzzer().voices()
    together = wake_voices.near_lines("hey kitchen", voices, "train", 1)
    alone = wake_voices.near_lines("hey kitchen", voices, "train", 1, 2)[len(together) :]
    assert [line.text for line in alone] == [f"{word}." for word in words] * 2
    assert all(one.voice != other.voice for one, other in zip(alone[: len(words)], alone[len(words) :], strict=True))
    assert {wake_voices.voice_part(line.voice) for line in alone} == {"train"}


def test_what_was_said_is_kept(tmp_path: Path) -> None:
    lines = wake_voices.phrase_lines("zorblax", Buzzer().voices(), "dev")
    speaker = Buzzer()
    first = list(wake_voices.spoken(lines, speaker, tmp_path))
    again = list(wake_voices.spoken(lines, speaker, tmp_path))
    assert len(speaker.said) == len(lines)
    assert all((one == other).all() for (_, one), (_, other) in zip(first, again, strict=True))
    found = wake_voices.sayings(first, "zorblax")
    assert [one.name for one in found] == [line.name for line in lines]


def test_a_phrase_too_long_to_be_heard_whole_is_refused(tmp_path: Path) -> None:
    long = "the quick brown fox jumps over the lazy dog"
    lines = wake_voices.phrase_lines(long, Buzzer().voices(), "dev")
    with pytest.raises(UsageError, match="a head hears two seconds"):
        wake_voices.sayings(list(wake_voices.spoken(lines, Buzzer(), tmp_path)), long)


def test_without_voices_the_command_that_fetches_them_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOICED_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match=r"python -m voiced_train\.synthesize fetch"):
        wake_train.ready_voices()


def test_what_is_kept_lies_where_the_models_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VOICED_CACHE", "CACHE_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert (voices.cache_folder(), wake_train.default_cache()) == (Path("/x/voiced/voices"), Path("/x/voiced/wake"))
    monkeypatch.setenv("VOICED_CACHE", "/own")
    assert (voices.cache_folder(), wake_train.default_cache()) == (Path("/own/voices"), Path("/own/wake"))


def test_ones_own_recordings_are_split_by_name_and_a_silent_one_is_named(tmp_path: Path, wav: Callable[[Path, NDArray[Any]], None]) -> None:
    with pytest.raises(InputError, match="has no recording"):
        wake_train.own_recordings(tmp_path, "train")
    start, end = PHRASES[0]
    phrase = sound(SAMPLE)[start - 1600 : end + 1600]
    for at in range(30):
        wav(tmp_path / f"{at}.wav", phrase)
    parts = [wake_train.own_recordings(tmp_path, where) for where in ("train", "dev", "test")]
    assert sum(map(len, parts)) == 30
    assert all(parts)
    wav(tmp_path / "quiet.wav", np.zeros(16_000, np.int16))
    with pytest.raises(InputError, match=r"quiet\.wav: nothing is said in it"):
        for where in ("train", "dev", "test"):
            wake_train.own_recordings(tmp_path, where)


@pytest.fixture
def wav() -> Callable[[Path, NDArray[Any]], None]:
    import soundfile

    return lambda path, samples: soundfile.write(path, samples, 16_000)
