"""Training of encoders with PyTorch, which is loaded when it is needed, and not to use what was trained."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..operators import SparseProduct
from ..runtime.history import Status
from ..runtime.session import Interrupted, Session
from ..typing import Array
from .encoder import Groups, Layer
from .network import Network

_PATIENCE = 10  # epochs
_SHARE_OF_STEPS = 0.2  # of the epochs, before matrices are trained, too
_WORK_OF_A_THREAD = 1 << 23  # multiplications
_MEASURED = 8192  # samples on which an epoch is judged


class Training(NamedTuple):
    """What an encoder is trained for, and for how long."""

    dictionary: Array | SparseProduct  # (d, a): that of the objective
    alpha: float
    groups: Groups
    matrices: bool  # whether those of the layers are free, beside steps, momenta and thresholds
    max_iter: int
    tol: float
    batch_size: int


def require_torch() -> Any:
    """PyTorch, or an error that names the extra."""
    try:
        import torch
    except ImportError:
        raise ImportError("LearnedEncoder.fit needs PyTorch, which is not installed: pip install torch") from None
    return torch


def fista_layers(
    matrix: Array | SparseProduct, norm: float, n_layers: int, alpha: float, groups: Groups
) -> list[Layer]:
    """The first iterations of FISTA: steps 1/L, where ``norm`` is √L, and Nesterov's momenta."""
    step, layers = 1 / norm**2 if norm > 0 else 1.0, []
    before, t = 1.0, 1.0
    for _ in range(n_layers):
        layers.append(Layer(matrix, matrix, step, (before - 1) / t, np.full(groups.count, step * alpha)))
        before, t = t, (1 + np.sqrt(1 + 4 * t * t)) / 2
    return layers


def train(layers: list[Layer], rows: Array, training: Training, session: Session) -> tuple[list[Layer], Status]:
    """Layers trained to lower the objective of signals, one per row, and why training ended."""
    torch = require_torch()
    n_threads = torch.get_num_threads()
    # More threads mostly wait for each other where products are small.
    if training.batch_size * training.dictionary.shape[0] * training.dictionary.shape[1] <= _WORK_OF_A_THREAD:
        torch.set_num_threads(1)
    try:
        return _train(torch, layers, rows, training, session)
    finally:
        torch.set_num_threads(n_threads)


def _train(
    torch: Any, layers: list[Layer], rows: Array, training: Training, session: Session
) -> tuple[list[Layer], Status]:
    samples = torch.from_numpy(np.array(rows, dtype=np.float32, order="C"))
    network = Network(torch, layers, samples, training.dictionary, training.alpha, training.groups)
    first = training.max_iter
    if training.matrices:
        first = max(int(_SHARE_OF_STEPS * training.max_iter), 1)
    with session.part(first / training.max_iter):
        status, kept = _phase("steps", first, False, network, samples, training, session)
    network.load(kept)
    if training.matrices and status is not Status.STOPPED and training.max_iter > first:
        network.free()
        with session.part(1 - first / training.max_iter):
            status, kept = _phase("matrices", training.max_iter - first, True, network, samples, training, session)
        network.load(kept)
    return network.layers(), status


def _phase(
    name: str, n_epochs: int, matrices: bool, network: Network, samples: Any, training: Training, session: Session
) -> tuple[Status, Any]:
    """Epochs of Adam; why they ended, and the best state."""
    n_batches = -(-len(samples) // training.batch_size)
    optimizer, schedule = network.optimizer(matrices, n_epochs * n_batches)
    errors, kept = [network.error(samples[:_MEASURED])], network.state()
    try:
        for epoch in range(n_epochs):
            for batch in _batches(samples, training.batch_size, session):
                optimizer.zero_grad()
                network.loss(batch).backward()
                optimizer.step()
                schedule.step()
                session.check()
            error = network.error(samples[:_MEASURED])
            if error < min(errors):
                kept = network.state()
            errors.append(error)
            session.report(name, error, fraction=(epoch + 1) / n_epochs)
            if session.stopped:
                return Status.STOPPED, kept
            past = errors[:-_PATIENCE]
            if past and training.tol > 0 and min(past) - min(errors) <= training.tol * min(past):
                return Status.CONVERGED, kept
    except Interrupted:
        return Status.STOPPED, kept
    return Status.MAX_ITER, kept


def _batches(samples: Any, size: int, session: Session) -> Iterator[Any]:
    order = session.random.permutation(len(samples))
    for start in range(0, len(order), size):
        yield samples[order[start : start + size]]
