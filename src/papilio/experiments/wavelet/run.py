"""x = S_M…S₂S₁ γ, with the matrices of the paper's appendix A.3.

The paper's last formula has the factors in the order S₁S₂…S_M; its own construction, a_{k+1} = M_{k+1} (a_k, b_k),
applies S₁ first.
"""

from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from ...typing import Array
from ..tables import ENTRIES, entries_of, write_table
from ..trials import OnProgress


def run(settings: dict[str, Any], folder: Path, jobs: int, progress: OnProgress) -> None:
    """Write table.csv with the synthesis matrix and the factors of each wavelet, entry by entry."""
    progress(0, 1)
    rows = []
    for name, taps in settings["wavelets"].items():
        factors = synthesis_factors(settings["size"], np.array(taps))
        rows += entries_of(f"{name}: product", reduce(np.matmul, factors))
        for i, factor in enumerate(factors):
            rows += entries_of(f"{name}: S{len(factors) - i}", factor)
    write_table(folder / "table.csv", ENTRIES, rows)
    progress(1, 1)


def synthesis_factors(n: int, low_pass: Array) -> list[Array]:
    """S_M, …, S₂, S₁ for n = 2^M: S_k = diag(M_k, I) with M_k = (G_k↓2 | H_k↓2) of size 2^k."""
    levels = n.bit_length() - 1
    high_pass = np.where(np.arange(low_pass.size) % 2, -1, 1) * low_pass[::-1]
    factors = []
    for level in range(levels, 0, -1):
        factor = np.eye(n)
        size = 2**level
        halves = [_upsample_and_filter(size, taps) for taps in (low_pass, high_pass)]
        factor[:size, :size] = np.hstack(halves)
        factors.append(factor)
    return factors


def _upsample_and_filter(size: int, taps: Array) -> Array:
    """Every second column of a filter's circulant matrix, centred as in `papilio.transforms.wavelet`."""
    matrix = np.zeros((size, size // 2))
    places = np.arange(taps.size) + 1 - taps.size // 2
    for column in range(size // 2):
        np.add.at(matrix[:, column], (2 * column + places) % size, taps)  # taps of long filters wrap and add up
    return matrix
