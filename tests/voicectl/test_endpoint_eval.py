"""voicectl endpoint eval: queries, tapes and replays by hand, a replay against the whole pipeline, and a run on the sample's two turns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from livedaemon import SAMPLE
from sounds import noise, to_int16
from voicectl.__main__ import main
from voicectl.evaluation import endpoint_figures, endpoint_points, endpoint_queries, endpoint_report, endpoint_run
from voicectl.evaluation.endpoint_figures import Heard, Point
from voicectl.evaluation.endpoint_queries import Query, between_words, with_pause
from voicectl.evaluation.endpoint_replay import OPEN, Outcome, replay
from voicectl.evaluation.endpoint_tape import FIRST, Answer, Library, Stages, Tape
from voicectl.evaluation.sounds import VAD_HOP, quiet_around
from voiced.api import CatchingUp, Settings, SpeechProbability, UsageError, Words, defaults, runtime_directory
from voiced.api import Library as Models

TURNS = {"lights": (30_480, 54_480, "Turn on the lights in the kitchen."), "clock": (167_760, 181_840, "What time is it?")}
"""Where each turn's speech begins and ends, as sample.json has it, and its words."""

MS = 16
"""Samples."""

# ── queries ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def spoken(seconds: float = 2.0) -> Query:
    """Four loud words of noise, a fifth of a second each, with 60 ms of faint noise between them."""
    rng = noise(int(seconds * 16_000), "white") * 0.001
    loud = noise(16_000, "white", 1) * 0.2
    starts = [4800 + at * 260 * MS for at in range(4)]
    for start in starts:
        rng[start : start + 200 * MS] = loud[: 200 * MS]
    end = starts[-1] + 200 * MS
    return Query("q", "commands", "one two three four", to_int16(rng), 4800, end, "ear")


WORDS = Words(20_000, "one two three four", word_first=(4800 + 800, 8960 + 800, 13_120 + 800, 17_280 + 800))
"""What a recognizer says of it: each word 50 ms after its sound began."""


def test_a_pause_is_put_between_two_words_of_the_middle() -> None:
    query = spoken()
    place = between_words(query, WORDS)
    assert place is not None
    gaps = [(4800 + at * 260 * MS - 60 * MS, 4800 + at * 260 * MS) for at in (1, 2, 3)]
    assert any(start <= place <= end for start, end in gaps)


@given(st.sampled_from(endpoint_queries.PAUSES_MS), st.integers(0, 3))
def test_a_pause_moves_the_end_and_nothing_else(pause_ms: int, seed: int) -> None:
    """CASES E3, E12: what the cut-off rates are measured on."""
    query = spoken()
    made = with_pause(query, WORDS, pause_ms, (seed,))
    assert made is not None
    assert made.pause is not None
    first, last = made.pause
    assert last - first == pause_ms * MS
    gap = pause_ms * MS - (made.end - query.end)  # what the speaker's own has of it
    assert 50 * MS <= gap <= 60 * MS
    assert np.array_equal(made.samples[:first], query.samples[:first])
    assert np.array_equal(made.samples[last:], query.samples[first + gap :])
    assert np.abs(made.samples[first:last]).max() < 1000  # the room's own quiet, far below the words


