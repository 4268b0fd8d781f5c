"""``papilio learn``."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

import papilio as pp

from . import options
from .console import BadInput, Failed, ProgressBar, Stopped, Terminal, counted, facts, sentence


class Method(StrEnum):
    """The learners."""

    FAST = "fast"
    KSVD = "ksvd"
    ONLINE = "online"
    SPARSE_KSVD = "sparse-ksvd"


_ESTIMATORS = {
    Method.FAST: "FastDictionaryLearning",
    Method.KSVD: "KSVD",
    Method.ONLINE: "OnlineDictionaryLearning",
    Method.SPARSE_KSVD: "SparseKSVD",
}


def learn(
    samples: Annotated[
        str, typer.Argument(help="File with one sample per row; a folder of .npy files; an image; or patches:8.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where the dictionary goes (.npz or .mat).")],
    n_components: options.NComponents = None,
    n_nonzero_coefs: options.NNonzeroCoefs = None,
    method: Annotated[
        Method, typer.Option(help="fast: a product of sparse factors; sparse-ksvd: a sparse factor over the DCT.")
    ] = Method.FAST,
    positive: options.Positive = False,
    complexity: Annotated[
        float | None, typer.Option(help="For fast: largest number of entries, relative to a dense dictionary.")
    ] = None,
    n_factors: Annotated[int | None, typer.Option(help="For fast: number of sparse factors.")] = None,
    block: options.Block = None,
    speedup: options.Wanted = None,
    vectors: options.Vectors = 256,
    patch_size: options.PatchSize = None,
    n_patches: options.NPatches = 10_000,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Save the state of the run in this file now and then; resume from it if it exists. It is removed "
            "once the output is written."
        ),
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Code samples on this Dask cluster, as tcp://host:8786.")
    ] = None,
    report: options.Report = None,
    random_state: options.Seed = 0,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Learn a dictionary in which samples are sparse.

    The dictionary is an operator with one row per feature and one column per atom. Samples in .npy files need not
    fit into memory.
    """
    from ..runtime.checkpoint import remove_checkpoint
    from .inputs import read_samples
    from .outputs import OPERATORS, check_output, saving
    from .pages import check_report, learned, write_report

    terminal = Terminal(quiet, json)
    check_output(output, OPERATORS)
    check_report(report)
    if method is not Method.FAST and any(value is not None for value in (complexity, n_factors, block, speedup)):
        raise BadInput(
            f"--complexity, --speedup, --n-factors and --block are for --method fast, got --method {method}"
        )
    shape = options.as_block(block)
    X = read_samples(samples, patch_size, n_patches, random_state)
    learner: Any = getattr(pp, _ESTIMATORS[method])(
        n_components, n_nonzero_coefs, positive=positive, random_state=random_state
    )
    if method is Method.FAST:
        size = X.shape[1], X.shape[1] if n_components is None else n_components
        learner.set_params(**_wanted(size, X.dtype, complexity, speedup, n_factors, shape, vectors))
    begin = perf_counter()
    with _cluster(scheduler), ProgressBar(terminal, "Learning", can_stop=True) as bar:
        learner.set_params(callback=bar.report, checkpoint=checkpoint).fit(X)
        seconds = perf_counter() - begin
        error = float(learner.history_[-1].error)
    op = learner.operator_
    with _kept(checkpoint):
        with saving(output):
            op.save(output)
        write_report(terminal, report, [learned(learner, samples, len(X), error, seconds, patch_size)])
    if checkpoint is not None and learner.status_ is not pp.results.Status.STOPPED:
        remove_checkpoint(checkpoint)
    terminal.result(
        {"output": str(output), "samples": len(X)}
        | facts(op)
        | {"error": error, "status": str(learner.status_), "iterations": learner.n_iter_, "seconds": seconds}
    )
    if learner.status_ is pp.results.Status.STOPPED:
        kind = "dense dictionary" if len(op.factors) == 1 else "dictionary"
        more = "" if checkpoint is None else f"; the same command resumes from {checkpoint}"
        raise Stopped(f"stopped; the {kind} so far is in {output}, with relative error {error:.4g}{more}")
    terminal.say(sentence(op))
    is_settled = learner.status_ is pp.results.Status.CONVERGED
    ended = "the error has settled" if is_settled else "the error was still falling at the limit of iterations"
    terminal.say(f"relative error {error:.4g} of {counted(len(X), 'sample')}, learned in {seconds:.1f} s; {ended}")
    terminal.say(f"written to {output}")


def _wanted(
    size: tuple[int, int],
    dtype: Any,
    complexity: float | None,
    speedup: float | None,
    n_factors: int | None,
    block: tuple[int, int] | None,
    vectors: int,
) -> dict[str, Any]:
    """The parameters of a fast dictionary: a target, or a schedule where its options are needed."""
    from ..dictionary.fast import LEAST_SIDE, SIDE
    from ..operators.cost import BLOCK

    if complexity is not None and speedup is not None:
        raise BadInput("--complexity and --speedup cannot be combined: give one of them")
    if n_factors is None and block is None and (speedup is None or vectors == BLOCK):
        return {"complexity": complexity, "speedup": speedup}
    if block is None and min(size) >= LEAST_SIDE:
        block = SIDE, SIDE
    shape = None if block == (1, 1) else block
    if speedup is None:
        return {"schedule": pp.Schedule.with_complexity(size, complexity, n_factors, shape)}
    return {"schedule": pp.Schedule.with_speedup(size, speedup, n_factors, shape, vectors=vectors, dtype=dtype)}


@contextmanager
def _kept(checkpoint: Path | None) -> Iterator[None]:
    """If the result cannot be written, say in the error that the checkpoint holds it."""
    try:
        yield
    except Failed as error:
        if checkpoint is None or not checkpoint.exists():
            raise
        raise Failed(
            f"{error}; the run is kept in the checkpoint {checkpoint}: the same command, with another --output if "
            "need be, goes on from there"
        ) from error


@contextmanager
def _cluster(address: str | None) -> Iterator[None]:
    """Let passes over samples run on the Dask cluster at ``address``."""
    if address is None:
        yield
        return
    try:
        from distributed import Client
    except ImportError:
        raise BadInput('--scheduler needs Dask: pip install "dask[array]" distributed') from None
    try:
        client = Client(address, timeout=10)
    except (OSError, ValueError, TypeError) as error:
        with suppress(ValueError):  # There is no client if the address is invalid.
            Client.current().close()  # Close the client that failed to connect.
        raise BadInput(f"--scheduler {address}: no Dask scheduler answers there") from error
    with client:
        yield
