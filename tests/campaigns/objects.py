"""Public classes and their methods, with arguments that they accept."""

from functools import cache, partial
from typing import Any

import numpy as np

import papilio as pp

from ..registry import CONSTRAINTS
from .call import Call, gaussian, real, require_shape, shape_of, stopping
from .functions import Rng, chosen, product
from .odd import raising

_OP = pp.SparseProduct([np.diag(np.arange(1.0, 7.0)) + np.eye(6, k=2), np.eye(6, 5) - np.eye(6, 5, k=-1)], 0.5)
_OPERATORS = {
    "float64": _OP,
    "float32": _OP.astype(np.float32),
    "complex128": 1j * _OP,
    "dense": pp.SparseProduct([np.ones((6, 5))]),
}


def _times(result: Any, x: Any, rows: int = 6, **_: Any) -> None:
    """``op @ x`` of arrays has the shape that NumPy's would have."""
    shape = shape_of(x)
    if shape and isinstance(result, np.ndarray):
        require_shape(result.shape, (rows,) if len(shape) == 1 else (*shape[:-2], rows, shape[-1]))


def _selected(rows: Any, columns: Any) -> Any:
    return _OP[rows, columns]


@cache
def _fitted(name: str) -> Any:
    samples = np.random.default_rng(0).standard_normal((40, 6))
    return getattr(pp, name)(8, 2, max_iter=3, random_state=0).fit(samples)


def _fit(name: str, X: Any, **options: Any) -> Any:
    """All that an estimator does with samples."""
    model = getattr(pp, name)(**options).fit(X)
    return model.components_, model.transform(X), model.score(X), model.operator_


def _use(name: str, method: str, X: Any) -> Any:
    return getattr(_fitted(name), method)(X)


def _stream(name: str, X: Any, Y: Any) -> Any:
    model = getattr(pp, name)(8, 2, max_iter=3, random_state=0).partial_fit(X).partial_fit(Y)
    return model.components_


def _batches(name: str, X: Any, Y: Any, fails: Any) -> Any:
    """A stream of two batches that may fail after the first; the estimator can then go on with another one."""
    model = getattr(pp, name)(8, 2, max_iter=3, random_state=0)

    def stream() -> Any:
        yield X
        if callable(fails):
            fails()
        yield Y

    try:
        return model.fit_stream(stream()).components_
    except ValueError:
        good = np.random.default_rng(0).standard_normal((40, 6))
        model.fit_stream([good])
        require_shape(model.components_.shape, (8, 6))
        raise


def _options(rng: Rng, name: str) -> dict[str, Any]:
    common = {"X": real(rng, 40, 6), "n_components": 8, "n_nonzero_coefs": 2, "max_iter": 3, "tol": 1e-3}
    own: dict[str, dict[str, Any]] = {
        "KSVD": {},
        "SparseKSVD": {"base": np.eye(6), "k": 2},
        "OnlineDictionaryLearning": {"batch_size": 8, "window": 50},
        "FastDictionaryLearning": {
            "complexity": 0.7,
            "init": "online",
            "window": 50,
        },
    }
    more = {"positive": True, "transform_sparse": True, "random_state": 0, "checkpoint": "run"}
    return common | chosen(rng, own[name] | more) | {"callback": stopping()}


_LEARNERS = ("KSVD", "SparseKSVD", "OnlineDictionaryLearning", "FastDictionaryLearning")
_STREAMS = ("OnlineDictionaryLearning", "FastDictionaryLearning")


def _project(constraint: Any, matrix: Any, tol: Any, share: Any) -> Any:
    projected = constraint.project(matrix)
    constraint.contains(matrix, tol)
    constraint.relaxed(share)
    require_shape(projected.shape, constraint.shape)
    return projected


def _constraint(rng: Rng) -> dict[str, Any]:
    constraint = list(CONSTRAINTS.values())[rng.integers(len(CONSTRAINTS))]()
    return {"constraint": constraint, "matrix": gaussian(rng, *constraint.shape), "tol": 1e-6, "share": 0.5}


SETS: dict[str, dict[str, Any]] = {
    "Dense": {"shape": (3, 4)},
    "Sparse": {"shape": (3, 4), "n_nonzero": 5},
    "SparseRows": {"shape": (3, 4), "k": 2},
    "SparseColumns": {"shape": (3, 4), "k": 2},
    "SparseRowsAndColumns": {"shape": (3, 4), "k": 2},
    "SparseBlocks": {
        "shape": (3, 4),
        "n_blocks": 2,
        "block": (2, 2),
        "row_order": [2, 0, 1],
        "column_order": [1, 3, 2, 0],
    },
    "Support": {"mask": np.eye(3, 4) > 0, "n_nonzero": 2},
    "Triangular": {"shape": (3, 4), "n_nonzero": 3, "lower": False},
    "Diagonal": {"shape": (3, 4), "n_nonzero": 2},
    "BlockDiagonal": {"blocks": [(2, 1), (1, 3)], "n_nonzero": 3},
    "Symmetric": {"n": 3, "n_nonzero": 4},
    "Circulant": {"n": 6, "n_diagonals": 2, "support": [(0, 0), (1, 2)], "grid": (2, 3)},
    "Toeplitz": {"shape": (3, 4), "n_diagonals": 3},
    "Hankel": {"shape": (3, 4), "n_antidiagonals": 3},
    "UnitColumns": {"shape": (3, 4)},
    "UnitRows": {"shape": (3, 4)},
    "Fixed": {"matrix": np.eye(3, 4)},
    "NonNegative": {"constraint": pp.constraints.Dense((3, 4))},
}


