"""The library of models: which there are, where their files lie, whether they are whole, and how to get them.

Looking is cheap (sizes), verifying is thorough (SHA-256), and no model is ever loaded here. What fetches is imported when it is
asked for: the daemon never needs it. `python -m voiced.models` lists, fetches and verifies from an environment that has nothing
else yet.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import ModelError, UsageError, VoicedError
from .integrity import check_file, read_receipt
from .manifest import Archive, Directory, Member, Model, ModelFile, Wheel, read_manifest
from .progress import Progress, bar, silent

__all__ = [
    "DEFAULT_IDS", "Archive", "Directory", "Found", "Library", "Member", "Model", "ModelFile", "Progress", "Wheel",
    "bar", "cache_directory", "default_library", "read_manifest", "silent",
]  # fmt: skip

DEFAULT_IDS = ("starter-en", "jarvis", "speech-embedding", "silero-vad", "moonshine-tiny-en")
"""What the default settings use, and what tools/run fetches."""

SYSTEM_MODELS = Path("/usr/share/voiced/models")
"""Where a distribution's package puts models."""

_MANIFEST = "manifest.yaml"


@dataclass(frozen=True, slots=True)
class Found:
    """A model whose files are all there: each file's path by its part (encoder, decoder, joiner, tokens, model, …)."""

    model: Model
    directory: Path
    files: dict[str, Path]


class Library:
    """The models of every manifest.yaml below `search`, the earlier folder's entry before the later's.

    search  folders of models, in the order of looking; one that does not exist is passed over
    cache   where fetched models go, and the last place to look
    """

    def __init__(self, search: Sequence[Path], cache: Path) -> None:
        self.search, self.cache = tuple(search), cache
        self._models: dict[str, Model] = {}
        for folder in self.search:
            if _there(folder / _MANIFEST):
                self._models = {**read_manifest(folder / _MANIFEST), **self._models}
        if not self._models:
            places = ", ".join(str(folder) for folder in self.search)
            raise ModelError(_MANIFEST, f"none is found in {places}", "set models.path, or install voiced again")

    def models(self) -> tuple[Model, ...]:
        """All that are known, there or not."""
        return tuple(self._models.values())

    def model(self, model_id: str) -> Model:
        """Raises ModelError for an id that is not known, naming the nearest."""
        if model_id in self._models:
            return self._models[model_id]
        near = difflib.get_close_matches(model_id, self._models, 1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise ModelError(model_id, "no such model", f"{meant}voicectl models list shows all")

    def find(self, model_id: str, role: str = "") -> Found:
        """The model's files, all there and of the right size; of the right `role` too, where one is given.

        Raises ModelError, which says what is missing or damaged and how to mend it.
        """
        model = self.model(model_id)
        if role and model.role != role:
            others = ", ".join(known.id for known in self.models() if known.role == role)
            raise ModelError(model_id, f"is a model for {model.role}, one for {role} is expected", f"known for it: {others}")
        damage = ""
        for folder in self._places(model):
            wrong = [what for file in model.files if (what := _cheap_check(folder / file.name, file))]
            if not wrong:
                return Found(model, folder, {file.part: folder / file.name for file in model.files})
            if len(wrong) < len(model.files) or not all(what.endswith(_MISSING) for what in wrong):
                damage = damage or wrong[0]
        raise ModelError(f"model {model.id}", damage or "its files are not there", self._mend(model))

    def verify(self, model_id: str) -> tuple[str, ...]:
        """Reads every byte of the model's files; the names of those no checksum is known of.

        Raises ModelError, naming the file, what was expected and what is there.
        """
        found = self.find(model_id)
        receipt = read_receipt(found.directory)
        unknown = []
        for file in found.model.files:
            wanted = file if file.sha256 else receipt.get(file.name, file)
            if wrong := check_file(found.directory / file.name, wanted):
                raise ModelError(str(found.directory / file.name), wrong, self._mend(found.model))
            if not wanted.sha256:
                unknown.append(file.name)
        return tuple(unknown)

    def fetch(self, model_id: str, progress: Progress = silent, *, trust_first_use: bool = False) -> Found:
        """The model, fetched unless it is there and every byte of it is right. Raises FetchError, which tells of every source tried."""
        from .fetch import fetch_model

        try:
            self.verify(model_id)
        except ModelError:
            fetch_model(self.model(model_id), self.cache, progress, trust_first_use=trust_first_use)
        return self.find(model_id)

    def _places(self, model: Model) -> list[Path]:
        """Folders that may hold its files. The cache comes last: what a user or a distribution put there is meant."""
        named = [source.path for source in model.sources if isinstance(source, Directory)]
        # An absolute path stays itself when it is joined to a folder.
        return [folder / name for name in [*named, model.id] for folder in self.search] + [self.cache / model.id]

    def _mend(self, model: Model) -> str:
        return f"voicectl models fetch {model.id}" if model.fetchable else "it comes with voiced: install voiced again"


def default_library(models_path: str = "") -> Library:
    """Looks in `models_path` (the setting models.path), then where a package puts models, then in the checkout or the installation this
    file is of, then where voiced-setup puts those that it fetches."""
    top = Path(__file__).resolve().parents[2]
    search = [Path(models_path).expanduser()] if models_path else []
    return Library([*search, SYSTEM_MODELS, top / "models", top / "site" / "models"], cache_directory() / "models")


def cache_directory() -> Path:
    """The folder of all that can be had again, a folder in it for each kind: `models`, `endpoint`, …

    VOICED_CACHE; else systemd's CacheDirectory; else voiced below the user's cache.
    """
    if own := os.environ.get("VOICED_CACHE"):
        return Path(own).expanduser()
    if service := os.environ.get("CACHE_DIRECTORY", "").split(":")[0]:
        return Path(service)
    user = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification has relative paths ignored.
    base = Path(user) if Path(user).is_absolute() else Path.home() / ".cache"
    return base / "voiced"


_MISSING = " is missing"


def _there(manifest: Path) -> bool:
    """Raises ModelError where that cannot be seen."""
    try:
        return manifest.is_file()
    except OSError as error:
        raise ModelError(str(manifest), f"cannot be read: {error.strerror}", "let this user read it, or set models.path") from None


def _cheap_check(path: Path, file: ModelFile) -> str:
    """What is wrong with a file by its size: "" for nothing."""
    try:
        size = path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return f"{path}{_MISSING}"
    except OSError as error:  # a folder that this user may not enter
        return f"{path} cannot be read: {error.strerror}"
    if file.size and size != file.size:
        return f"{path}: {file.size:,} bytes are expected, {size:,} are there"
    return "" if size else f"{path} is empty"


def main(arguments: Sequence[str]) -> int:
    """`python -m voiced.models [list | fetch [ID…] | verify [ID…]]`; the exit code. Without ids: the default models."""
    command, *ids = arguments or ["list"]
    try:
        library = default_library()
        if command == "list":
            for model in library.models():
                sys.stdout.write(f"{model.id:28} {model.role:16} {model.licence}\n")
        elif command == "fetch":
            for model_id in ids or DEFAULT_IDS:
                library.fetch(model_id, bar(sys.stderr))
        elif command == "verify":
            for model_id in ids or DEFAULT_IDS:
                library.verify(model_id)
        else:
            raise UsageError(command, "list, fetch or verify is expected")
    except VoicedError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
