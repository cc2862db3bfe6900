"""The real stages, one of each for all tests of a session: a test resets what it uses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sounds import sound
from voiced.audio import Samples
from voiced.models import Library
from voiced.stages.second_pass import SecondPass
from voiced.stages.sherpa import provider
from voiced.stages.transducer import Transducer
from voiced.stages.vad import Vad
from voiced.stages.wake import Stage1

MakeTransducer = Callable[..., Transducer]


@pytest.fixture(scope="session")
def sample() -> Samples:
    """The recording that ships with the package."""
    import voiced

    assert voiced.__file__
    path = Path(voiced.__file__).parent / "data" / "sample.flac"
    return sound(path)


@pytest.fixture(scope="session")
def runtime_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runtime")


@pytest.fixture(scope="session")
def vad(library: Library) -> Vad:
    stage = Vad(library.find("silero-vad").files["model"])
    stage.warm_up()
    return stage


@pytest.fixture(scope="session")
def embedding(library: Library) -> Path:
    return library.find("speech-embedding").files["model"]


@pytest.fixture(scope="session")
def stage1(library: Library, embedding: Path) -> Stage1:
    stage = Stage1({"jarvis": library.find("jarvis").files["model"]}, embedding)
    stage.warm_up()
    return stage


@pytest.fixture(scope="session")
def new_transducer(library: Library, runtime_dir: Path) -> MakeTransducer:
    """Builds starter-en as its manifest says; keywords replace what it says."""

    def build(**replaced: object) -> Transducer:
        found = library.find("starter-en")
        model = found.model
        numbers = {
            "frame_ms": model.frame_ms,
            "chunk_ms": model.chunk_ms,
            "lookahead_ms": model.lookahead_ms,
            "tail_ms": model.tail_ms,
            "end_token": model.end_token,
            "provider": provider(runtime_dir),
        }
        return Transducer(model.kind, found.files, **{**numbers, **replaced})  # type: ignore[arg-type]

    return build


@pytest.fixture(scope="session")
def transducer(new_transducer: MakeTransducer) -> Transducer:
    stage = new_transducer()
    stage.warm_up()
    return stage


@pytest.fixture(scope="session")
def second_pass(library: Library, runtime_dir: Path) -> SecondPass:
    found = library.find("moonshine-tiny-en")
    stage = SecondPass(found.model.kind, found.files, provider=provider(runtime_dir))
    stage.warm_up()
    return stage
