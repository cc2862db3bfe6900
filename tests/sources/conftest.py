"""The sound servers and what the tests of sources share."""

from soundserver import jack, pipewire, pulseaudio

__all__ = ["jack", "pipewire", "pulseaudio"]
