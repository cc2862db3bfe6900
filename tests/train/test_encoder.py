"""The streaming encoder: whole and streamed agree, nothing is known of what is not heard yet, masks are what they say."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="training wants PyTorch: pip install '.[train]'")

from voiced_train.encoder import FLOOR, LAYERS, WIDTH, Encoder, Geometry  # noqa: E402
from voiced_train.export import EncoderStep, difference  # noqa: E402
from voiced_train.model import Shape, Top, chunk_mask  # noqa: E402


def encoder(geometry: Geometry) -> Encoder:
    """Random weights of a usual size, so that every layer matters."""
    torch.manual_seed(1)
    made = Encoder(geometry)
    made.positions.normal_(std=0.5)
    return made


geometries = st.builds(Geometry, chunk=st.sampled_from([8, 16]), lookahead=st.sampled_from([0, 4, 8]), left=st.sampled_from([16, 128]))


@given(geometries, st.integers(1, 9))
@settings(max_examples=12, deadline=None)
def test_streamed_equals_whole(geometry: Geometry, chunks: int) -> None:
    model = encoder(geometry)
    move = 2 * geometry.chunk
    x = torch.randn(2, chunks * move, 80) * 3 - 9
    later = torch.nn.functional.pad(x, (0, 0, 0, geometry.feature_frames), value=FLOOR)
    memory, out = model.start(2), []
    with torch.inference_mode():
        whole = model(x)
        for row in range(chunks):
            window = later[:, row * move : row * move + geometry.feature_frames]
            out.append(model.step(window, memory, row * geometry.chunk))
    assert torch.allclose(torch.cat(out, 1), whole, atol=1e-4)
    assert whole.abs().mean() > 0.1


def test_streamed_equals_whole_past_the_positions_wrap() -> None:
    """60 s: the codes of 1,500 frames begin again at 30 s."""
    geometry = Geometry()
    model = encoder(geometry)
    move, chunks = 2 * geometry.chunk, 60 * 50 // geometry.chunk
    x = torch.randn(1, chunks * move + geometry.feature_frames - move, 80) * 3 - 9
    memory = model.start()
    with torch.inference_mode():
        whole = model(x)
        for row in range(chunks):
            part = model.step(x[:, row * move : row * move + geometry.feature_frames], memory, row * geometry.chunk)
            here = whole[:, row * geometry.chunk : (row + 1) * geometry.chunk]
            assert torch.allclose(part, here, atol=1e-4)


@given(geometries, st.integers(0, 5))
@settings(max_examples=10, deadline=None)
def test_a_chunk_knows_nothing_beyond_its_look_ahead(geometry: Geometry, chunk: int) -> None:
    model = encoder(geometry)
    x = torch.randn(1, 8 * 2 * geometry.chunk, 80) * 3 - 9
    heard = chunk * 2 * geometry.chunk + geometry.feature_frames  # what the step of that chunk has read
    other = x.clone()
    other[:, heard:] += 5
    with torch.inference_mode():
        before, after = model(x), model(other)
    known = (chunk + 1) * geometry.chunk
    assert torch.equal(before[:, :known], after[:, :known])
    if heard < x.shape[1]:
        assert not torch.equal(before[:, known:], after[:, known:])


def test_the_past_reaches_as_far_as_all_layers_together() -> None:
    """Each layer sees `left` frames before its chunk, so L layers reach L · left back and no further."""
    geometry = Geometry(chunk=8, lookahead=4, left=16)
    model = encoder(geometry)
    chunks = 16
    x = torch.randn(1, chunks * 2 * geometry.chunk, 80) * 3 - 9
    last = (chunks - 1) * geometry.chunk
    with torch.inference_mode():
        wanted = model(x)[:, last : last + geometry.chunk]

        def differs(frame: int) -> bool:
            other = x.clone()
            other[:, 2 * frame : 2 * frame + 2] += 5
            return not torch.equal(model(other)[:, last : last + geometry.chunk], wanted)

        reach = last - LAYERS * geometry.left
        assert differs(last - geometry.left)
        assert differs(reach + 4)
        assert not any(differs(frame) for frame in range(reach - 3))


@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 20))
def test_mask_against_brute_force(frames: int, chunk: int, left: int) -> None:
    mask = chunk_mask(frames, chunk, left)
    for row, column in itertools.product(range(frames), repeat=2):
        begin = row - row % chunk
        assert mask[row, column] == (begin - left <= column < begin + chunk)


@pytest.mark.parametrize("geometry", [Geometry(), Geometry(chunk=8), Geometry(chunk=16, lookahead=4), Geometry(chunk=8, lookahead=4)])
def test_the_exported_step_is_the_whole_model_streamed(geometry: Geometry) -> None:
    torch.manual_seed(2)
    top = Top(Shape(symbols=12, layers=2), geometry).eval()
    assert difference(EncoderStep(encoder(geometry), top, geometry).eval()) < 1e-4


def test_a_frame_of_the_upper_half_is_40_ms() -> None:
    top = Top(Shape(symbols=12, layers=1)).eval()
    with torch.inference_mode():
        assert top(torch.zeros(1, 50, 2 * WIDTH)).shape == (1, 50, WIDTH)
