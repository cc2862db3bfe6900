"""Files through the whole pipeline in one thread, as fast as it goes: the child's side of files.py.

What lives here: from a file's frames to messages. What must not: printing, pace, a bus, a deadline.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

from . import assembly, wire
from .audio import AudioFrame
from .errors import InputError, VoicedError
from .models import default_library
from .pipeline import Pipeline
from .plain import encode
from .processes import fail, receive_job
from .settings import from_plain
from .sources.paced import TAIL_MS
from .sources.wavfile import WavSource
from .units import to_samples


def files_main(fd: int) -> int:
    with closing(wire.Link.from_fd(fd)) as link:
        return _hear_files(link)


def _hear_files(link: wire.Link) -> int:
    """Asks for a file (`next`), tells its events, one a message and in order, and so on until nobody answers.

    A file that cannot be read is said (`refused`) and the others go on. Turn ids count on from file to file.
    """
    job = receive_job(link)

    def say(what: str) -> None:
        link.send_all({"loading": what})

    try:
        settings = from_plain(job["settings"])
        pipeline = assembly.pipeline(settings, default_library(settings.models.path), Path(job["runtime_dir"]), say)
    except VoicedError as error:
        return fail(link, error)
    block = to_samples(settings.capture.block_ms)
    while link.send_all({"next": True}):
        try:
            message = link.receive()
        except EOFError:  # that was all
            return 0
        assert message is not None  # it waits for ever
        path = Path(os.fsdecode(bytes.fromhex(message.body["file"])))
        try:
            source, end = WavSource(path, block), 0
            for frame in until_idle(source, block, pipeline):
                for event in pipeline.feed(frame):
                    if not link.send_all({"event": encode(event)}):
                        return 0  # nobody is there to hear the rest
                end = frame.end
            for remark in source.note().remarks:
                link.send_all({"remark": remark})
            link.send_all({"over": end})
        except VoicedError as error:
            link.send_all({"refused": _sendable(error), "exit": error.exit_code})
        pipeline.next_source()
    return 0


def _sendable(error: VoicedError) -> str:
    """Its line; what would end the line, or is no text, may be in a file's name and is spelled out."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in str(error))


def until_idle(source: Iterable[AudioFrame], block: int, pipeline: Pipeline) -> Iterator[AudioFrame]:
    """A file's frames, then silence: half a second for the last word, and on until the open turn has closed by its own rules.

    Raises InputError at the end where the file turned out to be broken: what was sound before that was heard.
    """
    end, broken = 0, None
    try:
        for frame in source:
            end = frame.end
            yield frame
    except InputError as error:
        broken = error
    least = end + to_samples(TAIL_MS)
    while end < least or not pipeline.idle:
        frame = AudioFrame(end, np.zeros(block, np.int16))
        end = frame.end
        yield frame
    if broken:
        raise broken
