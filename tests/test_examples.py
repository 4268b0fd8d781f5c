"""Examples do what they say: those of each command's help, and the scripts."""

import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from papilio.cli import app

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
# Sizes that take minutes, and those with which a script is tested.
SMALLER = {
    "compress_transformer": {
        "WIDTH, N_BLOCKS, N_HEADS, CONTEXT, BATCH = 128, 2,": "WIDTH, N_BLOCKS, N_HEADS, CONTEXT, BATCH = 32, 1,",
        "N_STEPS, N_MORE_STEPS = 150, 60": "N_STEPS, N_MORE_STEPS = 20, 5",
        "N_CHARACTERS, N_WINDOWS = 600_000, 160": "N_CHARACTERS, N_WINDOWS = 60_000, 20",
    },
    "convolutional_atoms": {"max_iter=25": "max_iter=8"},
    "denoising": {"SIGMA, SIDE = 25, 200": "SIGMA, SIDE = 25, 144"},
    "fast_dictionary": {
        "image_patches(20_000,": "image_patches(2_000,",
        "image_patches(10_000,": "image_patches(2_000,",
        "1000, 3000, 10_000": "1000",
    },
    "few_samples": {"COUNTS = 16, 32, 64, 128, 256": "COUNTS = 16, 32"},
    "gaussian_process": {
        "SIZES = 1536, 3072, 6144": "SIZES = 512, 1024",
        "LINE = 60, 500, 4096": "LINE = 60, 500, 1024",
    },
    "graph_signals": {"SHOWN, NOISE = 1000,": "SHOWN, NOISE = 300,"},
    "larger_than_memory": {
        "N_FILES, ROWS, N_ATOMS, N_NONZERO = 3, 50_000, 64": "N_FILES, ROWS, N_ATOMS, N_NONZERO = 3, 20_000, 16"
    },
}
FOOTER = "\n# sphinx_gallery_start_ignore\n"
WITH_TORCH = ("compress_transformer",)
COMMANDS = [command.__name__ for command in app._COMMANDS]


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


@pytest.mark.examples
@pytest.mark.parametrize("command", COMMANDS)
def test_the_examples_in_the_help_work_as_pasted(command, paste):
    lines = paste(f"papilio {command} --help").split("Example:\n")[1].strip().splitlines()
    assert any(line.split()[:2] == ["papilio", command] for line in lines)
    for line in lines:
        paste(line)


@pytest.mark.examples
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_tells_its_story_and_ends_with_its_figures(script, tmp_path, tmp_path_factory):
    if script.stem in WITH_TORCH:
        pytest.importorskip("torch", reason=f"{script.name} needs the extra torch")
    text = script.read_text()
    for large, small in SMALLER.get(script.stem, {}).items():
        assert large in text
        text = text.replace(large, small)
    copy = tmp_path_factory.mktemp("examples") / script.name
    copy.write_text(text)
    done = subprocess.run([sys.executable, copy, "figures"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    figures = re.findall(r"^Figure: (.*)$", done.stdout, re.MULTILINE)
    assert figures == [f"figures/{script.stem}_{number}.png" for number in range(1, len(figures) + 1)]
    assert figures
    assert done.stdout.splitlines()[-1] == f"Figure: {figures[-1]}"
    assert all((tmp_path / figure).stat().st_size > 10_000 for figure in figures)
    assert [path.name for path in tmp_path.iterdir()] == ["figures"]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_has_the_form_of_the_gallery(script):
    text = script.read_text()
    title, underline = ast.get_docstring(ast.parse(text)).splitlines()[:2]
    assert underline == "=" * len(title)
    assert text.count("\n# %%\n") >= 2
    # All of them write their figures in the same way, which readers of the gallery and of notebooks do not see.
    assert text.partition(FOOTER)[2] == SCRIPTS[0].read_text().partition(FOOTER)[2]
    assert text.endswith("\n# sphinx_gallery_end_ignore\n")
