"""Training of encoders with PyTorch, which is loaded when it is needed, and not to use what was trained."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..operators import SparseProduct
from ..runtime.history import Status
from ..runtime.session import Interrupted, Session
from ..typing import Array
from .encoder import Groups, Layer

_PATIENCE = 10  # epochs
_SHARE_OF_STEPS = 0.2  # Share of the epochs before matrices are trained, too.
_WORK_OF_A_THREAD = 1 << 23  # multiplications
_MEASURED = 8192  # samples on which an epoch is judged
_RATE_OF_NUMBERS = 0.02  # Adam's, for steps and momenta
_RATE_OF_MATRICES = 0.01  # relative to their entries
_TINY = 1e-12


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
    name: str,
    n_epochs: int,
    matrices: bool,
    network: "Network",
    samples: Any,
    training: Training,
    session: Session,
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


# -- the network --------------------------------------------------------------------------------------


class Network:
    """Layers whose numbers can be trained: steps and momenta, and after `free` thresholds and matrices, too.

    Thresholds are steps times alpha until then. The loss is the objective relative to that of empty codes.
    """

    def __init__(
        self,
        torch: Any,
        layers: Sequence[Layer],
        samples: Any,
        dictionary: Array | SparseProduct,
        alpha: float,
        groups: Groups,
    ) -> None:
        self._torch, self._before, self._alpha, self._groups = torch, list(layers), alpha, groups
        self._labels = torch.from_numpy(groups.labels.astype(np.int64))
        self._unit = max(float((samples.double() ** 2).sum()) / (2 * len(samples)), _TINY**2)
        self._dictionary = self._tensor(_dense(dictionary))
        self._steps = self._parameter(np.log([layer.step for layer in layers]))
        self._momenta = self._parameter([layer.momentum for layer in layers])
        self._thresholds: Any = None
        self._matrices: list[tuple[_Chain, _Chain]] = []
        self._shared = self._tensor(_dense(layers[0].synthesis))

    def _tensor(self, values: Any) -> Any:
        return self._torch.tensor(np.asarray(values), dtype=self._torch.float32)

    def _parameter(self, values: Any) -> Any:
        return self._tensor(values).requires_grad_()

    def free(self) -> None:
        """Give each layer thresholds and matrices of its own."""
        self._thresholds = self._parameter(np.zeros((len(self._before), self._groups.count)))
        self._matrices = [(_Chain(self, each.synthesis), _Chain(self, each.analysis)) for each in self._before]

    def _parameters(self, matrices: bool) -> tuple[list[Any], list[Any]]:
        numbers = [self._steps, self._momenta]
        if not matrices:
            return numbers, []
        chains = [chain for pair in self._matrices for chain in pair]
        return [*numbers, self._thresholds], [values for chain in chains for values in chain.values]

    def optimizer(self, matrices: bool, n_steps: int) -> tuple[Any, Any]:
        """Adam, and a schedule by which its rates fall to zero."""
        numbers, entries = self._parameters(matrices)
        rates = [{"params": numbers, "lr": _RATE_OF_NUMBERS}]
        if entries:
            rates.append({"params": entries, "lr": _RATE_OF_MATRICES})
        optimizer = self._torch.optim.Adam(rates)
        schedules = self._torch.optim.lr_scheduler
        return optimizer, schedules.LambdaLR(
            optimizer, lambda step: 0.5 * (1 + np.cos(np.pi * min(step / n_steps, 1)))
        )

    def codes(self, samples: Any) -> Any:
        """The codes of samples, one per row."""
        before = z = samples.new_zeros(len(samples), self._dictionary.shape[1])
        for k in range(len(self._before)):
            step = self._steps[k].exp()
            thresholds = (step * self._alpha).expand(self._groups.count)
            if self._thresholds is not None:
                thresholds = thresholds * self._thresholds[k].exp()
            y, left = z, samples
            if k:
                y = z + self._momenta[k] * (z - before)
                left = samples - (self._matrices[k][0].times(y) if self._matrices else y @ self._shared.T)
            image = self._matrices[k][1].transposed_times(left) if self._matrices else left @ self._shared
            before, z = z, self._shrink(y + step * image, thresholds)
        return z

    def _shrink(self, u: Any, thresholds: Any) -> Any:
        if self._groups.are_atoms:
            return u - self._torch.maximum(self._torch.minimum(u, thresholds), -thresholds)
        factors = (1 - thresholds / self._norms(u)).clamp_min(0)
        return u * factors[:, self._labels]

    def _norms(self, codes: Any) -> Any:
        if self._groups.are_atoms:
            return codes.abs()
        squares = codes.new_zeros(len(codes), self._groups.count).index_add(1, self._labels, codes * codes)
        return squares.clamp_min(_TINY).sqrt()

    def loss(self, samples: Any) -> Any:
        codes = self.codes(samples)
        left = samples - codes @ self._dictionary.T
        penalty = self._norms(codes).sum()
        return (0.5 * (left * left).sum() + self._alpha * penalty) / (len(samples) * self._unit)

    def error(self, samples: Any) -> float:
        """The loss of samples, part by part."""
        with self._torch.no_grad():
            losses = [float(self.loss(part)) * len(part) for part in samples.split(1024)]
        return sum(losses) / len(samples)

    def state(self) -> list[Any]:
        numbers, entries = self._parameters(bool(self._matrices))
        return [each.detach().clone() for each in (*numbers, *entries)]

    def load(self, state: list[Any]) -> None:
        numbers, entries = self._parameters(bool(self._matrices))
        with self._torch.no_grad():
            for mine, value in zip((*numbers, *entries), state, strict=True):
                mine.copy_(value)

    def layers(self) -> list[Layer]:
        """What was trained, as arrays and products."""
        steps = np.exp(self._steps.detach().double().numpy())
        momenta = self._momenta.detach().double().numpy()
        thresholds = np.outer(steps * self._alpha, np.ones(self._groups.count))
        if self._thresholds is not None:
            thresholds *= np.exp(self._thresholds.detach().double().numpy())
        trained = []
        for k, layer in enumerate(self._before):
            synthesis, analysis = layer.synthesis, layer.analysis
            if self._matrices:
                synthesis, analysis = (chain.matrix() for chain in self._matrices[k])
            trained.append(Layer(synthesis, analysis, float(steps[k]), float(momenta[k]), thresholds[k]))
        return trained


class _Chain:
    """A matrix, or the factors of a product, whose entries can be trained; zeros of the factors stay.

    The tensors are the entries over their root mean square, so that one rate fits all.
    """

    def __init__(self, network: Network, matrix: Array | SparseProduct) -> None:
        self._dtype, self._is_product = matrix.dtype, isinstance(matrix, SparseProduct)
        self._scale = matrix.scale if isinstance(matrix, SparseProduct) else 1.0
        factors = matrix.factors if isinstance(matrix, SparseProduct) else (matrix,)
        dense = [_dense(factor) for factor in factors]
        self._sizes = [float(np.sqrt((f**2).sum() / max(np.count_nonzero(f), 1))) or 1.0 for f in dense]
        self.values = [network._parameter(f / size) for f, size in zip(dense, self._sizes, strict=True)]
        self._masks = [
            network._tensor(f != 0) if sp.issparse(g) else None for f, g in zip(dense, factors, strict=True)
        ]

    def _factors(self) -> list[Any]:
        masked = zip(self.values, self._masks, self._sizes, strict=True)
        return [(values if mask is None else values * mask) * size for values, mask, size in masked]

    def times(self, rows: Any) -> Any:
        for factor in reversed(self._factors()):
            rows = rows @ factor.T
        return rows if self._scale == 1 else rows * self._scale

    def transposed_times(self, rows: Any) -> Any:
        for factor in self._factors():
            rows = rows @ factor
        return rows if self._scale == 1 else rows * self._scale

    def matrix(self) -> Array | SparseProduct:
        factors = [factor.detach().numpy().astype(self._dtype) for factor in self._factors()]
        return SparseProduct(factors, self._scale) if self._is_product else factors[0]


def _dense(matrix: Any) -> Array:
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)
