"""`compress`: the linear layers of a model as fast products, where that gains something."""

import warnings
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch import nn

from ..results import SLOWER
from ..typing import RandomState
from ..validation import as_choice, as_flag, as_integer, as_random
from .layer import FastLinear

_BUDGET = 0.2  # seconds to measure a layer
_ROUNDS = 3  # Least number of rounds.


class LayerReport(NamedTuple):
    """What became of one ``torch.nn.Linear``.

    Attributes
    ----------
    name : str
        As in ``model.named_modules()``.
    shape : tuple of int
        Of its matrix.
    complexity : float
        Entries of the product that was found, relative to the matrix; NaN if none was looked for.
    error : float
        Its relative Frobenius error.
    speedup : float
        The time of the dense layer over that of the product, both measured; NaN if they were not.
    is_replaced : bool
    reason : str
        Why it is not, if it is not.

    Examples
    --------
    >>> from papilio.torch import LayerReport
    >>> LayerReport("0", (8, 8), 0.5, 0.1, 2.0, True, "").error
    0.1
    """

    name: str
    shape: tuple[int, int]
    complexity: float
    error: float
    speedup: float
    is_replaced: bool
    reason: str


@dataclass(frozen=True)
class Compression:
    """A model whose linear layers are fast products, and a table of what that gained and lost, as its ``str``.

    Attributes
    ----------
    model : torch.nn.Module
    layers : tuple of LayerReport
        All linear layers, in the order of the model.

    Examples
    --------
    >>> import torch
    >>> from papilio.torch import compress
    >>> found = compress(torch.nn.Sequential(torch.nn.ReLU()), complexity=0.25)
    >>> found.layers
    ()
    """

    model: nn.Module
    layers: tuple[LayerReport, ...]

    def __str__(self) -> str:
        if not self.layers:
            return "the model has no linear layers"
        head = ("layer", "shape", "complexity", "error", "speed-up", "")
        lines = [head, *(_cells(layer) for layer in self.layers)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
        table = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
        before = sum(layer.shape[0] * layer.shape[1] for layer in self.layers)
        after = sum(
            layer.shape[0] * layer.shape[1] * (layer.complexity if layer.is_replaced else 1.0)
            for layer in self.layers
        )
        count = sum(layer.is_replaced for layer in self.layers)
        total = f"{count} of {len(self.layers)} layers replaced; {before:,} entries before, {round(after):,} after"
        return "\n".join([*(line.rstrip() for line in table), total])


def compress(
    model: nn.Module,
    *,
    complexity: float | None = None,
    max_error: float | None = None,
    speedup: float | None = None,
    block: int | tuple[int, int] | None = None,
    gain: str = "seconds",
    vectors: int = 256,
    method: str = "auto",
    in_place: bool = False,
    time_budget: float | None = None,
    random_state: RandomState = 0,
) -> Compression:
    """Replace each ``torch.nn.Linear`` of a model by a `FastLinear` that approximates it, if that gains something.

    Layers whose class is derived from ``torch.nn.Linear``, and those whose matrix is also used elsewhere in the
    model, are left as they are.

    Parameters
    ----------
    model : torch.nn.Module
        It is not changed unless ``in_place``.
    complexity, max_error, speedup, block : optional
        What each product should reach, as for `FastLinear.from_linear`.
    gain : {"seconds", "entries"}, default="seconds"
        When a layer is replaced: if the product is faster than the layer, measured on its device without
        gradients, or if it has fewer entries.
    vectors : int, default=256
        The rows of the input with which seconds are measured.
    method : str, default="auto"
        As for `papilio.factorize`. "auto" may take minutes for large matrices without a ``time_budget``;
        "low_rank" takes seconds.
    in_place : bool, default=False
        Change the model itself, not a copy.
    time_budget : float, optional
        Seconds for each layer's factorization.
    random_state : int, RandomState, Generator or None, default=0
        As for `papilio.factorize`.

    Returns
    -------
    Compression
        The new ``model``, and ``layers`` with what was gained and lost; ``print`` shows a table.

    Examples
    --------
    >>> import torch
    >>> from papilio.torch import compress
    >>> model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
    >>> found = compress(model, complexity=0.5, gain="entries", method="low_rank")
    >>> [layer.is_replaced for layer in found.layers]
    [True, True]
    >>> type(found.model[0]).__name__, type(model[0]).__name__
    ('FastLinear', 'Linear')
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    by_seconds = as_choice("gain", gain, ("seconds", "entries")) == "seconds"
    vectors = as_integer("vectors", vectors, 1)
    source = as_random(random_state)
    changed = model if as_flag("in_place", in_place) else deepcopy(model)
    uses = Counter(id(weight) for _, weight in changed.named_parameters(remove_duplicate=False))
    reports, replaced = [], {}
    for name, linear in list(changed.named_modules()):
        if not isinstance(linear, nn.Linear):
            continue
        reason = _obstacle(linear, uses[id(linear.weight)] if "weight" in linear._parameters else 0)
        found, figures = None, (float("nan"),) * 3
        if not reason:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=f"{SLOWER}|no product")  # the table says so
                found = FastLinear.from_linear(
                    linear,
                    complexity=complexity,
                    max_error=max_error,
                    speedup=speedup,
                    block=block,
                    method=method,
                    time_budget=time_budget,
                    random_state=source.randint(2**31),
                )
            ratio = _speedup(linear, found, vectors) if by_seconds else float("nan")
            figures = found.relative_complexity, float(found.error or 0.0), ratio
            if (ratio <= 1.0) if by_seconds else (figures[0] >= 1.0):
                reason = "not faster" if by_seconds else "not smaller"
        reports.append(LayerReport(name, tuple(linear.weight.shape), *figures, not reason, reason))
        if found is not None and not reason:
            replaced[name] = found
    for name, found in replaced.items():
        if name == "":
            changed = found
        else:
            parent, _, leaf = name.rpartition(".")
            setattr(changed.get_submodule(parent), leaf, found)
    return Compression(changed, tuple(reports))


def _obstacle(linear: nn.Linear, uses: int) -> str:
    """Why a layer cannot be replaced, if it cannot."""
    if type(linear) is not nn.Linear:
        return f"of class {type(linear).__name__}"
    if uses != 1:
        return "its matrix is shared"
    if not torch.isfinite(linear.weight).all():
        return "its matrix is not finite"
    return ""


def _cells(layer: LayerReport) -> tuple[str, ...]:
    complexity, error, speedup = (
        "" if figure != figure else text.format(figure)
        for figure, text in ((layer.complexity, "{:.3f}"), (layer.error, "{:.3f}"), (layer.speedup, "{:.2f}"))
    )
    shape = f"{layer.shape[0]}×{layer.shape[1]}"
    return (
        layer.name or "(the model)",
        shape,
        complexity,
        error,
        speedup,
        "" if layer.is_replaced else f"kept: {layer.reason}",
    )


@torch.no_grad()
def _speedup(before: nn.Module, after: nn.Module, vectors: int) -> float:
    """The time of one layer over that of another: the best of several measurements, taken in turns."""
    weight: Any = before.weight
    x = torch.ones(vectors, weight.shape[1], dtype=weight.dtype, device=weight.device)
    best = [float("inf")] * 2
    calls: list[Callable[[], Any]] = [lambda: before(x), lambda: after(x)]
    for call in calls:
        call()  # compiles
    end, rounds = perf_counter() + _BUDGET, 0
    while rounds < _ROUNDS or perf_counter() < end:
        for i, call in enumerate(calls):
            for _ in range(3):
                begin = perf_counter()
                call()
                _wait(weight.device)
                best[i] = min(best[i], perf_counter() - begin)
        rounds += 1
    return best[0] / best[1]


def _wait(device: torch.device) -> None:
    """Until the device has done its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
