"""``papilio learn``."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer

import papilio as pp

from ..dictionary.signals import enough
from ..linalg import frobenius
from ..samples import Samples
from .describe import facts, sentence
from .errors import BadInput, Stopped
from .files import is_image, open_samples, patches, read_matrix
from .outputs import check_output, saving
from .progress import Phase, Watch
from .report import Report, check_report, learned, write_report
from .terminal import Json, Quiet, Seed, Terminal, examples

HELP_END = examples("papilio learn patches:8 -o dict.npz --atoms 96 --nonzero 4 --method ksvd")


class Method(StrEnum):
    FAST = "fast"
    KSVD = "ksvd"
    ONLINE = "online"
    SPARSE_KSVD = "sparse-ksvd"


def learn(
    samples: Annotated[
        str, typer.Argument(help="File with one sample a row; a folder of .npy files; an image; or patches:8.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where the dictionary goes (.npz).")],
    atoms: Annotated[
        int | None, typer.Option("--atoms", "--n-components", help="Atoms; as many as features by default.")
    ] = None,
    nonzero: Annotated[
        int | None, typer.Option("--nonzero", help="Atoms a sample; a tenth of the features by default.")
    ] = None,
    method: Annotated[Method, typer.Option(help="fast learns sparse factors, sparse-ksvd one over the DCT.")] = (
        Method.FAST
    ),
    complexity: Annotated[
        float | None, typer.Option(help="For fast: largest number of entries, relative to the dense dictionary's.")
    ] = None,
    n_factors: Annotated[int | None, typer.Option(help="For fast: number of sparse factors.")] = None,
    patch_size: Annotated[
        int | None, typer.Option("--patches", metavar="SIZE", help="Learn from SIZE×SIZE patches of an image.")
    ] = None,
    n_patches: Annotated[int, typer.Option(min=1, help="How many of them, drawn at random.")] = 10_000,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Keep what is learned in this file now and then; go on from it if it is there."),
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Code samples on this Dask cluster, as tcp://host:8786.")
    ] = None,
    report: Report = None,
    random_state: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Learn a dictionary in which samples are sparse.

    The dictionary is an operator with one row a feature and one column an atom. Samples in .npy files need not fit
    into memory.
    """
    terminal = Terminal(quiet, json)
    check_output(output, (".npz",))
    check_report(report)
    if method is not Method.FAST and (complexity is not None or n_factors is not None):
        raise BadInput(f"--complexity and --n-factors are for --method fast, got --method {method}")
    if patch_size is None and is_image(samples):
        raise BadInput(f"{samples}: to learn from an image, say --patches SIZE")
    X: Any = open_samples(samples) if patch_size is None else read_matrix(samples)
    if patch_size is not None:
        X = patches(X, patch_size, n_patches, random_state)
    if X.dtype.kind == "c":
        raise BadInput(f"{samples}: samples must be real, got {X.dtype}")
    learner = _learner(method, atoms, nonzero, complexity, n_factors, random_state)
    begin = perf_counter()
    phases = _phases(method, X.shape, atoms, complexity, n_factors)
    with _cluster(scheduler), Watch(terminal, "Learning", phases, can_stop=True) as watch:
        learner.set_params(callback=watch.report, checkpoint=checkpoint).fit(X)
        seconds = perf_counter() - begin
        error = _error(learner, X)
    op = learner.operator_
    with saving(output):
        op.save(output)
    status = pp.Status.STOPPED if watch.stopping else pp.Status.CONVERGED
    write_report(terminal, report, [learned(learner, samples, len(X), error, status, seconds)])
    terminal.result(
        {"output": str(output), "samples": len(X)}
        | facts(op)
        | {"error": error, "status": str(status), "iterations": learner.n_iter_, "seconds": seconds}
    )
    if watch.stopping:
        kind = "dense dictionary" if len(op.factors) == 1 else "dictionary"
        more = "" if checkpoint is None else f"; the same command goes on from {checkpoint}"
        raise Stopped(f"stopped; the {kind} so far is in {output}, with relative error {error:.4g}{more}")
    terminal.say(sentence(op))
    terminal.say(f"relative error {error:.4g} of {len(X):,} samples, {seconds:.1f} s; written to {output}")


def _learner(
    method: Method,
    atoms: int | None,
    nonzero: int | None,
    complexity: float | None,
    n_factors: int | None,
    random_state: int | None,
) -> Any:
    if method is Method.FAST:
        return pp.FastDictionaryLearning(
            atoms, nonzero, complexity=complexity, n_factors=n_factors, random_state=random_state
        )
    kinds: dict[Method, Any] = {
        Method.KSVD: pp.KSVD,
        Method.ONLINE: pp.OnlineDictionaryLearning,
        Method.SPARSE_KSVD: pp.SparseKSVD,
    }
    return kinds[method](atoms, nonzero, random_state=random_state)


def _error(learner: Any, X: Any) -> float:
    """The relative error of all samples."""
    last = learner.history_[-1]
    if last.phase == "final":
        return float(last.error)
    X = X.load() if isinstance(X, Samples) else X
    size = frobenius(X)
    return -learner.score(X) * np.sqrt(X.size) / size if size else 0.0


@contextmanager
def _cluster(address: str | None) -> Iterator[None]:
    """Let passes over samples run on the Dask cluster at ``address``."""
    if address is None:
        yield
        return
    try:
        from distributed import Client
    except ImportError:
        raise BadInput('--scheduler needs Dask: pip install "papilio[distributed]"') from None
    try:
        client = Client(address, timeout=10)
    except (OSError, ValueError, TypeError) as error:
        raise BadInput(f"--scheduler {address}: no Dask scheduler answers there") from error
    with client:
        yield


def _phases(
    method: Method, shape: tuple[int, int], atoms: int | None, complexity: float | None, n_factors: int | None
) -> list[Phase]:
    """What the learner goes through, and how its time is spent, as measured on image patches.

    Of data that are passed over, a pass takes about as long as the start for each 20 samples in it.
    """
    n_samples, n_features = shape
    start = min(n_samples, enough(atoms or n_features))
    rate = 0.0 if method is Method.SPARSE_KSVD or n_samples <= start else n_samples / (20 * start)
    names = {Method.FAST: "ksvd", Method.KSVD: "ksvd", Method.ONLINE: "online", Method.SPARSE_KSVD: "sparse ksvd"}
    iterations = 30 if method is Method.ONLINE else 101
    phases = [Phase("scan", 0.1 * rate, 1), Phase(names[method], 1.0, iterations)]
    n_passes = 0
    if method is Method.FAST:
        sizes = n_features, atoms or n_features
        splits = len(pp.Schedule.with_complexity(sizes, complexity, n_factors).factors)
        for i in range(1, splits + 1):
            phases += [
                Phase(f"split {i}", 0.15, 500),
                Phase(f"pass {i}", rate, 1),
                Phase(f"global {i}", 0.15, 500),
            ]
        phases.append(Phase("refine", 8.0, 100))
        n_passes = splits
    phases += [Phase(f"pass {i}", rate, 1) for i in range(n_passes + 1, n_passes + 6)]
    total = sum(phase.share for phase in phases)
    return [phase._replace(share=phase.share / total) for phase in phases]
