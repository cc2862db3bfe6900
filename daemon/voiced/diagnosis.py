"""What the figures of a microphone mean: findings in plain words, with what to do.

What lives here: limits, and the words for what is beyond them. What must not: how the figures came about (soundcheck.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from .soundcheck import SILENCE_DBFS, Channel, Measures
from .units import RATE, counted


class Grade(Enum):
    """`WARN`: it works, and would work better otherwise. `FAIL`: voiced cannot do its work with it."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    name     what: rate, level, channels, clipping, dc, hum, noise, speech, snr, clock, losses …
    found    in words, with its figure
    code     what is wrong, for a script; "" where nothing is
    advice   what to do; "" where nothing is to be done
    """

    name: str
    grade: Grade
    found: str
    code: str = ""
    advice: str = ""


CLIPPED, MUCH_CLIPPED = 1e-4, 5e-3
"""Part of the samples. A shout that clips some milliseconds does no harm; half a percent of them is distortion in every word."""

DC = 0.01
"""Of full scale: it costs headroom, and shifts what a gate takes for loud."""

HUM_DBFS = -60.0
NOISE_DBFS, MUCH_NOISE_DBFS = -45.0, -30.0
SPEECH_DBFS, FAINT_DBFS = -45.0, -60.0
"""Recall of the wake phrase falls below -50 dBFS; voiced's gate was built for speech down to -60."""

SNR_DB, LITTLE_SNR_DB = 15.0, 6.0

DRIFT_PPM, MUCH_DRIFT_PPM = 1000.0, 20_000.0
"""Cheap USB clocks are wrong by some hundred; two percent is another rate than the device says."""

LOST = 0.01

_LOUDER = "raise the capture volume (pactl set-source-volume, or alsamixer), come nearer, or take another microphone"
_SOFTER = "lower the capture volume (pactl set-source-volume, or alsamixer), and switch a boost off"


def findings(measures: Measures, channel: str = "auto") -> list[Finding]:
    """All of them, good and bad; `channel` is what the settings have: auto, mix or a number."""
    best = measures.channels[measures.best]
    found = [_rate(measures), _level(best), *_no_channel(measures, channel)]
    if best.dead:  # of nothing there is nothing more to say
        return [*found, _clock(measures), _losses(measures)]
    found += _channels(measures, channel)
    return [*found, _clipping(best), _dc(best), _hum(best), *_speech(best), _clock(measures), _losses(measures)]


def channel_to_hear(found: Sequence[Finding], channel: str) -> str:
    """What the settings should have: `channel` itself, or auto where one of the findings is against it."""
    return "auto" if {"no_channel", "wrong_channel", "mix_cancels"} & {one.code for one in found} else channel


def worst(found: list[Finding]) -> Grade:
    grades = {one.grade for one in found}
    return next((grade for grade in (Grade.FAIL, Grade.WARN) if grade in grades), Grade.OK)


def _rate(measures: Measures) -> Finding:
    count = len(measures.channels)
    form = f"{measures.rate:,} Hz, {counted(count, 'channel')}"
    if measures.rate >= RATE:
        return Finding("rate", Grade.OK, form if measures.rate == RATE else f"{form}; converted to {RATE:,} Hz")
    advice = "a headset: give it a profile with mSBC or LC3 (pactl set-card-profile); else take another microphone"
    return Finding(
        "rate", Grade.WARN, f"{form}: nothing above {measures.rate // 2:,} Hz is heard, and words less surely", "low_rate", advice
    )


def _level(best: Channel) -> Finding:
    if best.level <= SILENCE_DBFS:
        advice = "look for a mute switch on the microphone, a muted source (pactl get-source-mute), a headset that is not put on"
        return Finding("level", Grade.FAIL, "digital silence: nothing but zeros", "digital_silence", advice)
    if best.dead:
        what = f"too quiet: {best.level:.0f} dBFS, hardly more than a bit that flips"
        return Finding("level", Grade.FAIL, what, "too_quiet", f"a headset may give its microphone in another profile only; else {_LOUDER}")
    return Finding("level", Grade.OK, f"{best.level:.0f} dBFS, greatest {best.peak:.0f}")


def _is_missing(measures: Measures, channel: str) -> bool:
    return channel.isdecimal() and int(channel) >= len(measures.channels)


def _no_channel(measures: Measures, channel: str) -> Iterator[Finding]:
    if _is_missing(measures, channel):
        most = len(measures.channels) - 1
        there = f"channels 0 to {most}" if most else "channel 0 alone"
        what = f"the settings name channel {channel}, and the device gives {there}"
        yield Finding("channels", Grade.FAIL, what, "no_channel", f"channel: {measures.best}, or channel: auto")


