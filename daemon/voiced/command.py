"""A command from its first line to its exit code: what `voiced` and `voicectl` share.

What lives here: how whatever goes wrong becomes one line on stderr and a number. What must not: what a command does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from .errors import INTERRUPTED, ConfigError, InternalError, OutputError, VoicedError
from .journal import complain, trace
from .terminal import prepare_output, reader_gone


def run_command(program: str, work: Callable[[], int]) -> int:
    """Does a command's work; its exit code (errors.py). Whatever goes wrong is a line on stderr that begins with the program's name."""
    prepare_output()
    try:
        try:
            return work()
        finally:
            sys.stdout.flush()  # here, where it can still be said that it failed
    except VoicedError as error:
        if isinstance(error, OutputError):
            reader_gone()
        lines = error.lines if isinstance(error, ConfigError) else (str(error),)
        complain("\n".join(f"{program}: {line}" for line in lines))
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        reader_gone()
        return 0
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        complain(f"{program}: a fault of its own: {said}; report it with what VOICED_TRACE=1 adds to this")
        trace()
        return InternalError.exit_code
