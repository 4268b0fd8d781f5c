"""``papilio learn``."""

from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer

import papilio as pp

from ..validation import Array
from .describe import facts, sentence
from .errors import BadInput, Stopped
from .files import is_image, patches, read_matrix
from .outputs import check_output, saving
from .progress import Phase, Watch
from .terminal import Json, Quiet, Seed, Terminal, examples

HELP_END = examples("papilio learn patches:8 -o dict.npz --atoms 96 --nonzero 4 --method ksvd")


class Method(StrEnum):
    FAST = "fast"
    KSVD = "ksvd"
    ONLINE = "online"
    SPARSE_KSVD = "sparse-ksvd"


def learn(
    samples: Annotated[str, typer.Argument(help="File with one sample a row; an image; or patches:8.")],
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
    random_state: Seed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Learn a dictionary in which samples are sparse.

    The dictionary is an operator with one row a feature and one column an atom.
    """
    terminal = Terminal(quiet, json)
    check_output(output, (".npz",))
    if method is not Method.FAST and (complexity is not None or n_factors is not None):
        raise BadInput(f"--complexity and --n-factors are for --method fast, got --method {method}")
    if patch_size is None and is_image(samples):
        raise BadInput(f"{samples}: to learn from an image, say --patches SIZE")
    X = read_matrix(samples)
    if patch_size is not None:
        X = patches(X, patch_size, n_patches, random_state)
    if X.dtype.kind == "c":
        raise BadInput(f"{samples}: samples must be real, got {X.dtype}")
    learner = _learner(method, atoms, nonzero, complexity, n_factors, random_state)
    begin = perf_counter()
    with Watch(terminal, "Learning", _phases(method, X, atoms, complexity, n_factors), can_stop=True) as watch:
        learner.set_params(callback=watch.report).fit(X)
        seconds = perf_counter() - begin
        size = float(np.linalg.norm(X))
        error = -learner.score(X) * np.sqrt(X.size) / size if size else 0.0
    op = learner.operator_
    with saving(output):
        op.save(output)
    status = pp.Status.STOPPED if watch.stopping else pp.Status.CONVERGED
    terminal.result(
        {"output": str(output), "samples": len(X)}
        | facts(op)
        | {"error": error, "status": str(status), "iterations": learner.n_iter_, "seconds": seconds}
    )
    if watch.stopping:
        kind = "dense dictionary" if len(op.factors) == 1 else "dictionary"
        raise Stopped(f"stopped; the {kind} so far is in {output}, with relative error {error:.4g}")
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


def _phases(
    method: Method, X: Array, atoms: int | None, complexity: float | None, n_factors: int | None
) -> list[Phase]:
    """What the learner goes through, and how its time is spent, as measured on image patches."""
    if method is not Method.FAST:
        return {
            Method.KSVD: [Phase("ksvd", 1.0, 101)],
            Method.ONLINE: [Phase("online", 1.0, 30)],
            Method.SPARSE_KSVD: [Phase("sparse ksvd", 1.0, 101)],
        }[method]
    splits = len(pp.Schedule.with_complexity((X.shape[1], atoms or X.shape[1]), complexity, n_factors).factors)
    hierarchy = [
        Phase(f"{kind} {i + 1}", 0.03 / splits, 500) for i in range(splits) for kind in ("split", "global")
    ]
    return [Phase("ksvd", 0.1, 101), *hierarchy, Phase("refine", 0.84, 100)]
