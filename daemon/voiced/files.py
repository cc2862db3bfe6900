"""Files through the whole pipeline, faster than they were spoken, in one child process, without a bus or a deadline.

What lives here: the parent's side: what the child says of each file, and how that is printed. The child is a process of its own because a
library may end its process on a bad model, and a user is owed a line about that.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from . import placement, wire
from .children import ENVIRONMENT, command, ended
from .errors import InternalError, ModelError, VoicedError
from .events import Event, Wake
from .plain import decode
from .runtime_dir import runtime_directory
from .settings import Settings, to_plain
from .terminal import Conversation, json_line


@dataclass(frozen=True, slots=True)
class Begun:
    """The next file is heard: what comes after this is of `file`."""

    file: str


@dataclass(frozen=True, slots=True)
class Remark:
    """Something is odd about the file, and it was heard all the same."""

    line: str


@dataclass(frozen=True, slots=True)
class Refused:
    """It cannot be heard (to its end); `code` is the exit code that goes with that."""

    line: str
    code: int


@dataclass(frozen=True, slots=True)
class Over:
    """All of it was heard, and the silence after it: so many samples."""

    samples: int


Told = Begun | Remark | Refused | Over | Event


def hear(settings: Settings, files: Sequence[str]) -> Iterator[Told]:
    """What each file leads to, in order; a file that cannot be heard is told, and the others go on. Whoever takes it is waited for.

    Raises ModelError where a model cannot be had, or ended the process, and InternalError where something else did. SIGTERM ends the
    caller's process, and nothing is left.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # by way of what is to be tidied up
    link, theirs = wire.Link.pair()
    with runtime_directory() as directory, theirs:
        child = subprocess.Popen(
            command("files", theirs.fileno()),
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # ^C is for us, who end it
            env={**ENVIRONMENT, **os.environ, **placement.environment()},
        )
        theirs.close()
        try:
            link.send_all({"settings": to_plain(settings), "runtime_dir": str(directory)})
            yield from _told(link, child, files)
        finally:
            link.close()
            child.kill()
            child.wait()


def _told(link: wire.Link, child: subprocess.Popen[bytes], files: Sequence[str]) -> Iterator[Told]:
    coming = iter(files)
    loading = ""
    while True:
        try:
            message = link.receive()
        except EOFError:
            raise died(child.wait(), loading) from None
        assert message is not None
        match message.body:
            case {"loading": loading}:
                pass
            case {"next": True}:  # one at a time: a thousand names are more than a message
                loading = ""
                file = next(coming, None)
                if file is None:
                    return
                yield Begun(file)
                link.send_all({"file": os.fsencode(file).hex()})  # as bytes: a name need not be text
            case {"event": plain}:
                yield cast(Event, decode(plain))
            case {"remark": line}:
                yield Remark(line)
            case {"over": samples}:
                yield Over(samples)
            case {"refused": line, "exit": code}:
                yield Refused(line, code)
            case {"failed": line, "exit": code}:
                raise VoicedError("", line, code=code)


def died(status: int, loading: str) -> VoicedError:
    """What to say of its end; `loading` as in children.ended."""
    what = f"the process that hears the files {ended(status, loading)}"
    if loading:
        return ModelError("", what, "check the models: voicectl models verify")
    memory = "it may have been the kernel, for want of memory: see dmesg"
    return InternalError("", what, memory if status == -signal.SIGKILL else "see what is wrong here: voicectl doctor")


def hear_files(settings: Settings, files: Sequence[str], *, as_json: bool) -> int:
    """Prints each file's events; what is wrong with a file is one line on stderr. Returns the exit code."""
    conversation = Conversation(sys.stdout)
    code, file = 0, ""
    headed = woken = True

    def head() -> None:
        nonlocal headed
        if not headed:
            conversation.say(f"── {file}")
            headed = True

    def close() -> None:
        if not (woken or as_json):
            head()
            conversation.say("no wake phrase heard")

    for told in hear(settings, files):
        match told:
            case Begun(following):
                close()
                file, woken, headed = following, False, False
            case Remark(line):
                print(f"voiced: {file}: {line}", file=sys.stderr)
            case Refused(line, worst):
                print(f"voiced: {line}", file=sys.stderr)
                code, woken = worst, True  # whether it was is not known
            case Over():
                pass
            case _:
                event: Any = told
                woken = woken or isinstance(event, Wake)
                if as_json:
                    print(json_line(event, file=file))
                    continue
                head()
                conversation.show(event)
    close()
    return code
