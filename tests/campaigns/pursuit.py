"""`omp` against plain orthogonal matching pursuit: least squares anew at each step."""

from typing import Any

import numpy as np

import papilio as pp

from ..helpers import DTYPES
from .case import Failed, noting
from .products import _gaussian, _operator


def prepare() -> None:
    rng = np.random.default_rng(0)
    for dtype in DTYPES:
        pp.omp(_gaussian(rng, (8, 12), dtype), _gaussian(rng, (8, 20), dtype), 2)


def plain_omp(
    D: np.ndarray, x: np.ndarray, limit: int, tol: float, eps: float
) -> tuple[list[int], np.ndarray, bool]:
    """Atoms, what is left of ``x``, and whether rounding to ``eps`` decided between atoms somewhere."""
    norms = np.linalg.norm(D, axis=0)
    chosen: list[int] = []
    left, near = x, False
    while len(chosen) < limit and np.linalg.norm(left) ** 2 > tol and np.linalg.norm(left) > 0:
        correlations = np.divide(np.abs(D.conj().T @ left), norms, out=np.zeros(len(norms)), where=norms > 0)
        correlations[chosen] = 0
        best = int(np.argmax(correlations))
        if correlations[best] <= 1e3 * eps * np.linalg.norm(x):
            break
        others = np.delete(correlations, best)
        near = near or bool(others.size and others.max() >= (1 - 1e-4) * correlations[best])
        chosen.append(best)
        unit = D[:, chosen] / norms[chosen]
        near = near or bool(np.linalg.cond(unit) * eps > 1e-4)  # whether an atom depends on others
        left = x - unit @ np.linalg.lstsq(unit, x, rcond=None)[0]
    return chosen, left, near


def run(rng: np.random.Generator, folder: str) -> None:
    dtype = DTYPES[rng.integers(len(DTYPES))]
    dictionary, D = _dictionary(rng, dtype)
    X = _signals(rng, D, dtype)
    limit = int(rng.integers(1, D.shape[0] + 2)) if rng.integers(4) else None
    tol = float(rng.choice([0.0, 1e-12, 1e-3, 0.5]) * np.linalg.norm(X, axis=0).max(initial=0) ** 2)
    given: dict[str, Any] = {"n_nonzero_coefs": limit} if rng.integers(2) or limit is not None else {}
    if rng.integers(3) == 0:
        given["tol"] = tol
    with noting(lambda: f"omp of {X.dtype}{X.shape} in {dictionary!r:.80}, {given}"):
        codes = pp.omp(dictionary, X, **given)
        _check(codes, D, X, given)


def _check(codes: Any, D: np.ndarray, X: np.ndarray, given: dict[str, Any]) -> None:
    (features, atoms), count = D.shape, X.shape[1]
    if codes.shape != (atoms, count) or codes.dtype != np.result_type(D.dtype, X.dtype):
        raise Failed(f"the codes are {codes.dtype}{codes.shape}")
    if not np.isfinite(codes.data).all():
        raise Failed("the codes are not finite")
    limit, tol = given.get("n_nonzero_coefs"), given.get("tol")
    if limit is None:
        limit = features if tol is not None else max(features // 10, 1)
    kind = np.complex128 if codes.dtype.kind == "c" else np.float64
    D, X, eps = D.astype(kind), X.astype(kind), float(np.finfo(codes.dtype).eps)
    norms = np.linalg.norm(D, axis=0)
    atoms_of_unit_norm = D[:, norms > 0] / norms[norms > 0]  # a long one makes no other dependent
    rank = np.linalg.matrix_rank(atoms_of_unit_norm, tol=1e-10) if D.any() else 0
    for j in range(count):
        code, x = codes[:, [j]], X[:, j]
        size = float(np.linalg.norm(x))
        if code.nnz > min(limit, rank):
            raise Failed(f"signal {j} has {code.nnz} atoms instead of at most {min(limit, rank)}")
        left = x - D @ code.toarray().ravel()
        chosen, best, near = plain_omp(D, x, limit, -1.0 if tol is None else tol, eps)
        excess = float(np.linalg.norm(left) - np.linalg.norm(best)) if not near else 0.0
        # Rounding grows with the condition of the chosen atoms.
        used = np.flatnonzero(code.toarray().ravel())
        unit = D[:, used] / np.linalg.norm(D[:, used], axis=0)
        condition = np.linalg.cond(unit) if used.size else 1.0
        if excess > 200 * np.sqrt(eps) * size and condition < 1e3 and len(chosen) >= code.nnz:
            raise Failed(
                f"signal {j} is left with {np.linalg.norm(left) / size:.3g} of it, {excess / size:.3g} more"
            )
        if not size and code.nnz:
            raise Failed("a zero signal has a code")
        if np.linalg.norm(left) > (1 + 1e3 * eps * min(condition, 1e6)) * size:
            raise Failed(f"signal {j} grew from {size} to {np.linalg.norm(left)}")
        reached = tol is not None and np.linalg.norm(best) ** 2 <= 0.5 * tol and len(chosen) <= limit
        if (
            reached
            and not near
            and condition < 1e3
            and np.linalg.norm(left) ** 2 > tol * (1 + 1e-3) + eps * size**2
        ):
            raise Failed(f"signal {j} is left with {np.linalg.norm(left) ** 2}, above the tolerance {tol}")


def _dictionary(rng: np.random.Generator, dtype: Any) -> tuple[Any, np.ndarray]:
    """As it is given, and as a matrix."""
    if rng.integers(2):
        op, _ = _operator(rng, dtype, int(rng.choice([6, 20, 60])))
        return op, op.toarray()
    rows, columns = int(rng.integers(1, 30)), int(rng.integers(1, 60))
    D = _gaussian(rng, (rows, columns), dtype)
    for _ in range(int(rng.integers(3))):
        i, j = rng.integers(columns, size=2)
        match int(rng.integers(5)):
            case 0:
                D[:, i] = 0
            case 1:
                D[:, i] = D[:, j]
            case 2:
                D[:, i] = -3 * D[:, j]
            case 3:
                D[:, i] = D @ _gaussian(rng, (columns,), dtype)  # depends on all others
            case _:
                D[:, i] *= 1e6
    return np.asarray(D, order=str(rng.choice(["C", "F"]))), D


def _signals(rng: np.random.Generator, D: np.ndarray, dtype: Any) -> np.ndarray:
    count = int(rng.choice([0, 1, 2, 5, 17, 40]))
    X = _gaussian(rng, (D.shape[0], count), dtype)
    for j in range(count):
        match int(rng.integers(6)):
            case 0:
                X[:, j] = 0
            case 1:
                X[:, j] = D[:, rng.integers(D.shape[1])]
            case 2:
                X[:, j] = D @ (_gaussian(rng, (D.shape[1],), dtype) * (rng.random(D.shape[1]) < 3 / D.shape[1]))
            case 3:
                X[:, j] *= np.asarray(rng.choice([1e-12, 1e-3, 1e12]), X.dtype)
    return X