def _set(name: str, **arguments: Any) -> Any:
    """The set, and what it makes of a matrix: an odd argument may do harm only then."""
    constraint = getattr(pp.constraints, name)(**arguments)
    rows, columns = constraint.shape
    if rows * columns < 10**6:
        return constraint.project(np.random.default_rng(0).standard_normal(constraint.shape))
    return repr(constraint)


def _draw(name: str, **arguments: Any) -> Any:
    return getattr(pp.plot, name)(**arguments)


OBJECTS: dict[str, Call] = {
    "SparseProduct": Call(
        lambda rng: {"first": gaussian(rng, 6, 7), "second": gaussian(rng, 7, 5), "scale": 0.5},
        lambda first, second, scale: pp.SparseProduct([first, second], scale),
    ),
    "SparseProduct.toarray": Call(  # the product of sound factors may overflow, as any product of NumPy
        lambda rng: {"first": gaussian(rng, 6, 7), "second": gaussian(rng, 7, 5), "scale": 0.5},
        lambda first, second, scale: (op := pp.SparseProduct([first, second], scale), op.toarray(), op.norm()),
        finite=False,
    ),
    "SparseProduct of factors": Call(
        lambda rng: {"factors": [gaussian(rng, 6, 7), gaussian(rng, 7, 5)]}, pp.SparseProduct
    ),
    **{
        f"SparseProduct @ x, {kind}": Call(
            lambda rng: {"x": gaussian(rng, 5, 3)}, lambda x, op=op: op @ x, _times, finite=False
        )
        for kind, op in _OPERATORS.items()
    },
    **{
        f"x @ SparseProduct, {kind}": Call(
            lambda rng: {"x": gaussian(rng, 3, 6)}, lambda x, op=op: op.__rmatmul__(x), finite=False
        )
        for kind, op in _OPERATORS.items()
    },
    **{
        f"SparseProduct.{method}": Call(
            lambda rng, argument=argument, shape=shape: {argument: gaussian(rng, *shape)},
            getattr(_OP, method),
            finite=False,
        )
        for method, argument, shape in (
            ("dot", "x", (5,)),
            ("matvec", "x", (5,)),
            ("matmat", "X", (5, 3)),
            ("rmatvec", "x", (6,)),
            ("rmatmat", "X", (6, 3)),
        )
    },
    "SparseProduct[…]": Call(
        lambda rng: {"rows": [0, 2, 5], "columns": slice(1, 4)}, _selected, errors=(IndexError,)
    ),
    "SparseProduct * number": Call(lambda rng: {"number": 2.0}, lambda number: (_OP * number, number * _OP)),
    "SparseProduct / number": Call(lambda rng: {"other": 2.0}, _OP.__truediv__, errors=(ZeroDivisionError,)),
    "SparseProduct.astype": Call(lambda rng: {"dtype": "float32"}, _OP.astype),
    "SparseProduct.norm": Call(lambda rng: {"ord": "fro"}, _OP.norm),
    "SparseProduct.save": Call(lambda rng: {"path": "op.npz"}, _OP.save, errors=(OSError,)),
    "Constraint.project": Call(_constraint, _project, kept=("constraint",)),
    **{
        f"constraints.{name}": Call(lambda rng, given=given: dict(given), partial(_set, name))
        for name, given in SETS.items()
    },
    "Schedule": Call(
        lambda rng: (
            {"factors": [pp.constraints.Sparse((6, 6), 12)], "residuals": [pp.constraints.Sparse((6, 5), 20)]}
            | chosen(rng, {"side": "left", "regroup": True})
        ),
        pp.Schedule,
    ),
    **{
        f"{name}.fit": Call(partial(_options, name=name), partial(_fit, name), by_sklearn=True)
        for name in _LEARNERS
    },
    **{
        f"{name}.{method}": Call(
            lambda rng, columns=columns: {"X": real(rng, 9, columns)}, partial(_use, name, method), by_sklearn=True
        )
        for name in _LEARNERS
        for method, columns in (("transform", 6), ("inverse_transform", 8), ("score", 6))
    },
    **{
        f"{name}.partial_fit": Call(
            lambda rng: {"X": real(rng, 40, 6), "Y": real(rng, 40, 6)}, partial(_stream, name), by_sklearn=True
        )
        for name in _STREAMS
    },
    **{
        f"{name}.fit_stream": Call(
            lambda rng: {"X": real(rng, 40, 6), "Y": real(rng, 30, 6), "fails": [None, raising][rng.integers(2)]},
            partial(_batches, name),
            by_sklearn=True,
            kept=("fails",),
        )
        for name in _STREAMS
    },
    "Tradeoff.at": Call(
        lambda rng: {"complexity": 0.7},
        lambda complexity: pp.tradeoff(np.eye(4) + 0.1, [0.6, 0.8]).at(complexity),
    ),
    "plot.matrix": Call(
        lambda rng: {"values": gaussian(rng, 6, 5), "title": "A", "limit": 2.0}, partial(_draw, "matrix")
    ),
    "plot.atoms": Call(
        lambda rng: {"dictionary": real(rng, 16, 5), "atom_shape": (4, 4)}, partial(_draw, "atoms")
    ),
    "plot.factors": Call(lambda rng: {"op": product(rng)}, partial(_draw, "factors")),
    "plot.comparison": Call(
        lambda rng: {"target": gaussian(rng, 6, 5), "approximation": product(rng)}, partial(_draw, "comparison")
    ),
    "plot.convergence": Call(
        lambda rng: {"result": pp.palm(np.eye(4), [pp.constraints.Sparse(4, 8)], max_iter=3)},
        partial(_draw, "convergence"),
    ),
}
