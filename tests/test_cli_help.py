"""The command line explains itself: help, completion, built-in inputs, and where to look after an error."""

import json
import subprocess
import sys

import pytest

import papilio as pp
from papilio.cli import app, built_in
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
