"""Every knob: its default, its unit, its range, its sentence; and the rules between knobs.

What lives here: the table, and what is read from it (a text of settings, the commented file, the plain form that child processes
get). What must not: what a setting does, where files are (settingsfile.py). A section is a frozen record; `Settings` holds one of each.

`python -m voiced.settings` prints config/voiced.yaml.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from . import knobs
from .boards import Board, board, spell
from .errors import ConfigError
from .knobs import knob
from .phrases import MODEL, MODEL_FORM, Broken, WakeSettings, heads, texts, wrong_phrases
from .profiles import EndpointSettings, contradictions, inherit, sources

_NAME = r"[A-Za-z0-9_-]{1,64}"
_NAME_FORM = "a name of letters, digits, _ and -"
_CORES_HIGH = 1023


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
    receipts: int = knob(50, "Turns whose receipt, words too, is kept in memory for voicectl turns; 0: none.", low=0, high=200, live=True)


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Which model plays which role"""

    path: str = knob("", "Folder that is searched for models first.", pattern=r"|/.*", form='"" or an absolute path')
    wake_embedding: str = knob("speech-embedding", "Speech embedding below the wake heads.", pattern=MODEL, form=MODEL_FORM)
    wake_text: str = knob("starter-en", "Streaming transducer that hears wake phrases given as text.", pattern=MODEL, form=MODEL_FORM)
    wake_verifier: str = knob("starter-en", "Streaming transducer of the wake phrase's second stage.", pattern=MODEL, form=MODEL_FORM)
    vad: str = knob("silero-vad", "Voice activity detector.", pattern=MODEL, form=MODEL_FORM)
    transducer: str = knob("starter-en", "Streaming recognizer.", pattern=MODEL, form=MODEL_FORM)
    second_pass: str = knob("moonshine-tiny-en", 'Recognizer of the second pass; "" for none.', pattern=f"|{MODEL}", form=MODEL_FORM)


@dataclass(frozen=True, slots=True)
class LaneSettings:
    """One source of sound and what listens to it"""

    name: str = knob("main", "Name on the bus, once in the file.", pattern=_NAME, form=_NAME_FORM)
    source: str = knob(
        "auto",
        "Where the sound is from.",
        pattern=r"(?!(?:file|loop|unix|tcp):).+|(?:file|loop|unix):/.+|tcp:.+:[0-9]{1,5}",
        form="auto, a device's id, name or number, file:/PATH, loop:/PATH (again and again), or a socket that sends sound: unix:/PATH, "
        "tcp:HOST:PORT",
    )
    listen: str = knob(
        "phrase", "What opens a turn: a wake phrase, or always: whoever speaks, one turn after the other.", choices=("phrase", "always")
    )
    channel: str = knob(
        "auto", "Channel of the device.", pattern=r"auto|mix|[0-9]{1,3}", form="auto (the loudest live one), mix, or a number from 0"
    )
    endpoint: EndpointSettings | None = knob(None, "Knobs of the section endpoint, its profile too, for this lane alone.")


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    """Reading a sound device"""

    block_ms: float = knob(40.0, "Length of a block.", low=10, high=200)
    stall_ms: float = knob(1000.0, "A device that gives no block for so long is opened anew.", low=200, high=60_000)
    reopen_ms: float = knob(500.0, "Wait before a device is opened again; doubled each time.", low=50, high=60_000)
    reopen_max_ms: float = knob(1500.0, "Longest wait before a device is opened again.", low=50, high=600_000)


@dataclass(frozen=True, slots=True)
class GateSettings:
    """The gate: in a quiet room nothing else runs"""

    enabled: bool = knob(True, "Let the gate stop the wake stage in a quiet room.", live=True)
    margin_db: float = knob(8.0, "Loudness above the room's own noise that opens it.", low=0, high=30, live=True)
    floor_dbfs: float = knob(-80.0, "Loudness below which it never opens.", low=-100, high=-30, live=True)
    hold_ms: float = knob(2000.0, "It stays open for so long after the last loud block.", low=100, high=60_000, live=True)


@dataclass(frozen=True, slots=True)
class PlaybackSettings:
    """Sound that a client plays itself, and says so (Playback): no phrase wakes by it"""

    echo_ms: float = knob(400.0, "So long it is in the room after its end; a follow-up is heard from then on.", low=0, high=5000, live=True)


