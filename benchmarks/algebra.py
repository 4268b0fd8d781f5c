"""Sums, stacks and Kronecker products as products of wider factors: ``python benchmarks/algebra.py`` (a minute).

Each runs beside the other way to do the same: one part after the other, as SciPy's lazy sums do, or the other form
of a Kronecker product.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from common import OURS, Table, best_times

import papilio as pp
from papilio.transforms import dct, haar, hadamard, random_butterfly, random_product

SIZES = (256, 1024, 4096)
Apply = Callable[[np.ndarray], np.ndarray]


def run(folder: Path) -> list[Table]:
    table = Table(
        "Sums, stacks and Kronecker products",
        "float64, one vector and a block of 256. The peer of a sum or a stack applies its parts one after the "
        "other, as SciPy's lazy sums do; that of a Kronecker product is (A ⊗ I)(I ⊗ B), or NumPy's `einsum`.",
    )
    for n in SIZES:
        for name, op, peer, other in [*sums(n), *stacks(n), *kroneckers(n)]:
            for count in (1, 256):
                x = np.random.default_rng(1).standard_normal((op.shape[1], count))
                x = x[:, 0] if count == 1 else x
                np.testing.assert_allclose(op @ x, other(x), atol=1e-9 * np.abs(op @ x).max())
                ways = {OURS: lambda op=op, x=x: op @ x, peer: lambda other=other, x=x: other(x)}
                table.add(f"n = {n}: {name}, {count} vector{'s' * (count > 1)}", best_times(ways, 4, 3))
    return [table]


def sums(n: int) -> Iterator[tuple[str, pp.SparseProduct, str, Apply]]:
    rng = np.random.default_rng(0)
    sparse = [random_product(n, 2, complexity=0.1, random_state=i) for i in range(2)]
    low_rank = pp.SparseProduct([rng.standard_normal((n, 16)), rng.standard_normal((16, n))])
    diagonals = [pp.SparseProduct([sp.diags_array(rng.standard_normal(n))]) for _ in range(2)]
    for name, a, b in (
        ("two sparse products", *sparse),
        ("Hadamard + Haar", hadamard(n), haar(n)),
        ("butterfly + diagonal", random_butterfly(n, random_state=0), diagonals[0]),
        ("diagonal + low rank", diagonals[0], low_rank),
        ("H D H + H E H", *(hadamard(n) @ diagonal @ hadamard(n) for diagonal in diagonals)),
    ):
        yield name, a + b, "apart", lambda x, a=a, b=b: a @ x + b @ x


def stacks(n: int) -> Iterator[tuple[str, pp.SparseProduct, str, Apply]]:
    a, b = (random_product(n, 2, complexity=0.1, random_state=i) for i in range(2))
    yield "vstack", pp.operators.vstack([a, b]), "apart", lambda x: np.concatenate([a @ x, b @ x])
    yield "hstack", pp.operators.hstack([a, b]), "apart", lambda x: a @ x[:n] + b @ x[n:]


def kroneckers(n: int) -> Iterator[tuple[str, pp.SparseProduct, str, Apply]]:
    side = int(np.sqrt(n))
    eye = sp.eye_array(side)
    dense = [pp.SparseProduct([np.random.default_rng(i).standard_normal((side, side))]) for i in range(2)]
    pairs = {"Hadamard": [hadamard(side)] * 2, "DCT": [dct(side)] * 2, "dense": dense}
    for name, (a, b) in pairs.items():
        left, right = [sp.kron(f, eye) for f in a.factors], [sp.kron(eye, f) for f in b.factors]
        yield (
            f"kron, {name}",
            pp.operators.kron(a, b),
            "(A ⊗ I)(I ⊗ B)",
            pp.SparseProduct([*left, *right]).__matmul__,
        )

    def contracted(x: np.ndarray) -> np.ndarray:
        left, right = (each.factors[0] for each in dense)
        return np.einsum("ij,kl,jlm->ikm", left, right, x.reshape(side, side, -1), optimize=True).reshape(x.shape)

    yield "kron, dense", pp.operators.kron(*dense), "einsum", contracted


if __name__ == "__main__":
    sys.stdout.write("\n".join(table.markdown() for table in run(Path())))
