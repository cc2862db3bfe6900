"""The command `voiced`: arguments, settings, build, run, exit code. The only file that knows every room.

    voiced [--config F] [--system|--session|--bus ADDRESS] [--board k3] [--show]     the daemon
    voiced --check-config [F] [--board k3]                                           reads the settings and says what is wrong
    voiced --input F… [--pace max|realtime] [--json]                                 files through the whole pipeline
    voiced --lanes N --input-dir D --results D [--headless] [--verbose]              a folder as N lanes, results as files
    voiced --demo [--json]                                                           the recording that comes with it, live
    voiced :ROLE FD                                                                  a process of ours, started by the main one

Heavy things are imported where they are needed: `voiced --help` answers at once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from . import __version__
from .command import run_command
from .errors import InternalError, UsageError

LANES_LIMIT = 8
SAMPLE = Path(__file__).parent / "data" / "sample.flac"


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code (errors.py); whatever goes wrong is one line on stderr."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments and arguments[0].startswith(":"):
        return child_main(arguments[0], "".join(arguments[1:2]))
    return run_command("voiced", lambda: run(parse(arguments)))


def child_main(role: str, link: str) -> int:
    """Becomes one of our own processes, whose link is the descriptor of this number. It ends here: library threads of a dead device
    must not delay it."""
    import os
    import stat

    fd = int(link) if link.isdecimal() else -1
    try:
        ours = stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError:
        ours = False
    if not ours:
        print(f"voiced: {role} is a process of voiced's own, which voiced itself starts; see voiced --help", file=sys.stderr)
        return UsageError.exit_code
    work: Callable[[int], int]
    match role:
        case ":capture":
            from .sources.capture import main as work
        case ":bursts":
            from .sources.bursts import bursts_main as work
        case ":devices":
            from .sources.capture import list_main as work
        case ":lane":
            from .runtime import lane_main as work
        case ":probe":
            from .processes import probe_main as work
        case ":second-pass":
            from .processes import second_pass_main as work
        case ":files":
            from .batch import files_main as work
        case _:
            print(f"voiced: no such role: {role}", file=sys.stderr)
            return InternalError.exit_code
    code = work(fd)
    sys.stderr.flush()
    os._exit(code)


def parser() -> argparse.ArgumentParser:
    epilog = (
        "Exit codes: 0 done, 2 usage, 65 bad audio, 66 model missing or corrupt, 69 no bus, 70 our own fault, "
        "74 sound device or full disk, 78 bad settings, 130 interrupted."
    )
    top = argparse.ArgumentParser(
        "voiced", description="Voice daemon: wake phrase, live partials, endpoint, final text on D-Bus.", epilog=epilog
    )
    top.add_argument("--version", action="version", version=f"voiced {__version__}")
    top.add_argument(
        "--config", metavar="FILE", type=Path, help="settings (else ~/.config/voiced/voiced.yaml, /etc/voiced/voiced.yaml, defaults)"
    )
    top.add_argument(
        "--board",
        choices=("auto", "generic", "k3"),
        help="whose cores the settings are checked against (else the settings', else this one's)",
    )
    bus = top.add_mutually_exclusive_group()
    bus.add_argument("--system", action="store_true", help="the system bus")
    bus.add_argument(
        "--session", action="store_true", help="the session bus (the default where there is one; else a private bus is started)"
    )
    bus.add_argument("--bus", metavar="ADDRESS", help="another bus")
    what = top.add_mutually_exclusive_group()
    what.add_argument(
        "--check-config",
        metavar="FILE",
        type=Path,
        nargs="?",
        const=True,
        help="read a settings file (else those that voiced would read), say all that is wrong, and exit",
    )
    what.add_argument("--input", metavar="FILE", nargs="+", help="hear these files instead of a microphone, then exit")
    what.add_argument("--demo", action="store_true", help="hear the recording that comes with voiced, at the pace of speech, then exit")
    what.add_argument("--show", action="store_true", help="the daemon, and on this terminal what it hears")
    what.add_argument("--input-dir", metavar="DIR", type=Path, help="hear a folder of recordings in several lanes at once")
    top.add_argument("--lanes", metavar="N", type=int, help="with --input-dir: how many lanes, 1 to 8")
    top.add_argument("--results", metavar="DIR", type=Path, help="with --input-dir: new folder for texts, model outputs and metrics")
    top.add_argument("--headless", action="store_true", help="with --input-dir: show nothing of what is heard")
    top.add_argument("--verbose", action="store_true", help="with --input-dir: metrics in detail, too")
    top.add_argument("--pace", choices=("max", "realtime"), help="with --input: as fast as it goes (max, the default), or as it was spoken")
    top.add_argument("--json", action="store_true", help="with --input, --input-dir, --demo or --show: one JSON object a line")
    return top


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Exits with 2 where they are wrong, by themselves or together."""
    top = parser()
    options = top.parse_args(arguments)
    if options.pace and not options.input:
        top.error("--pace goes with --input")
    if options.json and not (options.input or options.input_dir or options.demo or options.show):
        top.error("--json goes with --input, --input-dir, --demo or --show")
    if options.input_dir and not (options.lanes and options.results):
        top.error("--input-dir wants --lanes N and --results DIR")
    if not options.input_dir and (options.lanes is not None or options.results or options.headless or options.verbose):
        top.error("--lanes, --results, --headless and --verbose go with --input-dir")
    if options.lanes is not None and not 1 <= options.lanes <= LANES_LIMIT:
        top.error(f"--lanes must be 1 to {LANES_LIMIT}; got {options.lanes}")
    return options


def run(options: argparse.Namespace) -> int:
    from .settingsfile import find_config, read
    from .spelling import unspellable

    if options.check_config:
        return check_config(options)
    settings = read(find_config(options.config), options.board or "", (unspellable,))
    if options.input and options.pace != "realtime":
        from .files import hear_files

        return hear_files(settings, options.input, as_json=options.json)
    from .daemon import Job, run_daemon

    if options.input_dir:
        from .folder import Folder
        from .results import Results

        folder = Folder(options.input_dir, options.lanes)
        if folder.left_out:
            print(f"voiced: {options.input_dir}: no audio by their names, and not heard: {', '.join(folder.left_out)}", file=sys.stderr)
        settings = replace(settings, lanes=folder.lanes)
        return run_daemon(settings, options, (), Job(folder, Results(options.results, settings, folder, verbose=options.verbose)))
    files = [SAMPLE] if options.demo else [Path(file) for file in options.input or ()]
    return run_daemon(settings, options, files)


def check_config(options: argparse.Namespace) -> int:
    """Says what was read and that it is right; ConfigError holds every mistake."""
    from . import boards
    from .settingsfile import drop_ins, find_config, read
    from .spelling import unspellable

    path = find_config(options.config) if options.check_config is True else options.check_config
    checked = read(path, options.board or "", (unspellable,))
    beside = len(drop_ins(path)) if path else 0
    also = f" and {beside} in {path}.d" if beside else ""
    what = f"{path}{also}: no mistakes" if path else "no settings file, so the defaults hold"
    print(f"{what} (board: {boards.board(options.board or checked.placement.board).name})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
