"""The command `voiced-setup`: arguments and the order of its steps.

    voiced-setup              makes the environment, fetches the models; what is there already is left
    voiced-setup --dry-run    says what it would do, and where each part comes from
    voiced-setup --remove     takes away what it made

It is how an installed package gets what no package can hold: wheels of other projects, and models that have their own licences.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from voiced import __version__, boards, preflight
from voiced.command import run_command
from voiced.errors import FetchError, UsageError, VoicedError

from . import environment, sources
from .environment import Place

MISSING = 69
"""Exit code: a system package is not there."""

TOP = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None, top: Path = TOP) -> int:
    """Returns the exit code (voiced.errors); whatever goes wrong is one line on stderr, and nothing is left half-made."""
    return run_command("voiced-setup", lambda: run(parser().parse_args(arguments), top))


def parser() -> argparse.ArgumentParser:
    epilog = (
        "Exit codes: 0 done, 2 usage, 66 a library that cannot run here, 69 no such package, 74 full disk or no right to write, "
        "75 not fetched, 130 interrupted."
    )
    about = "Make the environment of an installed voiced and fetch the models that no package has. It needs the network, once."
    top = argparse.ArgumentParser("voiced-setup", description=about, epilog=epilog)
    top.add_argument("--version", action="version", version=f"voiced-setup {__version__}")
    top.add_argument("--dry-run", action="store_true", help="say what would be done, and what comes from where")
    top.add_argument("--board", choices=("auto", "generic", "k3"), default="auto", help="whose packages are taken (auto: this machine's)")
    top.add_argument("--maker-index", metavar="URL", default="", help="package index of the board's maker")
    top.add_argument("--anew", action="store_true", help="make the environment again though it is there")
    top.add_argument("--no-models", action="store_true", help="fetch no models")
    top.add_argument("--remove", action="store_true", help="take away the environment and the fetched models")
    return top


def run(options: argparse.Namespace, top: Path) -> int:
    os.umask(0o022)  # the daemon's own user must be able to read what root makes here
    place = Place(top, top)
    if not (top / "requirements.txt").is_file():
        raise UsageError(str(top), "is a checkout, not an installed voiced", "tools/run makes a checkout's environment")
    if options.remove:
        environment.remove(place)
        say(f"removed: environment and fetched models below {place.site.resolve()}")
        return 0
    board = boards.detect() if options.board == "auto" else options.board
    wanted = sources.of_board(board, place.requirements())
    if options.dry_run:
        print("\n".join(sources.tell(board, wanted, options.maker_index)))
        print(f"environment: {environment.folder(place, wanted, Path(os.path.realpath(sys.executable)))}")
        print(f"fetched models: {place.models}")
        return 0
    set_up(place, board, wanted, index=options.maker_index, anew=options.anew, models=not options.no_models)
    say("done; see that all is well: voicectl doctor")
    return 0


def set_up(place: Place, board: str, wanted: sources.Sources, *, index: str, anew: bool, models: bool) -> None:
    """Environment, then models. Run again it does what is missing."""
    system_packages(wanted.system)
    environment.switch(place, environment.make(place, wanted, say, index=index, anew=anew))
    if board == "k3":
        found = preflight.tcm()
        if not found.good:
            say(f"{found.name}: {found.what}; {found.advice}")
    if models:
        fetch_models(place)


def system_packages(names: Sequence[str]) -> None:
    """VoicedError names those that are not installed. Only asked where dpkg knows: elsewhere the libraries are tried later anyway."""
    asked = preflight.run(["dpkg-query", "-W", "-f=${Package} ${db:Status-Status}\n", *names])
    if asked.status == 127:
        return
    there = {line.split()[0] for line in asked.out.splitlines() if line.endswith(" installed")}
    # Debian 13 has it under the name of its 64-bit time
    missing = [name for name in names if name not in there and f"{name}t64" not in there]
    if missing:
        raise VoicedError("system packages", f"missing: {' '.join(missing)}", f"sudo apt-get install {' '.join(missing)}", code=MISSING)


def fetch_models(place: Place) -> None:
    """The default models that do not come with voiced, into site/models. FetchError tells what the fetch said."""
    env = {**environment.clean(), "VOICED_CACHE": str(place.models.parent), "PYTHONPATH": str(place.top / "daemon")}
    say("fetching models")
    done = preflight.run([str(place.python), "-P", "-m", "voiced.models", "fetch"], env, deadline_s=3600)
    if done.status is None:
        raise FetchError("models", "are not fetched within an hour", "run voiced-setup again")
    if done.status != 0:
        raise FetchError("", done.last, code=done.status if done.status > 0 else None)


def say(line: str) -> None:
    print(f"voiced-setup: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
