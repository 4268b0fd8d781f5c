"""``papilio factorize``."""

from inspect import signature
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

import papilio as pp

from ..validation import Array
from .describe import facts, sentence
from .errors import Stopped
from .files import read_matrix
from .outputs import check_output, saving
from .progress import Watch
from .terminal import Json, Quiet, Seed, Terminal, examples

HELP_END = examples(
    "papilio factorize hadamard:64 -o op.npz",
    "papilio factorize dct:32 -o op.npz --complexity 0.4",
)


def factorize(
    matrix: Annotated[str, typer.Argument(help="File: .npy .npz .csv .mat .mtx or an image; or hadamard:64.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where the operator goes (.npz).")],
    complexity: Annotated[
        float | None, typer.Option(help="Largest number of entries, relative to the matrix's: 0 to 1.")
    ] = None,
    max_error: Annotated[
        float | None, typer.Option(help="Largest relative error; takes as many entries as needed.")
    ] = None,
    n_factors: Annotated[int | None, typer.Option(help="Number of factors.")] = None,
    method: Annotated[str, typer.Option(help="How to factorize.")] = "auto",
    random_state: Seed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Approximate a matrix by a product of sparse factors.

    Of a file with several matrices, FILE:NAME takes one.
    """
    terminal = Terminal(quiet, json)
    check_output(output, (".npz",))
    values = read_matrix(matrix)
    wishes = {"complexity": complexity, "max_error": max_error, "n_factors": n_factors}
    begin = perf_counter()
    fit = _solve(terminal, values, wishes | {"method": method, "random_state": random_state})
    seconds = perf_counter() - begin
    with saving(output):
        fit.operator.save(output)
    terminal.result(
        {"output": str(output)}
        | facts(fit.operator)
        | {"error": fit.error, "status": str(fit.status), "iterations": fit.n_iter, "seconds": seconds}
    )
    if fit.status is pp.Status.STOPPED:
        raise Stopped(f"stopped; the factors so far are in {output}, with relative error {fit.error:.4g}")
    terminal.say(sentence(fit.operator))
    terminal.say(f"relative error {fit.error:.4g}, {fit.status} in {seconds:.1f} s; written to {output}")
    if max_error is not None and fit.operator.relative_complexity >= 1:
        terminal.note(f"no product with fewer entries reached a relative error of {max_error:g}")


def _solve(terminal: Terminal, matrix: Array, options: dict[str, Any]) -> pp.Factorization:
    """`papilio.factorize`, watched as closely as it can be."""
    can_stop = "callback" in signature(pp.factorize).parameters
    with Watch(terminal, "Factorizing", can_stop=can_stop) as watch:
        if can_stop:
            options = options | {"callback": watch.report}
        return pp.factorize(matrix, **options)
