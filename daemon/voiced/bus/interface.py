"""The names: what voiced offers on D-Bus, as tables.

What lives here: bus name, object paths, interfaces with their members and signatures, error names, and the introspection XML
made of them. What must not: connections and state, what a signal is made of (bodies.py). Dispatch reads the same tables, so what
is written in data/dbus/*.xml (run `python -m voiced.bus.interface` to write them again) is what is served.

Adding members keeps the version 1; removing or changing one makes Voice2. A client ignores members, keys of an a{sv} and
values of an open enumeration (State, Health, reasons) that it does not know.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from .connection import DAEMON

NAME = "org.voiced.Voice1"
ROOT = "/org/voiced/Voice1"
STATUS_PATH = f"{ROOT}/Status"
LANES_PATH = f"{ROOT}/lanes"

ERROR = f"{NAME}.Error"
NO_SUCH_LANE = f"{ERROR}.NoSuchLane"
NO_SUCH_TURN = f"{ERROR}.NoSuchTurn"
BUSY = f"{ERROR}.Busy"
BAD_ARGUMENT = f"{ERROR}.BadArgument"
NO_DEVICE = f"{ERROR}.NoDevice"
BAD_SETTINGS = f"{ERROR}.BadSettings"
FAILED = f"{ERROR}.Failed"

STANDARD_ERROR = f"{DAEMON}.Error"


@dataclass(frozen=True, slots=True)
class Arg:
    name: str
    signature: str


@dataclass(frozen=True, slots=True)
class Method:
    name: str
    says: str
    takes: tuple[Arg, ...] = ()
    gives: tuple[Arg, ...] = ()

    @property
    def signature(self) -> str:
        return "".join(arg.signature for arg in self.takes)


@dataclass(frozen=True, slots=True)
class Property:
    """Read-only. `emits`: true (PropertiesChanged carries it), false (it changes all the time: ask), const."""

    name: str
    signature: str
    says: str
    emits: str = "true"


@dataclass(frozen=True, slots=True)
class Signal:
    name: str
    says: str
    args: tuple[Arg, ...]

    @property
    def signature(self) -> str:
        return "".join(arg.signature for arg in self.args)


@dataclass(frozen=True, slots=True)
class Interface:
    name: str
    says: str
    methods: tuple[Method, ...] = ()
    signals: tuple[Signal, ...] = ()
    properties: tuple[Property, ...] = ()


def _args(text: str) -> tuple[Arg, ...]:
    """ "t turn, s text" → two Args."""
    return tuple(Arg(name, signature) for signature, name in (part.split() for part in text.split(",") if part.strip()))


def _event(name: str, says: str, own: str = "") -> Signal:
    return Signal(name, says, (*_args("t sequence, t turn, t sample"), *_args(own), Arg("details", "a{sv}")))


# ── ours ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

MANAGER = Interface(
    f"{NAME}.Manager",
    "The daemon. Signals of lanes and of this object reach subscribers only on the system bus, everyone on the session bus.",
    methods=(
        Method("Subscribe", "Sends the caller all signals until Unsubscribe or its end; harmless where they are broadcast."),
        Method("Unsubscribe", "Takes Subscribe back."),
        Method("Mute", "Mutes all lanes or none: a muted device is a process that is not there.", _args("b muted")),
        Method("GetStatus", "All there is to know, in one call.", (), _args("a{sv} status")),
        Method(
            "Reload",
            "Reads the settings file anew and returns when it holds; gives the keys that have changed in it and take effect at the next "
            "start. Error.BadSettings has a line for each mistake, and then nothing has changed.",
            (),
            _args("as restart"),
        ),
        Method(
            "Explain",
            "Why each wake was one, and what was none: the newest wakes, refusals and near misses of a lane (empty: of all), oldest first, "
            "limit at the most (0: all that are kept). No spoken words.",
            _args("s lane, u limit"),
            _args("aa{sv} decisions"),
        ),
        Method(
            "GetTurn",
            "The receipt of a turn that is over, its text too: each thing that happened, by sample and by clock, and the latencies. "
            "Error.NoSuchTurn where the turn is not over or not kept.",
            _args("t turn"),
            _args("a{sv} receipt"),
        ),
        Method(
            "ListTurns",
            "The newest turns that are over, of a lane (empty: of all), oldest first, limit at the most (0: all kept), a row each.",
            _args("s lane, u limit"),
            _args("aa{sv} turns"),
        ),
        Method(
            "GetLatencies",
            "Percentiles of a lane's turns (empty: of all), in milliseconds: a row for each latency and length of turn. No spoken words.",
            _args("s lane"),
            _args("aa{sv} latencies"),
        ),
    ),
    properties=(
        Property("Version", "s", "Of the program.", "const"),
        Property("Lanes", "ao", "Object paths of the lanes."),
        Property("Health", "s", "The worst lane's health, or starting."),
        Property("Muted", "b", "All lanes are muted."),
        Property("Placement", "a(ssuuauaua{sv})", "Role, process, pid, tid, cores wanted (empty: any), cores now; room to grow.", "false"),
        Property("Models", "a{ss}", "Role to model id.", "false"),
        Property("Statistics", "a{sd}", "Counts and times by name.", "false"),
        Property("Mistakes", "as", "Why the last Reload kept the old settings, a line each; empty where it did not."),
        Property("NextStart", "as", "Keys of the settings file that have changed and take effect at the next start."),
    ),
)

LANE = Interface(
    f"{NAME}.Lane",
    "One source of sound. Each signal has the lane's sequence number (from 1, a gap is something missed), the turn and a position in "
    "samples at 16 kHz; details has monotonic_us and realtime_us and may grow. Recognised text is in signals only, never in a property.",
    methods=(
        Method(
            "Trigger",
            "Opens a turn without a wake phrase; gives its id, or the open turn's. Option hold (b): the turn is the caller's from now on, "
            "and is cancelled when that leaves the bus; Error.Busy where it is another's. Without it nobody owns the turn.",
            _args("a{sv} options"),
            _args("t turn"),
        ),
        Method(
            "FollowUp",
            "Listens again without a phrase: opens a turn as soon as nobody plays sound (Playback) and its echo is over. Gives the turn's "
            "id; 0 where that is later: the Wake that opens it has the id, and no phrase. Forgotten where the caller leaves before.",
            _args("a{sv} options"),
            _args("t turn"),
        ),
        Method(
            "Playback",
            "The caller plays sound itself that this lane may hear, or no more. While anybody does, and for the echo's time after it, no "
            "phrase wakes. It ends with its caller.",
            _args("b active"),
        ),
        Method("Stop", "The speaker has finished: the open turn gives its final. Does nothing where no turn is open."),
        Method("Cancel", "Throws the open turn away: no final."),
        Method("Mute", "Mutes this lane or takes it back.", _args("b muted")),
    ),
    signals=(
        _event("Wake", "A phrase, or a client with an empty one, opened the turn, whose audio begins there.", "s phrase, t phrase_end"),
        _event("WakeRefused", "A phrase was nearly heard; nothing was opened, turn is 0.", "s phrase"),
        _event("NearMiss", "A score came near its threshold and went away again; turn is 0.", "s phrase"),
        _event("SpeechStarted", "The speaker has begun."),
        _event("Partial", "The text so far, which may still change.", "s text"),
        _event("LikelyEnd", "The turn may be over: a client may begin its work.", "s why"),
        _event("Resumed", "The speaker goes on after a LikelyEnd."),
        _event("Endpoint", "The speaker has finished; the first pass's text, the final is pending.", "s reason, t speech_end, s text"),
        _event("Final", "The text, which never changes; source is the pass it is from.", "s text, s source"),
        _event("TurnClosed", "The turn's last signal: why it closed and which positions it spans.", "s reason, t first, t last"),
        Signal(
            "Level",
            "How loud it is up to that position, five times a second, in dB below full scale. On any bus it goes to subscribers only: it "
            "tells that somebody speaks. It has no sequence number: a newer one replaces it. details has turn (0: none) and monotonic_us.",
            _args("t sample, d rms_dbfs, d peak_dbfs, a{sv} details"),
        ),
    ),
    properties=(
        Property("State", "s", "asleep, awake, hearing or trailing; may grow."),
        Property("StateReason", "s", "Why its state is what it is, in a few words that can be spoken; no text that was heard."),
        Property(
            "Health", "s", "ok, starting, restarting, stalled, no_device, clock_mismatch, overloaded, digital_silence or muted; may grow."
        ),
        Property("Muted", "b", "Nothing is heard."),
        Property("Phrases", "as", "What wakes it."),
        Property("Playing", "b", "A client plays sound itself (Playback): no phrase wakes."),
        Property("Source", "s", "Where its sound is from."),
        Property("Turn", "t", "The open turn; 0 where none is."),
        Property("Reason", "s", "Why its health is not ok, in one line; empty where there is nothing to say."),
    ),
)

STATUS = Interface(
    f"{NAME}.Status",
    "What anyone may read: no level, no text. The only object that broadcasts on the system bus.",
    properties=(
        Property("Version", "s", "Of the program.", "const"),
        Property("Health", "s", "The worst lane's health, or starting."),
        Property("Muted", "b", "All lanes are muted."),
    ),
)

OURS = (MANAGER, LANE, STATUS)

# ── standard (D-Bus specification, "Standard Interfaces") ──────────────────────────────────────────────────────────────

PROPERTIES = Interface(
    f"{DAEMON}.Properties",
    "",
    methods=(
        Method("Get", "", _args("s interface_name, s property_name"), _args("v value")),
        Method("GetAll", "", _args("s interface_name"), _args("a{sv} properties")),
        Method("Set", "", _args("s interface_name, s property_name, v value")),
    ),
    signals=(Signal("PropertiesChanged", "", _args("s interface_name, a{sv} changed_properties, as invalidated_properties")),),
)
INTROSPECTABLE = Interface(f"{DAEMON}.Introspectable", "", methods=(Method("Introspect", "", (), _args("s xml_data")),))
PEER = Interface(f"{DAEMON}.Peer", "", methods=(Method("Ping", ""), Method("GetMachineId", "", (), _args("s machine_uuid"))))
OBJECT_MANAGER = Interface(
    f"{DAEMON}.ObjectManager",
    "",
    methods=(Method("GetManagedObjects", "", (), _args("a{oa{sa{sv}}} objects")),),
    signals=(
        Signal("InterfacesAdded", "", _args("o object_path, a{sa{sv}} interfaces_and_properties")),
        Signal("InterfacesRemoved", "", _args("o object_path, as interfaces")),
    ),
)

# ── paths ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def lane_path(lane: str) -> str:
    """The object of a lane; what a path may not hold is written _XX, byte by byte, so every name has one path of its own."""
    escaped = re.sub(rb"[^A-Za-z0-9]", lambda found: b"_%02x" % found[0][0], lane.encode())
    return f"{LANES_PATH}/{escaped.decode() or '_'}"


def lane_of(path: str) -> str | None:
    """The lane that `lane_path` made this path of; None for any other path."""
    prefix, _, element = path.rpartition("/")
    if prefix != LANES_PATH:
        return None
    raw = re.sub(rb"_([0-9a-f]{2})", lambda found: bytes([int(found[1], 16)]), b"" if element == "_" else element.encode())
    try:
        lane = raw.decode()
    except UnicodeDecodeError:
        return None
    return lane if lane_path(lane) == path else None


# ── XML ────────────────────────────────────────────────────────────────────────────────────────────────────────────────

_DOCTYPE = (
    '<!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN"\n'
    ' "http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">\n'
)
_EMITS = f"{DAEMON}.Property.EmitsChangedSignal"


def _element(tag: str, says: str, attributes: str, inside: list[str]) -> list[str]:
    comment = [f"    <!-- {says} -->"] if says else []
    if not inside:
        return [*comment, f"    <{tag} {attributes}/>"]
    return [*comment, f"    <{tag} {attributes}>", *inside, f"    </{tag}>"]


def _arg(arg: Arg, direction: str = "") -> str:
    return f"      <arg name={quoteattr(arg.name)} type={quoteattr(arg.signature)}{direction}/>"


def interface_xml(interface: Interface) -> str:
    lines = [f"  <!-- {interface.says} -->"] if interface.says else []
    lines.append(f"  <interface name={quoteattr(interface.name)}>")
    for method in interface.methods:
        inside = [_arg(arg, ' direction="in"') for arg in method.takes] + [_arg(arg, ' direction="out"') for arg in method.gives]
        lines += _element("method", method.says, f"name={quoteattr(method.name)}", inside)
    for signal in interface.signals:
        lines += _element("signal", signal.says, f"name={quoteattr(signal.name)}", [_arg(arg) for arg in signal.args])
    for prop in interface.properties:
        inside = [f'      <annotation name="{_EMITS}" value="{prop.emits}"/>'] if prop.emits != "true" else []
        lines += _element("property", prop.says, f'name={quoteattr(prop.name)} type={quoteattr(prop.signature)} access="read"', inside)
    return "\n".join([*lines, "  </interface>", ""])


def node_xml(interfaces: tuple[Interface, ...] = (), children: tuple[str, ...] = ()) -> str:
    """Introspection data of an object: its interfaces and the names of its children."""
    inside = "".join(interface_xml(item) for item in interfaces) + "".join(f"  <node name={quoteattr(name)}/>\n" for name in children)
    return f"{_DOCTYPE}<node>\n{inside}</node>\n"


DATA = Path(__file__).parent.parent / "data" / "dbus"


def introspection_xml() -> dict[str, str]:
    """File name to content: one file an interface, the contract as it is installed in dbus-1/interfaces."""
    return {f"{interface.name}.xml": node_xml((interface,)) for interface in OURS}


def main() -> int:
    DATA.mkdir(parents=True, exist_ok=True)
    for name, text in introspection_xml().items():
        (DATA / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