def test_a_longer_pause_than_was_asked_for_is_not_made_shorter() -> None:
    query = spoken()
    gap = 8960 - 60 * MS  # before the second word
    slow = replace(query, samples=np.insert(query.samples, gap, query.samples[: 300 * MS] // 4), end=query.end + 300 * MS)
    words = Words(20_000, "one two three four", word_first=tuple(at + 300 * MS for at in WORDS.word_first))
    first, last = quiet_around(slow.samples, gap + 100 * MS)
    assert 350 * MS <= last - first <= 360 * MS
    assert with_pause(slow, words, 300, (0,)) is None
    made = with_pause(slow, words, 500, (0,))
    assert made is not None
    assert made.pause == (first, first + 500 * MS)


def test_too_few_words_have_no_middle() -> None:
    assert with_pause(spoken(), Words(20_000, "one two", word_first=(1, 2)), 500, (0,)) is None


def test_a_synthesizers_query_keeps_its_end_and_its_pause(tmp_path: Path) -> None:
    samples = to_int16(noise(48_000, "white") * 0.1)
    soundfile.write(tmp_path / "a.wav", samples, 16_000)
    line: dict[str, Any] = {
        "path": "a.wav", "role": "synthetic", "text": "turn it on", "shape": "pause", "speech": [8000, 40_000],
        "pauses": [[16_000, 24_160]],
    }  # fmt: skip
    lines = [line, {**line, "complete": False}, {**line, "speech": [1]}]
    (tmp_path / "manifest.jsonl").write_text("\n".join(map(json.dumps, lines)))
    left_out: list[Any] = []
    ((clip, make),) = endpoint_queries.synthetic(tmp_path / "manifest.jsonl", left_out.append, 0)
    query = make()
    assert (clip.set, query.ends_by, query.pause_ms, query.own_pause_ms) == ("synthetic", "synthesizer", 500, 510)
    assert (query.start, query.end, query.pause) == (4800, 36_800, (12_800, 20_960))
    assert len(query.samples) == query.end + 48_000
    assert np.array_equal(query.samples[:44_800], samples[3200:])
    assert len(left_out) == 1


# ── replays by hand ────────────────────────────────────────────────────────────────────────────────────────────────────


class Written:
    """Answers as a test writes them, in the place of a Library of tapes."""

    def __init__(self, second_ms: float = 100.0, score: float = 0.0, foresee_ms: float = 0.0) -> None:
        self.second_ms, self.probability, self.foresee_ms = second_ms, score, foresee_ms
        self.asked: list[tuple[int, int]] = []

    def first_pass(self, tape: Tape, samples: object, last: int) -> Words:
        said = [fact for fact in tape.facts if isinstance(fact, Words) and fact.sample <= last]
        return tape.whole if last >= tape.settled else said[-1] if said else Words(0, "")

    def foresee(self, tape: Tape, samples: object, first: int, last: int) -> tuple[Words, float]:
        """A token 150 ms ahead, where a test says what it costs; else none."""
        return Words(last, "turn it on", last + 150 * MS if self.foresee_ms else None, -1.0), self.foresee_ms

    def catching_up(self, late: int, foreseen: Words) -> CatchingUp:
        return CatchingUp(late, 320 * MS if foreseen.end_token else 0, 2 * 5120)

    def second_pass(self, tape: Tape, samples: object, first: int, last: int) -> Answer:
        self.asked.append((first, last))
        return Answer("Turn it on.", self.second_ms)

    def score(self, tape: Tape, samples: object, first: int, last: int) -> Answer:
        return Answer(self.probability, 50.0)


def library(**answers: float) -> Library:
    return cast(Library, Written(**answers))


HOP_MS = 32


def tape(speech_ms: list[tuple[int, int]], words: list[Words], last_ms: int = 6000) -> Tape:
    """Speech in whole windows of 32 ms; the recognizer's chunks take 20 ms, its tail 10."""

    def probability(end_ms: int) -> float:
        return 1.0 if any(start < end_ms <= end for start, end in speech_ms) else 0.0

    facts: list[SpeechProbability | Words] = [
        SpeechProbability(at * VAD_HOP, probability(at * HOP_MS)) for at in range(1, last_ms // HOP_MS + 1)
    ]
    facts = sorted([*facts, *words], key=lambda fact: fact.sample)
    whole = words[-1] if words else Words(0, "")
    return Tape(tuple(facts), last_ms // HOP_MS * VAD_HOP, {word.sample: 20.0 for word in words}, whole, 10.0)


def said(at_ms: int, text: str, token_ms: int | None = None, log_probability: float = -0.1) -> Words:
    count = len(text.split())
    return Words(
        at_ms * MS, text, None if token_ms is None else token_ms * MS, log_probability, last_word=(at_ms - 300) * MS if text else None,
        heard=at_ms * MS, word_first=tuple(range(count)),
    )  # fmt: skip


def query(end_ms: int, pause_ms: int = 0) -> Query:
    return Query("q", "commands", "turn it on", np.zeros(6000 * MS, np.int16), 320 * MS, end_ms * MS, "ear", pause_ms)


SPOKEN = tape([(320, 1280)], [said(960, "turn it"), said(1600, "turn it on", 1280)])
"""Speech from 0.32 to 1.28 s; the last word and its end token are there 0.32 s later."""


def test_silence_alone_closes_after_so_much_of_it() -> None:
    outcome = replay(endpoint_points.by_silence(defaults(), 700), library(), query(1280), SPOKEN)
    assert (outcome.reason, outcome.cut) == ("silence", False)
    assert outcome.closed == 1984 * MS  # 700 ms after 1,280 lie in the window that ends here
    assert outcome.endpoint_ms == 704 + 10
    assert (outcome.first_pass, outcome.final) == ("turn it on", "Turn it on.")


def test_the_end_token_closes_at_once_and_pays_for_its_chunk() -> None:
    outcome = replay(endpoint_points.by_token(defaults()), library(), query(1280), SPOKEN)
    assert (outcome.reason, outcome.closed) == ("end token", 1600 * MS)
    assert outcome.endpoint_ms == 320 + 20 + 10


@pytest.mark.parametrize(("foresee_ms", "endpoint_ms"), [(100.0, 256), (400.0, 64 + 400)])
def test_a_foreseen_token_closes_after_its_silence_or_when_it_is_known(foresee_ms: float, endpoint_ms: float) -> None:
    """The last chunk, which would bring the token, has not come by then; the last words are known, so that nothing is flushed."""
    outcome = replay(endpoint_points.by_token(defaults(), foreseen_silence_ms=240.0), library(foresee_ms=foresee_ms), query(1280), SPOKEN)
    assert (outcome.rule, outcome.closed) == ("foreseen_token", 1536 * MS)  # 240 ms after the speech, in the window that ends here
    assert outcome.endpoint_ms == endpoint_ms


def test_nothing_closes_a_turn_that_is_never_to_be_cut() -> None:
    outcome = replay(endpoint_points.never(defaults()), library(), query(1280), SPOKEN)
    assert (outcome.reason, outcome.cut, outcome.first_pass) == (OPEN, False, "turn it on")


def test_a_second_pass_that_began_early_costs_nothing_at_the_end() -> None:
    """It begins at the likely end, 64 ms after the speech, and is done long before the silence is."""
    settings = endpoint_points.by_silence(defaults(), 700)
    hidden = replay(settings, library(second_ms=600.0), query(1280), SPOKEN)
    assert hidden.likely_ms == 64
    assert (hidden.attempts, hidden.wasted, hidden.wait_ms) == (1, 0, 0)
    late = replay(settings, library(second_ms=800.0), query(1280), SPOKEN)
    assert late.final_ms == 64 + 800
    patient = replace(settings, second_pass=replace(settings.second_pass, speculative=False))
    assert replay(patient, library(second_ms=600.0), query(1280), SPOKEN).wait_ms == 600


def test_a_rewrite_is_wasted_where_the_speaker_goes_on() -> None:
    paused = tape([(320, 1280), (1600, 2240)], [said(960, "turn it"), said(2560, "turn it on")])
    outcome = replay(endpoint_points.by_silence(defaults(), 700), library(), query(2240), paused)
    assert (outcome.cut, outcome.attempts, outcome.wasted) == (False, 2, 1)
    assert outcome.second_pass_ms == 200


def test_a_pause_that_is_longer_than_the_rule_cuts_off() -> None:
    """CASES E3, E12."""
    paused = tape([(320, 1280), (2240, 2880)], [said(960, "turn it"), said(3200, "turn it on")])
    cut = replay(endpoint_points.by_silence(defaults(), 700), library(), query(2880, 960), paused)
    assert (cut.cut, cut.first_pass) == (True, "turn it")
    assert not replay(endpoint_points.by_silence(defaults(), 1200), library(), query(2880, 960), paused).cut


def test_a_turn_detector_closes_where_it_is_sure() -> None:
    settings = endpoint_points.by_detector(defaults())
    outcome = replay(settings, library(score=0.9), query(1280), tape([(320, 1280)], [said(1344, "turn it on")]))
    assert (outcome.reason, outcome.closed) == ("turn detector", 1504 * MS)  # asked 200 ms after the speech, in the window that ends here
    assert outcome.endpoint_ms == 224 + 10 + 50
    assert replay(settings, library(score=0.1), query(1280), SPOKEN).reason == OPEN


def test_without_texts_the_end_is_the_same_and_nobody_is_asked() -> None:
    for settings in (defaults(), endpoint_points.by_token(defaults()), endpoint_points.by_silence(defaults(), 500)):
        written = Written()
        quick = replay(settings, cast(Library, written), query(1280), SPOKEN, texts=False)
        full = replay(settings, library(), query(1280), SPOKEN)
        assert (quick.reason, quick.closed, quick.endpoint_ms) == (full.reason, full.closed, full.endpoint_ms)
        assert (quick.final, written.asked) == ("", [])


# ── figures ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def outcome(**values: Any) -> Outcome:
    usual: dict[str, Any] = {
        "reason": "silence", "rule": "silence", "closed": 1, "cut": False, "likely_ms": 64.0, "endpoint_ms": 700.0, "final_ms": 710.0,
        "wait_ms": 10.0, "first_pass": "turn it on", "second_pass": "Turn it on.", "final": "Turn it on.", "attempts": 1, "wasted": 0,
        "second_pass_ms": 100.0,
    }  # fmt: skip
    return Outcome(**{**usual, **values})


def test_figures_by_hand() -> None:
    """Four queries as they are, one of them cut after two of three words; two with a pause, one cut; one spelled."""
    as_it_is, paused = Heard(query(1280), SPOKEN), Heard(replace(query(1280, 500), pause=(0, 500 * MS)), SPOKEN)
    heard = [as_it_is] * 4 + [paused] * 2 + [Heard(replace(query(1280), set="spelled", text=None), SPOKEN)]
    cut = outcome(cut=True, first_pass="turn it", final="Turn it.", endpoint_ms=-300.0)
    found = [outcome(), outcome(endpoint_ms=500.0, final_ms=560.0, wait_ms=60.0), outcome(reason=OPEN), cut, cut, outcome(), outcome()]
    never = [outcome(reason=OPEN)] * 7
    row = endpoint_figures.figures("p", heard, found, never, seed=0)
    assert row.queries == 4
    assert row.cut is not None
    assert row.open is not None
    assert row.spelled is not None
    assert (row.cut.value, row.open.value, row.spelled.value, row.pauses[500].value) == (0.25, 0.25, 0, 0.5)
    assert row.endpoint is not None
    assert (row.endpoint.median_ms, row.endpoint.clips) == (600, 2)
    assert row.hidden is not None
    assert row.hidden.value == 0.5
    assert row.lost_first == row.lost_final == pytest.approx(1 / 12)
    assert endpoint_report.misses(row) == ["median", "p90", "cut-offs", "pauses", "words"]


def test_a_turn_that_closed_before_its_pause_was_not_cut_by_it() -> None:
    first, last = 600 * MS, 1100 * MS
    closed = [first - 1, last - 1, last + 300 * MS, last + 1300 * MS]
    heard = [Heard(replace(query(2000, 500), pause=(first, last)), SPOKEN)] * 4
    found = [outcome(closed=at, cut=at < last + 1300 * MS) for at in closed]
    rate = endpoint_figures.figures("p", heard, found, None, 0).pauses[500]
    assert (rate.part, rate.whole) == (1, 3)


def test_what_reaches_the_aims_misses_nothing() -> None:
    heard = [Heard(query(1280), SPOKEN), Heard(replace(query(1280, 500), pause=(0, 500 * MS)), SPOKEN)]
    quick = [outcome(endpoint_ms=250.0, final_ms=260.0)] * 2
    assert endpoint_report.misses(endpoint_figures.figures("p", heard, quick, [outcome(reason=OPEN)] * 2, seed=0)) == []


# ── with the real models ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def models() -> Models:
    from voiced.api import default_library

    return default_library()


@pytest.fixture(scope="module")
def runtime_dir() -> Iterator[Path]:
    with runtime_directory() as runtime:
        yield runtime


@pytest.fixture(scope="module")
def stages(models: Models, runtime_dir: Path) -> Stages:
    return endpoint_run.stages(defaults(), models, runtime_dir)


@pytest.fixture(scope="module")
def turns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the sample's two turns."""
    folder = tmp_path_factory.mktemp("turns")
    lines = []
    for name, (start, end, text) in TURNS.items():
        samples, rate = soundfile.read(SAMPLE, dtype="int16", start=start - 1600, stop=end + 4000)
        soundfile.write(folder / f"{name}.flac", samples, rate)
        seconds = len(samples) / rate
        lines.append({"path": f"{name}.flac", "role": "command", "source": "sample", "seconds": seconds, "text": text})
    (folder / "manifest.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


def test_the_replay_is_what_the_whole_pipeline_does(stages: Stages, models: Models, runtime_dir: Path, turns: Path, tmp_path: Path) -> None:
    """Of the two turns, and of one with a pause: reason, position and both texts."""
    tapes = Library(stages, tmp_path)
    asked = endpoint_run.Asked(turns, None, (), frozenset(), None, 0, 0)
    heard = endpoint_run.gather(asked, tapes, lambda *_: None, [])
    paused = with_pause(heard[1].query, heard[1].tape.whole, 500, (0,))
    assert paused is not None
    heard.append(Heard(paused, tapes.tape(paused.samples)))
    assert [one.query.pause_ms for one in heard] == [0, 0, 500]
    assert endpoint_run.check(defaults(), models, runtime_dir, heard, tapes) == []
    assert [replay(defaults(), tapes, one.query, one.tape).cut for one in heard[:2]] == [False, False]
    for one in heard[:2]:
        tapes.keep(one.query.samples, one.tape)
        again = tapes.tape(one.query.samples)
        assert again == one.tape  # from disk, with its answers
        assert again.second_passes
    assert len(list(tmp_path.glob("*.json"))) == len(heard)


def test_a_turn_detector_ends_the_same_turns_in_the_whole_pipeline(
    stages: Stages, models: Models, runtime_dir: Path, turns: Path, tmp_path: Path
) -> None:
    """Asked by the machine's order at 0.2 s of silence, of the turn's own sound."""
    if not endpoint_run.has_detector(models):
        pytest.skip("the turn detector is optional: voicectl models fetch smart-turn")
    tapes = Library(stages, tmp_path)
    heard = endpoint_run.gather(endpoint_run.Asked(turns, None, (), frozenset(), None, 0, 0), tapes, lambda *_: None, [])
    settings = endpoint_points.by_silence(defaults(), 700, turn_detector="smart-turn")
    assert [replay(settings, tapes, one.query, one.tape).reason for one in heard] == ["turn detector", "turn detector"]
    assert endpoint_run.check(settings, models, runtime_dir, heard, tapes) == []


def test_a_damaged_tape_is_made_anew(stages: Stages, turns: Path, tmp_path: Path) -> None:
    samples, _ = soundfile.read(turns / "clock.flac", dtype="int16")
    tapes = Library(stages, tmp_path)
    tape = tapes.tape(samples)
    (file,) = tmp_path.glob("*.json")
    file.write_text(file.read_text()[:1000])
    assert tapes.tape(samples).facts == tape.facts
    assert tape.facts[0].sample == FIRST - FIRST % VAD_HOP + VAD_HOP
    assert tapes.first_pass(tape, samples, tape.samples).text == tape.whole.text
    early = tapes.first_pass(tape, samples, 8192)
    assert len(early.text.split()) < len(tape.whole.text.split())


@pytest.mark.slow
def test_the_whole_command(
    models: Models, turns: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models").symlink_to(models.cache)
    monkeypatch.setenv("VOICED_CACHE", str(tmp_path))
    command = ["endpoint", "eval", "--data", str(turns), "--paused", "1", "--check", "1"]
    assert main([*command, "--json"]) == 0
    assert list((tmp_path / "endpoint").glob("*.json"))
    answer = json.loads(capsys.readouterr().out)
    rows = {row["point"]: row for row in answer["figures"]}
    assert {"never cut", "silence 700 ms", "K3 application", "end token alone", "balanced", "as configured"} <= set(rows)
    assert rows["as configured"]["cut"]["value"] == 0
    assert rows["never cut"]["open"]["value"] == 1
    assert rows["silence 700 ms"]["endpoint"]["median_ms"] > 700
    assert rows["as configured"]["pauses"].keys() == {str(ms) for ms in endpoint_queries.PAUSES_MS}
    assert (answer["checked"], answer["different"]) == (1, [])
    curve = [row["endpoint"]["median_ms"] for row in answer["curves"] if row["curve"] == "silence alone"]
    assert curve == sorted(curve)
    assert main(command) == 0
    told = capsys.readouterr().out
    assert "cut at a pause of 500 ms" in told
    assert "Checked: 1 of 1 queries end the same in the whole pipeline." in told


# ── refusals ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["eval"], 2, "wants turns to judge by; give --data DIR or --synthetic FILE\n"),
        (["tune"], 2, "wants turns to judge by; give --data DIR, --synthetic FILE, or recordings to tune by\n"),
        (["eval", "--ends"], 2, "--ends: wants ends that are known; give --synthetic FILE"),
        (["eval", "--data", "x", "--limit", "0"], 2, "--limit: must be a number of recordings from 1, got 0"),
        (["eval", "--data", "x", "--check", "-1"], 2, "--check"),
        (["eval", "--data", "/nowhere"], 65, "/nowhere/manifest.jsonl: cannot be read"),
        (["tune", "--data", "x", "--config", "/nowhere.yaml"], 78, "/nowhere.yaml: cannot be read"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(options: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["endpoint", *options]) == code
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_a_budget_is_a_share(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["endpoint", "tune", "--data", "x", "--cutoff-budget", "lots"])
    assert left.value.code == 2
    assert "must be a share such as 5% or 0.05; got 'lots'" in capsys.readouterr().err


def test_no_picture_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"--picture: is drawn with matplotlib, which is not installed; .*, or leave --picture out"):
        endpoint_report.can_draw()


def test_a_picture_is_a_png(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    heard = [Heard(query(1280), SPOKEN), Heard(query(1280, 500), SPOKEN)]
    found = [outcome()] * 2
    row = endpoint_figures.figures("as configured", heard, found, found, seed=0)
    point = Point("as configured", defaults(), "silence alone")
    report = endpoint_report.Report("x", heard, [point], [row], {"as configured": found}, {}, [(point, row)], [], 0, [], 0)
    endpoint_report.draw(tmp_path / "curve", report)
    assert (tmp_path / "curve").read_bytes().startswith(b"\x89PNG")


# ── points ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_points_are_named_once_and_leave_the_rest_alone() -> None:
    for points in (endpoint_points.compared(defaults(), detector=True), endpoint_points.swept(defaults(), detector=True)):
        listed = list(points)
        assert len({point.name for point in listed}) == len(listed)
        assert all(_without_ends(point.settings) == _without_ends(defaults()) for point in listed)


def _without_ends(settings: Settings) -> Settings:
    return replace(settings, endpoint=defaults().endpoint, transducer=replace(settings.transducer, end_token=True))
