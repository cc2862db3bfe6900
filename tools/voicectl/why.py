"""`voicectl why`: what each wake, each refusal and each near miss was decided by.

What lives here: the table and the advice. What must not: D-Bus (voiced.api has a client), the decision itself.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from .client import connect

WHAT = {"Wake": "wake", "WakeRefused": "refused", "NearMiss": "near miss"}

WITHIN = 0.25
"""A score that missed by more is that of another word, or of one said in a noise: no threshold would mend it."""

SECOND_STAGE = {
    "evidence": "wake.verify_evidence",
    "verify": "wake.verify_threshold",
    "sustained": "wake.verify_hops",
    "speech": "wake.verify_speech",
}
"""The knob that holds the limit, by what was reckoned."""


async def why(options: argparse.Namespace) -> int:
    """0, also where nothing was decided yet."""
    async with connect(options) as client:
        decisions = await client.explain(options.lane, options.limit)
        lanes = (await client.status())["lanes"]
    phrases = {lane["name"]: lane["phrases"] for lane in lanes}
    if options.json:
        for one in decisions:
            print(json.dumps(one | {"advice": advice(one, phrases[one["lane"]])}, ensure_ascii=False))
        return 0
    for one in decisions:
        print(row(one, several=len(lanes) > 1))
        if said := advice(one, phrases[one["lane"]]):
            print(f"          {said}")
    if not decisions:
        print("nothing has come near a wake phrase yet")
    return 0


def row(one: Mapping[str, Any], *, several: bool) -> str:
    """When, what, which phrase, and each number beside the limit it was held against."""
    at = datetime.fromtimestamp(one["realtime_us"] / 1e6).strftime("%H:%M:%S")
    lane = f"{one['lane']:<10} " if several else ""
    phrase = one.get("phrase") or "a client asked"
    return f"{at}  {lane}{WHAT.get(one['event'], one['event']):<9}  {phrase:<16}  {', '.join(measured(one))}".rstrip()


def measured(one: Mapping[str, Any]) -> list[str]:
    """`stage1 0.86 of 0.9` for each number that has a limit; the others alone."""
    scores = one.get("scores") or {}
    return [
        f"{name} {value:.3g} of {scores[f'{name}_threshold']:.3g}" if f"{name}_threshold" in scores else f"{name} {value:.3g}"
        for name, value in scores.items()
        if not name.endswith("_threshold")
    ]


def advice(one: Mapping[str, Any], phrases: Sequence[str]) -> str:
    """What would have made a wake of it, where something plain would; else empty."""
    scores, phrase = one.get("scores") or {}, one.get("phrase", "")
    if one["event"] == "WakeRefused":
        short = [name for name in SECOND_STAGE if scores.get(name, 0) < scores.get(f"{name}_threshold", 0)]
        limits = ", ".join(f"{_knob(name, phrase, phrases)} (it was {scores[name]:.3g})" for name in short)
        return f"if that was the phrase: lower {limits}" if short else ""
    if one["event"] != "NearMiss" or phrase not in phrases:
        return ""
    knob = _entry(phrase, phrases)
    if one["margin"] >= 0:
        return f"high enough, for too short a time; if that was the phrase: lower {knob}.hops"
    if one["margin"] < -WITHIN:
        return ""
    # down to two places, so that it is below the score
    below = int(scores["stage1"] * 100) / 100
    return f"missed by {-one['margin']:.2f}; if that was the phrase: lower {knob}.threshold to {below:.2f}"


def _knob(name: str, phrase: str, phrases: Sequence[str]) -> str:
    """The phrase's own where it may have one: it holds whatever the section says."""
    return f"{_entry(phrase, phrases)}.verify_evidence" if name == "evidence" and phrase in phrases else SECOND_STAGE[name]


def _entry(phrase: str, phrases: Sequence[str]) -> str:
    return f"wake.phrases[{phrases.index(phrase)}]"
