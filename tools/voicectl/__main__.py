"""The command `voicectl`: arguments and exit codes. The commands themselves are in the other files of this package."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Any

from voiced.api import __version__, run_command

from . import (
    asr,
    client,
    cue,
    doctor,
    endpoint,
    guard,
    mic,
    mic_latency,
    mic_test,
    mic_wake,
    models,
    replay,
    selftest,
    stats,
    trace,
    turns,
    vad,
    wake,
    wake_check,
    why,
)

Verb = tuple[str, str, Callable[[argparse.Namespace], int], Callable[[argparse.ArgumentParser], None]]
"""A verb's name, what it does, what runs it, what adds its options."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0 yes, 1 "ran, and the answer is no", else as in voiced.errors; an error is one line on stderr."""

    def work() -> int:
        options = parser().parse_args(arguments)
        command: Callable[[argparse.Namespace], int] = options.command
        return command(options)

    return run_command("voicectl", work)


def parser() -> argparse.ArgumentParser:
    epilog = (
        "Exit codes: 0 yes or done, 1 no, 2 usage or no such lane, 65 no recording to measure by, 66 model missing or corrupt, "
        "69 voiced or its bus is not there, 70 voiced failed, 74 no sound or full disk, 75 not fetched, 78 wrong settings, 130 interrupted."
    )
    top = argparse.ArgumentParser("voicectl", description="Client and workbench of voiced.", epilog=epilog)
    top.add_argument("--version", action="version", version=f"voicectl {__version__}")
    where = "where voiced is: session, system or a D-Bus address (else: session, then a private bus)"
    top.add_argument("--bus", metavar="ADDRESS", help=where)
    commands = top.add_subparsers(metavar="COMMAND", required=True)

    def add(
        name: str, does: str, command: Callable[[argparse.Namespace], int], *, bus: bool = True, lane: bool = True, json: bool = True
    ) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=does, description=_sentence(does))
        one.set_defaults(command=command)
        if bus:  # here too, where a hand puts it; not named, it leaves what was named before the command
            one.add_argument("--bus", metavar="ADDRESS", default=argparse.SUPPRESS, help=where)
        if lane:
            one.add_argument("--lane", metavar="NAME", help="which lane (needed only where there are several)")
        if json:
            one.add_argument("--json", action="store_true", help="one JSON object a line")
        return one

    def ask(call: Callable[[argparse.Namespace], object]) -> Callable[[argparse.Namespace], int]:
        return lambda options: asyncio.run(call(options))  # type: ignore[arg-type]

    add("status", "say how voiced is: health, lanes, models, placement, statistics", ask(client.status), lane=False)
    watch = add("watch", "show wakes, partials, endpoints and finals as they happen, until ^C", ask(client.watch))
    watch.add_argument("--count", metavar="N", type=_positive, help="end after N finals")
    listen = add("listen", "print the text of each turn that was spoken to its end, or give it to a command", ask(client.listen))
    listen.add_argument(
        "--exec",
        metavar="CMD",
        dest="run",
        help="run CMD by the shell for each final: $1 is the text, VOICED_TURN and VOICED_LANE are set; "
        "one that fails is told, and the next runs",
    )
    listen.add_argument("--count", metavar="N", type=_positive, help="end after N finals")
    trigger = add("trigger", "open a turn without a phrase (push to talk); prints its id", ask(client.trigger))
    trigger.add_argument(
        "--wait", action="store_true", help="wait for the turn's final and print its text; exit 1 where it has none; ^C cancels it"
    )
    one = add("cue", "play a tone, or run a command, at each change of state, until ^C", ask(cue.cue), json=False)
    one.add_argument("--count", metavar="N", type=_positive, help="end after N changes")
    cue.arguments(one)
    add("stop", "say that the speaker has finished: the open turn gives its final", ask(client.stop), json=False)
    add("cancel", "throw the open turn away", ask(client.cancel), json=False)
    add("mute", "stop listening; without --lane: all lanes", ask(client.mute), json=False)
    add("unmute", "listen again", ask(client.unmute), json=False)
    add("reload", "have the settings file read anew; says what takes effect at the next start", ask(client.reload), lane=False)
    one = add("why", "say why each wake was one, and what nearly was", ask(why.why))
    one.add_argument("-n", dest="limit", metavar="N", type=_positive, default=20, help="the newest N (20)")
    one = add("turns", "show the turns that are over: how each ended, its text, how long its final took", ask(turns.turns))
    one.add_argument("--last", metavar="N", type=_positive, default=0, help="the newest N (all that are kept)")
    one = add("trace", "show all that happened in a turn, by sample and by clock", ask(trace.trace), lane=False)
    trace.arguments(one)
    one = add("doctor", "say what is wrong with voiced on this machine, and the command that mends each", doctor.doctor, lane=False)
    doctor.arguments(one)
    add("stats", "show percentiles of each latency, partials and finals apart, by length of turn", ask(stats.stats))
    does = "hear recordings or saved turns through the whole pipeline, faster than they were spoken, and compare with what is expected"
    one = add("replay", does, replay.replay, bus=False, lane=False)
    replay.arguments(one)

    family = commands.add_parser("models", help="list, fetch and verify models", description="List, fetch and verify models.")
    verbs = family.add_subparsers(metavar="list|fetch|verify", required=True)
    for name, does, command in (
        ("list", "list the models that voiced knows", models.show),
        ("fetch", "fetch models; without an id: the default ones", models.fetch),
        ("verify", "check every byte of models; without an id: of all that are there", models.verify),
    ):
        one = verbs.add_parser(name, help=does, description=_sentence(does))
        one.set_defaults(command=command)
        one.add_argument("--path", metavar="DIR", default="", help="folder that is searched first (the setting models.path)")
        if name == "list":
            one.add_argument("--json", action="store_true", help="one JSON object a line")
        else:
            one.add_argument("ids", metavar="ID", nargs="*", help="id of a model, as `voicectl models list` shows it")
        if name == "fetch":
            one.add_argument("--trust-first-use", action="store_true", help="take a model whose checksum is not known, and record it")

    _family(
        commands,
        "asr",
        "measure recognizers",
        ("eval", "measure recognizers on a folder of recordings: words, end token, delays, cost", asr.evaluate, asr.arguments),
        ("guard", "count words that a second pass invents on noise, and right ones that are refused", guard.evaluate, guard.arguments),
    )
    _family(
        commands,
        "endpoint",
        "measure and tune the end of turns",
        ("eval", "measure how soon turns end and how many are cut off, at several settings", endpoint.evaluate, endpoint.eval_arguments),
        ("tune", "find the knobs by which turns wait least within a budget of cut-offs", endpoint.tune, endpoint.tune_arguments),
    )
    _family(
        commands,
        "mic",
        "look at microphones: which there are, how good, what is heard",
        ("list", "show what can record, and which of it the settings mean", mic.show, mic.shared),
        ("test", "listen to a microphone and say what is wrong with it", mic_test.test, mic_test.arguments),
        ("record", "record a microphone into a WAV file", mic.record, mic.record_arguments),
        ("wake", "show what both wake stages make of what is said, live", mic_wake.wake, mic_wake.arguments),
        ("latency", "measure how long sound takes to become a sample", mic_latency.latency, mic_latency.arguments),
    )
    _family(
        commands,
        "vad",
        "measure the VAD",
        ("eval", "measure what the VAD misses and what it invents, on recordings with speech labels", vad.evaluate, vad.arguments),
    )
    _family(
        commands,
        "wake",
        "measure and make wake heads",
        ("eval", "measure wake heads on a folder of recordings: misses, false accepts, times", wake.evaluate, wake.eval_arguments),
        ("train", "make a head for a phrase, and measure it", wake.train, wake.train_arguments),
        ("check", "rate phrases given as text before they are used", wake_check.check, wake_check.arguments),
    )

    does = "phrase and query in one breath, at several gaps and with a slow second stage: is a word lost?"
    family = commands.add_parser("selftest", help="prove what is promised", description="Prove what is promised.")
    verbs = family.add_subparsers(metavar="handover", required=True)
    one = verbs.add_parser("handover", help=does, description=f"{does[0].upper()}{does[1:]}")
    one.set_defaults(command=selftest.handover)
    selftest.handover_arguments(one)
    return top


def _family(commands: Any, name: str, helps: str, *verbs: Verb) -> None:
    """A command of several verbs, each with options of its own."""
    family = commands.add_parser(name, help=helps, description=_sentence(helps))
    within = family.add_subparsers(metavar="|".join(verb for verb, *_ in verbs), required=True)
    for verb, does, command, arguments in verbs:
        one = within.add_parser(verb, help=does, description=_sentence(does))
        one.set_defaults(command=command)
        arguments(one)


def _sentence(does: str) -> str:
    return f"{does[0].upper()}{does[1:]}."


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1; got {text!r}")
    return number


if __name__ == "__main__":
    sys.exit(main())
