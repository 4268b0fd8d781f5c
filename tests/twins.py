"""Plain NumPy versions of algorithms and kernels, written from their definitions, and data to compare on."""

from functools import reduce

import numpy as np


def product(matrices, size):
    return reduce(np.matmul, matrices, np.eye(size))


def palm(X, constraints, factors, scale, order, n_iter):
    """Algorithm 2, line by line."""
    S = [np.array(factor) for factor in factors]
    errors = []
    for _ in range(n_iter):
        visits = range(len(S)) if order == "left_to_right" else range(len(S) - 1, -1, -1)
        for j in visits:
            L = product(S[:j], X.shape[0])
            R = product(S[j + 1 :], S[j].shape[1])
            c = 1.001 * scale**2 * np.linalg.norm(L, 2) ** 2 * np.linalg.norm(R, 2) ** 2
            gradient = scale * L.conj().T @ (scale * L @ S[j] @ R - X) @ R.conj().T
            S[j] = constraints[j].project(S[j] - gradient / c)
        X_hat = product(S, X.shape[0])
        scale = np.trace(X.conj().T @ X_hat).real / np.trace(X_hat.conj().T @ X_hat).real
        errors.append(np.linalg.norm(X - scale * X_hat) / np.linalg.norm(X))
    return S, scale, errors


def keep_largest(score, count, slack):
    """The ``count`` largest entries, positive ones only; ties within ``slack`` go to the lowest indices."""
    score = score.astype(np.float64)
    slack = slack * score.max()
    threshold = np.partition(score, -count)[-count] if count < score.size else 0.0
    keep = score > threshold + slack
    ties = np.flatnonzero(~keep & (score > 0) & (score >= threshold - slack))
    keep[ties[: count - np.count_nonzero(keep)]] = True
    return keep


# What the tests of kernels share: where factors of every kind have their entries, and chains of them.


def paired(*pairs):
    """A factor whose rows j and k have their entries in columns j and k."""
    mask = np.eye(2 * len(pairs), dtype=bool)
    for j, k in pairs:
        mask[j, k] = mask[k, j] = True
    return mask


def butterfly(size, stride):
    return paired(*((i, i + stride) for i in range(size) if i // stride % 2 == 0))


def regular(rows, columns, entries):
    """So many entries in each row, nowhere a butterfly."""
    return np.array([np.roll(np.arange(columns) < entries, 3 * i + i // 5) for i in range(rows)])


def ragged(rows, columns):
    """From no entry to all entries in a row; the first and last rows are empty."""
    return np.arange(columns) < (np.arange(rows)[:, None] * 5 % 11) * (np.arange(rows)[:, None] < rows - 1)


def blocks(rows, columns, height, width, step=2):
    """Every so many blocks of a grid; those at the edges are cut off."""
    grid = np.arange(-(-rows // height))[:, None] * 2 + np.arange(-(-columns // width))
    return np.kron(grid % step == 0, np.ones((height, width), dtype=bool))[:rows, :columns]


def shuffled(mask):
    """The same with its rows in another order."""
    return mask[np.random.default_rng(0).permutation(len(mask))]


def kind_of(unit):
    """How a factor is applied: "quads" are two butterflies, "pairs" one, "groups" anything else."""
    return "pairs" if unit.is_paired else "groups" if unit.has_matrix else "quads"


CROSSED, SQUARE, TURNED = paired((0, 3), (1, 2)), paired((0, 1), (2, 3)), paired((0, 2), (1, 3))
RING, SHIFTED = paired((0, 1), (2, 3), (4, 5)), paired((1, 2), (3, 4), (0, 5))
# Masks of the factors from left to right, and the kinds that the kernels should see, in order of application.
CHAINS = {
    "one pairs": ([butterfly(16, 4)], ["pairs"]),
    "quads": ([butterfly(16, 2), butterfly(16, 8)], ["quads"]),
    "quads of adjacent rows last": ([SQUARE, TURNED], ["quads"]),
    "quads of adjacent rows first": ([TURNED, SQUARE], ["quads"]),
    "quads, then pairs": ([butterfly(8, 1), butterfly(8, 2), butterfly(8, 4)], ["quads", "pairs"]),
    "twice quads": ([butterfly(16, 2**k) for k in range(4)], ["quads", "quads"]),
    "the same pairs twice": ([butterfly(8, 2), butterfly(8, 2)], ["pairs", "pairs"]),
    "squares that cross": ([SQUARE, CROSSED], ["pairs", "pairs"]),
    "a ring, not squares": ([RING, SHIFTED], ["pairs", "pairs"]),
    "halves of squares": ([paired((0, 1), (2, 3), (4, 6), (5, 7)), butterfly(8, 2)], ["pairs", "pairs"]),
    **{f"{k} a row": ([regular(9, 10, k)], ["groups"]) for k in (1, 2, 3, 4, 5, 7)},
    **{f"{k} a row between": ([regular(6, 9, 3), regular(9, 9, k), regular(9, 7, 2)], None) for k in (1, 2, 4)},
    **{
        f"blocks of {h} by {w}": ([blocks(19, 22, h, w), blocks(22, 13, h, w, 3)], None)
        for h, w in [(4, 4), (8, 3)]
    },
    "blocks of rows that are apart": (
        [shuffled(blocks(24, 20, 4, 4)), blocks(20, 26, 2, 2)],
        ["groups", "groups"],
    ),
    "blocks in place": ([np.kron(np.eye(5, dtype=bool), np.ones((4, 4), dtype=bool)), butterfly(20, 1)], None),
    "dense": ([np.ones((11, 7), dtype=bool), np.ones((7, 9), dtype=bool)], ["groups", "groups"]),
    "ragged": ([ragged(13, 9), ragged(9, 14)], ["groups", "groups"]),
    "nothing": ([np.zeros((5, 3), dtype=bool)], ["groups"]),
    "one entry": ([np.ones((1, 1), dtype=bool)], ["groups"]),
    "wide, then narrow": ([regular(3, 40, 2), regular(40, 5, 3)], ["groups", "groups"]),
    "all": (
        [butterfly(8, 1), butterfly(8, 2), regular(8, 12, 3), ragged(12, 16), butterfly(16, 8), regular(16, 5, 1)],
        ["groups", "pairs", "groups", "groups", "quads"],
    ),
}
