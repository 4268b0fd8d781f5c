"""Examples do what they say: those of each command's help, and the scripts."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
# Sizes that take minutes, and those with which a script is tested.
SMALLER = {
    "gaussian_process": {
        "(1024, 2048, 4096, 8192), 16384": "(1024, 2048), 4096",
        "TRANSECT, COMPARED = 500, 60, 80, 4096": "TRANSECT, COMPARED = 500, 60, 80, 2048",
    },
    "graph_signals": {"SHOWN, NOISE = 1000,": "SHOWN, NOISE = 400,"},
    "compress_transformer": {
        "WIDTH, N_BLOCKS, N_HEADS, CONTEXT, BATCH = 128, 2,": "WIDTH, N_BLOCKS, N_HEADS, CONTEXT, BATCH = 32, 1,",
        "N_STEPS, N_MORE_STEPS = 150, 60": "N_STEPS, N_MORE_STEPS = 20, 5",
        "N_CHARACTERS = 600_000": "N_CHARACTERS = 60_000",
    },
}
WITH_TORCH = ("compress_transformer",)
COMMANDS = (
    "demo",
    "factorize",
    "learn",
    "tradeoff",
    "encode",
    "apply",
    "denoise",
    "info",
    "plot",
    "bench",
    "report",
    "reproduce",
)


@pytest.fixture
def paste(papilio, monkeypatch):
    """Run a line as if it were pasted into a terminal of 80 columns; returns what it printed."""
    monkeypatch.setenv("COLUMNS", "80")

    def call(line):
        name, *words = shlex.split(line)
        assert name == "papilio"
        code, out, err = papilio(*words)
        assert (code, err) == (0, ""), line
        return out

    return call


def run_the_examples(command, paste):
    lines = paste(f"papilio {command} --help").split("Example:\n")[1].strip().splitlines()
    assert any(line.strip().startswith(f"papilio {command} ") for line in lines)
    for line in lines:
        paste(line)


@pytest.mark.slow
@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "demo"])
def test_the_examples_in_the_help_work_as_pasted(command, paste):
    run_the_examples(command, paste)


@pytest.mark.slow
def test_the_example_of_the_demo_works_as_pasted(paste):
    run_the_examples("demo", paste)


def test_every_command_has_its_example(paste):
    listed = paste("papilio --help").split("Commands:\n")[1]
    assert tuple(re.findall(r"^  (\S+)", listed, re.MULTILINE)) == COMMANDS


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_tells_its_story_and_ends_with_its_figure(script, tmp_path, tmp_path_factory):
    if script.stem in WITH_TORCH:
        pytest.importorskip("torch", reason=f"{script.name} needs the extra torch")
    text = script.read_text()
    for large, small in SMALLER.get(script.stem, {}).items():
        assert large in text
        text = text.replace(large, small)
    copy = tmp_path_factory.mktemp("examples") / script.name
    copy.write_text(text)
    done = subprocess.run(
        [sys.executable, copy, "figures"], capture_output=True, text=True, cwd=tmp_path, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == f"Figure: figures/{script.stem}.png"
    assert (tmp_path / "figures" / f"{script.stem}.png").stat().st_size > 10_000
    assert [path.name for path in tmp_path.iterdir()] == ["figures"]


def test_every_script_is_listed():
    listed = (ROOT / "examples" / "README.md").read_text()
    assert SCRIPTS
    assert re.findall(r"python examples/(\w+\.py)", listed) == [script.name for script in SCRIPTS]