@dataclass(frozen=True, slots=True)
class VadSettings:
    """Speech or silence"""

    on: float = knob(0.5, "Speech probability at which speech begins.", low=0.02, high=1, live=True)
    off: float = knob(0.35, "Speech probability below which it ends; less than on.", low=0.01, high=0.99, live=True)
    min_speech_ms: float = knob(100.0, "Shorter bursts are not speech.", low=0, high=5000, live=True)


@dataclass(frozen=True, slots=True)
class TransducerSettings:
    """The streaming recognizer"""

    threads: int = knob(1, "Threads of a lane's recognizer.", low=1, high=8)
    paths: int = knob(6, "Hypotheses that its search keeps; 1 is greedy, which takes less back, and hears worse.", low=1, high=16)
    language: float = knob(0.3, "Weight of its language model, where it has one and keeps several hypotheses; 0: none.", low=0, high=1)
    end_token: bool = knob(True, "Use the end token of a model that has one.", live=True)
    lead_in_ms: float = knob(160, "Silence heard before a turn, or a first word that begins at once is misheard.", low=0, high=1000)


@dataclass(frozen=True, slots=True)
class SecondPassSettings:
    """The second pass, which rewrites a finished turn"""

    enabled: bool = knob(True, "Rewrite finished turns with the second-pass model.", live=True)
    speculative: bool = knob(True, "Begin at the first sign of an end, and again if the speaker goes on.", live=True)
    guard: bool = knob(True, "Believe its text only where speech, sense and the first pass allow it.", live=True)
    deadline_ms: float = knob(3000.0, "The first pass's text is final when the second is not done by then.", low=50, high=60_000, live=True)
    threads: int = knob(1, "Threads of its model.", low=1, high=64)
    lead_pad_ms: float = knob(100.0, "Sound kept before the first speech.", low=0, high=2000, live=True)
    tail_pad_ms: float = knob(200.0, "Sound kept after the last speech.", low=0, high=2000, live=True)
    server: str = knob(
        "",
        "Address of a llama-server (llama.cpp) that is asked in place of a model of ours: http://127.0.0.1:8090.",
        pattern=r"|http://[^/:@\s]+:[0-9]{1,5}",
        form='"" or http://HOST:PORT',
    )
    queue: int = knob(4, "Lanes that may wait for it, a turn each; one more keeps its first-pass text.", low=1, high=64)


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
    # stage 2 of a wake runs there: at 5, beside a program that wants every core, a wake came twice as late as in calm (tools/bench busy)
    nice_transducer: int = knob(2, "The same for the streaming recognizer.", low=-20, high=19)
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
    playback: PlaybackSettings = PlaybackSettings()
    vad: VadSettings = VadSettings()
    transducer: TransducerSettings = TransducerSettings()
    endpoint: EndpointSettings = EndpointSettings()
    second_pass: SecondPassSettings = SecondPassSettings()
    placement: PlacementSettings = PlacementSettings()


def defaults() -> Settings:
    """What an empty file gives."""
    return Settings()


def roles(settings: Settings) -> dict[str, str]:
    """Role to model id, for each model that these settings want."""
    models = settings.models
    wanted = {"vad": models.vad, "transducer": models.transducer}
    if heads(settings.wake.phrases):
        wanted["wake embedding"] = models.wake_embedding
    wanted |= {f"wake phrase {phrase.phrase}": phrase.phrase for phrase in heads(settings.wake.phrases)}
    if texts(settings.wake.phrases):
        wanted["wake text"] = models.wake_text
    if settings.wake.phrases and settings.wake.verifier == "phrase":
        wanted["wake verifier"] = models.wake_verifier
    for detector in sorted({endpoint_of(settings, lane.name).turn_detector for lane in settings.lanes} - {"off"}):
        wanted["turn detector"] = detector
    if has_second_pass(settings):
        wanted["second pass"] = settings.second_pass.server or models.second_pass
    return wanted


def endpoint_of(settings: Settings, lane: str) -> EndpointSettings:
    """The knobs by which that lane's turns end; "" for a lane that is in no file."""
    return next((entry.endpoint for entry in settings.lanes if entry.name == lane), None) or settings.endpoint


def listens_always(settings: Settings, lane: str) -> bool:
    """That lane wants no phrase; "" for a lane that is in no file."""
    return any(entry.listen == "always" for entry in settings.lanes if entry.name == lane)


