"""Public calls with arguments that they accept, a few numbers each."""

from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np

import papilio as pp

from ..helpers import gaussian
from ..registry import CONSTRAINTS
from .odd import raising


def A(*shape):
    return gaussian(shape, seed=shape)


IMAGE = 255 * np.random.default_rng(0).random((14, 13))
OP = pp.SparseProduct([np.diag(np.arange(1.0, 7.0)) + np.eye(6, k=2), np.eye(6, 5) - np.eye(6, 5, k=-1)], 0.5)
OPERATORS = {"float64": OP, "float32": OP.astype(np.float32), "complex128": 1j * OP, "one": OP.H @ OP}
LEARNERS = ("KSVD", "SparseKSVD", "OnlineDictionaryLearning", "FastDictionaryLearning")
SHORT: dict[str, dict[str, float]] = {name: {"max_iter": 3} for name in LEARNERS[:3]} | {
    LEARNERS[3]: {"effort": 0.0}
}
STREAMS = LEARNERS[2:]


@dataclass
class Call:
    """``do(**arguments, **options)`` works, with any of the options."""

    do: object
    arguments: dict
    options: dict = field(default_factory=dict)
    shape_of: str | None = None  # the argument whose shape the result has
    finite: bool = True  # whether finite arguments give a finite result
    errors: tuple = ()  # Errors that may be raised beside TypeError and ValueError.
    kept: tuple = ()  # arguments that are never replaced


def sets(*shapes):
    return [pp.constraints.Sparse(shape, 20) for shape in shapes]


def fit(name, X, **options):
    """All that an estimator does with samples."""
    model = getattr(pp, name)(**options).fit(X)
    return model.components_, model.transform(X), model.score(X), model.operator_


@cache
def fitted(name):
    return getattr(pp, name)(8, 2, **SHORT[name], random_state=0).fit(A(40, 6))


def use(name, method, X):
    return getattr(fitted(name), method)(X)


def stream(name, X, Y):
    model = getattr(pp, name)(8, 2, **SHORT[name], random_state=0)
    return model.partial_fit(X).partial_fit(Y).components_


def stream_that_fails(name, X, Y, fails):
    """After a batch that cannot be had, the estimator can go on with another stream."""
    model = getattr(pp, name)(8, 2, **SHORT[name], random_state=0)

    def batches():
        yield X
        if fails:
            raising()
        yield Y

    try:
        return model.fit_stream(batches()).components_
    except ValueError:
        model.fit_stream([A(40, 6)])
        assert model.components_.shape == (8, 6)
        raise


def project(constraint, matrix, tol, share):
    projected = constraint.project(matrix)
    constraint.contains(matrix, tol)
    constraint.relaxed(share)
    return projected


def build(name, **arguments):
    """A set, and what it makes of a matrix: an odd argument may do harm only then."""
    constraint = getattr(pp.constraints, name)(**arguments)
    small = constraint.shape[0] * constraint.shape[1] < 10**6
    return constraint.project(A(*constraint.shape)) if small else repr(constraint)


def learner(**more):
    return {"signals": A(6, 40), "n_components": 8, "n_nonzero_coefs": 2, "max_iter": 3, "random_state": 0} | more


c, d, t, m = pp.constraints, pp.dictionary, pp.transforms, pp.metrics
LEARN = {"n_components": 8, "n_nonzero_coefs": 2}
LEARNER_OPTIONS = {"positive": True, "transform_sparse": True, "random_state": 0, "checkpoint": "run"}
OWN_OPTIONS = {
    "KSVD": {"tol": 1e-3},
    "SparseKSVD": {"base": np.eye(6), "k": 2, "tol": 1e-3},
    "OnlineDictionaryLearning": {"batch_size": 8, "window": 50},
    "FastDictionaryLearning": {"complexity": 0.7, "init": "online", "window": 50},
}
CODES = {"n_nonzero_coefs": 2, "tol": 0.1}
SETS = {
    "Dense": {"shape": (3, 4)},
    "Sparse": {"shape": (3, 4), "n_nonzero": 5},
    "SparseRows": {"shape": (3, 4), "k": 2},
    "SparseColumns": {"shape": (3, 4), "k": 2},
    "SparseRowsAndColumns": {"shape": (3, 4), "k": 2},
    "SparseBlocks": {"shape": (3, 4), "n_blocks": 2, "block": (2, 2), "row_order": [2, 0, 1]},
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
    "NonNegative": {"constraint": c.Dense((3, 4))},
}
TARGETS = ({}, {"complexity": 0.6}, {"max_error": 0.3}, {"speedup": 1.5, "vectors": 16})
METHODS = ("auto", "thresholding", "low_rank", "hierarchical", "butterfly", "kronecker")

