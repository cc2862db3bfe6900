"""The transducer's loss against every path of a small lattice, written out, and its gradient against differences."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="training wants PyTorch: pip install '.[train]'")

from voiced_train.rnnt import rnnt_loss  # noqa: E402


def enumerated(logs: list[list[list[float]]], labels: list[int], frames: int, one_a_frame: bool) -> float:
    """−log of the sum over all paths. logs[t][u][symbol]; a path is where each label is said."""
    count, total = len(labels), 0.0
    for places in itertools.combinations_with_replacement(range(frames), count):
        if one_a_frame and len(set(places)) < count:
            continue
        log, said = 0.0, 0
        for frame in range(frames):
            here = places.count(frame)
            for _ in range(here):
                log += logs[frame][said][labels[said]]
                said += 1
            if not (one_a_frame and here):
                log += logs[frame][said][0]
        total += math.exp(log)
    return -math.log(total)


@given(st.integers(1, 4), st.integers(0, 3), st.booleans(), st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_loss_is_the_sum_over_all_paths(frames: int, count: int, one_a_frame: bool, seed: int) -> None:
    if one_a_frame and count > frames:
        return
    torch.manual_seed(seed)
    logits = torch.randn(1, frames, count + 1, 4, dtype=torch.float64)
    labels = torch.randint(1, 4, (1, count))
    loss = rnnt_loss(logits, labels, [frames], [count], one_a_frame=one_a_frame)
    wanted = enumerated(logits.log_softmax(-1)[0].tolist(), labels[0].tolist(), frames, one_a_frame)
    assert float(loss[0]) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("one_a_frame", [False, True])
def test_two_frames_one_label_by_hand(one_a_frame: bool) -> None:
    """All symbols equally likely (1/2 each): a path is its number of steps. As published: 2 paths of 3 steps; one a frame: 2 of 2."""
    loss = rnnt_loss(torch.zeros(1, 2, 2, 2), torch.tensor([[1]]), [2], [1], one_a_frame=one_a_frame)
    assert float(loss[0]) == pytest.approx(-math.log(2 * 0.5 ** (2 if one_a_frame else 3)))


@pytest.mark.parametrize("one_a_frame", [False, True])
def test_padding_changes_nothing(one_a_frame: bool) -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(2, 6, 4, 5), torch.randint(1, 5, (2, 3))
    both = rnnt_loss(logits, labels, [6, 4], [3, 2], one_a_frame=one_a_frame)
    alone = rnnt_loss(logits[1:, :4, :3], labels[1:, :2], [4], [2], one_a_frame=one_a_frame)
    assert float(both[1]) == pytest.approx(float(alone[0]), rel=1e-5)


@pytest.mark.parametrize("one_a_frame", [False, True])
def test_gradient(one_a_frame: bool) -> None:
    torch.manual_seed(0)
    logits = torch.randn(2, 4, 3, 4, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([[1, 2], [3, 0]])
    assert torch.autograd.gradcheck(lambda x: rnnt_loss(x, labels, [4, 3], [2, 1], one_a_frame=one_a_frame), logits)


def test_fast_emit_strengthens_the_pull_to_symbols_and_leaves_the_value() -> None:
    torch.manual_seed(0)
    plain = torch.randn(1, 5, 3, 4, dtype=torch.float64, requires_grad=True)
    pulled = plain.detach().clone().requires_grad_()
    labels = torch.tensor([[1, 2]])
    one, other = rnnt_loss(plain, labels, [5], [2]), rnnt_loss(pulled, labels, [5], [2], fast_emit=0.5)
    assert float(one[0]) == pytest.approx(float(other[0]))
    one.sum().backward()
    other.sum().backward()
    assert plain.grad is not None
    assert pulled.grad is not None
    assert float(pulled.grad[0, 0, 0, 1]) < float(plain.grad[0, 0, 0, 1]) < 0  # minimising says the first label sooner


@pytest.mark.parametrize(("frames", "count", "one_a_frame"), [(2, 3, True), (6, 1, False), (0, 1, False), (2, 4, False)])
def test_what_does_not_fit_is_named(frames: int, count: int, one_a_frame: bool) -> None:
    with pytest.raises(ValueError, match=f"row 0 has {frames} frames for {count} labels in a lattice of 5 by 3"):
        rnnt_loss(torch.zeros(1, 5, 4, 3), torch.ones(1, 3, dtype=torch.int64), [frames], [count], one_a_frame=one_a_frame)
