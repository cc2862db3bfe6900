"""tools/install: voiced below a prefix, put in place as one, and taken away again.

What lives here: arguments and the order of the steps. What must not: which files there are (layout.py), how they are written (changes.py),
the environment (voiced_setup).

The environment is made first, beside the one in use; then the settings that are there are read by the new version; then all files are
written beside their places; only when nothing can fail any more are they renamed and the environment switched.
"""

from __future__ import annotations

import argparse
import os
import pwd
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from voiced import boards, preflight
from voiced.command import run_command
from voiced.errors import ConfigError, UsageError, WriteError
from voiced_setup import environment, sources
from voiced_setup.__main__ import fetch_models, system_packages
from voiced_setup.environment import Place

from . import layout, machine
from .changes import Change, Record, apply, plan, remove, under
from .layout import Places

ROOT = Path("/")
PEOPLE = 1000
"""Ids below are the system's own users, whose homes are anywhere."""

NO_HOMES = (Path("/"), Path("/usr"), Path("/usr/local"), Path("/opt"))
"""What accounts of services may have for one."""

NO = 1
"""Exit code: it is installed, and something is left to do by hand, which was said."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code (voiced.errors); whatever goes wrong is one line on stderr."""
    return run_command("tools/install", lambda: run(parse(arguments)))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    epilog = (
        "Exit codes: 0 done, 1 done but for what it says, 2 usage, 66 a library that cannot run here, 69 no such package, "
        "74 full disk or no right to write, 75 not fetched, 78 settings that this version would refuse, 130 interrupted."
    )
    about = "Install voiced from this checkout. What is there already is left; run again, it does what is missing."
    top = argparse.ArgumentParser("tools/install", description=about, epilog=epilog)
    top.add_argument(
        "--prefix",
        metavar="DIR",
        type=Path,
        default=Path("/usr/local"),
        help="below this folder (/usr/local); in a home, all is below it, for one user; else units, policy and settings are the machine's",
    )
    top.add_argument(
        "--board", choices=("auto", "generic", "k3"), default="auto", help="whose packages and settings (auto: this machine's)"
    )
    top.add_argument("--maker-index", metavar="URL", default="", help="package index of the board's maker")
    top.add_argument("--dry-run", action="store_true", help="say what would be done, and what comes from where")
    top.add_argument("--no-setup", action="store_true", help="files alone: voiced-setup makes the environment and fetches the models later")
    top.add_argument("--uninstall", action="store_true", help="take away all but settings that were changed")
    top.add_argument(
        "--root", metavar="DIR", type=Path, default=ROOT, help="into this folder as if it were / (to make a package or an image)"
    )
    options = top.parse_args(arguments)
    for name in ("prefix", "root"):
        setattr(options, name, getattr(options, name).resolve())
    if options.prefix.is_relative_to(layout.CHECKOUT):
        top.error("--prefix must not be within the checkout")
    if options.prefix == Path("/usr") and options.root == ROOT:
        top.error("--prefix /usr is for packages; see tools/make-deb")
    if options.root != ROOT:
        options.no_setup = True
    return options


def run(options: argparse.Namespace) -> int:
    os.umask(0o022)  # the daemon's own user must be able to read what root makes here
    whole_machine = (os.geteuid() == 0 or options.root != ROOT) and not in_a_home(options.prefix)
    places = Places(options.prefix, whole_machine=whole_machine)
    record_path = places.top / "installed.json"
    record = Record.read(under(options.root, record_path))
    if options.uninstall:
        return uninstall(options, places, record, record_path)
    board = boards.detect() if options.board == "auto" else options.board
    wanted = sources.of_board(board, layout.requirements())
    changes = plan(layout.items(places, board=board), options.root, record)
    if whole_machine and not places.looked_into:
        say(f"units, policy and settings go below /etc: systemd, D-Bus and voiced do not look for them below {places.prefix}")
    if options.dry_run:
        tell(options, places, board, wanted, changes)
        return 0
    place = Place(places.top, places.top)
    made = None
    if not options.no_setup:
        system_packages(wanted.system)
        with _lists() as lists:
            made = environment.make(Place(places.top, lists), wanted, say, index=options.maker_index)
    check_settings(options.root, made)
    apply(changes, options.root, record, record_path)
    for change in changes:
        if change.verb == "keep":
            say(f"kept: {change.item.path}, which was changed; a new one would be {places.documents / 'examples'}")
    done = sum(change.verb in ("create", "replace") for change in changes)
    say(f"{done} files put in place below {options.prefix}, {len(changes) - done} left as they were")
    if made:
        environment.switch(place, made)
        preflight.run([str(place.python), "-m", "compileall", "-q", str(places.top / "daemon"), str(places.top / "tools")])
    left = []
    if options.root == ROOT and places.whole_machine:
        left = list(machine.settle(places.of_lib("sysusers.d") / "voiced.conf", places.of_lib("tmpfiles.d") / "voiced.conf"))
        for line in left:
            say(line)
    if not whole_machine and places.prefix.name != ".local":
        say(f"systemd does not look there for its unit, so once: systemctl --user link {places.users_unit}")
    if made:
        fetch_models(place)
        say(f"done; see that all is well: {places.prefix}/bin/voicectl doctor")
    elif options.root == ROOT:
        say(f"the environment and the models are missing: {places.prefix}/bin/voiced-setup")
    return NO if left else 0


