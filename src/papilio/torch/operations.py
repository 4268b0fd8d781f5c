"""PyTorch's view of products of sparse factors: papilio's kernels behind autograd and ``torch.compile``.

The operators below take the supports as tensors, so that a graph which holds them is complete. What is prepared
for the kernels is kept beside these tensors, and made again where they are others, or have changed.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any
from weakref import ref

import numpy as np
import scipy.sparse as sp
import torch
from torch.library import custom_op

from ..operators import SparseProduct, portable
from ..operators.factors import from_parts
from ..operators.parametric import ParametricProduct
from ..typing import Array

KERNEL_DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)
Supports = Sequence[torch.Tensor]  # columns and row pointers of all factors, and their sizes
_prepared: dict[int, tuple[Any, ...]] = {}  # The keys are addresses of columns.


def is_traced() -> bool:
    """Whether a graph is made that has to work without papilio, or a transformation of `torch.func` is at work."""
    if torch.compiler.is_compiling():
        return bool(torch.compiler.is_exporting())
    return bool(torch.jit.is_tracing() or torch._C._are_functorch_transforms_active())


# -- operators -------------------------------------------------------------------------------------------


def apply(op: SparseProduct, x: torch.Tensor) -> torch.Tensor:
    """``op @ x``, differentiable in x."""
    if torch.compiler.is_compiling():  # tensors that are made now belong to the graph
        return portable.PortableProduct(op, torch, x.device) @ x
    if is_traced() or x.device.type != "cpu" or x.dtype not in KERNEL_DTYPES:
        return portable.prepared(op, torch, x.device) @ x
    y: torch.Tensor = _Apply.apply(op, x)
    return y


class _Apply(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, op: SparseProduct, x: torch.Tensor) -> torch.Tensor:
        ctx.op, ctx.dtype = op, x.dtype
        return torch.from_numpy(op @ x.detach().resolve_conj().resolve_neg().numpy())

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[None, torch.Tensor]:
        found = apply(ctx.op.H, gradient)
        return None, found.to(ctx.dtype) if ctx.dtype.is_complex else found.real.to(ctx.dtype)


# -- products on fixed supports ----------------------------------------------------------------------------


def multiply(x: torch.Tensor, entries: torch.Tensor, supports: Supports, n_rows: int) -> torch.Tensor:
    """x (S₁…S_M)ᵀ for the rows of x, on the CPU and of the dtype of the entries; differentiable in both."""
    is_compiling = (
        torch.compiler.is_compiling()
    )  # else without operators: to find them takes longer than small products
    if torch.is_grad_enabled() and (x.requires_grad or entries.requires_grad):
        call = _multiply_and_keep if is_compiling else _Multiply.apply
        y: torch.Tensor = call(x, entries, *supports, n_rows)[0]
        return y
    return (_multiply if is_compiling else _applied)(x, entries, *supports, n_rows)


def portable_multiply(x: torch.Tensor, entries: torch.Tensor, plan: portable.Plan, indices: Any) -> torch.Tensor:
    """The same in PyTorch alone, for any device and dtype."""
    y: torch.Tensor = plan.apply(torch, plan.values(torch, entries, indices), indices, x.T).T
    return y


def tensors_of(supports: Sequence[sp.csr_array]) -> list[torch.Tensor]:
    """Supports as columns and row pointers of all factors, and sizes; `supports_of` is the inverse."""
    parts = (np.concatenate([getattr(each, name) for each in supports]) for name in ("indices", "indptr"))
    sizes = torch.tensor([supports[0].shape[0], *(each.shape[1] for each in supports)])
    return [*(torch.from_numpy(part.astype(np.int32)) for part in parts), sizes]


def supports_of(tensors: Supports) -> list[sp.csr_array]:
    """The supports that tensors describe, after a check of all that kernels rely on."""
    columns, pointers, sizes = (tensor.cpu().numpy().copy() for tensor in tensors)
    masks = []
    for i, shape in enumerate(pairwise(sizes.tolist())):
        lines, pointers = np.split(pointers, [shape[0] + 1])
        indices, columns = np.split(columns, lines[-1:])
        masks.append(from_parts(f"factor {i}", np.ones(indices.size), indices, lines, np.array(shape)))
    if columns.size or pointers.size:
        raise ValueError(f"sizes must be those of factors with all columns and pointers, got {sizes.tolist()}")
    return masks


def _product(entries: torch.Tensor, supports: Supports, n_rows: int, n_columns: int) -> ParametricProduct:
    """What the kernels need to know of these supports, after a check of all sizes."""
    state = [(part.data_ptr(), 0 if part.is_inference() else part._version) for part in supports]
    key = state[0][0]
    known, state_then, product = _prepared.get(key, ((), [], None))
    held = [part() for part in known]
    if state_then != state or [part is not None and part.data_ptr() for part in held] != [at for at, _ in state]:
        product = ParametricProduct(supports_of(supports))
        _prepared[key] = [ref(part, lambda _: _prepared.pop(key, None)) for part in supports], state, product
    sizes = product.n_values, product.sizes[0], product.sizes[-1]
    if sizes != (entries.numel(), n_rows, n_columns):
        raise ValueError(f"entries, rows and columns must be {sizes}, got {(entries.numel(), n_rows, n_columns)}")
    return product


@custom_op("papilio::multiply", mutates_args=())
def _multiply(
    x: torch.Tensor,
    entries: torch.Tensor,
    columns: torch.Tensor,
    pointers: torch.Tensor,
    sizes: torch.Tensor,
    n_rows: int,
) -> torch.Tensor:
    """All factors in one kernel."""
    return _applied(x, entries, columns, pointers, sizes, n_rows)


def _applied(x: torch.Tensor, entries: torch.Tensor, *given: Any) -> torch.Tensor:
    *supports, n_rows = given
    Y = _product(entries, supports, n_rows, x.shape[1]).apply(_array(entries), _array(x).T)
    return torch.from_numpy(Y.T)


_multiply.register_fake(lambda x, *others: x.new_empty((x.shape[0], others[-1])))


@custom_op("papilio::multiply_and_keep", mutates_args=())
def _multiply_and_keep(
    x: torch.Tensor,
    entries: torch.Tensor,
    columns: torch.Tensor,
    pointers: torch.Tensor,
    sizes: torch.Tensor,
    n_rows: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One factor after the other; what goes into each of them is kept for the gradients, as columns."""
    return _applied_and_kept(x, entries, columns, pointers, sizes, n_rows)


