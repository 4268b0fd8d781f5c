"""Plain NumPy versions of the algorithms, written from the paper's pseudocode and nothing else."""

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
