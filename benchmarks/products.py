"""Operators that are known by products only, above all the inverse of a sparse 2-D Laplacian.

``python benchmarks/products.py 64`` measures the Laplacian of a 64×64 grid alone.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import scipy.sparse as sp
from common import OURS, Table, best_times, clock
from scipy.sparse.linalg import LinearOperator, aslinearoperator, splu
from scipy.spatial.distance import cdist

import papilio as pp

SIDE = 128
OTHERS = 200  # random vectors for the errors, which `factorize` has not seen


@dataclass
class Operators:
    """A table of what was found from products."""

    title: str
    note: str
    rows: list[str] = field(default_factory=list)

    def add(self, case: str, operator: LinearOperator, **options: object) -> pp.results.Factorization:
        begin, work = perf_counter(), process_time()
        fit = pp.factorize(operator, **options)
        seconds, work = perf_counter() - begin, process_time() - work
        vectors = np.random.default_rng(1).standard_normal((operator.shape[1], OTHERS)).astype(operator.dtype)
        exact = operator.matmat(vectors)
        error = np.linalg.norm(fit.operator @ vectors - exact) / np.linalg.norm(exact)
        complexity = fit.operator.relative_complexity
        cells = (case, fit.status.value, f"{fit.error:.2g}", f"{error:.2g}", str(fit.n_products))
        self.rows.append(f"| {' | '.join(cells)} | {complexity:.3g} | {clock(seconds)} | {clock(work)} |")
        return fit

    def markdown(self) -> str:
        head = (
            "| operator | status | error, estimated | on 200 others | products | complexity | time | CPU |\n"
            "|---|---|---:|---:|---:|---:|---:|---:|"
        )
        return "\n".join([f"## {self.title}", "", self.note, "", head, *self.rows, ""])


def run(folder: Path) -> list[Table | Operators]:
    table = Operators(
        "From products only",
        "`factorize(operator)` with the default, an error of at most 1e-3, estimated on 16 vectors and measured "
        "on 200 others. Products with the operator and its adjoint are counted together, and so are those for the "
        "estimate. Lines are in natural order, and no coordinates are given unless the case says so.",
    )
    applied = laplacian_inverse(table, SIDE)
    for case, operator, options in others():
        table.add(case, operator, **options)
    return [table, applied]


def laplacian_inverse(table: Operators, side: int) -> Table:
    """The inverse of the 5-point Laplacian: found from products, and applied beside the sparse solve."""
    matrix = laplacian(side)
    solver = splu(matrix)
    fit = table.add(f"inverse of the {side}×{side} Laplacian", inverse(matrix))
    count, error = len(fit.operator.factors), f"{fit.error:.2g}"
    applied = Table(
        "The inverse of a Laplacian: the product beside the sparse solve",
        f"SuperLU has {solver.L.nnz + solver.U.nnz} entries in its two factors, and gives full precision; the "
        f"product has {fit.operator.nnz} entries in {count} factors, and an error of {error}.",
    )
    for count in (1, 256):
        x = np.random.default_rng(2).standard_normal((side**2, count))
        x = x[:, 0] if count == 1 else x
        times = {OURS: lambda x=x: fit.operator @ x, "SuperLU's solve": lambda x=x: solver.solve(x)}
        applied.add(f"{count} vector{'s' * (count > 1)}", best_times(times, rounds=3, burst=2))
    return applied


def others() -> Iterator[tuple[str, LinearOperator, dict[str, object]]]:
    random = np.random.default_rng(0)
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(16, 16))
    one = sp.eye_array(16)
    cube = sp.kron(sp.kron(line, one), one) + sp.kron(sp.kron(one, line), one) + sp.kron(sp.kron(one, one), line)
    yield "inverse of the 16×16×16 Laplacian", inverse(cube), {}
    drift = sp.diags_array([-1.0, 1.0], offsets=[-1, 0], shape=(50, 50))
    wind = 0.3 * sp.kron(drift, sp.eye_array(50)) + 0.2 * sp.kron(sp.eye_array(50), drift)
    yield "inverse of convection–diffusion, 50×50", inverse(laplacian(50) + wind), {}
    yield "inverse of Helmholtz, 50×50", inverse(laplacian(50) - (0.4 + 0.02j) * sp.eye_array(2500)), {}
    points = random.random((3000, 2))
    yield "exp(−‖x−y‖), 3,000 points in the plane", aslinearoperator(np.exp(-cdist(points, points))), {}
    points = random.random((2000, 3))
    covariance = aslinearoperator(np.exp(-2 * cdist(points, points)))
    yield "exp(−2‖x−y‖), 2,000 points in space, coordinates", covariance, {"coordinates": (points, points)}
    x, y = np.linspace(0, 1, 3000), np.linspace(0, 1, 1111)
    yield "1/(|x−y| + 0.02), 3000×1111", aslinearoperator(1 / (np.abs(x[:, None] - y) + 0.02)), {}
    yield "random numbers, 2000×2000", aslinearoperator(random.standard_normal((2000, 2000))), {}


def laplacian(side: int) -> sp.csc_array:
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))
    return sp.csc_array(sp.kron(line, sp.eye_array(side)) + sp.kron(sp.eye_array(side), line))


def inverse(matrix: sp.sparray) -> LinearOperator:
    solver = splu(sp.csc_array(matrix))
    return LinearOperator(
        matrix.shape,
        matvec=solver.solve,
        matmat=solver.solve,
        rmatvec=lambda x: solver.solve(x, "H"),
        rmatmat=lambda x: solver.solve(x, "H"),
        dtype=matrix.dtype,
    )


if __name__ == "__main__":
    found = Operators("From products only", "")
    shown = laplacian_inverse(found, int(sys.argv[1]) if len(sys.argv) > 1 else SIDE)
    sys.stdout.write("\n".join([found.markdown(), shown.markdown()]))
