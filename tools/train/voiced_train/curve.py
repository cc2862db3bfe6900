"""The course of a training, as a picture.

What lives here: reading log.jsonl and drawing it. What must not: anything else.

    python -m voiced_train.curve DIR/log.jsonl… --out curve.png

Several logs are drawn one after the other: the runs of one training, in order.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from voiced.errors import InputError, VoicedError


def read(logs: Sequence[Path]) -> list[dict[str, Any]]:
    """All lines, their `minutes` running on from log to log. Raises InputError."""
    lines: list[dict[str, Any]] = []
    begin = 0.0
    for log in logs:
        try:
            own = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
            lines += [{**line, "minutes": begin + line["minutes"]} for line in own]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(str(log), f"is no log of a training ({error})") from None
        if own:
            begin = lines[-1]["minutes"]
    if not lines:
        raise InputError(", ".join(map(str, logs)), "hold nothing to draw")
    return lines


def draw(lines: Sequence[dict[str, Any]], out: Path) -> None:
    """Losses above, what the development set says below; minutes of training across."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (losses, words) = pyplot.subplots(2, 1, figsize=(7, 5), sharex=True)
    for axes, names in ((losses, {"ctc": "CTC", "transducer": "transducer"}), (words, {"wer": "WER", "early": "early end tokens"})):
        for name, label in names.items():
            points = [(line["minutes"], line[name]) for line in lines if line.get(name)]
            if points:
                axes.plot(*zip(*points, strict=True), marker="." if name in ("wer", "early") else "", label=label)
        axes.grid(alpha=0.3)
        axes.legend()
    losses.set_ylabel("nats a symbol")
    words.set_ylabel("share, development set")
    words.set_xlabel("minutes of training")
    figure.tight_layout()
    figure.savefig(out, dpi=80)
    pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m voiced_train.curve", description="Draw the course of a training.")
    parser.add_argument("logs", type=Path, nargs="+", metavar="LOG")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        draw(read(options.logs), options.out)
        return 0
    except VoicedError as error:
        print(f"curve: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