CALLS = {
    "omp": Call(pp.omp, {"dictionary": A(6, 9), "signals": A(6, 4)}, CODES),
    "omp, positive": Call(pp.omp, {"dictionary": A(6, 9), "signals": A(6, 4), "positive": True}, CODES),
    "omp in a product": Call(pp.omp, {"dictionary": OP, "signals": A(6, 4)}, CODES),
    "palm": Call(
        pp.palm,
        {"target": A(6, 5), "constraints": sets((6, 7), (7, 5)), "max_iter": 5, "tol": 1e-6},
        {"init": [A(6, 7), A(7, 5)], "scale": 2.0, "order": "left_to_right", "inertia": True},
        "target",
    ),
    "palm of moments": Call(
        lambda **given: pp.palm(pp.Moments(**given), sets((6, 7), (7, 5)), max_iter=3),
        {"cross": A(6, 5), "gram": 2 * np.eye(5), "energy": 100.0},
    ),
    "hierarchical": Call(
        pp.hierarchical,
        {"target": A(8, 8), "schedule": pp.Schedule.hadamard(8), "max_iter": 4, "tol": 1e-6},
        {"order": "left_to_right", "polish": False, "inertia": True},
        "target",
    ),
    **{
        f"factorize, {method}, {next(iter(target), 'no target')}": Call(
            pp.factorize,
            {"M": A(8, 8), "method": method, "time_budget": 1.0} | target,
            {"n_factors": 2, "block": (2, 2), "random_state": 0, "progress": False},
            "M",
        )
        for method, target in zip(METHODS, TARGETS * 2, strict=False)
    },
    "butterfly": Call(
        pp.butterfly,
        {"M": t.hadamard(8).toarray()[[3, 0, 1, 2, 7, 4, 5, 6]], "random_state": 0},
        {"supports": [np.abs(factor.toarray()) > 0 for factor in t.hadamard(8).factors]},
        "M",
    ),
    "tradeoff": Call(pp.tradeoff, {"M": A(6, 5), "complexities": [0.6, 0.8], "random_state": 0}, {"n_factors": 2}),
    "Tradeoff.at": Call(lambda complexity: pp.tradeoff(A(4, 4), [0.6, 0.8]).at(complexity), {"complexity": 0.7}),
    "dictionary_tradeoff": Call(
        d.dictionary_tradeoff,
        {"signals": A(6, 40), "n_components": 8, "n_nonzero_coefs": 2, "random_state": 0, "complexities": [0.8]},
    ),
    "ksvd": Call(d.ksvd, learner(), {"init": A(6, 8), "tol": 1e-3}),
    "sparse_ksvd": Call(d.sparse_ksvd, learner(base=np.eye(6), k=2), {"tol": 1e-3}),
    "online_dictionary": Call(d.online_dictionary, learner(), {"init": A(6, 8), "batch_size": 8, "window": 50}),
    "fast_dictionary": Call(
        d.fast_dictionary,
        {"signals": A(8, 50), "schedule": pp.Schedule.rectangular((8, 12), 3, 3, 0.7), "n_nonzero_coefs": 2}
        | {"max_iter": 3, "random_state": 0},
        {"init": A(8, 12), "effort": 0.0, "order": "best", "codes": "fixed", "tol": 1e-3},
    ),
    "Moments": Call(pp.Moments, {"cross": A(6, 5)}, {"gram": np.eye(5), "energy": 100.0}),
    "Moments.of": Call(pp.Moments.of, {"signals": A(6, 9), "codes": A(5, 9)}),
    "Schedule": Call(
        pp.Schedule, {"factors": sets((6, 6)), "residuals": sets((6, 5))}, {"side": "left", "regroup": True}
    ),
    "Schedule.hadamard": Call(pp.Schedule.hadamard, {"n": 8}),
    "Schedule.paper": Call(pp.Schedule.paper, {"d": 8, "Q": 3, "p": 2.0, "P": 32.0}),
    "Schedule.with_complexity": Call(
        pp.Schedule.with_complexity, {"shape": (8, 12), "complexity": 0.5}, {"n_factors": 3, "block": (2, 2)}
    ),
    "Schedule.rectangular": Call(
        pp.Schedule.rectangular, {"shape": (8, 12), "n_factors": 3, "k": 3, "decay": 0.7}
    ),
    "rmse": Call(m.rmse, {"signals": A(6, 9), "dictionary": A(6, 5), "codes": A(5, 9)}),
    "recovery_rate": Call(m.recovery_rate, {"dictionary": A(6, 5), "reference": A(6, 4), "threshold": 0.9}),
    "mutual_coherence": Call(m.mutual_coherence, {"dictionary": A(6, 5)}),
    "psnr": Call(m.psnr, {"image": IMAGE, "reference": IMAGE.T[:, ::-1].T, "data_range": 255.0}, finite=False),
    "ssim": Call(m.ssim, {"image": IMAGE, "reference": 255 - IMAGE, "data_range": 255.0}),
    **{name: Call(getattr(t, name), {"n": 16}) for name in ("hadamard", "dft", "hartley", "dct", "haar")},
    "wavelet": Call(t.wavelet, {"n": 16, "name": "db2", "level": 1}),
    "random_dictionary": Call(
        pp.datasets.random_dictionary, {"n_features": 6, "n_components": 8, "random_state": 0}
    ),
    "factorizable_dictionary": Call(
        pp.datasets.factorizable_dictionary, {"n_features": 6, "n_factors": 3, "random_state": 0}
    ),
    "synthetic_signals": Call(
        pp.datasets.synthetic_signals,
        {"dictionary": A(6, 8), "n_signals": 9, "n_nonzero_coefs": 2, "random_state": 0},
    ),
    **{
        name: Call(
            getattr(pp.datasets, name), {"n_signals": 9, "n_features": 6, "n_nonzero_coefs": 2, "random_state": 0}
        )
        for name in ("rand", "fact")
    },
    "image_patches": Call(
        pp.datasets.image_patches,
        {"n_patches": 9, "patch_size": 4, "images": "china", "remove_mean": True, "random_state": 0},
        {"dtype": np.float32},
    ),
    "on_disk": Call(pp.datasets.on_disk, {"path": "none.npy"}, errors=(OSError,)),
    "load": Call(pp.load, {"path": "none.npz"}, errors=(OSError,)),
    "set_num_threads": Call(pp.set_num_threads, {"n": 2}),
    "extract_patches": Call(pp.images.extract_patches, {"image": IMAGE, "size": 4, "stride": 2}, finite=False),
    "average_patches": Call(
        pp.images.average_patches, {"patches": A(25, 16), "image_shape": (12, 12), "stride": 2}
    ),
    "redundant_dct": Call(pp.images.redundant_dct, {"patch_size": 4, "atoms_per_side": 5}),
    "denoise": Call(
        pp.images.denoise,
        {"image": IMAGE, "sigma": 30.0, "dictionary": np.eye(16), "stride": 2},
        {"patch_size": 4, "gain": 1.2, "random_state": 0},
        "image",
    ),
    "denoise, learning": Call(
        pp.images.denoise,
        {"image": IMAGE, "sigma": 30.0, "n_components": 20, "complexity": 0.6, "patch_size": 4}
        | {"stride": 2, "random_state": 0},
        shape_of="image",
    ),
    "SparseProduct": Call(
        lambda first, second, scale: pp.SparseProduct([first, second], scale),
        {"first": A(6, 7), "second": A(7, 5), "scale": 0.5},
    ),
    "SparseProduct of factors": Call(pp.SparseProduct, {"factors": [A(6, 7), A(7, 5)]}),
    "toarray": Call(  # a product of finite factors may overflow, as with NumPy
        lambda first, second: (op := pp.SparseProduct([first, second]), op.toarray(), op.norm()),
        {"first": A(6, 7), "second": A(7, 5)},
        finite=False,
    ),
    **{
        f"op @ x, {kind}": Call(lambda x, op=op: op @ x, {"x": A(op.shape[1], 3)}, finite=False)
        for kind, op in OPERATORS.items()
    },
    **{
        f"x @ op, {kind}": Call(lambda x, op=op: op.__rmatmul__(x), {"x": A(3, op.shape[0])}, finite=False)
        for kind, op in OPERATORS.items()
    },
    "op[rows, columns]": Call(
        lambda rows, columns: OP[rows, columns], {"rows": [0, 2, 5], "columns": slice(1, 4)}, errors=(IndexError,)
    ),
    "op * number": Call(lambda number: (OP * number, number * OP), {"number": 2.0}),
    "op / number": Call(OP.__truediv__, {"other": 2.0}, errors=(ZeroDivisionError,)),
    "astype": Call(OP.astype, {"dtype": "float32"}),
    "norm": Call(OP.norm, {"ord": "fro"}),
    "save": Call(OP.save, {"path": "op.npz"}, errors=(OSError,)),
    **{
        f"project, {name}": Call(
            project,
            {"constraint": make(), "matrix": A(*make().shape), "tol": 1e-6, "share": 0.5},
            shape_of="matrix",
            kept=("constraint",),
        )
        for name, make in list(CONSTRAINTS.items())[::3]
    },
    **{f"constraints.{name}": Call(partial(build, name), given) for name, given in SETS.items()},
    **{
        f"{name}.fit": Call(
            partial(fit, name), {"X": A(40, 6)} | LEARN | SHORT[name], OWN_OPTIONS[name] | LEARNER_OPTIONS
        )
        for name in LEARNERS
    },
    **{
        f"{name}.{method}": Call(
            partial(use, name, method),
            {"X": A(9, 8 if method == "inverse_transform" else 6)},
            finite=method != "score",  # norms of samples may overflow, as with NumPy
        )
        for name in LEARNERS
        for method in ("transform", "inverse_transform", "score")
    },
    **{f"{name}.partial_fit": Call(partial(stream, name), {"X": A(40, 6), "Y": A(40, 6)}) for name in STREAMS},
    **{
        f"{name}.fit_stream": Call(
            partial(stream_that_fails, name), {"X": A(40, 6), "Y": A(30, 6), "fails": False}
        )
        for name in STREAMS
    },
    "plot.matrix": Call(pp.plot.matrix, {"values": A(6, 5), "title": "A", "limit": 2.0}),
    "plot.atoms": Call(pp.plot.atoms, {"dictionary": A(16, 5), "atom_shape": (4, 4)}),
    "plot.factors": Call(pp.plot.factors, {"op": OP}),
    "plot.comparison": Call(pp.plot.comparison, {"target": A(6, 5), "approximation": OP}),
}
