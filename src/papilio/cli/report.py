"""``papilio report``, and the option ``--report`` of other commands."""

from collections.abc import Sequence
from dataclasses import replace
from math import isqrt
from pathlib import Path
from typing import Annotated, Any

import typer

import papilio as pp

from ..dictionary.atoms import as_sparsity
from ..linalg import frobenius
from ..report import Subject, page
from ..report.speed import Speed, both_ways
from ..runtime.files import replacing
from .errors import BadInput
from .files import read_matrix, read_operator
from .limits import memory
from .outputs import check_output, saving
from .progress import Watch
from .terminal import Json, Quiet, Terminal, examples

HELP_END = examples(
    "papilio factorize dct:32 -o op.npz --complexity 0.4",
    "papilio report op.npz -o page.html --target dct:32",
)
BLOCK = 256  # vectors

Report = Annotated[Path | None, typer.Option("--report", help="Also write a page about the result (.html).")]


def report(
    operator: Annotated[str, typer.Argument(help="Operator.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where the page goes (.html).")],
    target: Annotated[str | None, typer.Option(help="The matrix that it stands for: gives the error.")] = None,
    samples: Annotated[
        str | None, typer.Option(help="For a dictionary: samples, one a row; the error of coding them.")
    ] = None,
    nonzero: Annotated[
        int | None,
        typer.Option("--nonzero", min=1, help="With --samples: atoms a sample; a tenth of the features."),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write a page about an operator: pictures, error and speed, in one file that needs nothing else."""
    terminal = Terminal(quiet, json)
    check_report(output)
    if target is not None and samples is not None:
        raise BadInput("--target and --samples exclude each other: give one of them")
    if nonzero is not None and samples is None:
        raise BadInput("--nonzero is for --samples")
    op = read_operator(operator)
    error, name = None, "relative error"
    if target is not None:
        error = _error_of(op, target)
    elif samples is not None:
        error, name = _error_of_coding(op, samples, nonzero)
    subject = Subject(
        Path(operator).name,
        op,
        error=error,
        error_name=name,
        patches=square_patches(op),
        facts={"Target": target} if target else {"Samples": samples} if samples else {},
    )
    write_report(terminal, output, [subject])
    terminal.result({"output": str(output), "error": error, "bytes": output.stat().st_size})
    terminal.say(f"Page: {output}")


def check_report(path: Path | None) -> None:
    """Refuse a page that cannot be written, before any work."""
    if path is not None:
        check_output(path, (".html",))


def write_report(terminal: Terminal, path: Path | None, subjects: Sequence[Subject], title: str = "") -> None:
    """Measure how fast the subjects are here, and write their page; nothing where no page is wanted."""
    if path is None:
        return
    measured = []
    with Watch(terminal, "Measuring") as watch:
        for i, subject in enumerate(subjects):
            watch.advance(i / len(subjects))
            measured.append(replace(subject, speeds=_speeds(subject.operator)))
    text = page(title or subjects[0].title, measured, pp.__version__)
    with saving(path), replacing(path) as partial:
        partial.write_text(text, encoding="utf-8", errors="backslashreplace")  # names of files may be anything


def learned(learner: Any, source: str, n_samples: int, error: float, status: pp.Status, seconds: float) -> Subject:
    """What there is to say of a fitted estimator."""
    op = learner.operator_
    count = as_sparsity(learner.n_nonzero_coefs, *op.shape)
    return Subject(
        f"A dictionary of {source}",
        op,
        source,
        error,
        f"relative error, {count} atom{'s' * (count > 1)} a sample",
        history=learner.history_,
        patches=square_patches(op),
        facts={
            "Learner": type(learner).__name__,
            "Samples": f"{n_samples:,}",
            "Iterations": f"{learner.n_iter_:,}",
            "Ended": str(status),
            "Time": f"{seconds:.1f} s",
        },
    )


def square_patches(op: pp.SparseProduct) -> tuple[int, int] | None:
    """The sides of square patches, if the features are as many as such a patch has pixels."""
    side = isqrt(op.shape[0])
    return (side, side) if side > 1 and side * side == op.shape[0] else None


def _speeds(op: pp.SparseProduct) -> list[Speed]:
    """Against the dense matrix; nothing where that would not fit, or is what the operator is."""
    if len(op.factors) == 1 or 4 * op.shape[0] * op.shape[1] * op.dtype.itemsize > memory():
        return []
    return list(both_ways(op, op.toarray(), BLOCK))


def _error_of(op: pp.SparseProduct, target: str) -> float:
    wanted = read_matrix(target)
    if wanted.shape != op.shape:
        raise BadInput(f"--target must be {op.shape[0]}×{op.shape[1]}, as the operator is, got {wanted.shape}")
    size = frobenius(wanted)
    missed = frobenius(wanted - op.toarray())
    return missed / size if size else missed


def _error_of_coding(op: pp.SparseProduct, samples: str, nonzero: int | None) -> tuple[float, str]:
    X = read_matrix(samples)
    if X.shape[1] != op.shape[0]:
        raise BadInput(f"--samples must have {op.shape[0]} features, as the atoms do, got {X.shape[1]}")
    if nonzero is not None and nonzero > min(op.shape):
        raise BadInput(f"--nonzero must be at most {min(op.shape)} for this dictionary, got {nonzero}")
    count = as_sparsity(nonzero, *op.shape)
    size = frobenius(X)
    missed = frobenius(X.T - op @ pp.omp(op, X.T, count))
    name = f"relative error, {count} atom{'s' * (count > 1)} a sample"
    return (missed / size if size else 0.0), name
