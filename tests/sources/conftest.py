"""The sound server and what the tests of sources share."""

from soundserver import pipewire

__all__ = ["pipewire"]
