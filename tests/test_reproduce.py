"""``papilio reproduce``, as a person uses it: in a process of its own, which may be stopped or killed."""

import os
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest

from .processes import COMMAND, environment, run

ENVIRONMENT = environment() | {"COLUMNS": "120"}


def test_without_a_name_the_experiments_are_listed(papilio, here):
    code, shown, _ = papilio("reproduce")
    assert code == 0
    for word in ("hadamard", "dft", "wavelet", "figure3", "seconds", "--preset papilio", "--preset tiny"):
        assert word in shown
    assert not list(here.iterdir())


def test_a_tiny_run_shows_its_claims_and_where_everything_is(tmp_path):
    done = run("reproduce", "hadamard", "--preset", "tiny", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "hierarchical" in done.stdout
    for name in ("table.csv", "figure1.png", "figure2.png", "figure.png", "claims.md"):
        path = Path("reproduce-hadamard-tiny") / name
        assert str(path) in done.stdout
        assert (tmp_path / path).exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["nonsense"],
            "NAME must be one of hadamard, dft, wavelet, figure3, denoising, seconds, large, recovery, "
            "phase, meg, got 'nonsense'",
        ),
        (["dft", "--output", "taken/inside"], "taken"),
    ],
)
def test_an_error_is_one_clear_line(arguments, message, papilio, here):
    (here / "taken").write_text("a file, no folder")
    code, _, errors = papilio("reproduce", *arguments)
    assert code == 2
    (line,) = errors.strip().splitlines()
    assert line.startswith("papilio: ")
    assert message in line


def start_figure3(folder, jobs, trials=12):
    """A run of the tiny preset in a process group of its own, with at least one draw in its table."""
    process = subprocess.Popen(
        figure3(folder, jobs, trials),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
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
    return [COMMAND, "reproduce", "figure3", *options]


def draws_in(folder):
    return len((folder / "table.csv").read_text().splitlines()) // 10


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(jobs, tmp_path):
    folder = tmp_path / "run"
    process = start_figure3(folder, jobs)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it: workers, too
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    (line,) = [line for line in errors.splitlines() if line.strip()]
    kept = int(re.search(r"stopped; (\d+) of 24 draws are kept in .*table.csv", line)[1])
    assert 1 <= kept < 24
    assert kept == draws_in(folder)
    again = shlex.split(line.partition("To resume: ")[2])
    assert again[1:] == [
        *("reproduce", "figure3", "--preset", "tiny", "--output", str(folder), "--trials", "12"),
    ]


@pytest.mark.slow
def test_a_killed_run_goes_on_and_gives_the_same_table(tmp_path):
    jobs = 2
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = start_figure3(killed, jobs)
    process.kill()
    process.communicate()
    assert draws_in(killed) < 24
    for folder in (killed, whole):
        subprocess.run(figure3(folder, 2, 12), check=True, capture_output=True, env=ENVIRONMENT)
    for name in ("table.csv", "meta.json", "figure.png"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.slow
def test_workers_do_not_outlive_a_killed_parent(tmp_path):
    process = start_figure3(tmp_path / "run", 2)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 30
    while True:
        try:
            os.killpg(process.pid, 0)  # is anyone of the group left?
        except ProcessLookupError:
            break
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.communicate()
