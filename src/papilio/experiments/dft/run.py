"""The DFT matrix C = Pᵣᵀ S₁…S_L P_cᵀ: in closed form, and found from its entries alone."""

from pathlib import Path
from typing import Any

import numpy as np

from ...operators.factors import to_dense
from ...search.butterfly import butterfly
from ...transforms import dft
from ...typing import Array
from ..tables import ENTRIES, entries_of, write_table
from ..trials import OnProgress


def run(settings: dict[str, Any], folder: Path, jobs: int, progress: OnProgress) -> None:
    """Write table.csv with all matrices, entry by entry, and errors.csv with the error of each product."""
    progress(0, 1)
    n = settings["size"]
    C = dft(n).toarray().conj()  # the paper's W is exp(+2πi/n)
    P = np.eye(n)[bit_reversal(n)]
    stages = butterfly_stages(n)
    found = butterfly(C)
    matrices = {"C": C, "P": P, "PCP": P @ C @ P.T}
    matrices |= {f"S{i}": stage for i, stage in enumerate(stages, start=1)}
    factors = [to_dense(factor) for factor in found.operator.factors]
    factors[0] = factors[0] * found.operator.scale
    matrices |= {f"found S{i}": factor for i, factor in enumerate(factors, start=1)}
    product = P.T @ np.linalg.multi_dot(stages) @ P if len(stages) > 1 else P.T @ stages[0] @ P
    errors: dict[str, Any] = {
        "in closed form": np.linalg.norm(C - product) / np.linalg.norm(C),
        "found from C alone": found.error,
    }
    rows = [row for name, matrix in matrices.items() for row in entries_of(name, matrix)]
    write_table(folder / "table.csv", ENTRIES, rows)
    write_table(
        folder / "errors.csv",
        ("factors", "error"),
        [{"factors": how, "error": float(error)} for how, error in errors.items()],
    )
    progress(1, 1)


def bit_reversal(n: int) -> Array:
    """0, …, n − 1 in bit-reversed order."""
    depth = n.bit_length() - 1
    return np.arange(n).reshape([2] * depth).T.ravel()


def butterfly_stages(n: int) -> list[Array]:
    """The paper's factors of P C P with P the bit reversal and C_jk = W^jk, W = exp(2πi/n).

    The last one takes neighbours x_2c, x_2c+1 to x_2c + x_2c+1 and to W^r (x_2c − x_2c+1), where r is c with its
    bits reversed; the stages before it do the same to both halves of what it gives.
    """
    half = n // 2
    turns = np.exp(2j * np.pi * bit_reversal(half) / n) if half > 1 else np.ones(1)
    sums = np.kron(np.eye(half), [1.0, 1.0])
    differences = turns[:, None] * np.kron(np.eye(half), [1.0, -1.0])
    last = np.vstack([sums, differences])
    if half == 1:
        return [last]
    return [*(np.kron(np.eye(2), stage) for stage in butterfly_stages(half)), last]
