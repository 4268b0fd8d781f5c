"""``make reproduce``, as a person uses it: in a process of its own, which may be stopped or killed."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.harness import read_table

from .processes import environment

ROOT = Path(__file__).parent.parent
ENVIRONMENT = environment() | {"COLUMNS": "120"}
COMMAND = [sys.executable, "-m", "experiments"]  # what `make reproduce` calls


def run(*arguments, folder=None):
    output = [] if folder is None else ["--output", str(folder)]
    return subprocess.run(
        [*COMMAND, *arguments, *output], capture_output=True, text=True, cwd=ROOT, env=ENVIRONMENT
    )


def test_without_a_name_the_experiments_are_listed_with_their_times():
    done = run()
    assert done.returncode == 0
    for word in ("hadamard", "dft", "wavelet", "figure3", "seconds", "--preset papilio", "--preset tiny"):
        assert word in done.stdout
    assert "about 10 minutes" in done.stdout
    assert re.search(r"figure3 +papilio +about \d+ minutes", run("--help").stdout)


@pytest.mark.slow
def test_a_tiny_run_says_how_long_it_takes_and_shows_its_claims_and_files(tmp_path):
    folder = tmp_path / "run"
    done = run("hadamard", "--preset", "tiny", folder=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("hadamard, preset tiny: this will take less than a minute. ")
    assert "hierarchical" in done.stdout
    for name in ("table.csv", "figure1.png", "figure2.png", "figure.png", "claims.md"):
        assert str(folder / name) in done.stdout
        assert (folder / name).exists()


def test_an_error_is_one_clear_line(tmp_path):
    (tmp_path / "taken").write_text("a file, no folder")
    for arguments, folder, code, message in (
        (["nonsense"], None, 2, "NAME must be one of denoising, dft, figure3"),
        (["dft"], tmp_path / "taken" / "inside", 1, "taken"),
    ):
        done = run(*arguments, folder=folder)
        assert done.returncode == code
        (line,) = done.stderr.strip().splitlines()
        assert line.startswith("reproduce: ")
        assert message in line


def start_figure3(folder, jobs, trials=12):
    """A run of the tiny preset in a process group of its own, with at least one draw in its table."""
    process = subprocess.Popen(
        figure3(folder, jobs, trials),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        cwd=ROOT,
        start_new_session=True,
        # Whoever runs the tests in the background may have them ignore Ctrl-C, and all that they start, too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    table, deadline = folder / "table.csv", time.monotonic() + 120
    while not (table.exists() and len(table.read_bytes().splitlines()) > 1):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return process


def figure3(folder, jobs, trials):
    options = ["--preset", "tiny", "--trials", str(trials), "--jobs", str(jobs), "--output", str(folder)]
    return [*COMMAND, "figure3", *options]


def draws_in(folder):
    return len({(row["data"], row["trial"]) for row in read_table(folder / "table.csv")})


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(jobs, tmp_path):
    folder = tmp_path / "run"
    process = start_figure3(folder, jobs)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it: workers, too
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    line = errors.strip().splitlines()[-1]
    kept = int(re.search(r"stopped; (\d+) of 24 draws are kept in .*table.csv", line)[1])
    assert 1 <= kept < 24
    assert kept == draws_in(folder)
    again = shlex.split(line.partition("To resume: ")[2])
    assert again[:3] == ["make", "reproduce", "NAME=figure3"]
    options = shlex.split(again[3].removeprefix("ARGS="))
    assert options == ["--preset", "tiny", "--output", str(folder), "--trials", "12"]


@pytest.mark.slow
def test_a_killed_run_goes_on_and_gives_the_same_table(tmp_path):
    jobs = 2
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = start_figure3(killed, jobs)
    process.kill()
    process.communicate()
    assert draws_in(killed) < 24
    for folder in (killed, whole):
        subprocess.run(figure3(folder, 2, 12), check=True, capture_output=True, cwd=ROOT, env=ENVIRONMENT)
    for name in ("table.csv", "meta.json", "figure.png"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
