"""Segments of speech: the streaming form, the form for a whole track, and the four rules written down once more, slowly."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from voiced.errors import ConfigError
from voiced.segments import Hysteresis, Segment, Segmenter, SegmentRules, segments
from voiced.settings import parse

HOP = 512


def oracle(track: list[float], rules: SegmentRules, hop: int) -> list[Segment]:
    """The four rules, one after the other, on one flag a sample."""
    speaking, flags = False, []
    for probability in track:  # 1: hysteresis
        speaking = probability >= rules.off if speaking else probability >= rules.on
        flags += [speaking] * hop
    total = len(flags)
    for first, end in runs(flags, False):  # 2: bridge pauses that speech surrounds
        if first > 0 and end < total and end - first < rules.min_silence:
            flags[first:end] = [True] * (end - first)
    for first, end in runs(flags, True):  # 3: drop bursts
        if end - first < rules.min_speech:
            flags[first:end] = [False] * (end - first)
    padded = [False] * total
    for first, end in runs(flags, True):  # 4: pad; what overlaps or touches is one run of flags
        wide = range(max(0, first - rules.pad), min(total, end + rules.pad))
        padded[wide.start : wide.stop] = [True] * len(wide)
    return runs(padded, True)


def runs(flags: list[bool], wanted: bool) -> list[Segment]:
    found: list[Segment] = []
    for at, flag in enumerate(flags):
        if flag is wanted:
            if found and found[-1][1] == at:
                found[-1] = (found[-1][0], at + 1)
            else:
                found.append((at, at + 1))
    return found


def streamed(track: list[float], rules: SegmentRules, hop: int) -> list[Segment]:
    segmenter = Segmenter(rules, hop)
    return [segment for probability in track for segment in segmenter.step(probability)] + segmenter.finish()


@st.composite
def rule_sets(draw: st.DrawFn) -> SegmentRules:
    """Lengths around the hop (4): below, at, between and above its multiples; off close to on, and at its least."""
    on = draw(st.sampled_from([0.02, 0.5, 0.9, 1.0]))
    off = draw(st.sampled_from([0.01, on * 0.6 if on * 0.6 >= 0.01 else 0.01, on - 1e-9]))
    length = st.one_of(st.just(0), st.integers(0, 25))
    return SegmentRules(on, off, draw(length), draw(length), draw(length))


# whole windows of speech and silence more often than a fair coin gives them, so that bridges and bursts happen
tracks = st.lists(
    st.tuples(st.sampled_from([0.0, 0.0, 0.01, 0.3, 0.49, 0.5, 0.5, 0.55, 0.89, 0.9, 1.0, 1.0]), st.integers(1, 6)), max_size=25
).map(lambda pairs: [probability for probability, times in pairs for _ in range(times)])


@given(tracks, rule_sets())
@example([1.0, 0.0, 1.0], SegmentRules(0.5, 0.3, 0, 0, 0))
@example([1.0, 0.0, 1.0], SegmentRules(0.5, 0.3, 0, 0, 2))  # padded segments that only touch
@example([1.0, 0.0, 0.0, 1.0, 0.0, 1.0], SegmentRules(0.5, 0.3, 8, 5, 1))
def test_streaming_is_offline_is_the_rules(track: list[float], rules: SegmentRules) -> None:
    offline = segments(track, rules, 4)
    assert offline == oracle(track, rules, 4)
    assert streamed(track, rules, 4) == offline


@given(tracks, rule_sets())
def test_segments_lie_apart_within_the_track_and_in_order(track: list[float], rules: SegmentRules) -> None:
    found = segments(track, rules, 4)
    borders = [border for segment in found for border in segment]
    assert borders == sorted(set(borders))  # strictly ascending: none is empty, none touches the next
    if found:
        assert borders[0] >= 0
        assert borders[-1] <= 4 * len(track)


@given(tracks, rule_sets())
def test_a_segment_is_told_once_and_never_taken_back(track: list[float], rules: SegmentRules) -> None:
    """What has been told after any number of windows is the beginning of the whole truth."""
    segmenter = Segmenter(rules, 4)
    whole = segments(track, rules, 4)
    told: list[Segment] = []
    for at, probability in enumerate(track, 1):
        told += segmenter.step(probability)
        assert told == whole[: len(told)]
        assert all(end <= 4 * at for _, end in told)


@given(tracks, tracks, rule_sets())
def test_after_finish_it_is_as_new(before: list[float], track: list[float], rules: SegmentRules) -> None:
    segmenter = Segmenter(rules, 4)
    for probability in before:
        segmenter.step(probability)
    segmenter.finish()
    assert [s for p in track for s in segmenter.step(p)] + segmenter.finish() == segments(track, rules, 4)


def test_a_segment_is_told_as_soon_as_nothing_can_change_it() -> None:
    """Speech of two windows, a silence of 1,024 samples and a pad of 512: after the third silent window nothing can touch it."""
    segmenter = Segmenter(SegmentRules(0.5, 0.35, 1024, 0, 512), HOP)
    told_at = [at for at, probability in enumerate([1, 1, 0, 0, 0, 0, 0], 1) if segmenter.step(probability)]
    assert told_at == [5]


@pytest.mark.parametrize(
    ("track", "rules", "expected"),
    [
        pytest.param([0.4, 0.5, 0.36, 0.34], SegmentRules(0.5, 0.35, 0, 0, 0), [(512, 1536)], id="begins at on, ends below off"),
        pytest.param([1, 0, 0, 1], SegmentRules(0.5, 0.35, 1025, 0, 0), [(0, 2048)], id="a pause shorter than the least is bridged"),
        pytest.param([1, 0, 0, 1], SegmentRules(0.5, 0.35, 1024, 0, 0), [(0, 512), (1536, 2048)], id="a pause as long is not"),
        pytest.param([1, 0, 0, 1, 1], SegmentRules(0.5, 0.35, 0, 1024, 0), [(1536, 2560)], id="a burst shorter than the least is dropped"),
        pytest.param([1, 0, 1, 0, 0, 0], SegmentRules(0.5, 0.35, 513, 1536, 0), [(0, 1536)], id="bridging comes before dropping"),
        pytest.param([0, 1, 0], SegmentRules(0.5, 0.35, 0, 600, 600), [], id="padding comes after dropping"),
        pytest.param([1, 0, 0, 1], SegmentRules(0.5, 0.35, 0, 0, 512), [(0, 2048)], id="padded ends that touch are one segment"),
        pytest.param([0, 1, 0], SegmentRules(0.5, 0.35, 0, 0, 9999), [(0, 1536)], id="the pad stays within the track"),
        pytest.param([], SegmentRules(0.5, 0.35, 0, 0, 100), [], id="nothing"),
    ],
)
def test_the_rules_at_their_borders(track: list[float], rules: SegmentRules, expected: list[Segment]) -> None:
    assert segments(track, rules, HOP) == expected
    assert streamed(track, rules, HOP) == expected


@pytest.mark.parametrize("rules", [(0.5, 0.5, 0, 0, 0), (0.5, 0.6, 0, 0, 0), (0.1, 0.0, 0, 0, 0), (1.1, 0.5, 0, 0, 0)])
def test_speech_that_could_never_end_is_refused(rules: tuple[float, float, int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"segments want 0\.01 <= off < on <= 1; got off"):
        SegmentRules(*rules)


@pytest.mark.parametrize("lengths", [(-1, 0, 0), (0, -1, 0), (0, 0, -1)])
def test_negative_lengths_are_refused(lengths: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="at least 0 samples"):
        SegmentRules(0.5, 0.35, *lengths)


def test_reset_forgets_the_speech_that_was_going_on() -> None:
    gate = Hysteresis(0.5, 0.35)
    assert gate.step(0.6)
    assert gate.step(0.4)
    gate.reset()
    assert not gate.step(0.4)


@given(rule_sets())
def test_whatever_the_thresholds_speech_is_left_in_silence(rules: SegmentRules) -> None:
    """C8: an `off` that no silence goes below would keep the turn open for ever."""
    gate = Hysteresis(rules.on, rules.off)
    assert gate.step(1.0)
    assert not gate.step(0.009)


@pytest.mark.parametrize(
    ("text", "must"),
    [
        ("vad:\n  on: 0.1", "f:2: vad.on: vad.off must be less than vad.on; got 0.35, 0.1; default 0.35, 0.5"),
        ("vad:\n  off: 0.005", "f:2: vad.off: must be a number from 0.01 to 0.99; got 0.005; default 0.35"),
    ],
)
def test_settings_that_would_keep_it_are_refused(text: str, must: str) -> None:
    """C8."""
    with pytest.raises(ConfigError) as caught:
        parse(text, "f")
    assert caught.value.lines == (must,)
