"""What voicectl may import of voiced, and nothing else: the bus client, the models, how events look; stages to measure with.

Light on purpose: what needs NumPy or a model library is imported when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import __version__
from .boards import board
from .bus.client import Changed, Client, Heard, Presence, Unknown
from .bus.connection import CallError
from .bus.private import find_bus
from .command import run_command
from .desk import Published
from .errors import (
    BusError,
    ConfigError,
    DeviceError,
    FetchError,
    InputError,
    InternalError,
    ModelError,
    OutputError,
    UsageError,
    VoicedError,
    reason_of,
)
from .events import (
    Cancel,
    CloseReason,
    CloseTurn,
    DropRewrite,
    Endpoint,
    Event,
    Final,
    FirstPass,
    Foresee,
    Foreseen,
    LikelyEnd,
    NearMiss,
    Order,
    Partial,
    Rewrite,
    Rewritten,
    ScoreTurn,
    SpeechProbability,
    Stop,
    TextSource,
    Trigger,
    TurnClosed,
    TurnScore,
    Wake,
    WakeRefused,
    Words,
)
from .files import Begun, Over, Refused, Remark, hear
from .guard import Limits, is_crumb, letters, refusal
from .journal import trace
from .models import DEFAULT_IDS, Library, cache_directory, default_library
from .phrases import TEXT_BOOST, TEXT_THRESHOLD, PhraseSettings, unsayable
from .phrases import plain as phrase_words
from .plain import decode, encode
from .preflight import DBUS_LIBRARIES, LIBRARIES, Finding, tcm, try_library, try_microphone, try_provider
from .profiles import PROFILES, EndpointSettings, contradictions
from .progress import bar
from .receipts import from_lines as receipts_from_lines
from .receipts import to_plain as plain_receipt
from .runtime_dir import runtime_directory
from .segments import SegmentRules, segments
from .settings import Settings, defaults, roles
from .settings import parse as parse_settings
from .settingsfile import find_config
from .settingsfile import read as read_settings
from .terminal import Conversation, json_line, reader_gone
from .turn import TurnMachine
from .units import HARD_CAP_MS, RATE, counted, to_ms, to_samples

if TYPE_CHECKING:
    from .assembly import pipeline, second_pass, transducer, turn_rules, wait_hops, wake_verifier
    from .audio import AudioFrame, Samples
    from .diagnosis import Finding as SoundFinding
    from .diagnosis import Grade, channel_to_hear
    from .diagnosis import findings as diagnose
    from .diagnosis import worst as worst_grade
    from .ears import PHRASE_SAMPLES, Candidate
    from .pipeline import HAND_OVER, Pipeline
    from .recording import Burst, Recording, find_devices, play_bursts
    from .soundcheck import Measures, drift_of, glance, measure, place_of
    from .sources.bursts import burst as burst_samples
    from .sources.devices import Device, closed_nodes, where_are_they
    from .sources.devices import choose as choose_device
    from .sources.microphone import Converter, interleaved, to_int16
    from .sources.soundcard import Opened
    from .sources.wavfile import read_audio
    from .spelling import speller
    from .stages.catching_up import CatchingUp
    from .stages.features import WakeFeatures, windows
    from .stages.pieces import Pieces
    from .stages.second_pass import SecondPassStage
    from .stages.session import Port, open_session
    from .stages.sherpa import LANGUAGE, STREAMING, probe, provider
    from .stages.transducer import END_TOKEN, Transducer
    from .stages.turn_detector import TurnDetector
    from .stages.vad import Vad
    from .stages.wake import Crossing, Phrase, Verdict
else:

    def __getattr__(name: str) -> object:
        """The heavy names, all at the first question for one of them."""
        if name.startswith("_") or name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from .assembly import pipeline, second_pass, transducer, turn_rules, wait_hops, wake_verifier
        from .audio import AudioFrame, Samples
        from .diagnosis import Finding as SoundFinding
        from .diagnosis import Grade, channel_to_hear
        from .diagnosis import findings as diagnose
        from .diagnosis import worst as worst_grade
        from .ears import PHRASE_SAMPLES, Candidate
        from .pipeline import HAND_OVER, Pipeline
        from .recording import Burst, Recording, find_devices, play_bursts
        from .soundcheck import Measures, drift_of, glance, measure, place_of
        from .sources.bursts import burst as burst_samples
        from .sources.devices import Device, closed_nodes, where_are_they
        from .sources.devices import choose as choose_device
        from .sources.microphone import Converter, interleaved, to_int16
        from .sources.soundcard import Opened
        from .sources.wavfile import read_audio
        from .spelling import speller
        from .stages.catching_up import CatchingUp
        from .stages.features import WakeFeatures, windows
        from .stages.pieces import Pieces
        from .stages.second_pass import SecondPassStage
        from .stages.session import Port, open_session
        from .stages.sherpa import LANGUAGE, STREAMING, probe, provider
        from .stages.transducer import END_TOKEN, Transducer
        from .stages.turn_detector import TurnDetector
        from .stages.vad import Vad
        from .stages.wake import Crossing, Phrase, Verdict

        globals().update(END_TOKEN=END_TOKEN, STREAMING=STREAMING, AudioFrame=AudioFrame, Candidate=Candidate, Pipeline=Pipeline, Port=Port)
        globals().update(LANGUAGE=LANGUAGE, Samples=Samples)
        globals().update(SoundFinding=SoundFinding, Grade=Grade, diagnose=diagnose, worst_grade=worst_grade, Measures=Measures)
        globals().update(channel_to_hear=channel_to_hear)
        globals().update(Burst=Burst, Recording=Recording, find_devices=find_devices, play_bursts=play_bursts, burst_samples=burst_samples)
        globals().update(drift_of=drift_of, glance=glance, measure=measure, place_of=place_of, Device=Device)
        globals().update(closed_nodes=closed_nodes, where_are_they=where_are_they, choose_device=choose_device, Opened=Opened)
        globals().update(Converter=Converter, interleaved=interleaved, to_int16=to_int16)
        globals().update(Transducer=Transducer, Vad=Vad, WakeFeatures=WakeFeatures, open_session=open_session, pipeline=pipeline)
        globals().update(SecondPassStage=SecondPassStage, TurnDetector=TurnDetector, second_pass=second_pass, turn_rules=turn_rules)
        globals().update(HAND_OVER=HAND_OVER, transducer=transducer, CatchingUp=CatchingUp)
        globals().update(PHRASE_SAMPLES=PHRASE_SAMPLES, Crossing=Crossing, Phrase=Phrase, Verdict=Verdict)
        globals().update(Pieces=Pieces, speller=speller)
        globals().update(wait_hops=wait_hops, wake_verifier=wake_verifier)
        globals().update(probe=probe, provider=provider, read_audio=read_audio, windows=windows)
        return globals()[name]


__all__ = [
    "DBUS_LIBRARIES", "DEFAULT_IDS", "END_TOKEN", "HAND_OVER", "HARD_CAP_MS", "LANGUAGE", "LIBRARIES", "PHRASE_SAMPLES", "PROFILES", "RATE",
    "STREAMING", "TEXT_BOOST", "TEXT_THRESHOLD", "AudioFrame", "Begun", "Burst", "BusError", "CallError", "Cancel", "Candidate",
    "CatchingUp", "Changed", "Client", "CloseReason", "CloseTurn", "ConfigError", "Conversation", "Converter", "Crossing", "Device",
    "DeviceError", "DropRewrite", "Endpoint", "EndpointSettings", "Event", "FetchError", "Final", "Finding", "FirstPass", "Foresee",
    "Foreseen", "Grade", "Heard", "InputError", "InternalError", "Library", "LikelyEnd", "Limits", "Measures", "ModelError", "NearMiss",
    "Opened", "Order", "OutputError", "Over", "Partial", "Phrase", "PhraseSettings", "Pieces", "Pipeline", "Port", "Presence", "Published",
    "Recording", "Refused", "Remark", "Rewrite", "Rewritten", "Samples", "ScoreTurn", "SecondPassStage", "SegmentRules", "Settings",
    "SoundFinding", "SpeechProbability", "Stop", "TextSource", "Transducer", "Trigger", "TurnClosed", "TurnDetector", "TurnMachine",
    "TurnScore", "Unknown", "UsageError", "Vad", "Verdict", "VoicedError", "Wake", "WakeFeatures", "WakeRefused", "Words", "__version__",
    "bar", "board", "burst_samples", "cache_directory", "channel_to_hear", "choose_device", "closed_nodes", "contradictions", "counted",
    "decode", "default_library", "defaults", "diagnose", "drift_of", "encode", "find_bus", "find_config", "find_devices", "glance", "hear",
    "interleaved", "is_crumb", "json_line", "letters", "measure", "open_session", "parse_settings", "phrase_words", "pipeline", "place_of",
    "plain_receipt", "play_bursts", "probe", "provider", "read_audio", "read_settings", "reader_gone", "reason_of", "receipts_from_lines",
    "refusal", "roles", "run_command", "runtime_directory", "second_pass", "segments", "speller", "tcm", "to_int16", "to_ms", "to_samples",
    "trace", "transducer", "try_library", "try_microphone", "try_provider", "turn_rules", "unsayable", "wait_hops", "wake_verifier",
    "where_are_they", "windows", "worst_grade",
]  # fmt: skip
