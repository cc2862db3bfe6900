"""Every knob: its default, its unit, its range, its sentence; and the rules between knobs.

What lives here: the table, and what is read from it (the file's reader, the commented file, the plain form that child processes
get). What must not: what a setting does. A section is a frozen record; `Settings` holds one of each.

`python -m voiced.settings` prints config/voiced.yaml.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .knobs import knob

_NAME = r"[A-Za-z0-9_-]{1,64}"
_NAME_FORM = "a name of letters, digits, _ and -"
_MODEL = r"[a-z0-9][a-z0-9._-]{0,99}"
_MODEL_FORM = "the id of a model (voicectl models list)"
_CORES_HIGH = 1023

HARD_CAP_MS = 30_000
"""No turn is longer, whatever the file says: the starter transducer's position code wraps there."""


@dataclass(frozen=True, slots=True)
class BusSettings:
    """The daemon on D-Bus"""

    library: str = knob("auto", "D-Bus library.", choices=("auto", "dbus-next", "dbus-fast"))
    kind: str = knob("session", "Bus to be found on, unless an address is given.", choices=("session", "system"))
    address: str = knob("", "Address of another bus.", pattern=r"|[a-z-]+:.+", form='"" or a D-Bus address such as unix:path=/run/x')


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The log, one line a turn"""

    level: str = knob("info", "Least weight of what is logged.", choices=("debug", "info", "warning", "error"), live=True)
    text: bool = knob(False, "Put the spoken words into the log.", live=True)


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Which model plays which role"""

    path: str = knob("", "Folder that is searched for models first.", pattern=r"|/.*", form='"" or an absolute path')
    wake_embedding: str = knob("openwakeword-embedding", "Speech embedding below the wake heads.", pattern=_MODEL, form=_MODEL_FORM)
    vad: str = knob("silero-vad", "Voice activity detector.", pattern=_MODEL, form=_MODEL_FORM)
    transducer: str = knob("starter-en", "Streaming recognizer.", pattern=_MODEL, form=_MODEL_FORM)
    second_pass: str = knob("moonshine-tiny-en", 'Recognizer of the second pass; "" for none.', pattern=f"|{_MODEL}", form=_MODEL_FORM)


@dataclass(frozen=True, slots=True)
class LaneSettings:
    """One source of sound and what listens to it"""

    name: str = knob("main", "Name on the bus, once in the file.", pattern=_NAME, form=_NAME_FORM)
    source: str = knob(
        "auto",
        "Where the sound is from.",
        pattern=r"(?!file:).+|file:/.+",
        form="auto, a device's name or number (voicectl mic list), or file: and an absolute path",
    )
    channel: str = knob(
        "auto", "Channel of the device.", pattern=r"auto|mix|[0-9]{1,3}", form="auto (the only one, or the mix), mix, or a number from 0"
    )


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    """Reading a sound device"""

    block_ms: float = knob(40.0, "Length of a block.", low=10, high=200)
    stall_ms: float = knob(1000.0, "A device that gives no block for so long is opened anew.", low=200, high=60_000)
    reopen_ms: float = knob(500.0, "Wait before a device is opened again; doubled each time.", low=50, high=60_000)
    reopen_max_ms: float = knob(10_000.0, "Longest wait before a device is opened again.", low=50, high=600_000)


@dataclass(frozen=True, slots=True)
class GateSettings:
    """The gate: in a quiet room nothing else runs"""

    enabled: bool = knob(True, "Let the gate stop the wake stage in a quiet room.", live=True)
    margin_db: float = knob(3.0, "Loudness above the room's own noise that opens it.", low=0, high=30, live=True)
    floor_dbfs: float = knob(-72.0, "Loudness below which it never opens.", low=-100, high=-30, live=True)
    hold_ms: float = knob(2000.0, "It stays open for so long after the last loud block.", low=100, high=60_000, live=True)


@dataclass(frozen=True, slots=True)
class PhraseSettings:
    """A wake phrase"""

    phrase: str = knob("jarvis", "Id of its head model, once in the list.", pattern=_MODEL, form=_MODEL_FORM)
    threshold: float = knob(0.9, "Score that counts as heard.", low=0.01, high=1, live=True)
    hops: int = knob(2, "Scores in a row, one every 80 ms, that must count.", low=1, high=25, live=True)


@dataclass(frozen=True, slots=True)
class WakeSettings:
    """The wake phrase, in two stages"""

    phrases: tuple[PhraseSettings, ...] = knob((PhraseSettings(),), "Phrases listened for; none: only clients open turns.", low=0, high=16)
    refractory_ms: float = knob(1500.0, "After a decision the phrase is not decided again for so long.", low=0, high=60_000, live=True)
    phrase_end_ms: float = knob(245.0, "The phrase is taken to end so long after the first score that counts.", low=0, high=1000, live=True)
    verify_hops: int = knob(2, "Scores waited for before the second stage decides.", low=1, high=25, live=True)
    min_speech: float = knob(0.5, "Mean speech probability that the second stage wants over the phrase.", low=0, high=1, live=True)