def _channels(measures: Measures, channel: str) -> Iterator[Finding]:
    channels, best = measures.channels, measures.best
    if len(channels) == 1 or _is_missing(measures, channel):
        return
    dead = [at for at, one in enumerate(channels) if one.dead]
    levels = ", ".join(f"{at}: {one.level:.0f}" for at, one in enumerate(channels))
    if channel.isdecimal():
        mine = channels[int(channel)]
        if mine.dead or measures.channels[best].level > mine.level + 10:
            grade = Grade.FAIL if mine.dead else Grade.WARN
            what = f"the settings name channel {channel}, and the sound is on {best} (dBFS {levels})"
            yield Finding("channels", grade, what, "wrong_channel", f"channel: {best}, or channel: auto")
            return
    if channel == "mix" and (dead or measures.opposite):
        what = (
            "of opposite phase: their mean cancels the voice"
            if measures.opposite
            else f"dead ({_numbers(dead)}): the mean is softer for it"
        )
        yield Finding("channels", Grade.WARN, f"channels are {what} (dBFS {levels})", "mix_cancels", f"channel: {best}, or channel: auto")
        return
    beside = f"; dead: {_numbers(dead)}" if dead else ""
    beside += f"; of opposite phase: {_numbers(list(measures.opposite))}" if measures.opposite else ""
    yield Finding("channels", Grade.OK, f"{best} is the best{beside} (dBFS {levels})")


def _numbers(channels: list[int]) -> str:
    return ", ".join(map(str, channels))


def _clipping(best: Channel) -> Finding:
    if best.clipped <= CLIPPED:
        return Finding("clipping", Grade.OK, "none")
    grade = Grade.FAIL if best.clipped > MUCH_CLIPPED else Grade.WARN
    return Finding("clipping", grade, f"{100 * best.clipped:.2f} % of the samples are cut off at {best.peak:.0f} dBFS", "clipping", _SOFTER)


def _dc(best: Channel) -> Finding:
    found = f"{100 * abs(best.dc):.1f} % of full scale"
    if abs(best.dc) <= DC:
        return Finding("dc", Grade.OK, found)
    return Finding(
        "dc", Grade.WARN, found, "dc", "a constant voltage, mostly of a cheap sound card: it costs headroom; another card has none"
    )


def _hum(best: Channel) -> Finding:
    if not best.hum_hz or best.hum < HUM_DBFS:
        return Finding("hum", Grade.OK, f"{best.hum_hz} Hz at {best.hum:.0f} dBFS" if best.hum_hz else "none")
    advice = "the mains: another cable or socket, a supply away from the cable, a microphone on USB"
    return Finding("hum", Grade.WARN, f"{best.hum_hz} Hz and overtones at {best.hum:.0f} dBFS", "hum", advice)


def _speech(best: Channel) -> Iterator[Finding]:
    noise = f"{best.noise:.0f} dBFS"
    if best.noise <= NOISE_DBFS:
        yield Finding("noise", Grade.OK, noise)
    else:
        grade = Grade.FAIL if best.noise > MUCH_NOISE_DBFS else Grade.WARN
        yield Finding("noise", grade, noise, "noise", "a fan, a radio, or a boost that is switched on: away with it, or come nearer")
    if best.speech is None or best.snr is None:
        yield Finding("speech", Grade.WARN, "nobody spoke, or it was not heard", "no_speech", "say something while it listens")
        return
    grade = Grade.OK if best.speech >= SPEECH_DBFS else Grade.WARN if best.speech >= FAINT_DBFS else Grade.FAIL
    yield Finding("speech", grade, f"{best.speech:.0f} dBFS", *(("faint", _LOUDER) if grade is not Grade.OK else ()))
    grade = Grade.OK if best.snr >= SNR_DB else Grade.WARN if best.snr >= LITTLE_SNR_DB else Grade.FAIL
    yield Finding(
        "snr", grade, f"{best.snr:.0f} dB above the noise", *(("snr", "come nearer, or make it quieter") if grade is not Grade.OK else ())
    )


def _clock(measures: Measures) -> Finding:
    ppm, error = measures.drift_ppm, measures.drift_error_ppm
    if not math.isfinite(error) or abs(ppm) <= error:
        how = f"right to {max(abs(ppm), error):,.0f} ppm, as far as can be told" if math.isfinite(error) else "too short a time to tell"
        return Finding("clock", Grade.OK, how)
    found = f"{ppm:+,.0f} ppm against this machine's (± {error:,.0f})"
    sure = abs(ppm) - error
    if sure <= DRIFT_PPM:
        return Finding("clock", Grade.OK, found)
    advice = "the device gives another rate than it says, or loses sound: another cable, port or device"
    return Finding("clock", Grade.FAIL if sure > MUCH_DRIFT_PPM else Grade.WARN, found, "clock", advice)


def _losses(measures: Measures) -> Finding:
    if not measures.lost:
        return Finding("losses", Grade.OK, "none")
    grade = Grade.FAIL if measures.lost > LOST else Grade.WARN
    advice = "the machine is too busy, or a USB hub too slow: another port, fewer programs, cores for capture (placement)"
    return Finding("losses", grade, f"{100 * measures.lost:.2f} % of the sound", "losses", advice)
