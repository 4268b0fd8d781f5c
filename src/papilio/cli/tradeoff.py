"""``papilio tradeoff``."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

import papilio as pp

from ..report import Subject
from ..runtime.files import replacing
from .describe import facts, sentence
from .errors import BadInput, Stopped
from .files import is_image, patches, read_matrix
from .outputs import check_folder, saving
from .progress import Watch
from .report import Report, check_report, square_patches, write_report
from .terminal import Json, Quiet, Seed, Terminal, examples, table

HELP_END = examples(
    "papilio tradeoff dct:16 -o dial --points 4",
    "papilio tradeoff patches:4 -o dial --nonzero 2 --points 3 --report dial.html",
)


def tradeoff(
    source: Annotated[str, typer.Argument(help="A matrix, as for factorize; or samples, as for learn.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for operators, table and figure.")],
    points: Annotated[int, typer.Option(min=1, help="How many complexities, up to 0.8 in equal ratios.")] = 12,
    atoms: Annotated[
        int | None, typer.Option("--atoms", "--n-components", help="Learn from samples: atoms.")
    ] = None,
    nonzero: Annotated[int | None, typer.Option("--nonzero", help="Learn from samples: atoms a sample.")] = None,
    n_factors: Annotated[int | None, typer.Option(help="Number of factors.")] = None,
    patch_size: Annotated[
        int | None, typer.Option("--patches", metavar="SIZE", help="Learn from SIZE×SIZE patches of an image.")
    ] = None,
    n_patches: Annotated[int, typer.Option(min=1, help="How many of them, drawn at random.")] = 10_000,
    report: Report = None,
    random_state: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Errors at many complexities, with the one that is recommended: the knee.

    A matrix is factorized. With --atoms, --nonzero or --patches, and of patches:8, dictionaries are learned.
    """
    terminal = Terminal(quiet, json)
    check_report(report)
    if patch_size is not None and not is_image(source):
        raise BadInput(f"{source}: --patches is for images")
    values = read_matrix(source)
    if patch_size is not None:
        values = patches(values, patch_size, n_patches, random_state)
    if atoms is None and nonzero is None and (patch_size is not None or source.startswith("patches:")):
        atoms = values.shape[1]
    if (atoms or nonzero) and values.dtype.kind == "c":
        raise BadInput(f"{source}: samples must be real, got {values.dtype}")
    check_folder(output)  # which makes it: last, for a request that can be met
    with Watch(terminal, "Sweeping", can_stop=True) as watch:
        dial = pp.tradeoff(
            values,
            points,
            n_components=atoms,
            n_nonzero_coefs=nonzero,
            n_factors=n_factors,
            random_state=random_state,
            callback=watch.report,
        )
    _save(dial, output)
    learned = atoms is not None or nonzero is not None
    write_report(terminal, report, [_subject(dial, source, learned)])
    terminal.result(_as_facts(dial, output))
    if watch.stopping:
        raise Stopped(f"stopped; the {len(dial.points)} of {points} points so far are in {output}")
    terminal.say(_listing(dial))
    terminal.say(f"Recommended: {sentence(dial.knee.operator)}, {dial.error_name} {dial.knee.error:.4g}")
    terminal.say(f"{dial.seconds:.1f} s; in {output}: knee.npz, points.csv, tradeoff.png and all operators")


def _save(dial: pp.Tradeoff, output: Path) -> None:
    import matplotlib.figure

    figure = matplotlib.figure.Figure(figsize=(6.4, 4), layout="constrained")
    dial.plot(figure.add_subplot())
    with saving(output):
        dial.save(output)
        with replacing(output / "tradeoff.png") as partial:
            figure.savefig(partial, dpi=150)


def _subject(dial: pp.Tradeoff, source: str, learned: bool) -> Subject:
    knee = dial.knee
    return Subject(
        f"The trade-off of {source}",
        knee.operator,
        source,
        knee.error,
        dial.error_name,
        tradeoff=dial,
        patches=square_patches(knee.operator) if learned else None,
        facts={
            "Sweep": f"{len(dial.points)} points in {dial.seconds:.1f} s; shown above is the knee",
            "Ended": str(dial.status),
        },
    )


def _as_facts(dial: pp.Tradeoff, output: Path) -> dict[str, object]:
    return {
        "output": str(output),
        "points": [{"complexity": p.complexity, "error": p.error} | facts(p.operator) for p in dial.points],
        "knee": dial.points.index(dial.knee),
        "dense_error": dial.dense_error,
        "status": str(dial.status),
        "seconds": dial.seconds,
    }


def _listing(dial: pp.Tradeoff) -> Table:
    made = table(None, "complexity", "needed", "entries", "error", "")
    for point in dial.points:
        op = point.operator
        made.add_row(
            f"{point.complexity:.3f}",
            f"{op.relative_complexity:.3f}",
            f"{op.nnz:,}",
            f"{point.error:.4g}",
            "knee" if point is dial.knee else "",
        )
    return made
