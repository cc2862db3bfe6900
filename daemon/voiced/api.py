"""What voicectl may import of voiced, and nothing else: the bus client, the models, how events look.

Light on purpose: nothing here imports NumPy, a model library or the sound library.
"""

from __future__ import annotations

from . import __version__
from .bus.client import Changed, Client, Heard, Presence, Unknown
from .bus.private import find_bus
from .desk import Published
from .errors import BusError, FetchError, ModelError, UsageError, VoicedError
from .events import Endpoint, Event, Final, Partial, TextSource, TurnClosed, Wake, encode
from .models import DEFAULT_IDS, Library, default_library
from .progress import bar
from .terminal import Conversation, json_line, reader_gone

__all__ = [
    "DEFAULT_IDS", "BusError", "Changed", "Client", "Conversation", "Endpoint", "Event", "FetchError", "Final", "Heard", "Library",
    "ModelError", "Partial", "Presence", "Published", "TextSource", "TurnClosed", "Unknown", "UsageError", "VoicedError", "Wake",
    "__version__", "bar", "default_library", "encode", "find_bus", "json_line", "reader_gone",
]  # fmt: skip
