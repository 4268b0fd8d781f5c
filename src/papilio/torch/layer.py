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
from ..operators.factors import as_csr
from ..operators.portable import Plan
from ..results import Factorization
from ..search.factorize import factorize
from ..search.known_supports import arranged
from ..search.methods.butterfly import as_supports, butterfly
from ..search.weighted import Inputs
from ..transforms.chains import as_pattern
from ..typing import Array, MatrixLike, RandomState
from ..validation import as_factor_count, as_flag, as_integer, as_real, is_series
from . import operations
from .patterns import spread_supports

_SUPPORTS = ("columns", "pointers", "sizes")  # buffers
_HALVES = (torch.float16, torch.bfloat16)
_AUTOCAST = (*_HALVES, torch.float32)  # the dtypes that it changes


class FastLinear(nn.Module):  # type: ignore[misc]
    """y = scale · S₁…S_M x + bias: `torch.nn.Linear` with a product of sparse factors for its matrix.

    The supports of the factors are fixed, their entries are trained. On the CPU, papilio's kernels apply all
    factors and find the gradients; on other devices, plain PyTorch does.

    Parameters
    ----------
    in_features, out_features : int
        Entries of x and of y.
    bias : bool, default=True
        Whether there is one.
    device, dtype : optional
        Of the entries and the bias, as in ``torch.nn.Linear``; complex dtypes are welcome. Half precision is for
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
    entries : torch.nn.Parameter
        The entries of all factors: of S₁ row by row, then of S₂, and so on.
    bias : torch.nn.Parameter or None
    columns, pointers : torch.Tensor
        The columns of these entries, and where the rows of each factor begin and end among its entries; buffers,
        and part of the ``state_dict``.
    sizes : torch.Tensor
        Rows of S₁, its columns, which are the rows of S₂, and so on; a buffer, too.
    scale : float
    error, matrix_error : float or None
        The relative Frobenius error of the matrix that `from_linear` replaced; with inputs, ``error`` is that of
        the outputs.

    Notes
    -----
    At the start, each row has the output variance that ``torch.nn.Linear`` has. The kernels are one step of the
    graphs of ``torch.compile``. Graphs that leave the process (``torch.export``, ``torch.jit.trace``, ONNX), and
    the transformations of ``torch.func``, have PyTorch's own operations only; models of ``torch.jit.script`` need
    ``import papilio.torch`` where they are loaded, and a CPU.

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
        self._scale = torch.tensor(1.0, dtype=torch.float64)  # no buffer: it keeps its dtype when the layer moves
        self.error: float | None = None
        self.matrix_error: float | None = None
        for name, tensor in zip(_SUPPORTS, operations.tensors_of(masks), strict=True):
            self.register_buffer(name, tensor.to(device))
        self._use(masks)
        self.entries = nn.Parameter(torch.empty(self.columns.numel(), device=device, dtype=dtype))
        is_biased = as_flag("bias", bias)
        self.bias = nn.Parameter(torch.empty(out_features, device=device, dtype=dtype)) if is_biased else None
        if self.entries.device.type != "meta":
            self.reset_parameters()

    def _use(self, masks: Sequence[sp.csr_array]) -> None:
        """Prepare the portable form for these supports."""
        self._plan = Plan(masks)
        indices = torch.from_numpy(self._plan.indices).to(self.columns.device)
        self.register_buffer("_indices", indices, persistent=False)

    @property
    def _supports(self) -> list[torch.Tensor]:
        return [self._buffers[name] for name in _SUPPORTS]

    __jit_unused_properties__ = ("relative_complexity", "scale", "weight", "_supports")

    @property
    def scale(self) -> float:
        """The number in front of the product."""
        return float(self._scale)

    @scale.setter
    def scale(self, value: float) -> None:
        self._scale = torch.tensor(as_real("scale", value), dtype=torch.float64)

    @property
    def relative_complexity(self) -> float:
        """The entries of all factors relative to those of the dense matrix."""
        return self.entries.numel() / (self.in_features * self.out_features)

    @property
    def weight(self) -> torch.Tensor:
        """The dense matrix, differentiable; for what reads the weight of a ``torch.nn.Linear``.

        It is computed from the entries: what would write into it raises an error.
        """
        x = torch.eye(self.in_features, device=self.entries.device, dtype=self.entries.dtype)
        matrix = self.scale * operations.portable_multiply(x, self.entries, self._plan, self._indices).T
        is_graph = torch.compiler.is_compiling() or operations.is_traced()
        return matrix if is_graph else matrix.as_subclass(_Computed)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw all entries and the bias again, from PyTorch's random numbers.

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
        for i, support in enumerate(operations.supports_of(self._supports)):
            counts = np.diff(support.indptr)
            bounds.append(np.sqrt((1.0 if i == 0 else 3.0) / np.repeat(counts, counts)))
        bound = torch.from_numpy(np.concatenate(bounds)).to(self.entries.device, self.entries.real.dtype)
        is_complex = self.entries.is_complex()
        parts = torch.view_as_real(self.entries) if is_complex else self.entries
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
            Of any dtype; the result has the dtype of a product of x and the entries, or autocast's.

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
        if torch.jit.is_scripting():  # TorchScript finds papilio's operators by their names
            flat = x.reshape(-1, self.in_features)
            supports = self.columns, self.pointers, self.sizes
            y, _ = torch.ops.papilio.multiply_and_keep(flat, self.entries, *supports, self.out_features)
            y = self._scale * y
            if self.bias is not None:
                y = y + self.bias
            return y.reshape(x.shape[:-1] + [self.out_features])  # noqa: RUF005  as TorchScript reads it
        else:  # noqa: RET505  not read by TorchScript
            return self._forward(x)

    def _forward(self, x: torch.Tensor) -> torch.Tensor:
        if isinstance(x, torch.fx.Proxy):  # a node of the graph, as modules of PyTorch are
            return x.tracer.create_proxy("call_module", x.tracer.path_of_module(self), (x,), {})
        if x.dim() == 0 or x.shape[-1] != self.in_features:
            raise ValueError(f"x must have {self.in_features} entries along its last axis, got {tuple(x.shape)}")
        working = dtype = torch.promote_types(x.dtype, self.entries.dtype)
        kind = x.device.type
        if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind) and dtype in _AUTOCAST:
            dtype = torch.get_autocast_dtype(kind)
        flat = x.reshape(-1, self.in_features)
        on_cpu = kind == "cpu" and self.entries.device.type == "cpu"
        working = torch.float32 if on_cpu and working in _HALVES else working
        flat, entries = flat.to(working), self.entries.to(working)
        if on_cpu and working in operations.KERNEL_DTYPES and flat.shape[0] > 0 and not operations.is_traced():
            y = operations.multiply(flat, entries, self._supports, self.out_features)
        else:
            y = operations.portable_multiply(flat, entries, self._plan, self._indices)
        if torch.compiler.is_compiling():  # a number would be part of the graph, and of no other layer's
            y = self._scale * y
            y = y if self.bias is None else self.bias + y
        elif self.bias is not None:
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
            layer.entries.copy_(entries)
            if bias is not None and layer.bias is not None:
                layer.bias.copy_(bias)
        return layer

    def to_operator(self) -> SparseProduct:
        """The operator that the layer applies, without the bias.

        Returns
        -------
        SparseProduct
            A copy; half precision becomes float32. Zeros are left out.

        Examples
        --------
        >>> from papilio.torch import FastLinear
        >>> FastLinear(16, 8, complexity=0.5).to_operator()
        <SparseProduct 8×16 float32: 2 factors (8×8×16), 64 entries, relative complexity 0.5>
        """
        entries = self.entries.detach().cpu()
        entries = entries.float() if entries.dtype in _HALVES else entries
        masks = operations.supports_of(self._supports)
        parts = np.split(entries.resolve_conj().numpy(), np.cumsum([mask.nnz for mask in masks])[:-1])
        factors = [
            sp.csr_array((part, mask.indices, mask.indptr), shape=mask.shape)
            for part, mask in zip(parts, masks, strict=True)
        ]
        return SparseProduct(factors, self.scale)

    @classmethod
    def from_linear(
        cls,
        layer: nn.Linear,
        *,
        inputs: torch.Tensor | Inputs | None = None,
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
        inputs : (..., in_features) tensor, optional
            What the layer is applied to: the error is then that of its outputs. A bias is changed so that their
            mean is kept, and errors are those of the deviations from it. Also what `papilio.factorize` takes for
            ``inputs``; the bias then stays as it is.
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
            ``error`` is the relative Frobenius error of its matrix, or of the outputs for ``inputs``.

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
        weight, centre = layer.weight.detach(), None
        matrix = (weight.float() if weight.dtype in _HALVES else weight).cpu().numpy()
        if isinstance(inputs, torch.Tensor):
            if inputs.dim() == 0 or inputs.shape[-1] != layer.in_features:
                raise ValueError(
                    f"inputs must have {layer.in_features} entries along its last axis, got {tuple(inputs.shape)}"
                )
            rows = as_rows(inputs)
            centre = rows.mean(axis=0) if layer.bias is not None else np.zeros_like(rows[0])
            inputs = (rows - centre).T if (rows != centre).any() else None
        if supports is not None:
            others = complexity, max_error, speedup, block, n_factors, time_budget, method
            if inputs is not None or others != (*[None] * 6, "auto"):
                raise ValueError("supports are a target by themselves: leave out the other options")
            fit = _projected(matrix, supports)
        else:
            fit = factorize(
                matrix,
                inputs=inputs,
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
        found.error, found.matrix_error = fit.error, fit.matrix_error
        if centre is not None:
            found.agree_at(layer, centre)
        return found.train(layer.training)

    @torch.no_grad()
    def agree_at(self, layer: nn.Linear, centre: Array) -> None:
        """Change the bias, if there is one, so that the output for one input is that of ``layer``.

        Parameters
        ----------
        layer : torch.nn.Linear
        centre : (in_features,) ndarray

        Examples
        --------
        >>> import numpy as np, torch
        >>> from papilio.torch import FastLinear
        >>> linear, fast = torch.nn.Linear(8, 8), FastLinear(8, 8)
        >>> fast.agree_at(linear, np.ones(8))
        >>> torch.allclose(fast(torch.ones(8)), linear(torch.ones(8)), atol=1e-5)
        True
        """
        if self.bias is not None:
            x = torch.from_numpy(centre).to(self.entries.device, self.entries.dtype)
            self.bias += layer(x) - self(x)

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
        count = self.sizes.numel() - 1
        text = (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
            f"{count} factor{'s' * (count > 1)}, {self.entries.numel()} entries, "
            f"complexity={self.relative_complexity:.3g}"
        )
        return text if self.error is None else f"{text}, error={self.error:.3g}"

    def get_extra_state(self) -> torch.Tensor:
        """What is neither a parameter nor a buffer but belongs to the ``state_dict``.

        Returns
        -------
        tensor
            The scale, in float64: the other tensors of a module change their dtype with it.

        Examples
        --------
        >>> from papilio.torch import FastLinear
        >>> FastLinear(8, 4, complexity=0.5).get_extra_state()
        tensor(1., dtype=torch.float64)
        """
        return self._scale

    def set_extra_state(self, state: torch.Tensor) -> None:
        """Take over what `get_extra_state` gave.

        Parameters
        ----------
        state : tensor

        Examples
        --------
        >>> from papilio.torch import FastLinear
        >>> layer = FastLinear(8, 4)
        >>> layer.set_extra_state(layer.get_extra_state())
        """
        self.scale = state.item()

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, metadata: Any, strict: bool, missing: Any, unexpected: Any, errors: Any
    ) -> None:
        """What `load_state_dict` does for this module: supports are taken over as a whole or not at all."""
        before, n_errors = [tensor.clone() for tensor in self._supports], len(errors)
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, unexpected, errors)
        try:
            if len(errors) == n_errors:
                masks = operations.supports_of(self._supports)
                if (masks[0].shape[0], masks[-1].shape[1]) != (self.out_features, self.in_features):
                    raise ValueError(f"sizes must be those of a {self.out_features}×{self.in_features} matrix")
                self._use(masks)
        except ValueError as error:
            errors.append(f"{prefix}columns, {prefix}pointers and {prefix}sizes must describe factors: {error}")
        if len(errors) > n_errors:
            for name, tensor in zip(_SUPPORTS, before, strict=True):
                setattr(self, name, tensor)


class _Computed(torch.Tensor):  # type: ignore[misc]
    """A tensor that is the result of a computation, so that nothing should be written into its memory."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
            computed = [each for each in args if isinstance(each, cls)]
            if any(each._version for each in computed):
                raise RuntimeError("weight is computed: write into entries, the parameter of a FastLinear")
            if isinstance(result, torch.Tensor) and result.data_ptr() in [each.data_ptr() for each in computed]:
                result = result.as_subclass(cls)
        return result


def as_rows(x: torch.Tensor) -> Array:
    """The vectors along the last axis, as rows of an array."""
    x = x.detach().reshape(-1, x.shape[-1])
    return np.asarray((x.float() if x.dtype in _HALVES else x).cpu().resolve_conj().numpy())


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
