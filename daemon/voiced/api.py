"""What voicectl may import of voiced, and nothing else: the bus client, the models, how events look; stages to measure with.

Light on purpose: what needs NumPy or a model library is imported when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import __version__
from .bus.client import Changed, Client, Heard, Presence, Unknown
from .bus.private import find_bus
from .command import run_command
from .desk import Published
from .errors import BusError, FetchError, InputError, InternalError, ModelError, OutputError, UsageError, VoicedError
from .events import CloseReason, Endpoint, Event, Final, Partial, TextSource, Trigger, TurnClosed, Wake, WakeRefused, Words, encode
from .journal import trace
from .models import DEFAULT_IDS, Library, default_library
from .progress import bar
from .runtime_dir import runtime_directory
from .segments import SegmentRules, segments
from .settings import Settings, defaults
from .terminal import Conversation, json_line, prepare_output, reader_gone
from .units import HARD_CAP_MS, RATE, to_ms, to_samples

if TYPE_CHECKING:
    from .assembly import pipeline
    from .audio import AudioFrame, Samples
    from .ears import Candidate
    from .pipeline import Pipeline
    from .sources.wavfile import read_audio
    from .stages.features import WakeFeatures, windows
    from .stages.session import Port, open_session
    from .stages.sherpa import STREAMING, probe, provider
    from .stages.transducer import END_TOKEN, Transducer
    from .stages.vad import Vad
else:

    def __getattr__(name: str) -> object:
        """The heavy names, all at the first question for one of them."""
        if name.startswith("_") or name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from .assembly import pipeline
        from .audio import AudioFrame, Samples
        from .ears import Candidate
        from .pipeline import Pipeline
        from .sources.wavfile import read_audio
        from .stages.features import WakeFeatures, windows
        from .stages.session import Port, open_session
        from .stages.sherpa import STREAMING, probe, provider
        from .stages.transducer import END_TOKEN, Transducer
        from .stages.vad import Vad

        globals().update(END_TOKEN=END_TOKEN, STREAMING=STREAMING, AudioFrame=AudioFrame, Candidate=Candidate, Pipeline=Pipeline, Port=Port)
        globals().update(Samples=Samples)
        globals().update(Transducer=Transducer, Vad=Vad, WakeFeatures=WakeFeatures, open_session=open_session, pipeline=pipeline)
        globals().update(probe=probe, provider=provider, read_audio=read_audio, windows=windows)
        return globals()[name]


__all__ = [
    "DEFAULT_IDS", "END_TOKEN", "HARD_CAP_MS", "RATE", "STREAMING", "AudioFrame", "BusError", "Candidate", "Changed", "Client", "CloseReason",
    "Conversation", "Endpoint", "Event", "FetchError", "Final", "Heard", "InputError", "InternalError", "Library", "ModelError",
    "OutputError", "Partial", "Pipeline", "Port", "Presence", "Published", "Samples", "SegmentRules", "Settings", "TextSource",
    "Transducer", "Trigger", "TurnClosed", "Unknown", "UsageError", "Vad", "VoicedError", "Wake", "WakeFeatures", "WakeRefused", "Words",
    "__version__", "bar", "default_library", "defaults", "encode", "find_bus", "json_line", "open_session", "pipeline", "prepare_output",
    "probe", "provider", "read_audio", "reader_gone", "run_command", "runtime_directory", "segments", "to_ms", "to_samples", "trace",
    "windows",
]  # fmt: skip
