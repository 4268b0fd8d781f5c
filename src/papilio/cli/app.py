"""The commands of ``papilio``, and their exit codes."""

import os
import signal
import sys
import threading
import tomllib
import traceback
import warnings
from importlib.resources import files
from pathlib import Path
from textwrap import indent
from types import FrameType
from typing import Annotated

import typer

import papilio

from .built_in import described
from .console import BadInput, Failed, Stopped, Terminal, printable
from .factorizations import factorize, tradeoff
from .learn import learn
from .options import Report
from .show import bench, info, inputs, plot, report
from .use import apply, denoise, encode, export

app = typer.Typer(
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: boxes would wrap the examples
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(papilio.__version__)
        raise typer.Exit


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Dictionaries and matrices as products of sparse factors, so that they run as fast transforms."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the figures.")] = Path("demo-output"),
    report: Report = None,
) -> None:
    """Show what papilio does, on built-in data. Figures go to OUTPUT."""
    from . import demo as demo_command

    demo_command.run(Terminal(), output, report)


_EXAMPLES = tomllib.loads(files(__package__).joinpath("examples.toml").read_text(encoding="utf-8"))
_COMMANDS = (
    demo,
    factorize,
    learn,
    tradeoff,
    encode,
    apply,
    export,
    denoise,
    info,
    plot,
    bench,
    report,
    inputs,
)
for _do in _COMMANDS:
    _parts = {"Built in": described(_do.__name__), "Example": _EXAMPLES[_do.__name__].strip("\n")}
    _texts = [f"\b\n{_title}:\n{indent(_text, '  ')}" for _title, _text in _parts.items() if _text]
    app.command(epilog="\n\n".join(_texts))(_do)


def run() -> int:
    """Run the command of this process and return its exit code; an error is one line.

    0: success; 1: failure; 2: usage error; 130: stopped by Ctrl-C; 143: by SIGTERM, which does the same.
    """
    if threading.current_thread() is not threading.main_thread():
        return _run()
    before = signal.signal(signal.SIGTERM, _raise_interrupt)
    try:
        return _run()
    finally:
        signal.signal(signal.SIGTERM, before)


def _run() -> int:
    # The status, which results contain, says it too.
    warnings.filterwarnings("ignore", "the limit on the number of iterations was reached")
    warnings.showwarning = lambda message, *_: sys.stderr.write(f"papilio: {printable(message)}\n")  # type: ignore[assignment]
    try:
        code = app(prog_name="papilio", standalone_mode=False)  # Also under python -m papilio.
        sys.stdout.flush()
    except Exception as error:
        if os.environ.get("PAPILIO_DEBUG"):
            sys.stderr.writelines(f"{printable(line)}\n" for line in traceback.format_exc().splitlines())
        message, code = _ending(error)
        if message:
            sys.stderr.write(f"papilio: {message}\n")
        return code
    if code == 130:  # KeyboardInterrupt
        sys.stderr.write("papilio: stopped; nothing was written\n")
        return _stopped()
    return code if isinstance(code, int) else 0


def _stopped() -> int:
    """The exit code that a shell expects after a signal."""
    from ..runtime.session import last_signal

    return 128 + (last_signal() or signal.SIGINT)


def _raise_interrupt(number: int, frame: FrameType | None) -> None:
    """Treat SIGTERM like Ctrl-C; the session, which loads SciPy, is imported only now."""
    from ..runtime.session import raise_interrupt

    raise_interrupt(number, frame)


def _where_to_look() -> str:
    """The command whose help an error message points to."""
    names = {command.__name__ for command in _COMMANDS}
    called = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    return f"see papilio {f'{called} ' * (called in names)}--help"


def _ending(error: Exception) -> tuple[str, int]:
    text = printable(" ".join(str(error).split()))
    match error:
        case Stopped():
            return text, _stopped()
        case BrokenPipeError():
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Nobody reads the rest.
            return "", 1
        case MemoryError():
            return "not enough memory", 1
        case Failed() | OSError():
            return text, 1
        case BadInput() if "--" not in text:
            return text, 2
        case BadInput() | ValueError() | TypeError():  # the library's checks name the argument
            return f"{text} ({_where_to_look()})", 2
    if hasattr(error, "format_message"):  # a usage error that Typer found
        return f"{printable(' '.join(error.format_message().split()))} ({_where_to_look()})", 2
    return f"{type(error).__name__}: {text} (PAPILIO_DEBUG=1 shows where)", 1
