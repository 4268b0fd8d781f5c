"""The commands of ``papilio``."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import papilio

from . import demo as demo_command
from .reproduce import reproduce

app = typer.Typer(
    help="Dictionaries and matrices as products of sparse factors, so that they run as fast transforms.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(papilio.__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options that stand before a command."""


@app.command()
def demo(
    output: Annotated[Path, typer.Option(help="Folder for the figures.")] = Path("demo-output"),
) -> None:
    """Do the main job on built-in data: a short table, and figures in OUTPUT."""
    demo_command.run(Console(), output)


app.command()(reproduce)
