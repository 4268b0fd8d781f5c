"""Gaussian likelihoods of held-out samples along a chain of rotations."""

import numpy as np

from ..typing import Array
from .cache import kernel
from .rotations import rotate_rows

compiled = kernel(nogil=True, fastmath={"contract", "nsz"})


@compiled
def rotated_energies(X: Array, pairs: Array, blocks: Array, energies: Array) -> None:
    """X ← UᵀX in place for a real X; in ``energies``, the mean squares of the two rows after each rotation."""
    for r in range(len(pairs)):
        i, j = pairs[r]
        rotate_rows(X, i, j, blocks[r])
        for side in range(2):
            row = X[pairs[r, side]]
            total = 0.0
            for value in row:
                total += value * value
            energies[r, side] = total / len(row)


@compiled
def gaussian_path(
    values: Array,
    energies: Array,
    pairs: Array,
    inside: Array,
    outside: Array,
    shares: Array,
    target: float,
    logs: Array,
    forms: Array,
) -> None:
    """Held-out Gaussian likelihoods along a chain: Σ log f and Σ h/f, with f = (1 − a)λ + a·target, for shares a.

    The λ are ``values`` at first, and with rotation r two of them become ``inside[r]``; the h, ``energies`` and
    ``outside`` likewise. ``logs[a, r]`` and ``forms[a, r]`` are the sums for share a after r rotations.
    """
    for a in range(len(shares)):
        keep, add = 1 - shares[a], shares[a] * target
        now, held = keep * values + add, energies.copy()
        log, form = np.log(now).sum(), (held / now).sum()
        logs[a, 0], forms[a, 0] = log, form
        for r in range(len(pairs)):
            for side in range(2):
                i = pairs[r, side]
                after = keep * inside[r, side] + add
                log += np.log(after / now[i])
                form += outside[r, side] / after - held[i] / now[i]
                now[i], held[i] = after, outside[r, side]
            logs[a, r + 1], forms[a, r + 1] = log, form
