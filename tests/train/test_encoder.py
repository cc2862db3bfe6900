"""The streaming encoder: whole and streamed agree, nothing is known of what is not heard yet, masks are what they say."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="training wants PyTorch: pip install '.[train]'")

from voiced.errors import ModelError  # noqa: E402
from voiced_train.encoder import LAYERS, POSITIONS, WIDTH, Encoder, Geometry, sinusoids  # noqa: E402
from voiced_train.export import Decoder, EncoderStep, difference  # noqa: E402
from voiced_train.features import FLOOR  # noqa: E402
from voiced_train.model import Shape, Top, chunk_mask, fresh, listen, load, mean, save, take_over  # noqa: E402


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


@pytest.mark.parametrize("chunk", [8, 32])
def test_a_geometry_for_one_call_is_that_of_a_model_made_with_it(chunk: int) -> None:
    """Training hears with several; what it learns must be what such an export computes."""
    other = Geometry(chunk=chunk, lookahead=4)
    model, same = encoder(Geometry()), encoder(other)
    x = torch.randn(1, 300, 80) * 3 - 9
    with torch.inference_mode():
        assert torch.equal(model(x, other), same(x))
        assert not torch.allclose(model(x), same(x))


@pytest.mark.parametrize("first", [0, 2, LAYERS])
def test_the_gradient_reaches_what_learns_and_nothing_else(first: int) -> None:
    torch.manual_seed(3)
    lower, top = encoder(Geometry()), Top(Shape(symbols=12, layers=1))
    lower.unfreeze(first)
    top.from_encoder(listen(lower, top, torch.randn(2, 200, 80) * 3 - 9)).square().sum().backward()
    learns = {name for name, value in lower.named_parameters() if value.grad is not None and bool(value.grad.abs().sum())}
    wanted = {
        name for name, _ in lower.named_parameters() if name.startswith((*(f"layers.{row}." for row in range(first, LAYERS)), "norm."))
    }
    assert learns == wanted
    assert top.project.weight.grad is not None


def test_banks_and_what_the_encoder_answered_to_them_are_heard_alike() -> None:
    torch.manual_seed(4)
    lower, top = encoder(Geometry()), Top(Shape(symbols=12, layers=1)).eval()
    x = torch.randn(2, 200, 80) * 3 - 9
    with torch.inference_mode():
        assert torch.equal(listen(lower, top, x), listen(lower, top, lower(x).reshape(2, 50, 2 * WIDTH)))


def test_weights_come_back_as_they_were_kept(tmp_path: Path) -> None:
    torch.manual_seed(5)
    geometry = Geometry(chunk=8)
    lower, top = encoder(Geometry()), Top(Shape(symbols=12, layers=1, context=4), geometry)
    lower.adapt.weight.normal_()
    save(tmp_path / "weights.npz", top, lower, ["a", "b"])
    again, below, pieces = load(tmp_path / "weights.npz")
    assert (again.shape, again.geometry, pieces) == (top.shape, geometry, ["a", "b"])
    for kept, came in ((top, again), (lower, below)):
        for (name, value), other in zip(kept.state_dict().items(), came.state_dict().values(), strict=True):
            assert torch.allclose(value, other, rtol=1e-3, atol=1e-7), name
    assert torch.equal(lower.adapt.weight, below.adapt.weight)


def test_a_wider_context_and_more_layers_change_nothing_at_birth() -> None:
    torch.manual_seed(6)
    older = Top(Shape(symbols=12, layers=1, context=2)).eval()
    wider = fresh([str(number) for number in range(12)], 2, 5, 0).eval()
    take_over(wider, older)
    x, context = torch.randn(1, 40, 2 * WIDTH), torch.randint(0, 12, (9, 5))
    with torch.inference_mode():
        assert torch.allclose(older(x), wider(x), atol=1e-6)
        assert torch.allclose(older.predict(context[:, -2:]), wider.predict(context), atol=1e-6)


def test_what_was_never_said_is_the_blank_to_the_exported_decoder() -> None:
    """sherpa-onnx begins a stream with −1, which would be the last symbol, `</s>`, to an embedding's table in ONNX."""
    decoder = Decoder(Top(Shape(symbols=12, layers=1)).eval())
    with torch.inference_mode():
        assert torch.equal(decoder(torch.tensor([[-1, -1, -1, -1, 0]])), decoder(torch.zeros(1, 5, dtype=torch.int64)))


def test_positions_are_sines_and_cosines_from_one_radian_a_frame_down() -> None:
    table = sinusoids(POSITIONS, WIDTH)
    assert torch.allclose(table[:, 0], torch.arange(POSITIONS).sin(), atol=1e-3)
    assert torch.allclose(table[:, WIDTH - 1], (torch.arange(POSITIONS) / 10_000).cos(), atol=1e-3)
    assert torch.allclose(table[:, : WIDTH // 2].square() + table[:, WIDTH // 2 :].square(), torch.ones(()), atol=1e-5)


def test_the_mean_of_runs_is_of_all_weights_and_of_one_form(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.npz" for number in range(3)]
    for number, (path, layers) in enumerate(zip(paths, (1, 1, 2), strict=True)):
        torch.manual_seed(number)
        save(path, Top(Shape(symbols=12, layers=layers)), Encoder(), ["a"])
    one, other = (load(path) for path in paths[:2])
    top, lower, pieces = mean(paths[:2])
    assert pieces == ["a"]
    assert torch.allclose(top.output.weight, (one[0].output.weight + other[0].output.weight) / 2)
    assert torch.allclose(lower.first.weight, (one[1].first.weight + other[1].first.weight) / 2)
    with pytest.raises(ModelError, match=r"2\.npz: is of another form than .*0\.npz"):
        mean([paths[0], paths[2]])