def in_a_home(prefix: Path) -> bool:
    """Root's, another's (sudo expands ~ before it makes anybody root), or one that has no entry here."""
    people = [Path(entry.pw_dir) for entry in pwd.getpwall() if entry.pw_uid == 0 or entry.pw_uid >= PEOPLE]
    return any(prefix.is_relative_to(home) for home in (*people, Path.home(), Path("/home")) if home not in NO_HOMES)


@contextmanager
def _lists() -> Iterator[Path]:
    """requirements.txt and constraints.txt as they will be installed: the environment is made before they are."""
    with tempfile.TemporaryDirectory(prefix="voiced-install-") as folder:
        path = Path(folder)
        (path / "requirements.txt").write_text("".join(f"{line}\n" for line in layout.requirements()))
        (path / "constraints.txt").write_bytes((layout.CHECKOUT / "tools" / "constraints.txt").read_bytes())
        yield path


def check_settings(root: Path, made: Path | None) -> None:
    """Settings of an older version that this one would refuse stop it here, while the older one still runs; ConfigError has every line."""
    path = under(root, Path(layout.CONFIG_FILE))
    if not path.is_file():
        return
    python = str(made / "bin" / "python") if made else sys.executable
    env = {**environment.clean(), "PYTHONPATH": str(layout.CHECKOUT / "daemon")}
    found = preflight.run([python, "-P", "-m", "voiced", "--check-config", str(path)], env)
    if found.status == 0:
        return
    if found.status != ConfigError.exit_code:
        if made is None:  # without an environment there may be no YAML reader
            say(f"{path} could not be read by this version yet ({found.last}); after voiced-setup: voiced --check-config {path}")
            return
        raise ConfigError(str(path), f"cannot be checked: {found.last}", "see voiced --check-config")
    lines = [line.removeprefix("voiced: ") for line in found.err.splitlines() if line.startswith("voiced: ")]
    raise ConfigError(
        str(path), "", lines=(*lines, f"{path}: this version would not start with it; nothing was changed; correct it and install again")
    )


def tell(options: argparse.Namespace, places: Places, board: str, wanted: sources.Sources, changes: Sequence[Change]) -> None:
    """What would be done."""
    print("\n".join(sources.tell(board, wanted, options.maker_index)))
    folders: dict[tuple[Path, str], int] = {}
    for change in changes:
        if change.item.path.is_relative_to(places.top) or change.item.path.is_relative_to(places.documents):
            base = places.top if change.item.path.is_relative_to(places.top) else places.documents
            folders[base, change.verb] = folders.get((base, change.verb), 0) + 1
        elif change.verb != "none":
            print(f"{change.verb}: {change.item.path}")
    for (folder, verb), count in sorted(folders.items()):
        print(f"{verb}: {count} files below {folder}" if verb != "none" else f"there already: {count} files below {folder}")
    if not options.no_setup:
        print(f"make: {places.top / 'site'} (environment, fetched models)")


def uninstall(options: argparse.Namespace, places: Places, record: Record, record_path: Path) -> int:
    if not record.files:
        raise UsageError(
            str(under(options.root, record_path)), "nothing is installed there", "name the --prefix that it was installed with"
        )
    place = Place(under(options.root, places.top), places.top)
    if options.dry_run:
        print(f"remove: {len(record.files)} files, {place.site}, and the folders that are empty then")
        return 0
    _may_remove(record, options.root)
    whole = options.root == ROOT and any(name.startswith("/etc/") for name in record.files)
    if whole:
        machine.stop()
    environment.remove(place)
    kept = remove(record, options.root, [Path(layout.CONFIG_FILE)], places.top)
    if whole:
        for line in machine.unsettle():
            say(line)
    for path in kept:
        say(f"left: {path}, which was changed; nothing else of voiced is left")
    if not kept:
        say("nothing of voiced is left")
    return 0


def _may_remove(record: Record, root: Path) -> None:
    """WriteError before anything is removed, where something could not be."""
    for folder in {under(root, Path(name)).parent for name in record.files}:
        if folder.is_dir() and not os.access(folder, os.W_OK):
            raise WriteError(str(folder), "files in it may not be removed", "run it as root, on a file system mounted for writing")


def say(line: str) -> None:
    print(f"tools/install: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
