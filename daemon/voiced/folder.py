"""A folder of recordings as lanes: which files there are, which lane hears which, and where each begins.

What lives here: names and positions. What must not: sound, processes, results (results.py).

The files are dealt out in the order of their names, one to each lane and then again; a lane hears its own one after the other, at the pace
of speech, and needs no phrase. Files of different rates and forms are converted, each for itself, and it is said that they differ.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from pathlib import Path

from .errors import InputError
from .knobs import fits, rows
from .settings import LaneSettings
from .units import counted

SUFFIXES = (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aiff", ".aif", ".au", ".caf", ".w64")
"""By its name a file is taken for audio; whether it is, is seen when it is opened."""


class Folder:
    """Runs in main's loop. `lanes` are their settings, `left_out` the names of what is no audio by its name.

    Raises InputError where there is nothing to hear, or a name that no setting can have.
    """

    def __init__(self, directory: Path, lanes: int) -> None:
        try:
            found = sorted(path.absolute() for path in directory.iterdir() if path.is_file())
        except OSError as error:
            raise InputError(str(directory), f"cannot be read: {error.strerror}", "name a folder of recordings") from None
        self.files = [path for path in found if path.suffix.lower() in SUFFIXES]
        self.left_out = [path.name for path in found if path not in self.files]
        if not self.files:
            held = f"{counted(len(found), 'file')}, none audio by its name" if found else "no files"
            raise InputError(str(directory), f"has nothing to hear: {held}", f"audio is {' '.join(SUFFIXES)}")
        known = rows(LaneSettings)["source"]
        if odd := [path for path in self.files if not fits(known, f"file:{path}")]:  # now: no lane may come upon one later
            names = ", ".join(ascii(str(path)) for path in odd)
            raise InputError(names, "a file's path must be printable text of some length", "rename it")
        self._forms: dict[Path, str] = {}
        self._coming = {f"lane{number}": deque(self.files[number - 1 :: lanes]) for number in range(1, min(lanes, len(self.files)) + 1)}
        self._playing = {lane: (files.popleft(), 0) for lane, files in self._coming.items()}
        self.lanes = tuple(LaneSettings(lane, f"file:{path}", listen="always") for lane, (path, _) in self._playing.items())

    def next(self, lane: str) -> str:
        """What the lane hears next, as a source; "" where nothing is left."""
        if not self._coming[lane]:
            return ""
        path = self._coming[lane].popleft()
        self._playing[lane] = (path, 0)
        return f"file:{path}"

    def opened(self, lane: str, form: str, position: int) -> None:
        """The lane hears its file from this position on; `form`: format, rate and channels. Again, where its process was begun again."""
        path, _ = self._playing[lane]
        self._forms[path] = form
        self._playing[lane] = (path, position)

    @property
    def formats(self) -> Mapping[str, int]:
        """How many files of each form were opened."""
        return Counter(self._forms.values())

    def playing(self, lane: str) -> tuple[Path, int]:
        """The file that the lane hears or heard last, and the position of its first sample."""
        return self._playing[lane]