def _applied_and_kept(x: torch.Tensor, entries: torch.Tensor, *given: Any) -> tuple[torch.Tensor, torch.Tensor]:
    *supports, n_rows = given
    product = _product(entries, supports, n_rows, x.shape[1])
    y, hidden = x.new_empty((x.shape[0], n_rows)), x.new_empty((product.n_hidden, x.shape[0]))
    product.forward(_array(entries), _array(x), hidden.numpy(), y.numpy())
    return y, hidden


@_multiply_and_keep.register_fake
def _(x: Any, entries: Any, columns: Any, pointers: Any, sizes: Any, n_rows: int) -> tuple[Any, Any]:
    n_inner = pointers.shape[0] - (sizes.shape[0] - 1) - n_rows  # a factor has a pointer more than rows
    return x.new_empty((x.shape[0], n_rows)), x.new_empty((n_inner + x.shape[1], x.shape[0]))


@custom_op("papilio::multiply_backward", mutates_args=())
def _multiply_backward(
    gradient: torch.Tensor,
    entries: torch.Tensor,
    hidden: torch.Tensor,
    columns: torch.Tensor,
    pointers: torch.Tensor,
    sizes: torch.Tensor,
    n_columns: int,
    wants_input: bool,
    wants_entries: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients by the input and by the entries; empty ones where they are not wanted."""
    return _gradients(gradient, entries, hidden, columns, pointers, sizes, n_columns, wants_input, wants_entries)


def _gradients(
    gradient: torch.Tensor, entries: torch.Tensor, hidden: torch.Tensor, *given: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    *supports, n_columns, wants_input, wants_entries = given
    product = _product(entries, supports, gradient.shape[1], n_columns)
    by_entries, by_input = product.backward(
        _array(entries), _array(hidden), _array(gradient), wants_entries, wants_input
    )
    return tuple(
        entries.new_empty(0) if each is None else torch.from_numpy(each) for each in (by_input, by_entries)
    )


@_multiply_backward.register_fake
def _(gradient: Any, entries: Any, *given: Any) -> tuple[Any, Any]:
    n_columns, wants_input, wants_entries = given[-3:]
    return (
        entries.new_empty((gradient.shape[0], n_columns) if wants_input else (0,)),
        entries.new_empty(entries.shape if wants_entries else (0,)),
    )


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    ctx.save_for_backward(output[1], *inputs[:-1])
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _backward(
    ctx: Any, gradient: torch.Tensor | None, _: None, gradients: Callable[..., Any] = _multiply_backward
) -> tuple[torch.Tensor | None, ...]:
    hidden, x, entries, *supports = ctx.saved_tensors
    wanted = ctx.needs_input_grad[:2]
    if gradient is None:
        return (None,) * 6
    if torch.is_grad_enabled():  # gradients of gradients: by what autograd knows
        plan = portable.Plan(supports_of(supports))
        y = portable_multiply(x, entries, plan, torch.from_numpy(plan.indices))
        chosen = [each for each, is_wanted in zip((x, entries), wanted, strict=True) if is_wanted]
        found = iter(torch.autograd.grad(y, chosen, gradient, create_graph=True))
        by_input, by_entries = (next(found) if is_wanted else None for is_wanted in wanted)
    else:
        by_input, by_entries = gradients(gradient, entries, hidden, *supports, x.shape[1], *wanted)
    return by_input if wanted[0] else None, by_entries if wanted[1] else None, None, None, None, None


_multiply_and_keep.register_autograd(_backward, setup_context=_keep)


class _Multiply(torch.autograd.Function):  # type: ignore[misc]
    """`_multiply_and_keep` outside of graphs."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        output = _applied_and_kept(*inputs)
        _keep(ctx, inputs, output)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Any, _: Any) -> tuple[torch.Tensor | None, ...]:
        return _backward(ctx, gradient, None, _gradients)


def _array(tensor: torch.Tensor) -> Array:
    """The same memory, row-major, as an array."""
    return tensor.detach().resolve_conj().resolve_neg().contiguous().numpy()
