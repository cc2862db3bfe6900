"""The transducer's own loss: minus the log-probability of a label sequence, over all ways through the lattice.

What lives here: Graves 2012's forward recursion in plain PyTorch (autograd has the backward one), and FastEmit. What must not: models.

Two lattices: as published (any number of symbols a frame), and with one symbol a frame at most, each taking its frame, which is what
greedy search in sherpa-onnx does.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

BLANK = 0


def rnnt_loss(
    logits: Tensor, labels: Tensor, frames: Sequence[int], counts: Sequence[int], *, one_a_frame: bool = False, fast_emit: float = 0.0
) -> Tensor:
    """(N,) losses in nats.

    logits       (N, T, U + 1, symbols): what the joiner says at frame t after u labels
    labels       int64 (N, U), padded
    frames       T of each utterance; `counts` its U
    one_a_frame  a symbol takes its frame (then U may not exceed T)
    fast_emit    λ of FastEmit (Yu et al. 2021): the gradient towards symbols is 1 + λ times as strong, the value unchanged

    Raises ValueError for an utterance whose frames cannot hold its labels, naming its row.
    """
    batch, time, states, _ = logits.shape
    for row, (length, count) in enumerate(zip(frames, counts, strict=True)):
        if not 1 <= length <= time or not 0 <= count < states or (one_a_frame and count > length):
            raise ValueError(f"row {row} has {length} frames for {count} labels in a lattice of {time} by {states - 1}")
    logs = logits.log_softmax(-1)
    blank = logs[..., BLANK]
    emit = logs[:, :, : states - 1].gather(-1, labels[:, None, :, None].expand(batch, time, states - 1, 1))[..., 0]
    if fast_emit:
        emit = emit * (1 + fast_emit) - emit.detach() * fast_emit
    rows = _one_a_frame(blank, emit) if one_a_frame else _any_number(blank, emit)
    index = torch.arange(batch)
    at, label = torch.tensor(list(frames)), torch.tensor(list(counts))
    if one_a_frame:  # row t: after t frames
        return -rows[index, at, label]
    return -(rows[index, at - 1, label] + blank[index, at - 1, label])  # the last blank ends the sequence


def _any_number(blank: Tensor, emit: Tensor) -> Tensor:
    """alpha (N, T, U + 1): at frame t, u labels said. A row is one running log-sum over j ≤ u, where E(u) sums the row's first u
    emissions: α(t, u) = E(u) + log Σ exp(α(t - 1, j) + blank(t - 1, j) - E(j))."""
    said = torch.cat([torch.zeros_like(blank[:, :, :1]), emit.cumsum(2)], 2)
    alpha = said[:, 0]
    rows = [alpha]
    for frame in range(1, blank.shape[1]):
        alpha = said[:, frame] + (alpha + blank[:, frame - 1] - said[:, frame]).logcumsumexp(1)
        rows.append(alpha)
    return torch.stack(rows, 1)


def _one_a_frame(blank: Tensor, emit: Tensor) -> Tensor:
    """alpha (N, T + 1, U + 1): after t frames, u labels said."""
    nothing = torch.full_like(blank[:, 0], -1e30)  # not −inf: its gradient would be no number
    alpha = torch.cat([torch.zeros_like(nothing[:, :1]), nothing[:, 1:]], 1)
    rows = [alpha]
    for frame in range(blank.shape[1]):
        stays = alpha + blank[:, frame]
        moves = torch.cat([nothing[:, :1], alpha[:, :-1] + emit[:, frame]], 1)
        alpha = torch.logaddexp(stays, moves)
        rows.append(alpha)
    return torch.stack(rows, 1)
