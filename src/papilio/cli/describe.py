"""Operators in words: for people and for programs."""

from typing import Any

import papilio as pp


def facts(op: pp.SparseProduct) -> dict[str, Any]:
    """What ``--json`` prints about an operator."""
    return {
        "shape": list(op.shape),
        "dtype": str(op.dtype),
        "scale": op.scale,
        "entries": op.nnz,
        "relative_complexity": op.relative_complexity,
        "factors": [{"shape": list(factor.shape), "entries": factor.nnz} for factor in op.factors],
    }


def sentence(op: pp.SparseProduct) -> str:
    """Size, factors and entries of an operator."""
    rows, columns = op.shape
    count = len(op.factors)
    return (
        f"{rows}×{columns} {op.dtype}: {count} factor{'s' * (count > 1)} with {op.nnz:,} entries "
        f"instead of {rows * columns:,} (relative complexity {op.relative_complexity:.4g})"
    )
