"""`FastLinear`: a product of sparse factors in place of the matrix of a linear layer."""

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn

from ..operators import SparseProduct
from ..operators.factors import as_csr, from_parts, same
from ..results import Factorization
from ..search.factorize import factorize
from ..search.known_supports import arranged
from ..search.methods.butterfly import as_supports, butterfly
from ..transforms.chains import as_pattern
from ..typing import Array, MatrixLike, RandomState
from ..validation import as_factor_count, as_flag, as_integer, as_real, is_series
from . import operations, plain
from .patterns import spread_supports

_KERNEL_DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)
_HALVES = (torch.float16, torch.bfloat16)


class FastLinear(nn.Module):  # type: ignore[misc]
    """y = scale · S₁…S_M x + bias: `torch.nn.Linear` with a product of sparse factors for its matrix.

    The supports of the factors are fixed, their values are trained. On the CPU, papilio's kernels apply all
    factors and find the gradients; on other devices, plain PyTorch does.

    Parameters
    ----------
    in_features, out_features : int
        Entries of x and of y.
    bias : bool, default=True
        Whether there is one.
    device, dtype : optional
        Of the values and the bias, as in ``torch.nn.Linear``; complex dtypes are welcome. Half precision is for
        storage: the CPU computes in float32.
    complexity : float, optional
        The entries of all factors relative to those of the dense matrix, at most. By default 0.25, or the least
        that is possible if that is more.
    block : int, default=1
        Rows and columns of the blocks that supports are made of; both numbers of features must be multiples. Rows
        that read the same columns run as blocks in any case; blocks of neighbouring entries are for other devices,
        and leave each output with fewer inputs.
    n_factors : int, default=2
        With two factors, and √n entries per row of an n×n matrix, that is block-diagonal factors with a
        permutation between them (Monarch); with log₂ n of them and two entries per row, a butterfly.
    supports : sequence of (a, b, c, d) or of matrices, optional
        Instead of the last three: a chain from `papilio.transforms.butterfly_chain`, or factors from left to
        right, dense or sparse, whose entries other than zero are those that are trained.

    Attributes
    ----------
    values : torch.nn.Parameter
        The entries of all factors: of S₁ row by row, then of S₂, and so on.
    bias : torch.nn.Parameter or None
    rows, columns : torch.Tensor
        Where these entries are, each within its factor; buffers, and part of the ``state_dict``.
    scale : float
    sizes : tuple of int
        Rows of S₁, its columns, which are the rows of S₂, and so on.
    error : float or None
        The relative Frobenius error of the matrix that `from_linear` replaced.

    Notes
    -----
    At the start, each row has the output variance that ``torch.nn.Linear`` has. Gradients of gradients are not
    available on the CPU. ``torch.compile(fullgraph=True)`` works; the kernels are one step of its graphs.

    Examples
    --------
    >>> import torch
    >>> from papilio.torch import FastLinear
    >>> layer = FastLinear(1024, 1024, complexity=0.1)
    >>> layer(torch.ones(3, 1024)).shape
    torch.Size([3, 1024])
    >>> layer
    FastLinear(in_features=1024, out_features=1024, bias=True, 2 factors, 98304 entries, complexity=0.0938)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        complexity: float | None = None,
        block: int | None = None,
        n_factors: int | None = None,
        supports: Sequence[MatrixLike] | None = None,
    ) -> None:
        super().__init__()
        self.in_features = as_integer("in_features", in_features, 1)
        self.out_features = as_integer("out_features", out_features, 1)
        if supports is None:
            masks = _spread(self.in_features, self.out_features, complexity, block, n_factors)
        else:
            for name, option in (("complexity", complexity), ("block", block), ("n_factors", n_factors)):
                if option is not None:
                    raise ValueError(f"{name} and supports cannot be combined: give one of them")
            masks = _as_masks(supports, (self.out_features, self.in_features))
        self.scale = 1.0
        self.error: float | None = None
        self._use(masks)
        count = self._registered.product.n_values
        self.values = nn.Parameter(torch.empty(count, device=device, dtype=dtype))
        is_biased = as_flag("bias", bias)
        self.bias = nn.Parameter(torch.empty(out_features, device=device, dtype=dtype)) if is_biased else None
        every = [np.repeat(np.arange(mask.shape[0]), np.diff(mask.indptr)) for mask in masks]
        for name, indices in (("rows", every), ("columns", [mask.indices for mask in masks])):
            joined = torch.from_numpy(np.concatenate(indices).astype(np.int32))
            self.register_buffer(name, joined.to(self.values.device))
        if self.values.device.type != "meta":
            self.reset_parameters()

    def _use(self, masks: Sequence[sp.csr_array]) -> None:
        """Take these supports."""
        self._registered = operations.Registered(masks)
        self.sizes: tuple[int, ...] = self._registered.product.sizes
        firsts = map(int, self._registered.product.ends)
        self._layouts = tuple(plain.layout_of(mask, first) for mask, first in zip(masks, firsts, strict=False))

    @property
    def relative_complexity(self) -> float:
        """The entries of all factors relative to those of the dense matrix."""
        return self.values.numel() / (self.in_features * self.out_features)

    @property
    def weight(self) -> torch.Tensor:
        """The dense matrix, differentiable; for what reads the weight of a ``torch.nn.Linear``."""
        x = torch.eye(self.in_features, device=self.values.device, dtype=self.values.dtype)
        return self.scale * plain.multiply(x, self.values, self.rows, self.columns, self._layouts).T

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw all values and the bias again, from PyTorch's random numbers.

        The entries of a row are uniform in ±√(3/k) if it has k of them, and √3 times smaller in the leftmost
        factor: each output has a variance of ⅓ for inputs of variance one, as in ``torch.nn.Linear``.

        Examples
        --------
        >>> from papilio.torch import FastLinear
        >>> layer = FastLinear(8, 8)
        >>> layer.reset_parameters()
        """
        self.scale = 1.0
        bounds = []
        for i, support in enumerate(self._registered.product.supports):
            counts = np.diff(support.indptr)
            bounds.append(np.sqrt((1.0 if i == 0 else 3.0) / np.repeat(counts, counts)))
        bound = torch.from_numpy(np.concatenate(bounds)).to(self.values.device, self.values.real.dtype)
        is_complex = self.values.is_complex()
        parts = torch.view_as_real(self.values) if is_complex else self.values
        parts.uniform_(-1.0, 1.0)
        parts.mul_(bound[:, None] / sqrt(2.0) if is_complex else bound)
        if self.bias is not None:
            limit = 1 / sqrt(self.in_features)
            (torch.view_as_real(self.bias) if is_complex else self.bias).uniform_(-limit, limit)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer's output.

        Parameters
        ----------
        x : (..., in_features) tensor
            Of any dtype; the result has the dtype of a product of x and the values.

        Returns
        -------
        (..., out_features) tensor

        Examples
        --------
        >>> import torch
        >>> from papilio.torch import FastLinear
        >>> FastLinear(4, 2).double()(torch.ones(5, 4)).dtype
        torch.float64
        """
        if x.dim() == 0 or x.shape[-1] != self.in_features:
            raise ValueError(f"x must have {self.in_features} entries along its last axis, got {tuple(x.shape)}")
        dtype = torch.promote_types(x.dtype, self.values.dtype)
        flat = x.reshape(-1, self.in_features)
        on_cpu = x.device.type == "cpu" and self.values.device.type == "cpu"
        working = torch.float32 if on_cpu and dtype in _HALVES else dtype
        flat, values = flat.to(working), self.values.to(working)
        if on_cpu and working in _KERNEL_DTYPES and flat.shape[0] > 0:
            y = operations.multiply(flat, values, self._registered)
        else:
            y = plain.multiply(flat, values, self.rows, self.columns, self._layouts)
        if self.bias is not None:
            y = torch.add(self.bias, y, alpha=self.scale)
        elif self.scale != 1.0:
            y = self.scale * y
        return y.to(dtype).reshape(*x.shape[:-1], self.out_features)

    # -- from and to other forms -----------------------------------------------------------------------

    @classmethod
    def from_operator(
        cls,
        op: SparseProduct,
        *,
        bias: torch.Tensor | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> Self:
        """A layer that applies an operator; its entries that are not zero are trained.

        Parameters
        ----------
        op : SparseProduct
        bias : tensor, optional
            One number for each row of the operator; it is copied.
        device, dtype : optional
            By default the CPU, and the operator's own dtype.

        Returns
        -------
        FastLinear
            ``to_operator`` gives an operator that is equal to this one.

        Examples
        --------
        >>> import papilio as pp
        >>> from papilio.torch import FastLinear
        >>> FastLinear.from_operator(pp.transforms.hadamard(8)).to_operator() == pp.transforms.hadamard(8)
        True
        """
        if not isinstance(op, SparseProduct):
            raise TypeError(f"op must be a papilio.SparseProduct, got {type(op).__name__}")
        if bias is not None and (not isinstance(bias, torch.Tensor) or bias.shape != op.shape[:1]):
            raise ValueError(f"bias must be a tensor of {op.shape[0]} numbers, got {bias!r}")
        factors = [as_csr("op", factor) for factor in op.factors]
        entries = torch.from_numpy(np.concatenate([factor.data for factor in factors]))
        dtype = entries.dtype if dtype is None else dtype
        layer = cls(op.shape[1], op.shape[0], bias is not None, device, dtype, supports=factors)
        layer.scale = op.scale
        with torch.no_grad():
            layer.values.copy_(entries)
            if bias is not None and layer.bias is not None:
                layer.bias.copy_(bias)
        return layer

    def to_operator(self) -> SparseProduct:
        """The operator that the layer applies, without the bias.

        Returns
        -------
        SparseProduct
            A copy; half precision becomes float32. Values that are zero are no entries.

        Examples
        --------
        >>> from papilio.torch import FastLinear
        >>> FastLinear(16, 8, complexity=0.5).to_operator()
        <SparseProduct 8×16 float32: 2 factors (8×8×16), 64 entries, relative complexity 0.5>
        """
        values = self.values.detach().cpu()
        values = values.float() if values.dtype in _HALVES else values
        numbers, product = values.resolve_conj().numpy(), self._registered.product
        factors = [
            sp.csr_array((numbers[begin:end], mask.indices, mask.indptr), shape=mask.shape)
            for mask, begin, end in zip(product.supports, product.ends[:-1], product.ends[1:], strict=True)
        ]
        return SparseProduct(factors, self.scale)

    @classmethod
    def from_linear(
        cls,
        layer: nn.Linear,
        *,
        complexity: float | None = None,
        max_error: float | None = None,
        speedup: float | None = None,
        supports: Sequence[MatrixLike] | Sequence[tuple[int, int, int, int]] | None = None,
        block: int | tuple[int, int] | None = None,
        n_factors: int | None = None,
        method: str = "auto",
        time_budget: float | None = None,
        random_state: RandomState = 0,
    ) -> Self:
        """A layer whose product approximates the matrix of a ``torch.nn.Linear``, found by `papilio.factorize`.

        Parameters
        ----------
        layer : torch.nn.Linear
            It is not changed; its bias, device and dtype are taken over.
        complexity, max_error, speedup : float, optional
            One target: the most entries, relative to the dense matrix; the largest relative error; or how many
            times faster the product should be for blocks of 256 vectors.
        supports : sequence of (a, b, c, d) or of matrices, optional
            Instead of all else: the supports of the factors, such as a Monarch chain from
            `papilio.transforms.butterfly_chain`, fitted by `papilio.butterfly`. They must be chainable: for
            others, like the triangles of an LU factorization, there may be no best factors, but only values that
            grow without bound while the error falls.
        block, n_factors, method, time_budget, random_state : optional
            As for `papilio.factorize`. Large matrices take long without a ``time_budget``.

        Returns
        -------
        FastLinear
            ``error`` is the relative Frobenius error of its matrix.

        Examples
        --------
        >>> import torch
        >>> from papilio.torch import FastLinear
        >>> _ = torch.manual_seed(0)
        >>> linear = torch.nn.Linear(16, 16)
        >>> _ = linear.weight.data.copy_(torch.outer(torch.arange(16.0), torch.ones(16)))
        >>> fast = FastLinear.from_linear(linear, max_error=0.01)
        >>> fast.error < 1e-5, fast.relative_complexity <= 0.125
        (True, True)
        """
        if not isinstance(layer, nn.Linear):
            raise TypeError(f"layer must be a torch.nn.Linear, got {type(layer).__name__}")
        weight = layer.weight.detach()
        matrix = (weight.float() if weight.dtype in _HALVES else weight).cpu().numpy()
        if supports is not None:
            if (complexity, max_error, speedup, block, n_factors, time_budget, method) != (*[None] * 6, "auto"):
                raise ValueError("supports are a target by themselves: leave out the other options")
            fit = _projected(matrix, supports)
        else:
            fit = factorize(
                matrix,
                complexity=complexity,
                max_error=max_error,
                speedup=speedup,
                block=block,
                n_factors=n_factors,
                method=method,
                time_budget=time_budget,
                random_state=random_state,
            )
        bias = None if layer.bias is None else layer.bias.detach()
        found = cls.from_operator(fit.operator, bias=bias, device=weight.device, dtype=weight.dtype)
        found.error = fit.error
        return found.train(layer.training)

    # -- what PyTorch asks for -------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What the repr shows between brackets.

        Returns
        -------
        str

        Examples
        --------
        >>> from papilio.torch import FastLinear
        >>> FastLinear(8, 8, complexity=0.5).extra_repr()
        'in_features=8, out_features=8, bias=True, 2 factors, 32 entries, complexity=0.5'
        """
        count = len(self.sizes) - 1
        text = (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
            f"{count} factor{'s' * (count > 1)}, {self.values.numel()} entries, "
            f"complexity={self.relative_complexity:.3g}"
        )
        return text if self.error is None else f"{text}, error={self.error:.3g}"

    def get_extra_state(self) -> torch.Tensor:
        """What is neither a parameter nor a buffer but belongs to the ``state_dict``.

        Returns
        -------
        tensor
            The scale, the sizes, and the number of entries of each factor. In float64: the other tensors of a
            module change their dtype with it.

        Examples
        --------
        >>> from papilio.torch import FastLinear
        >>> FastLinear(8, 4, complexity=0.5).get_extra_state()
        tensor([1., 4., 4., 8., 8., 8.], dtype=torch.float64)
        """
        counts = np.diff(self._registered.product.ends)
        return torch.tensor([self.scale, *self.sizes, *counts], dtype=torch.float64)

    def set_extra_state(self, state: torch.Tensor) -> None:
        """Take over what `get_extra_state` gave, and the supports, which are loaded before it.

        Parameters
        ----------
        state : tensor

        Examples
        --------
        >>> from papilio.torch import FastLinear
        >>> layer = FastLinear(8, 4)
        >>> layer.set_extra_state(layer.get_extra_state())
        """
        scale, *rest = state.tolist()
        numbers = [int(number) for number in rest]
        n_factors = len(numbers) // 2
        sizes, counts = tuple(numbers[: n_factors + 1]), numbers[n_factors + 1 :]
        if n_factors < 1 or len(counts) != n_factors or (sizes[0], sizes[-1]) != (self.sizes[0], self.sizes[-1]):
            raise ValueError(
                f"state must describe factors of a {self.sizes[0]}×{self.sizes[-1]} matrix, got {rest}"
            )
        masks = _masks_of(self.rows, self.columns, sizes, counts)
        self.scale = as_real("scale", scale)
        if sizes != self.sizes or not all(map(same, masks, self._registered.product.supports)):
            self._use(masks)  # else compiled graphs stay valid