def has_second_pass(settings: Settings) -> bool:
    """Finished turns are rewritten."""
    return settings.second_pass.enabled and bool(settings.second_pass.server or settings.models.second_pass)


def to_plain(settings: Settings) -> dict[str, Any]:
    """Dicts, lists and scalars that JSON keeps exactly: how child processes get their settings."""
    return knobs.to_plain(settings)


def from_plain(plain: Mapping[str, Any]) -> Settings:
    """What `to_plain` made this of; ConfigError where it is anything else. Rules between keys are not tried again."""
    try:
        return knobs.from_plain(Settings, plain)
    except ValueError as error:
        # both ends are of one version, but where another was installed beside a daemon that runs
        raise ConfigError("settings", str(error), "voiced was changed while it ran: start it again") from None


# ── rules between keys ─────────────────────────────────────────────────────────────────────────────────────────────────


def _vad_leaves_speech(s: Settings) -> Iterator[Broken]:
    if s.vad.off >= s.vad.on:  # else a probability between them begins and ends speech at once
        yield ("vad.off", "vad.on"), "vad.off must be less than vad.on"


def _capture_waits(s: Settings) -> Iterator[Broken]:
    if s.capture.stall_ms < 2 * s.capture.block_ms:
        yield ("capture.stall_ms", "capture.block_ms"), "capture.stall_ms must be at least twice capture.block_ms"
    if s.capture.reopen_max_ms < s.capture.reopen_ms:
        yield ("capture.reopen_max_ms", "capture.reopen_ms"), "capture.reopen_max_ms must be at least capture.reopen_ms"


def _endpoint_order(s: Settings) -> Iterator[Broken]:
    for section, endpoint in [("endpoint", s.endpoint), *((f"lanes[{at}].endpoint", lane.endpoint) for at, lane in enumerate(s.lanes))]:
        for shorter, longer in contradictions(endpoint) if endpoint else ():
            yield (f"{section}.{shorter}", f"{section}.{longer}"), f"{section}.{shorter} must be at most {section}.{longer}"


def _lanes_once(s: Settings) -> Iterator[Broken]:
    names = [lane.name for lane in s.lanes]
    for at, name in enumerate(names):
        if name in names[:at]:
            yield (f"lanes[{at}].name", f"lanes[{names.index(name)}].name"), "each name must be in the list once"


def _phrases(s: Settings) -> Iterator[Broken]:
    yield from wrong_phrases(s.wake.phrases, "wake.phrases")


def _files_exist(s: Settings) -> Iterator[Broken]:
    if s.models.path and not Path(s.models.path).is_dir():
        yield ("models.path",), "must be a folder that exists"
    for at, lane in enumerate(s.lanes):
        kind, _, path = lane.source.partition(":")
        if kind in ("file", "loop") and not Path(path).is_file():
            yield (f"lanes[{at}].source",), "must be a file that exists"
        if kind == "tcp" and not 0 < int(path.rpartition(":")[2]) < 1 << 16:
            yield (f"lanes[{at}].source",), "must have a port from 1 to 65535"


Rule = Callable[[Settings], Iterator[Broken]]
"""What must be between the keys of settings."""

RULES: tuple[Rule, ...] = (_vad_leaves_speech, _capture_waits, _endpoint_order, _lanes_once, _phrases, _files_exist)


def check_board(settings: Settings, on: Board) -> list[Broken]:
    """What of the placement cannot be on that board; works on any machine."""
    p, threads = settings.placement, settings.second_pass.threads
    ai = ("placement.second_pass_ai_cores",)
    found: list[Broken] = []
    for role in ("bus", "capture", "ears", "transducer", "second_pass"):
        if absent := set(getattr(p, role)) - set(on.cores):
            found.append(((f"placement.{role}",), f"must name {on.allows()}; {spell(tuple(absent))} cannot be"))
    if p.second_pass_provider == "spacemit" and not on.ai_cores:
        found.append((("placement.second_pass_provider", "placement.board"), f"must be cpu: the {on.name} board has no AI cores"))
    elif p.second_pass_provider == "spacemit":
        if set(p.second_pass_ai_cores) - set(on.ai_cores):
            found.append((ai, f"must name AI cores, {spell(on.ai_cores)} on the {on.name}"))
        if threads > on.ai_threads:
            found.append((("second_pass.threads",), f"must be at most {on.ai_threads}, the threads the {on.name}'s AI cores bear"))
        if p.second_pass_ai_cores and len(p.second_pass_ai_cores) != threads:
            found.append(((*ai, "second_pass.threads"), "second_pass_ai_cores must have as many cores as second_pass.threads"))
    elif p.second_pass_ai_cores:
        found.append(((*ai, "placement.second_pass_provider"), "must be [] where second_pass_provider is cpu"))
    return found


