"""Files through the whole pipeline, faster than they were spoken, in one child process, without a bus or a deadline.

What lives here: the parent's side: it prints what the child says. The child is a process of its own because a library may
end its process on a bad model, and a user is owed a line about that.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from . import placement, wire
from .children import ENVIRONMENT, ended
from .errors import ModelError, VoicedError
from .events import Wake
from .plain import decode
from .runtime_dir import runtime_directory
from .settings import Settings, to_plain
from .terminal import Conversation, json_line


def hear_files(settings: Settings, files: Sequence[str], *, as_json: bool) -> int:
    """Prints each file's events; a file that cannot be heard is one line on stderr, and the others go on. Returns the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # by way of what is to be tidied up
    link, theirs = wire.Link.pair()
    with runtime_directory() as directory, theirs:
        child = subprocess.Popen(
            [sys.executable, "-m", "voiced", ":files", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # ^C is for us, who end it
            env={**ENVIRONMENT, **os.environ, **placement.environment()},
        )
        theirs.close()
        try:
            link.send_all({"settings": to_plain(settings), "runtime_dir": str(directory)})
            return _print(link, child, files, as_json)
        finally:
            link.close()
            child.kill()
            child.wait()


def _print(link: wire.Link, child: subprocess.Popen[bytes], files: Sequence[str], as_json: bool) -> int:
    conversation = Conversation(sys.stdout)
    code, loading, file = 0, "", ""
    headed = woken = True
    coming = iter(files)

    def head() -> None:
        nonlocal headed
        if not headed:
            conversation.say(f"── {file}")
            headed = True

    while True:
        try:
            message = link.receive()
        except EOFError:
            raise ModelError(
                "", f"the process that hears the files {ended(child.wait(), loading)}", "check the models: voicectl models verify"
            ) from None
        assert message is not None
        match message.body:
            case {"loading": loading}:
                pass
            case {"next": True}:  # one at a time: a thousand names are more than a message
                if not (woken or as_json):
                    head()
                    conversation.say("no wake phrase heard")
                following = next(coming, None)
                if following is None:
                    return code
                file, woken, headed = following, False, False
                link.send_all({"file": os.fsencode(file).hex()})  # as bytes: a name need not be text
            case {"event": plain}:
                event: Any = decode(plain)
                woken = woken or isinstance(event, Wake)
                if as_json:
                    print(json_line(event, file=file))
                    continue
                head()
                conversation.show(event)
            case {"remark": line}:
                print(f"voiced: {file}: {line}", file=sys.stderr)
            case {"refused": line, "exit": worst}:
                print(f"voiced: {line}", file=sys.stderr)
                code, woken = worst, True  # whether it was is not known
            case {"failed": line, "exit": worst}:
                raise VoicedError("", line, code=worst)
