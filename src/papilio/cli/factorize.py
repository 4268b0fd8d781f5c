"""``papilio factorize``."""

import warnings
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.table import Table

import papilio as pp

from ..report import Subject
from ..results import SLOWER, slower_sentence
from .errors import Stopped
from .inputs import read_matrix
from .options import Block, Json, Quiet, Report, Seed, Vectors, Wanted, as_block
from .outputs import OPERATORS, check_output, save_result
from .progress import ProgressBar
from .report import check_report, write_report
from .terminal import Terminal, facts, sentence, speed_facts, table


def factorize(
    matrix: Annotated[str, typer.Argument(help="File: .npy .npz .csv .mat .mtx or an image; or hadamard:64.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where the operator goes (.npz or .mat).")],
    complexity: Annotated[
        float | None, typer.Option(help="Largest number of entries, relative to the matrix: from 0 to 1.")
    ] = None,
    max_error: Annotated[
        float | None, typer.Option(help="Largest relative error; uses as many entries as needed.")
    ] = None,
    speedup: Wanted = None,
    vectors: Vectors = 256,
    block: Block = None,
    n_factors: Annotated[int | None, typer.Option(help="Number of factors.")] = None,
    method: Annotated[
        str,
        typer.Option(
            help="Method: thresholding, low_rank, subspaces, transform, convolution, kronecker, layers, "
            "rotations, nested, sparse_plus_low_rank, butterfly or hierarchical; auto tries all."
        ),
    ] = "auto",
    time_budget: Annotated[
        float | None, typer.Option(help="Seconds after which the best result so far is returned.")
    ] = None,
    report: Report = None,
    random_state: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Approximate a matrix by a product of sparse factors.

    Give --complexity, --max-error, --speedup or none: then the sum of complexity and error is made small. The last
    lines say whether the target was met and how fast the product is, compared with the dense matrix. If a file
    holds several matrices, FILE:NAME selects one.
    """
    terminal = Terminal(quiet, json)
    check_output(output, OPERATORS)
    check_report(report)
    values = read_matrix(matrix)
    begin = perf_counter()
    with ProgressBar(terminal, "Factorizing", can_stop=True) as bar, warnings.catch_warnings():
        warnings.filterwarnings("ignore", SLOWER)  # the same is noted below, after a longer measurement
        fit = pp.factorize(
            values,
            complexity=complexity,
            max_error=max_error,
            speedup=speedup,
            vectors=vectors,
            block=as_block(block),
            n_factors=n_factors,
            method=method,
            time_budget=time_budget,
            callback=bar.report,
            random_state=random_state,
        )
    seconds = perf_counter() - begin
    save_result(output, fit.operator.save)
    write_report(terminal, report, [_subject(fit, matrix, seconds)])
    measured = None if bar.stopping or (quiet and not json) else fit.speedup
    is_met = _is_met(fit, complexity, max_error, speedup)
    terminal.result(
        {"output": str(output)}
        | facts(fit.operator)
        | {"error": fit.error, "status": str(fit.status), "target_met": is_met}
        | {"iterations": fit.n_iter, "seconds": seconds}
        | speed_facts(measured)
        | {"method": fit.method, "attempts": [_as_facts(attempt) for attempt in fit.attempts]}
    )
    if fit.status is pp.Status.STOPPED and bar.stopping:
        raise Stopped(f"stopped; the factors so far are in {output}, with relative error {fit.error:.4g}")
    terminal.say(_attempts(fit))
    terminal.say(sentence(fit.operator))
    if measured is not None:
        terminal.say(f"measured on this machine: {measured}")
    target = "" if is_met is None else "target met, " if is_met else "target missed, "
    terminal.say(f"relative error {fit.error:.4g}, {target}{fit.status} in {seconds:.1f} s; written to {output}")
    slower = slower_sentence(fit.operator, measured) if measured else ""
    for remark in (_remark(fit, is_met, max_error), slower):
        if remark:
            terminal.note(remark)


def _is_met(
    fit: pp.Factorization, complexity: float | None, max_error: float | None, speedup: float | None
) -> bool | None:
    """Whether the result is within the target; None without one."""
    if speedup is not None:
        return fit.status is not pp.Status.NO_STRUCTURE  # what is not fast enough is not returned
    if complexity is not None:
        rows, columns = fit.operator.shape
        return fit.operator.nnz <= complexity * rows * columns + 1e-6
    return None if max_error is None else fit.error <= max_error


def _remark(fit: pp.Factorization, is_met: bool | None, max_error: float | None) -> str:
    """What the status means for the target, where there is something to say."""
    if max_error is not None and is_met and fit.operator.relative_complexity >= 1:
        return f"no product with fewer entries reached a relative error of {max_error:g}"
    if fit.status is pp.Status.STOPPED:
        return "stopped by the time budget: more time may give a better result"
    if fit.status is pp.Status.NO_STRUCTURE:
        return "no structure was found: the result is the matrix itself, or its largest entries"
    if is_met is False:
        return "no product within the target was found: the result is the best of those tried"
    return ""


def _subject(fit: pp.Factorization, source: str, seconds: float) -> Subject:
    return Subject(
        f"{source} as a fast transform",
        fit.operator,
        source,
        fit.error,
        history=fit.history,
        attempts=fit.attempts,
        facts={"Method": fit.method.replace("_", " "), "Status": str(fit.status), "Time": f"{seconds:.1f} s"},
    )


def _as_facts(attempt: pp.results.Attempt) -> dict[str, Any]:
    """For JSON, which has no infinity: an attempt that failed has no error."""
    return attempt._asdict() | {"error": attempt.error if isfinite(attempt.error) else None}


def _attempts(fit: pp.Factorization) -> Table:
    made = table("Methods tried", "method", "detail", "error", "entries", "seconds", n_texts=2, wraps=["detail"])
    for attempt in fit.attempts:
        error = f"{attempt.error:.4g}" if isfinite(attempt.error) else ""
        made.add_row(
            attempt.method, attempt.detail, error, str(attempt.nnz) if error else "", f"{attempt.seconds:.2f}"
        )
    return made