def _spread(
    n_in: int, n_out: int, complexity: float | None, block: int | None, n_factors: int | None
) -> list[sp.csr_array]:
    """The supports of a new layer."""
    complexity = None if complexity is None else as_real("complexity", complexity, 0.0, 1.0)
    n_factors = 2 if n_factors is None else as_factor_count("n_factors", n_factors)
    block = 1 if block is None else as_integer("block", block, 1)
    for name, size in (("in_features", n_in), ("out_features", n_out)):
        if size % block:
            raise ValueError(f"{name} must be a multiple of block={block}, got {size}")
    return spread_supports((n_out, *[min(n_in, n_out)] * (n_factors - 1), n_in), complexity, block)


def _projected(matrix: Array, supports: Any) -> Factorization:
    """The matrix on chainable supports."""
    if arranged(as_supports(supports, matrix.shape)) is None:
        raise ValueError(
            "supports must be chainable patterns (a, b, c, d), in some order of their lines: for others, there "
            "may be no best factors"
        )
    return butterfly(matrix, supports)


def _as_masks(supports: Any, shape: tuple[int, int]) -> list[sp.csr_array]:
    """Matrices as supports that chain and have this shape together."""
    if not is_series(supports):
        raise TypeError(f"supports must be a sequence of matrices, got {type(supports).__name__}")
    masks = []
    for i, each in enumerate(supports):
        pattern = as_pattern(f"supports[{i}]", each)
        matrix = each.detach().cpu().numpy() if isinstance(each, torch.Tensor) else each
        masks.append(as_csr(f"supports[{i}]", matrix) if pattern is None else pattern.support().astype(float))
    sizes = [mask.shape for mask in masks]
    if not masks or (sizes[0][0], sizes[-1][1]) != shape or any(a[1] != b[0] for a, b in pairwise(sizes)):
        raise ValueError(f"supports must chain from {shape[0]} rows to {shape[1]} columns, got shapes {sizes}")
    if not sum(mask.nnz for mask in masks):
        raise ValueError("supports must have entries, got none")
    for mask in masks:
        mask.sort_indices()
        mask.data = np.ones(mask.nnz)
    return masks


def _masks_of(
    rows: torch.Tensor, columns: torch.Tensor, sizes: tuple[int, ...], counts: Sequence[int]
) -> list[sp.csr_array]:
    """The supports that a ``state_dict`` describes, after a check of all that kernels rely on."""
    if sum(counts) != rows.numel() or rows.numel() != columns.numel() or min(counts) < 0:
        raise ValueError(f"rows must have one entry for each value of factors of {counts}, got {rows.numel()}")
    masks, end = [], 0
    for i, (shape, count) in enumerate(zip(pairwise(sizes), counts, strict=True)):
        begin, end = end, end + count
        own, indices = (tensor[begin:end].cpu().numpy() for tensor in (rows, columns))
        if (np.diff(own) < 0).any() or (own < 0).any() or (own >= shape[0]).any():
            raise ValueError(f"rows must rise, from 0 to {shape[0] - 1}, in factor {i}")
        pointers = np.concatenate([[0], np.cumsum(np.bincount(own, minlength=shape[0]))])
        masks.append(from_parts(f"factor {i}", np.ones(count), indices.copy(), pointers, np.array(shape)))
    return masks
