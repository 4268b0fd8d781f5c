"""``papilio tradeoff``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

import papilio as pp

from ..operators.cost import BLOCK
from ..plot.curves import relative_times
from ..report import Subject
from ..results import Speedup
from ..runtime.files import replacing
from .errors import BadInput, Stopped
from .inputs import draw_patches, is_image, read_matrix
from .options import Json, NComponents, NNonzeroCoefs, NPatches, PatchSize, Quiet, Report, Seed
from .outputs import check_folder, saving
from .progress import ProgressBar
from .report import atom_shape_of, check_report, write_report
from .terminal import Terminal, facts, gain_cell, sentence, speed_facts, table


def tradeoff(
    source: Annotated[str, typer.Argument(help="A matrix, as for factorize; or samples, as for learn.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for operators, table and figure.")],
    points: Annotated[int, typer.Option(min=1, help="How many complexities, in equal ratios up to 0.8.")] = 12,
    n_components: NComponents = None,
    n_nonzero_coefs: NNonzeroCoefs = None,
    n_factors: Annotated[int | None, typer.Option(help="Number of factors.")] = None,
    patch_size: PatchSize = None,
    n_patches: NPatches = 10_000,
    report: Report = None,
    random_state: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Show errors and speed at many complexities; recommend one.

    A matrix is factorized. Dictionaries are learned for patches:8, and with --n-components, --n-nonzero-coefs or
    --patches.
    """
    terminal = Terminal(quiet, json)
    check_report(report)
    if patch_size is not None and not is_image(source):
        raise BadInput(f"{source}: --patches is for images")
    values = read_matrix(source)
    if patch_size is not None:
        values = draw_patches(values, patch_size, n_patches, random_state)
    is_learned = source.startswith("patches:") or any((n_components, n_nonzero_coefs, patch_size))
    if is_learned and values.dtype.kind == "c":
        raise BadInput(f"{source}: samples must be real, got {values.dtype}")
    check_folder(output)  # which makes it: last, for a request that can be met
    with ProgressBar(terminal, "Learning" if is_learned else "Factorizing", can_stop=True) as bar:
        if is_learned:
            found = pp.dictionary_tradeoff(
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
                values, points, n_factors=n_factors, random_state=random_state, callback=bar.report
            )
    with saving(output):
        found.save(output)
    is_stopped = found.status is pp.Status.STOPPED
    speedups = None if is_stopped else _measured(terminal, found)
    _draw(found, output, speedups)
    write_report(terminal, report, [_subject(found, source, is_learned, patch_size)])
    terminal.result(_as_facts(found, output, speedups))
    if is_stopped:
        raise Stopped(f"stopped; the {len(found.points)} of {points} points so far are in {output}")
    terminal.say(_listing(found))
    if relative_times(found):
        terminal.say(
            f"speed-up: {BLOCK} vectors at once, compared with the dense matrix, measured on this machine"
        )
    terminal.say(f"Recommended: {sentence(found.knee.operator)}, {found.error_name} {found.knee.error:.4g}")
    terminal.say(f"{found.seconds:.1f} s; in {output}: knee.npz, points.csv, tradeoff.png and all operators")


def _measured(terminal: Terminal, found: pp.Tradeoff) -> Sequence[Speedup]:
    with ProgressBar(terminal, "Measuring"):
        return found.speedups


def _draw(found: pp.Tradeoff, output: Path, speedups: Sequence[Speedup] | None) -> None:
    """Write the figure, without times if they were not measured."""
    from ..experiments.drawing import new_figure  # loads matplotlib, which takes a moment

    has_times = speedups is not None and bool(relative_times(found))
    figure = new_figure(11 if has_times else 6.4, 4)
    found.plot(figure if has_times else figure.add_subplot())
    with saving(output), replacing(output / "tradeoff.png") as partial:
        figure.savefig(partial, dpi=150)


def _subject(found: pp.Tradeoff, source: str, is_learned: bool, patch_size: int | None) -> Subject:
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
            "Status": str(found.status),
        },
    )


def _as_facts(found: pp.Tradeoff, output: Path, speedups: Sequence[Speedup] | None) -> dict[str, object]:
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


def _listing(found: pp.Tradeoff) -> Table:
    is_measured = bool(relative_times(found))
    made = table(
        None, "complexity", "needed", "entries", "error", *["speed-up"] * is_measured, "", wraps=["speed-up"]
    )
    for point, speedup in zip(found.points, found.speedups, strict=True):
        op = point.operator
        made.add_row(
            f"{point.complexity:.3f}",
            f"{op.relative_complexity:.3f}",
            f"{op.nnz:,}",
            f"{point.error:.4g}",
            *[gain_cell(speedup.block)] * is_measured,
            "knee" if point is found.knee else "",
        )
    return made
