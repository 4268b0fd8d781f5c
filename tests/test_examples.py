"""Examples do what they say: those of the README, and those of each command's help."""

import doctest
import re
import subprocess
from pathlib import Path

import pytest

import papilio as pp

from .processes import environment, run

README = (Path(pp.__file__).parents[2] / "README.md").read_text()
COMMANDS = ("demo", "factorize", "learn", "encode", "apply", "info", "plot", "bench")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def run_lines(lines, cwd):
    """Shell lines in order, as if they were pasted one by one."""
    for line in lines:
        done = subprocess.run(line, shell=True, capture_output=True, text=True, cwd=cwd, env=environment())
        assert done.returncode == 0, f"{line}: {done.stderr}"
        assert "papilio: " not in done.stderr


def test_the_python_examples_of_the_readme_run(tmp_path, monkeypatch):
    assert blocks("python")
    monkeypatch.chdir(tmp_path)
    scope = {}
    for block in blocks("python"):
        exec(block, scope)
        tests = doctest.DocTestParser().get_doctest(block, scope, "README", "README.md", 0)
        assert doctest.DocTestRunner().run(tests).failed == 0


def test_the_shell_examples_of_the_readme_run(tmp_path):
    assert blocks("sh")
    for block in blocks("sh"):
        run_lines([line for line in block.splitlines() if line and not line.startswith("#")], tmp_path)


def example_lines(command, tmp_path):
    shown = run(command, "--help", cwd=tmp_path, COLUMNS="80").stdout
    lines = [line.strip() for line in shown.split("Example:\n")[1].splitlines()]
    assert lines
    assert any(line.startswith(f"papilio {command} ") for line in lines)
    return lines


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "demo"])
def test_the_examples_in_the_help_work_as_pasted(command, tmp_path):
    run_lines(example_lines(command, tmp_path), tmp_path)


@pytest.mark.slow
def test_the_example_of_the_demo_works_as_pasted(tmp_path):
    run_lines(example_lines("demo", tmp_path), tmp_path)


def test_every_command_has_its_example(tmp_path):
    listed = run("--help", cwd=tmp_path).stdout.split("Commands:\n")[1]
    assert tuple(re.findall(r"^  (\S+)", listed, re.MULTILINE)) == COMMANDS
