"""What of README.md is heard: the lines that tools/run shows of the sample's first turn, and a picture of that turn.

    PYTHONPATH=tests .venv/bin/python tests/readme.py     hears the sample at the pace of speech, and makes both anew

What must not live here: a bench's figures (tools/bench --readme), the states (states.py prints them).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from livedaemon import SAMPLE, Listener, Process, environment, own_bus, run, runtime_of_a_user
from voicectl import timeline
from voiced.events import TurnClosed

CHECKOUT = Path(__file__).resolve().parents[1]
README = CHECKOUT / "README.md"
PICTURE = CHECKOUT / "tests" / "golden" / "turn.svg"
LINE = re.compile(r" *(\d+\.\d\d) s  (\w+) *(.*)")

_EXAMPLE = re.compile(r"(?<=<!-- run -->\n\n).*?(?=\n\n<!-- /run -->)", re.DOTALL)


def example() -> str:
    """As README.md has it."""
    return "".join(_EXAMPLE.findall(README.read_text(encoding="utf-8")))


def shown(lines: list[str]) -> Iterator[str]:
    """Of a demonstration's lines those of its first turn, and that there are more."""
    for line in lines:
        told = LINE.fullmatch(line)
        if told:
            yield f"    {line}"
        if told and told[2] == "final":
            break
    yield "        …"


def hear(runtime: Path) -> str:
    """What tools/run shows."""
    return run("voiced", "--demo", env=environment(runtime)).stdout


def receipt(runtime: Path) -> dict[str, Any]:
    """Of the sample's first turn, as a daemon has it that hears the sample. Its id is that of the golden set."""
    config = runtime / "voiced.yaml"
    config.write_text(f"lanes: [{{name: sample, source: 'file:{SAMPLE}'}}]\n")
    env = environment(runtime)
    with own_bus(runtime) as bus:
        listener = Listener(bus)
        daemon = Process(runtime, "voiced", "--config", config, "--bus", bus, env=env)
        try:
            turn = listener.event(TurnClosed).turn
            found: dict[str, Any] = json.loads(run("voicectl", "trace", str(turn), "--bus", bus, "--json", env=env).stdout)
        finally:
            daemon.end()
            listener.close()
    return found | {"turn": 1, "lane": ""}


def main() -> None:
    with runtime_of_a_user() as runtime:
        lines = "\n".join(shown(hear(runtime).splitlines()))
        PICTURE.write_text(timeline.svg(receipt(runtime)), encoding="utf-8")
    README.write_text(_EXAMPLE.sub(lambda _: lines, README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
