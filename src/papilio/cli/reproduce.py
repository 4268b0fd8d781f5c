"""``papilio reproduce``: the paper's experiments and our own, from their configuration to their figures."""

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

from ..experiments import PAGES
from ..experiments import trials as trials_module
from ..experiments.reproduce import load
from ..experiments.reproduce import reproduce as run_experiment
from ..runtime.files import FULL
from .errors import BadInput, Failed, Stopped
from .progress import ProgressBar
from .terminal import Terminal
from .text import printable


def reproduce(
    name: Annotated[str | None, typer.Argument(help=f"One of {', '.join(PAGES)}.")] = None,
    preset: Annotated[
        str, typer.Option(help="paper, tiny (takes seconds), or for figure3 also papilio (with refinement).")
    ] = "paper",
    trials: Annotated[
        int | None,
        typer.Option(help="Number of trials of figure3, denoising and recovery; by default that of the preset."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(help="Number of processes for the trials; by default one per core."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for tables and figures; reproduce-NAME by default.")
    ] = None,
) -> None:
    """Run one of the paper's experiments or of our own. Tables, figures and claims go to OUTPUT.

    Without NAME, list the experiments. A run of figure3, denoising or recovery that was stopped is resumed.
    """
    if name is None:
        _list_experiments()
        return
    folder = output or Path(f"reproduce-{name}" if preset == "paper" else f"reproduce-{name}-{preset}")
    try:
        with ProgressBar(Terminal(), name) as bar:
            pages = run_experiment(
                name,
                folder,
                preset=preset,
                trials=trials,
                jobs=jobs,
                progress=lambda done, total: bar.advance(done / total if total else 1.0, f"{done} of {total}"),
            )
    except trials_module.Stopped as stop:
        again = ["papilio", "reproduce", name, "--preset", preset, "--output", str(folder)]
        again += [] if trials is None else ["--trials", str(trials)]
        raise Stopped(f"stopped; {stop}. To resume: {shlex.join(again)}") from None
    except KeyboardInterrupt:
        raise Stopped("stopped before anything new was kept; run the same command again") from None
    except OSError as error:
        kind = Failed if error.errno in FULL else BadInput
        raise kind(f"{error.filename}: {error.strerror}" if error.filename else str(error)) from None
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


def _show(console: Console, pages: list[Path]) -> None:
    """Print the first part of each page, and the paths of all files."""
    for page in pages:
        if page.suffix == ".md":
            text = page.read_text(encoding="utf-8").partition("\n## ")[0]
            if console.is_terminal:
                console.print(Markdown(text))
                console.print()
            else:  # as it is: no line is wrapped, and no table cut
                typer.echo(f"{text}\n")
    tables = sorted(pages[0].parent.glob("*.csv"))
    for path in [*tables, *pages]:
        typer.echo(printable(path))
