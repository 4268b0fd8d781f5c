"""``papilio reproduce``: the paper's experiments, from their configuration to their figures."""

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ..experiments import PAGES
from ..experiments import trials as trials_module
from ..experiments.configuration import load
from ..experiments.reproduce import reproduce as run_experiment
from .errors import BadInput, Failed, Stopped
from .terminal import examples

HELP_END = examples("papilio reproduce hadamard --preset tiny --output hadamard")
_AN_HOUR = 3600.0


def reproduce(
    name: Annotated[str | None, typer.Argument(help=f"One of {', '.join(PAGES)}.", show_default=False)] = None,
    preset: Annotated[
        str, typer.Option(help="paper, tiny (done in seconds), or for figure3 also papilio (with refinement).")
    ] = "paper",
    trials: Annotated[
        int | None,
        typer.Option(help="Trials of figure3 and denoising; by default as in the preset.", show_default=False),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Processes for these; by default one a core.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for tables and figures; reproduce-NAME by default.")
    ] = None,
) -> None:
    """Run one of the paper's experiments: tables, figures and a comparison with the paper in OUTPUT.

    Without NAME, list the experiments. A run of figure3 or denoising that was stopped goes on where it was.
    """
    if name is None:
        _list_experiments()
        return
    folder = output or Path(f"reproduce-{name}" if preset == "paper" else f"reproduce-{name}-{preset}")
    try:
        with _progress(Console(stderr=True)) as progress:
            bar = progress.add_task(name, total=None)
            pages = run_experiment(
                name,
                folder,
                preset=preset,
                trials=trials,
                jobs=jobs,
                progress=lambda done, total: progress.update(bar, completed=done, total=total),
            )
    except trials_module.Stopped as stop:
        again = ["papilio", "reproduce", name, "--preset", preset, "--output", str(folder)]
        again += [] if trials is None else ["--trials", str(trials)]
        raise Stopped(f"stopped; {stop}. To go on: {shlex.join(again)}") from None
    except KeyboardInterrupt:
        raise Stopped("stopped before anything new was kept; run the same command again") from None
    except OSError as error:
        raise BadInput(f"{error.filename}: {error.strerror}") from None
    except (RuntimeError, ImportError) as error:
        raise Failed(str(error)) from None
    _show(Console(), pages)


def _list_experiments() -> None:
    for name in PAGES:
        config = load(name)
        typer.echo(f"{name:<10}{config['title']}")
        for preset, changes in config["presets"].items():
            typer.echo(f"{'':<10}--preset {preset:<9}{changes['about']}")
    typer.echo("\nRun one of them with: papilio reproduce NAME")


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
        speed_estimate_period=_AN_HOUR,  # a trial may take minutes
    )


def _show(console: Console, pages: list[Path]) -> None:
    """The first part of each page, and where everything is."""
    for page in pages:
        if page.suffix == ".md":
            console.print(Markdown(page.read_text(encoding="utf-8").partition("\n## ")[0]))
            console.print()
    tables = sorted(pages[0].parent.glob("*.csv"))
    for path in [*tables, *pages]:
        typer.echo(path)