def _look_up(settings: Settings, key: str) -> Any:
    """The value at `lanes[0].name`."""
    value: Any = settings
    for part in key.split("."):
        name, _, at = part.partition("[")
        value = getattr(value, name)
        if at:
            value = value[int(at[:-1])]
    return value


def _default(key: str) -> Any:
    kind: Any = Settings
    *sections, name = [part.partition("[")[0] for part in key.split(".")]
    for section in sections:
        row = knobs.rows(kind)[section]
        kind = row.item or row.type
    return knobs.rows(kind)[name].knob.default


# ── the file ───────────────────────────────────────────────────────────────────────────────────────────────────────────

LINES_LIMIT = 100
"""Mistakes that are told one by one."""


def parse(text: str, name: str, on: str = "", more: Sequence[Rule] = ()) -> Settings:
    """The settings of a text; `name` stands before the line in its mistakes. See settingsfile.read."""
    return parse_all([(name, text)], on, more)


def parse_all(texts: Sequence[tuple[str, str]], on: str = "", more: Sequence[Rule] = ()) -> Settings:
    """The settings of several texts with their names, of which a later one has the last word on what it says: a key, or a whole list."""
    from .yamlread import Mistake, Reader, Stack

    stack = Stack(texts)
    reader = Reader()
    settings = inherited(reader.section(Settings, stack.merged), reader.lines)
    mistakes = [*stack.mistakes, *(mistake for one in stack.nodes for mistake in Reader.of(Settings, one))]
    wrong = {mistake.key for mistake in mistakes}
    broken = [item for rule in (*RULES, *more) for item in rule(settings)]
    for keys, must in broken + check_board(settings, board(on or settings.placement.board)):
        if wrong & {source for key in keys for source in sources(key)}:  # a default stands in for a wrong value: nobody wrote what is seen
            continue
        written = [key for key in keys if key in reader.lines] or list(keys[:1])
        got = ", ".join(f"{knobs.show(_look_up(settings, key))}" for key in keys)
        usual = ", ".join(knobs.show(_default(key)) for key in keys)
        mistakes.append(Mistake(reader.line(written[0]), written[0], f"{must}; got {got}; default {usual}"))
    if mistakes:
        mistakes.sort(key=lambda mistake: mistake.line)
        raise _all(
            [f"{stack.place(m.line)}: {m.key}: {m.what}" if m.key else f"{stack.place(m.line)}: {m.what}" for m in mistakes], texts[0][0]
        )
    return settings


def inherited(found: Settings, written: Collection[str]) -> Settings:
    """What a file leaves to a profile, or for a lane to the file's own section, filled in; `written`: the keys that it has."""
    endpoint, of_lanes = inherit(found.endpoint, [lane.endpoint for lane in found.lanes], written)
    return replace(
        found, endpoint=endpoint, lanes=tuple(replace(lane, endpoint=own) for lane, own in zip(found.lanes, of_lanes, strict=True))
    )


def _all(lines: list[str], name: str) -> ConfigError:
    count = len(lines)
    if count > LINES_LIMIT:
        lines[LINES_LIMIT:] = [f"{name}: {count - LINES_LIMIT} more mistakes"]
    if count == 1:
        return ConfigError("", lines[0], lines=tuple(lines))
    return ConfigError(name, f"{count} mistakes, the first: {lines[0]}", lines=tuple(lines))


def render_yaml(settings: Settings | None = None) -> str:
    """A settings file with every knob under its comment."""
    head = (
        "# Settings of voiced. Every knob is here with its default; leave out what you do not change.",
        "# `voiced --check-config FILE` tells every mistake with its line, `voicectl reload` applies the file to a running",
        "# voiced and says which of the changes take effect at the next start.",
    )
    return "\n".join((*head, *knobs.render(settings or defaults()))) + "\n"


if __name__ == "__main__":
    print(render_yaml(), end="")
