"""What can go wrong, whose fault it is, and how the program exits.

An error is one line a person can act on: where it is, what is wrong (what was expected and what came), what to do.
It never carries a traceback to a user; what has no class here is a bug of ours and exits 70.

    VoicedError              exit
    ├─ UsageError              2   the command line (argparse uses the same number)
    ├─ InputError             65   an audio file: unreadable, not audio, empty, truncated
    ├─ ModelError             66   a model: missing, corrupt, of another kind than its role wants
    │  └─ FetchError          75   a model could not be fetched; trying again later may help
    ├─ BusError               69   D-Bus: no bus, the name is taken, the daemon is not there
    ├─ DeviceError            74   a sound device: absent, busy, stalled, refused
    ├─ OutputError            74   what we print cannot be written: the disk is full
    ├─ WriteError             74   a file of an installation cannot be read or written: full disk, no right, mounted read-only
    ├─ InternalError          70   a process of ours died or did not answer
    └─ ConfigError            78   voiced.yaml, a lane or a core that cannot be as written; holds all mistakes at once
       └─ PlacementError      78   the cores asked for are not to be had

Exit 0 is success; 1 is "ran, and the answer is no" (a client's question); 130 is an interrupt: from the keyboard, or of a job by a signal.
Nothing else lives here but what is said of an exception that is not ours.
"""

from __future__ import annotations

INTERRUPTED = 130


def reason_of(error: BaseException) -> str:
    """One line for a message that names the place already: of an OSError without its number and path."""
    said = error.strerror if isinstance(error, OSError) else None  # of some, as of damaged bzip2 data, there is none
    return " ".join((said or str(error) or type(error).__name__).split())


class VoicedError(Exception):
    """A failure that a user can act on. `str()` is one line: where: what; advice."""

    exit_code = 1

    def __init__(self, where: str, what: str, advice: str = "", *, code: int | None = None) -> None:
        """`code`: another process's exit code, where its error is told on."""
        if code is not None:
            self.exit_code = code
        self.where, self.what, self.advice = where, what, advice
        line = f"{where}: {what}" if where else what
        super().__init__(f"{line}; {advice}" if advice else line)


class UsageError(VoicedError):
    exit_code = 2


class InputError(VoicedError):
    exit_code = 65


class ModelError(VoicedError):
    exit_code = 66


class FetchError(ModelError):
    exit_code = 75


class BusError(VoicedError):
    exit_code = 69


class DeviceError(VoicedError):
    exit_code = 74


class OutputError(VoicedError):
    exit_code = 74


class WriteError(VoicedError):
    exit_code = 74


class InternalError(VoicedError):
    exit_code = 70


class ConfigError(VoicedError):
    """One or more mistakes in the settings; `lines` has one sentence each, sorted by line number."""

    exit_code = 78

    def __init__(self, where: str, what: str, advice: str = "", lines: tuple[str, ...] = ()) -> None:
        super().__init__(where, what, advice)
        self.lines = lines or (str(self),)


class PlacementError(ConfigError):
    pass