@dataclass(frozen=True, slots=True)
class VadSettings:
    """Speech or silence"""

    on: float = knob(0.5, "Speech probability at which speech begins.", low=0.02, high=1, live=True)
    off: float = knob(0.35, "Speech probability below which it ends; less than on.", low=0.01, high=0.99, live=True)
    min_speech_ms: float = knob(100.0, "Shorter bursts are not speech.", low=0, high=5000, live=True)
    min_silence_ms: float = knob(200.0, "Shorter pauses are bridged.", low=0, high=5000, live=True)
    pad_ms: float = knob(100.0, "Added before and after each stretch of speech.", low=0, high=2000, live=True)


@dataclass(frozen=True, slots=True)
class TransducerSettings:
    """The streaming recognizer"""

    threads: int = knob(1, "Threads of a lane's recognizer.", low=1, high=8)
    end_token: bool = knob(True, "Use the end token of a model that has one.", live=True)
    lead_in_ms: float = knob(0.0, "Silence put before a turn's sound: some models miss a first word without.", low=0, high=2000, live=True)


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """When a turn ends"""

    token_threshold: float = knob(
        -3.0, "Log-probability that an end token must have to count.", low=-30, high=0, unit="natural logarithm", live=True
    )
    token_silence_ms: float = knob(100.0, "Silence that must go with an end token.", low=0, high=5000, live=True)
    silence_ms: float = knob(700.0, "Silence after speech that ends a turn without a token.", low=100, high=10_000, live=True)
    no_text_ms: float = knob(1000.0, "The same, while no word has been recognised.", low=100, high=10_000, live=True)
    no_speech_ms: float = knob(5000.0, "A turn in which nobody speaks ends after so long.", low=500, high=HARD_CAP_MS, live=True)
    too_long_ms: float = knob(15_000.0, "No turn is longer.", low=1000, high=HARD_CAP_MS, live=True)
    audio_lost_ms: float = knob(250.0, "A turn that loses so much sound at once ends.", low=0, high=5000, live=True)


@dataclass(frozen=True, slots=True)
class SecondPassSettings:
    """The second pass, which rewrites a finished turn"""

    enabled: bool = knob(True, "Rewrite finished turns with the second-pass model.", live=True)
    deadline_ms: float = knob(3000.0, "The first pass's text is final when the second is not done by then.", low=50, high=60_000, live=True)
    threads: int = knob(1, "Threads of its model.", low=1, high=64)
    lead_pad_ms: float = knob(100.0, "Sound kept before the first speech.", low=0, high=2000, live=True)
    tail_pad_ms: float = knob(200.0, "Sound kept after the last speech.", low=0, high=2000, live=True)
    queue: int = knob(4, "Turns that may wait for it; one more keeps its first-pass text.", low=1, high=64)


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """Which thread runs on which cores ([]: any)"""

    board: str = knob("auto", "Board whose rules hold.", choices=("auto", "generic", "k3"))
    bus: tuple[int, ...] = knob((), "Cores of the main process.", low=0, high=_CORES_HIGH)
    capture: tuple[int, ...] = knob((), "Cores of the capture processes.", low=0, high=_CORES_HIGH)
    ears: tuple[int, ...] = knob((), "Cores of each lane's gate, wake and VAD.", low=0, high=_CORES_HIGH)
    transducer: tuple[int, ...] = knob((), "Cores of each lane's streaming recognizer.", low=0, high=_CORES_HIGH)
    second_pass: tuple[int, ...] = knob((), "Cores of the second pass.", low=0, high=_CORES_HIGH)
    second_pass_provider: str = knob("cpu", "What computes the second pass.", choices=("cpu", "spacemit"))
    second_pass_ai_cores: tuple[int, ...] = knob((), "AI cores of its provider, one a thread.", low=0, high=_CORES_HIGH)
    nice_capture: int = knob(0, "Added to the daemon's nice level for capture.", low=-20, high=19)
    nice_ears: int = knob(0, "The same for ears.", low=-20, high=19)
    nice_transducer: int = knob(5, "The same for the streaming recognizer.", low=-20, high=19)
    nice_second_pass: int = knob(10, "The same for the second pass.", low=-20, high=19)


@dataclass(frozen=True, slots=True)
class Settings:
    """All sections; `lanes` is a list."""

    bus: BusSettings = BusSettings()
    log: LogSettings = LogSettings()
    models: ModelSettings = ModelSettings()
    lanes: tuple[LaneSettings, ...] = knob((LaneSettings(),), "Lanes: one source of sound each, heard at once.", low=1, high=8)
    capture: CaptureSettings = CaptureSettings()
    gate: GateSettings = GateSettings()
    wake: WakeSettings = WakeSettings()
    vad: VadSettings = VadSettings()
    transducer: TransducerSettings = TransducerSettings()
    endpoint: EndpointSettings = EndpointSettings()
    second_pass: SecondPassSettings = SecondPassSettings()
    placement: PlacementSettings = PlacementSettings()


def defaults() -> Settings:
    """What an empty file gives."""
    return Settings()


def to_plain(settings: Settings) -> dict[str, Any]:
    """Dicts, lists and scalars that JSON keeps exactly: how child processes get their settings."""
    from . import knobs

    return knobs.to_plain(settings)
