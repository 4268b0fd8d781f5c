"""The command line explains itself: help, completion, built-in inputs, and where to look after an error."""

import json
import subprocess
import sys

import pytest
from rich.console import Console

import papilio as pp
from papilio.cli import app, built_in, demo
from papilio.cli.console import Terminal, gain_cell, table
from papilio.cli.inputs import read
from papilio.cli.inputs import read_pixels as read_image
from papilio.search.methods import NAMES as METHODS

COMMANDS = [command.__name__ for command in app._COMMANDS]


def test_every_command_has_a_short_help_too(papilio):
    code, out, err = papilio("-h")
    assert (code, err) == (0, "")
    assert out == papilio("--help")[1] == papilio()[1]
    assert "..." not in out.partition("Commands:")[2]  # each fits on a line of 80 columns
    for command in COMMANDS:
        assert f"\n  {command} " in out
        code, told, err = papilio(command, "-h")
        assert (code, err) == (0, "")
        assert told.startswith(f"Usage: papilio {command} ")
        assert f"papilio {command}" in told.partition("Example:")[2]


def test_the_help_of_factorize_names_every_method(papilio):
    told = " ".join(papilio("factorize", "-h")[1].split())
    named = told.partition("Method: ")[2].partition(";")[0].replace(" or ", ", ")
    assert tuple(named.split(", ")) == METHODS


@pytest.mark.parametrize("words", [("--version",), ("denoise", "--nonsense"), ("--help",)])
def test_help_and_usage_errors_load_no_heavy_libraries(words):
    """A usage error or a TAB must not wait for compiled code."""
    script = (
        "import sys; from papilio.cli import app; app.run(); "
        "print([name for name in ('numba', 'scipy', 'sklearn', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_python_m_papilio_is_the_command_line():
    done = subprocess.run([sys.executable, "-m", "papilio", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, pp.__version__, "")


@pytest.mark.parametrize(
    ("words", "found"), [("papilio fac", "factorize"), ("papilio learn --chec", "--checkpoint")]
)
def test_shells_complete_commands_and_options(words, found, papilio, monkeypatch, capsys):
    monkeypatch.setenv("_PAPILIO_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    with pytest.raises(SystemExit) as ending:
        papilio()
    assert ending.value.code == 0
    assert capsys.readouterr().out.split() == [found]


def test_the_completion_of_a_shell_is_shown_and_installed():
    assert {"--install-completion", "--show-completion"} <= {
        name for option in app.typer.main.get_command(app.app).params for name in option.opts
    }


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("factorize",), "factorize "),
        (("factorize", "hadamard:8", "-o", "op.npz", "--complexity", "3"), "factorize "),
        (("factorize", "hadamard:8", "-o", "op.npz", "--n-factors", "many"), "factorize "),
        (("learn", "hadamard:8", "-o", "d.npz", "--block", "x"), "learn "),
        (("--nothing",), ""),
        (("nonsense",), ""),
    ],
)
def test_errors_of_a_command_point_to_its_own_help(words, command, papilio):
    code, out, err = papilio(*words)
    assert (code, out) == (2, "")
    assert err.endswith(f"(see papilio {command}--help)\n")
    assert papilio(*command.split(), "--help")[0] == 0


def test_errors_about_files_do_not_point_to_the_help(papilio):
    assert "--help" not in papilio("info", "gone.npz")[2]


# -- built-in inputs -----------------------------------------------------------------------------------------


def test_every_built_in_input_is_listed_and_can_be_read(papilio):
    told = json.loads(papilio("inputs", "--json")[1])
    shown = papilio("inputs")[1]
    assert list(told["built_in"]) == list(built_in.BUILT_IN)
    for name, each in built_in.BUILT_IN.items():
        assert each.example.partition(":")[0] == name
        for part in (each.example, each.about, each.number):
            assert part in shown
        made = read_image(each.example).pixels if each.kind is built_in.Kind.IMAGE else read(each.example)
        assert len(made.shape) == 2
    assert ".npz" in told["formats"]


def test_the_help_of_a_command_lists_what_it_reads(papilio):
    listed = {command: papilio(command, "-h")[1].partition("Built in:")[2] for command in COMMANDS}
    for command, kinds in built_in._READ.items():
        for name, each in built_in.BUILT_IN.items():
            assert (f"{name}:" in listed[command].partition("Example:")[0]) == (each.kind in kinds), command
    assert {command for command, text in listed.items() if text} == set(built_in._READ)


# -- tables --------------------------------------------------------------------------------------------------


@pytest.fixture
def wide():
    made = table(None, "name", *(f"number {i}" for i in range(30)))
    made.add_row("a", *(f"{i}.123456789" for i in range(30)))
    return made


def test_no_number_is_cut_in_a_pipe(wide, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    Terminal().say(wide)
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert all(f"{i}.123456789" in shown for i in range(30))


def test_texts_wrap_on_a_terminal_before_numbers_are_cut():
    made = table(None, "method", "detail", "entries", n_texts=2, wraps=["detail"])
    made.add_row("hierarchical", "a long description of what was tried " * 3, "1,234,567")
    console = Console(width=50, force_terminal=True)
    with console.capture() as captured:
        console.print(made)
    assert "1,234,567" in captured.get()
    assert "…" not in captured.get()


def test_a_speed_up_below_one_says_that_it_is_slower():
    assert (gain_cell(0.62).plain, str(gain_cell(0.62).style)) == ("0.62× (slower)", "red")
    assert (gain_cell(2.5).plain, str(gain_cell(2.5).style)) == ("2.5×", "")
    assert gain_cell(0.999).plain == "1×"
    assert "256 vectors 0.5× (slower)" in str(pp.results.Speedup(3.0, 0.5))


def test_bench_marks_what_is_slower(papilio, monkeypatch, here):
    from papilio.operators import speed
    from papilio.operators.speed import Speed

    speeds = [Speed("operator", 1, 1e-6, 2e-6), Speed("operator", 256, 4e-6, 2e-6)]
    monkeypatch.setattr(speed, "both_ways", lambda *_: iter(speeds))
    lines = [line for line in papilio("bench", "hadamard:8")[1].splitlines() if "operator" in line]
    assert ["slower" in line for line in lines] == [True, False]


def test_the_tables_of_the_demo_fit_a_terminal_of_80_columns():
    made = table("Hadamard", "method", *demo.COLUMNS, wraps=demo.GAINS)
    row = ["hierarchical", "1024×1024", "20,480", "100%", "1.2e-14", "12.3 s"]
    made.add_row(*row, gain_cell(0.74), gain_cell(0.25))
    console = Console(width=80, force_terminal=True)
    with console.capture() as captured:
        console.print(made)
    shown = captured.get()
    assert "…" not in shown
    assert all(cell in shown for cell in (*row, "0.74×", "(slower)"))
