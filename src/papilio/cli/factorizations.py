"""``papilio factorize``, and ``papilio tradeoff``, which does it at many complexities."""

import warnings
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

import papilio as pp

from . import options
from .console import (
    ENDINGS,
    BadInput,
    ProgressBar,
    Stopped,
    Terminal,
    ended,
    facts,
    sentence,
    speed_facts,
    table,
)

if TYPE_CHECKING:
    from ..report import Subject
    from ..results import Attempt, Speedup


def factorize(
    matrix: Annotated[str, typer.Argument(help="File: .npy .npz .csv .mat .mtx or an image; or hadamard:64.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where the operator goes (.npz or .mat).")],
    complexity: Annotated[
        float | None, typer.Option(help="Largest number of entries, relative to the matrix: from 0 to 1.")
    ] = None,
    max_error: Annotated[
        float | None, typer.Option(help="Largest relative error; uses as many entries as needed.")
    ] = None,
    speedup: options.Wanted = None,
    inputs: options.Inputs = None,
    vectors: options.Vectors = 256,
    block: options.Block = None,
    n_factors: Annotated[int | None, typer.Option(help="Number of factors.")] = None,
    method: Annotated[
        str,
        typer.Option(
            help="Method: thresholding, low_rank, subspaces, convolution, kronecker, transform, layers, "
            "rotations, sparse_basis, nested, butterfly, sparse_plus_low_rank or hierarchical; auto tries all."
        ),
    ] = "auto",
    time_budget: Annotated[
        float | None, typer.Option(help="Seconds after which the best result so far is returned.")
    ] = None,
    report: options.Report = None,
    random_state: options.Seed = 0,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Approximate a matrix by a product of sparse factors.

    Give --complexity, --max-error, --speedup or none: then the sum of complexity and error is made small. The last
    lines say whether the target was met and how fast the product is, compared with the dense matrix. If a file
    holds several matrices, FILE:NAME selects one.
    """
    from ..results import SLOWER, slower_sentence
    from .inputs import read_inputs, read_matrix
    from .outputs import OPERATORS, check_output, saving
    from .pages import check_report, write_report

    terminal = Terminal(quiet, json)
    check_output(output, OPERATORS)
    check_report(report)
    values = read_matrix(matrix)
    samples = None if inputs is None else read_inputs(inputs)
    begin = perf_counter()
    with ProgressBar(terminal, "Factorizing", can_stop=True) as bar, warnings.catch_warnings():
        warnings.filterwarnings("ignore", SLOWER)  # It is reported below, after a longer measurement.
        fit = pp.factorize(
            values,
            inputs=samples,
            complexity=complexity,
            max_error=max_error,
            speedup=speedup,
            vectors=vectors,
            block=options.as_block(block),
            n_factors=n_factors,
            method=method,
            time_budget=time_budget,
            callback=bar.report,
            random_state=random_state,
        )
    seconds = perf_counter() - begin
    with saving(output):
        fit.operator.save(output)
    write_report(terminal, report, [_subject_of_fit(fit, matrix, seconds)])
    measured = None if bar.stopping or (quiet and not json) else fit.speedup
    is_met = _is_met(fit, complexity, max_error, speedup)
    terminal.result(
        {"output": str(output)}
        | facts(fit.operator)
        | {"error": fit.error, "error_of": fit.error_of, "matrix_error": fit.matrix_error}
        | {"status": str(fit.status), "target_met": is_met}
        | {"iterations": fit.n_iter, "seconds": seconds}
        | speed_facts(measured)
        | {"method": fit.method, "attempts": [_attempt_facts(attempt) for attempt in fit.attempts]}
    )
    if fit.status is pp.results.Status.STOPPED and bar.stopping:
        raise Stopped(f"stopped; the factors so far are in {output}, with relative error {fit.error:.4g}")
    terminal.say(_attempts(fit))
    terminal.say(sentence(fit.operator))
    if measured is not None:
        terminal.say(f"measured on this machine: {measured}")
    target = "" if is_met is None else "target met, " if is_met else "target missed, "
    error = f"relative error {fit.error:.4g}"
    if fit.matrix_error is not None:
        error += f" of outputs ({fit.matrix_error:.4g} of the matrix)"
    terminal.say(f"{error}, {target}{ended(fit.status, seconds)}; written to {output}")
    slower = slower_sentence(fit.operator, measured) if measured else ""
    for remark in (_remark(fit, is_met, max_error), slower):
        if remark:
            terminal.note(remark)


def _is_met(
    fit: "pp.Factorization", complexity: float | None, max_error: float | None, speedup: float | None
) -> bool | None:
    """Whether the result is within the target; None without one."""
    if speedup is not None:
        # A product that is not fast enough is not returned.
        return fit.status is not pp.results.Status.NO_STRUCTURE
    if complexity is not None:
        rows, columns = fit.operator.shape
        return fit.operator.nnz <= complexity * rows * columns + 1e-6
    return None if max_error is None else fit.error <= max_error


def _remark(fit: "pp.Factorization", is_met: bool | None, max_error: float | None) -> str:
    """A remark on the status, or an empty string."""
    if max_error is not None and is_met and fit.operator.relative_complexity >= 1:
        return f"no product with fewer entries reached a relative error of {max_error:g}"
    if fit.status is pp.results.Status.STOPPED:
        return "stopped by the time budget: more time may give a better result"
    if fit.status is pp.results.Status.NO_STRUCTURE:
        return "no structure was found: the result is the matrix itself, or its largest entries"
    if is_met is False:
        return "no product within the target was found: the result is the best of those tried"
    return ""


def _subject_of_fit(fit: "pp.Factorization", source: str, seconds: float) -> "Subject":
    from ..report import Subject

    count = len(fit.operator.factors)
    product = "one sparse factor" if count == 1 else f"a product of {count} sparse factors"
    return Subject(
        f"{source} as {product}",
        fit.operator,
        source,
        fit.error,
        "relative error" if fit.matrix_error is None else "relative error of outputs",
        history=fit.history,
        attempts=fit.attempts,
        facts={"Method": fit.method.replace("_", " "), "Status": ENDINGS[fit.status], "Time": f"{seconds:.1f} s"},
    )


def _attempt_facts(attempt: "Attempt") -> dict[str, Any]:
    """For JSON, which has no infinity: an attempt that failed has no error."""
    return attempt._asdict() | {"error": attempt.error if isfinite(attempt.error) else None}


def _attempts(fit: "pp.Factorization") -> Table:
    made = table("Methods tried", "method", "detail", "error", "entries", "seconds", n_texts=2, wraps=["detail"])
    for attempt in fit.attempts:
        error = f"{attempt.error:.4g}" if isfinite(attempt.error) else ""
        made.add_row(
            attempt.method, attempt.detail, error, str(attempt.nnz) if error else "", f"{attempt.seconds:.2f}"
        )
    return made


def tradeoff(
    source: Annotated[str, typer.Argument(help="A matrix, as for factorize; or samples, as for learn.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for operators, table and figure.")],
    points: Annotated[int, typer.Option(min=1, help="How many complexities, in equal ratios up to 0.8.")] = 12,
    n_components: options.NComponents = None,
    n_nonzero_coefs: options.NNonzeroCoefs = None,
    n_factors: Annotated[int | None, typer.Option(help="Number of factors.")] = None,
    inputs: options.Inputs = None,
    patch_size: options.PatchSize = None,
    n_patches: options.NPatches = 10_000,
    report: options.Report = None,
    random_state: options.Seed = 0,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Show errors and speed at many complexities; recommend one.

    A matrix is factorized. Dictionaries are learned for patches:8, and with --n-components, --n-nonzero-coefs or
    --patches.
    """
    from ..operators.cost import BLOCK
    from ..plot.tradeoffs import relative_times
    from .inputs import draw_patches, is_image, read_inputs, read_matrix
    from .outputs import check_folder, saving
    from .pages import check_report, write_report

    terminal = Terminal(quiet, json)
    check_report(report)
    if patch_size is not None and not is_image(source):
        raise BadInput(f"{source}: --patches is for images")
    values = read_matrix(source)
    if patch_size is not None:
        values = draw_patches(values, patch_size, n_patches, random_state)
    is_learned = source.startswith("patches:") or any((n_components, n_nonzero_coefs, patch_size))
    if is_learned and inputs is not None:
        raise BadInput("--inputs is for matrices, not for samples")
    samples = None if inputs is None else read_inputs(inputs)
    if is_learned and values.dtype.kind == "c":
        raise BadInput(f"{source}: samples must be real, got {values.dtype}")
    check_folder(output)  # Last, because it creates the folder.
    with ProgressBar(terminal, "Learning" if is_learned else "Factorizing", can_stop=True) as bar:
        if is_learned:
            found = pp.dictionary.dictionary_tradeoff(
                values.T,
                n_components,
                n_nonzero_coefs,
                complexities=points,
                n_factors=n_factors,
                random_state=random_state,
                callback=bar.report,
            )
        else:
            found = pp.tradeoff(
                values, points, n_factors=n_factors, inputs=samples, random_state=random_state, callback=bar.report
            )
    with saving(output):
        found.save(output)
    is_stopped = found.status is pp.results.Status.STOPPED
    speedups = None if is_stopped else _measured(terminal, found)
    _draw(found, output, speedups)
    write_report(terminal, report, [_subject_of_tradeoff(found, source, is_learned, patch_size)])
    terminal.result(_tradeoff_facts(found, output, speedups))
    if is_stopped:
        raise Stopped(f"stopped; the {len(found.points)} of {points} points so far are in {output}")
    terminal.say(_points(found))
    if relative_times(found):
        terminal.say(
            f"speed-up: {BLOCK} vectors at once, compared with the dense matrix, measured on this machine"
        )
    terminal.say(f"Recommended: {sentence(found.knee.operator)}, {found.error_name} {found.knee.error:.4g}")
    terminal.say(f"{found.seconds:.1f} s; in {output}: knee.npz, points.csv, tradeoff.png and all operators")


def _measured(terminal: Terminal, found: "pp.Tradeoff") -> "Sequence[Speedup]":
    with ProgressBar(terminal, "Measuring"):
        return found.speedups


def _draw(found: "pp.Tradeoff", output: Path, speedups: "Sequence[Speedup] | None") -> None:
    """Write the figure, with times if they were measured."""
    from ..plot.common import new_figure
    from ..plot.tradeoffs import relative_times
    from ..runtime.files import replacing
    from .outputs import saving

    has_times = speedups is not None and bool(relative_times(found))
    figure = new_figure(11 if has_times else 6.4, 4)
    found.plot(figure if has_times else figure.add_subplot())
    with saving(output), replacing(output / "tradeoff.png") as partial:
        figure.savefig(partial, dpi=150)


def _subject_of_tradeoff(found: "pp.Tradeoff", source: str, is_learned: bool, patch_size: int | None) -> "Subject":
    from ..report import Subject
    from .pages import atom_shape_of

    knee = found.knee
    return Subject(
        f"The trade-off of {source}",
        knee.operator,
        source,
        knee.error,
        found.error_name,
        tradeoff=found,
        atom_shape=atom_shape_of(knee.operator, source, patch_size) if is_learned else None,
        facts={
            "Points": f"{len(found.points)} in {found.seconds:.1f} s; the knee is shown above",
            "Status": ENDINGS[found.status],
        },
    )


def _tradeoff_facts(found: "pp.Tradeoff", output: Path, speedups: "Sequence[Speedup] | None") -> dict[str, object]:
    measured: Sequence[Speedup | None] = speedups or [None] * len(found.points)
    return {
        "output": str(output),
        "points": [
            {"complexity": point.complexity, "error": point.error} | facts(point.operator) | speed_facts(speedup)
            for point, speedup in zip(found.points, measured, strict=True)
        ],
        "knee": found.points.index(found.knee),
        "dense_error": found.dense_error,
        "status": str(found.status),
        "seconds": found.seconds,
    }


def _points(found: "pp.Tradeoff") -> Table:
    from ..results import tradeoff_cells

    names, *rows = tradeoff_cells(found)
    names[3] = "error"  # The full name, which may be long, is in the last lines.
    made = table(None, *names, wraps=["speed-up"])
    for row in rows:
        made.add_row(*(Text(cell, style="red" if cell.endswith("(slower)") else "") for cell in row))
    return made
