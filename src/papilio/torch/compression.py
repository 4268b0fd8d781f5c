"""`compress`: the linear layers of a model as fast products, where that gains something."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import isnan, nan
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from ..results import SLOWER
from ..search.weighted import Sums, merged, sums_of
from ..typing import Array, RandomState
from ..validation import as_choice, as_flag, as_integer, as_random
from .layer import FastLinear, as_rows

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
        Its relative Frobenius error; with ``data``, that of the outputs.
    speedup : float
        The time of the dense layer over that of the product, both measured; NaN if they were not.
    is_replaced : bool
    reason : str
        Why it is not, if it is not.
    matrix_error : float
        With ``data``, the relative Frobenius error of the matrix, which may be large; NaN otherwise.

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
    matrix_error: float = nan


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
        head = ("layer", "shape", "complexity", "error", "of the matrix", "speed-up", "")
        lines = [head, *(_cells(layer) for layer in self.layers)]
        if all(isnan(layer.matrix_error) for layer in self.layers):
            lines = [(*line[:4], *line[5:]) for line in lines]
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
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
    data: torch.Tensor | Iterable[torch.Tensor | tuple[Any, ...] | dict[str, Any]] | None = None,
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
    data : tensor or iterable, optional
        What the model is usually applied to, without labels: a tensor, or an iterable of batches, each a tensor, a
        tuple of arguments or a dict of keyword arguments. Some hundred to thousand vectors per layer are enough.
        Each layer then approximates the matrix for the inputs that it gets behind the layers that were replaced
        before it, which takes a pass over the data for each layer. Errors are those of the outputs; a bias is
        changed so that their mean is kept, and errors are then those of the deviations from it.
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
    linears = [(name, each) for name, each in changed.named_modules() if isinstance(each, nn.Linear)]
    names = [name for name, _ in linears]
    batches = None if data is None else _as_batches(data)
    if batches is not None:
        linears = _in_order_of_calls(changed, linears, batches[0])
    reports: dict[str, LayerReport] = {}
    try:
        for name, linear in linears:
            reason = _obstacle(linear, uses[id(linear.weight)] if "weight" in linear._parameters else 0)
            found, figures, matrix_error = None, (nan,) * 3, nan
            if not reason:
                inputs, centre = (None, None) if batches is None else _inputs_of(linear, changed, batches)
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", message=f"{SLOWER}|no product")  # the table says so
                    found = FastLinear.from_linear(
                        linear,
                        inputs=inputs,
                        complexity=complexity,
                        max_error=max_error,
                        speedup=speedup,
                        block=block,
                        method=method,
                        time_budget=time_budget,
                        random_state=source.randint(2**31),
                    )
                if centre is not None:
                    found.agree_at(linear, centre)
                ratio = _speedup(linear, found, vectors) if by_seconds else nan
                matrix_error = nan if found.matrix_error is None else found.matrix_error
                figures = found.relative_complexity, float(found.error or 0.0), ratio
                if (ratio <= 1.0) if by_seconds else (figures[0] >= 1.0):
                    reason = "not faster" if by_seconds else "not smaller"
            shape = tuple(linear.weight.shape)
            reports[name] = LayerReport(name, shape, *figures, not reason, reason, matrix_error)
            if found is not None and not reason:
                changed = _put(changed, name, found)
    except BaseException:
        for name, linear in linears:
            _put(changed, name, linear)
        raise
    return Compression(changed, tuple(reports[name] for name in names))


def _put(model: nn.Module, name: str, layer: nn.Module) -> nn.Module:
    """The model with a layer in the place of that name, which is the model itself for an empty name."""
    if name == "":
        return layer
    parent, _, leaf = name.rpartition(".")
    setattr(model.get_submodule(parent), leaf, layer)
    return model


def _as_batches(data: Any) -> list[Any]:
    """What the model is called with, one after the other."""
    if not isinstance(data, torch.Tensor | Iterable):
        raise TypeError(f"data must be a tensor or an iterable of batches, got {type(data).__name__}")
    batches = [data] if isinstance(data, torch.Tensor) else list(data)
    if not batches:
        raise ValueError("data must hold at least one batch, got none")
    for i, batch in enumerate(batches):
        if not isinstance(batch, torch.Tensor | tuple | list | dict):
            raise TypeError(f"data[{i}] must be a tensor, a tuple or a dict, got {type(batch).__name__}")
    return batches


@torch.no_grad()
def _run(model: nn.Module, batches: Sequence[Any], layers: Sequence[nn.Module], hook: Callable[..., Any]) -> None:
    """Call the model with each batch as for inference, and ``hook`` before each call of one of the layers."""
    training = [part for part in model.modules() if part.training]
    handles = [layer.register_forward_pre_hook(hook) for layer in layers]
    try:
        model.eval()
        for batch in batches:
            if isinstance(batch, dict):
                model(**batch)
            else:
                model(*([batch] if isinstance(batch, torch.Tensor) else batch))
    finally:
        for handle in handles:
            handle.remove()
        for part in training:
            part.training = True


def _in_order_of_calls(
    model: nn.Module, layers: Sequence[tuple[str, nn.Linear]], batch: Any
) -> list[tuple[str, nn.Linear]]:
    """Layers in the order in which the model calls them first, then those that it does not call."""
    called: list[nn.Module] = []
    _run(model, [batch], [each for _, each in layers], lambda layer, args: called.append(layer))
    return sorted(layers, key=lambda each: called.index(each[1]) if each[1] in called else len(called))


def _inputs_of(layer: nn.Linear, model: nn.Module, batches: Sequence[Any]) -> tuple[Sums | None, Array | None]:
    """The sums of what a layer is applied to, about a centre, and this; None if there is nothing else.

    The centre is the mean of the first call, or zero for layers without a bias, which could make up for it.
    """
    found: list[Sums] = []
    centres: list[Array] = []

    def collect(layer: nn.Module, args: tuple[torch.Tensor]) -> None:
        rows = as_rows(args[0])
        if not np.isfinite(rows).all():
            raise ValueError("data must give finite inputs of all layers, got NaN or infinity")
        if not centres:
            centres.append(rows.mean(axis=0) if layer.bias is not None else np.zeros_like(rows[0]))
        found[:] = [merged([*found, sums_of([(0, rows - centres[0])], rows.shape[1])])]

    _run(model, batches, [layer], collect)
    return (found[0] if found and found[0].gram.any() else None), (centres[0] if centres else None)


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
    figures = layer.complexity, layer.error, layer.matrix_error, layer.speedup
    complexity, error, matrix_error, speedup = (
        "" if figure != figure else text.format(figure)
        for figure, text in zip(figures, ["{:.3f}", "{:.3f}", "{:.3f}", "{:.2f}"], strict=True)
    )
    shape = f"{layer.shape[0]}×{layer.shape[1]}"
    return (
        layer.name or "(the model)",
        shape,
        complexity,
        error,
        matrix_error,
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
