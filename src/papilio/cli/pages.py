"""The pages that ``papilio report`` and the option ``--report`` write, and what they say about results."""

from collections.abc import Sequence
from dataclasses import replace
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np

import papilio as pp

from ..dictionary.learner import as_sparsity
from ..linalg import frobenius
from ..operators.speed import Speed, both_ways
from ..plot.mosaics import as_atom_shape
from ..report import Subject, page
from ..runtime.files import replacing
from ..validation import memory
from .console import ENDINGS, BadInput, ProgressBar, Terminal, counted
from .inputs import read_matrix
from .outputs import check_output, saving

BLOCK = 256  # vectors


def check_report(path: Path | None) -> None:
    """Refuse a page that cannot be written, before the work starts."""
    if path is not None:
        check_output(path, (".html",))


def write_report(terminal: Terminal, path: Path | None, subjects: Sequence[Subject], title: str = "") -> None:
    """Measure how fast the subjects are on this machine and write their page, unless ``path`` is None."""
    if path is None:
        return
    measured = []
    with ProgressBar(terminal, "Measuring") as bar:
        for i, subject in enumerate(subjects):
            bar.advance(i / len(subjects))
            if subject.tradeoff is not None:
                _ = subject.tradeoff.speedups  # The page reads this cached property.
            measured.append(replace(subject, speeds=_speeds(subject.operator)))
    text = page(title or subjects[0].title, measured, pp.__version__)
    with saving(path), replacing(path) as partial:
        partial.write_text(text, encoding="utf-8", errors="backslashreplace")  # File names may contain any bytes.


def learned(
    learner: Any, source: str, n_samples: int, error: float, seconds: float, patch_size: int | None = None
) -> Subject:
    """A fitted estimator as the subject of a page; ``patch_size`` is that of the patches of an image."""
    op = learner.operator_
    count = as_sparsity(learner.n_nonzero_coefs, *op.shape)
    return Subject(
        f"A dictionary of {source}",
        op,
        source,
        error,
        f"relative error, {counted(count, 'atom')} per sample",
        history=learner.history_,
        atom_shape=atom_shape_of(op, source, patch_size),
        facts={
            "Learner": type(learner).__name__,
            "Samples": f"{n_samples:,}",
            "Iterations": f"{learner.n_iter_:,}",
            "Status": ENDINGS[learner.status_],
            "Time": f"{seconds:.1f} s",
        },
    )


def atom_shape_of(op: pp.SparseProduct, source: str = "", patch_size: int | None = None) -> tuple[int, ...]:
    """The shape of the atoms: that of the patches they were learned from, else what they look like."""
    if patch_size is None and source.startswith("patches:"):
        patch_size = isqrt(op.shape[0])
    return as_atom_shape(op, None if patch_size is None else (patch_size, patch_size))


def _speeds(op: pp.SparseProduct) -> list[Speed]:
    """Measure the speed relative to the dense matrix; empty if that is too large, or is the operator itself."""
    is_dense = len(op.factors) == 1 and isinstance(op.factors[0], np.ndarray)
    if is_dense or 4 * op.shape[0] * op.shape[1] * op.dtype.itemsize > memory():
        return []
    return list(both_ways(op, op.toarray(), BLOCK))


def error_of(op: pp.SparseProduct, target: str) -> float:
    wanted = read_matrix(target)
    if wanted.shape != op.shape:
        raise BadInput(f"--target must be {op.shape[0]}×{op.shape[1]}, like the operator, got {wanted.shape}")
    size = frobenius(wanted)
    missed = frobenius(wanted - op.toarray())
    return missed / size if size else missed


def error_of_coding(op: pp.SparseProduct, samples: str, n_nonzero_coefs: int | None) -> tuple[float, str]:
    X = read_matrix(samples)
    if X.shape[1] != op.shape[0]:
        raise BadInput(f"--samples must have {op.shape[0]} features, as the atoms do, got {X.shape[1]}")
    if n_nonzero_coefs is not None and n_nonzero_coefs > min(op.shape):
        largest = min(op.shape)
        raise BadInput(f"--n-nonzero-coefs must be at most {largest} for this dictionary, got {n_nonzero_coefs}")
    count = as_sparsity(n_nonzero_coefs, *op.shape)
    size = frobenius(X)
    missed = frobenius(X.T - op @ pp.omp(op, X.T, count))
    name = f"relative error, {counted(count, 'atom')} per sample"
    return (missed / size if size else 0.0), name
