"""voiced, the voice daemon: wake phrase, live partials, endpoint and final text, all on this machine.

Public for other programs: `voiced.settings`, `voiced.pipeline` with `voiced.assembly`, and `voiced.events`; `voiced.api` is for
voicectl. Everything else may change.
"""

__version__ = "0.1.0"
