"""PocketSphinx's own keyphrase loop, to hold ours against: fetched by pip into the cache, never installed; it brings an English model.

What lives here: how it is had and loaded. What must not: a line of it, or a figure.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from voiced.audio import Samples
from voiced.errors import FetchError

from .openwakeword import unpacked

RELEASE = "pocketsphinx==5.1.1"

THRESHOLD = 1e-20
"""What its documentation begins with; it moves what wakes, and the cost little."""


def keyphrase(phrase: str) -> Callable[[Samples], object]:
    """Its Decoder listening for one phrase: int16 (n,). Raises FetchError where it cannot be had or does not load here."""
    folder = unpacked(RELEASE, "pocketsphinx/__init__.py")
    name, ours = "pocketsphinx", sys.modules.pop("pocketsphinx", None)
    sys.path.insert(0, str(folder))
    try:
        sphinx: Any = importlib.import_module(name)
        decoder = sphinx.Decoder(lm=None, keyphrase=phrase, kws_threshold=THRESHOLD, loglevel="FATAL")
        decoder.start_utt()
    except Exception as error:  # whatever a foreign package may do on a machine that it was not made for
        raise FetchError(RELEASE, f"does not load here: {type(error).__name__}: {error}", "measure on another machine") from error
    finally:
        sys.path.remove(str(folder))
        if ours:
            sys.modules[name] = ours

    def feed(hop: Samples) -> None:
        decoder.process_raw(hop.tobytes(), no_search=False, full_utt=False)
        if decoder.hyp():
            decoder.end_utt()
            decoder.start_utt()

    return feed
