"""PyTorch's view of products on fixed supports: papilio's kernels behind autograd and ``torch.compile``.

PyTorch's operators take tensors and numbers. Products are known to them by a number, under which they are
registered for as long as a layer holds them.
"""

from collections.abc import Sequence
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import scipy.sparse as sp
import torch
from torch.library import custom_op

from ..operators.parametric import ParametricProduct
from ..typing import Array

_numbers = count()
_registered: "WeakValueDictionary[int, Registered]" = WeakValueDictionary()


class Registered:
    """A product that the operators below find by its ``number``; a copy in another process has another one."""

    def __init__(self, supports: Sequence[sp.csr_array]) -> None:
        self.product = ParametricProduct(supports)
        self.n_rows, self.n_hidden = self.product.sizes[0], self.product.n_hidden
        self.number = next(_numbers)
        _registered[self.number] = self

    def __reduce__(self) -> tuple[Any, ...]:
        return Registered, (self.product.supports,)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Registered":
        return self  # nothing of it changes


def multiply(x: torch.Tensor, values: torch.Tensor, registered: Registered) -> torch.Tensor:
    """x (S₁…S_M)ᵀ for the rows of x, on the CPU and of the dtype of ``values``; differentiable in both."""
    number, n_rows = registered.number, registered.n_rows
    if torch.is_grad_enabled() and (x.requires_grad or values.requires_grad):
        y: torch.Tensor = _multiply_and_keep(x, values, number, n_rows, registered.n_hidden)[0]
        return y
    return _multiply(x, values, number, n_rows)


@custom_op("papilio::multiply", mutates_args=())
def _multiply(x: torch.Tensor, values: torch.Tensor, number: int, n_rows: int) -> torch.Tensor:
    """All factors in one kernel."""
    Y = _registered[number].product.apply(_array(values), _array(x).T)
    return torch.from_numpy(Y.T)


@_multiply.register_fake
def _(x: torch.Tensor, values: torch.Tensor, number: int, n_rows: int) -> torch.Tensor:
    return x.new_empty((x.shape[0], n_rows))


@custom_op("papilio::multiply_and_keep", mutates_args=())
def _multiply_and_keep(
    x: torch.Tensor, values: torch.Tensor, number: int, n_rows: int, n_hidden: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """One factor after the other; what goes into each of them is kept for the gradients, as columns."""
    y, hidden = x.new_empty((x.shape[0], n_rows)), x.new_empty((n_hidden, x.shape[0]))
    _registered[number].product.forward(_array(values), _array(x), hidden.numpy(), y.numpy())
    return y, hidden


@_multiply_and_keep.register_fake
def _(
    x: torch.Tensor, values: torch.Tensor, number: int, n_rows: int, n_hidden: int
) -> tuple[torch.Tensor, torch.Tensor]:
    return x.new_empty((x.shape[0], n_rows)), x.new_empty((n_hidden, x.shape[0]))


@custom_op("papilio::multiply_backward", mutates_args=())
def _multiply_backward(
    gradient: torch.Tensor,
    values: torch.Tensor,
    hidden: torch.Tensor,
    number: int,
    n_columns: int,
    wants_input: bool,
    wants_values: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients by the input and by the values; empty ones where they are not wanted."""
    by_values, by_input = _registered[number].product.backward(
        _array(values), _array(hidden), _array(gradient), wants_values, wants_input
    )
    return tuple(values.new_empty(0) if each is None else torch.from_numpy(each) for each in (by_input, by_values))


@_multiply_backward.register_fake
def _(
    gradient: torch.Tensor,
    values: torch.Tensor,
    hidden: torch.Tensor,
    number: int,
    n_columns: int,
    wants_input: bool,
    wants_values: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    return (
        values.new_empty((gradient.shape[0], n_columns) if wants_input else (0,)),
        values.new_empty(values.shape if wants_values else (0,)),
    )


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    x, values, ctx.number, _, _ = inputs
    ctx.n_columns = x.shape[1]
    ctx.save_for_backward(values, output[1])
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, gradient: torch.Tensor | None, _: None) -> tuple[torch.Tensor | None, ...]:
    wants_input, wants_values = ctx.needs_input_grad[:2]
    if gradient is None:
        return (None,) * 5
    by_input, by_values = _multiply_backward(
        gradient, *ctx.saved_tensors, ctx.number, ctx.n_columns, wants_input, wants_values
    )
    return by_input if wants_input else None, by_values if wants_values else None, None, None, None


_multiply_and_keep.register_autograd(_backward, setup_context=_keep)


def _array(tensor: torch.Tensor) -> Array:
    """The same memory, row-major, as an array."""
    return tensor.detach().resolve_conj().resolve_neg().contiguous().numpy()
