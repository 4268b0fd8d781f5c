"""The command line, as a person uses it: in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import papilio as pp

COMMAND = Path(sys.executable).parent / "papilio"


def run(*arguments, cwd):
    environment = os.environ | {"COLUMNS": "120"}
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, cwd=cwd, env=environment)


def test_version(tmp_path):
    assert run("--version", cwd=tmp_path).stdout.strip() == pp.__version__


def test_no_command_shows_help(tmp_path):
    shown = run(cwd=tmp_path)
    assert "demo" in shown.stdout + shown.stderr


def test_demo_prints_its_table_and_writes_its_figures(tmp_path):
    done = run("demo", "--output", "figures", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "hierarchical" in done.stdout
    assert "256×256" in done.stdout
    for name in ("hadamard-factors.png", "hadamard-convergence.png"):
        assert (tmp_path / "figures" / name).stat().st_size > 5000
