"""The campaigns: their driver tells what fails, and a minute of each finds nothing."""

import subprocess
import sys

import numpy as np
import pytest

import papilio as pp

from .campaigns import kill, workers
from .campaigns.call import Call
from .campaigns.calls import try_call
from .campaigns.case import KINDS, Case, Failed, run_case
from .campaigns.driver import ROOT, run_kind
from .campaigns.known import MENDED
from .campaigns.limits import LIMITS

FEW = 8  # cases, about a third of which fail on purpose


def failing(kind, **limits):
    """The numbers and titles of failing cases among the first few, and what the driver said."""
    said = []
    tally = run_kind(kind, 0, 300.0, said.append, LIMITS._replace(**limits), count=FEW)
    assert tally.cases == FEW  # all of them, whatever happened to one
    return [(failure.case.number, failure.problem.title) for failure in tally.failures], "\n".join(said)


def expected(kind):
    """Which of the first few cases fail on purpose, from their generators."""
    return [number for number in range(FEW) if Case(kind, 0, number).generator().integers(3) == 0]


# -- the driver -----------------------------------------------------------------------------------------


def test_a_failing_case_is_told_with_the_command_that_repeats_it():
    found, said = failing("wrong")
    assert [number for number, _ in found] == expected("wrong")
    assert len(found) > 1
    assert f"python -m tests.campaigns fuzz --kind wrong --seed 0 --case {found[0][0]}\n" in said
    assert found[0][1] in said


@pytest.mark.slow
def test_a_case_is_repeated_exactly():
    found, _ = failing("wrong")
    number, title = found[1]
    assert title.startswith("wrong by 0.")
    again = run_case(Case("wrong", 0, number))
    assert again.title == title
    command = Case("wrong", 0, number).command().split()[1:]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert title in done.stdout


@pytest.mark.slow
def test_after_a_crash_the_next_case_runs():
    found, said = failing("crash")
    assert [number for number, _ in found] == expected("crash")
    assert {title for _, title in found} == {"crash: SIGSEGV"}
    assert "faults.py" in said  # where it was


@pytest.mark.slow
def test_a_hang_is_ended_and_told():
    found, said = failing("hang", seconds=1.0)
    assert [number for number, _ in found] == expected("hang")
    assert {title for _, title in found} == {"hang: more than 1 s"}
    assert "faults.py" in said


@pytest.mark.slow
def test_a_case_that_takes_too_much_memory_is_ended_and_told():
    found, _ = failing("hungry", bytes=3 << 28)
    assert [number for number, _ in found] == expected("hungry")
    assert {title for _, title in found} == {"memory: more than the limit"}


def test_the_memory_of_a_process_is_not_that_of_its_parent():
    child = "from tests.campaigns.worker import peak_memory; print(peak_memory())"
    parent = f"import subprocess, sys; large = b'1' * (1 << 28); subprocess.run([sys.executable, '-c', {child!r}])"
    done = subprocess.run([sys.executable, "-c", parent], cwd=ROOT, capture_output=True, text=True)
    assert 1 << 20 < int(done.stdout) < 1 << 28


def test_a_campaign_fails_if_one_case_does():
    words = ["fuzz", "--kind", "wrong", "--minutes", "0.02"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.campaigns", *words], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "wrong: " in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("kind", KINDS)
def test_the_random_numbers_of_a_case_are_its_own(kind):
    draws = {Case(kind, seed, number).generator().random() for seed in (0, 1) for number in range(20)}
    assert len(draws) == 40


# -- what calls may do ----------------------------------------------------------------------------------


def _refuse(x):
    return pp.SparseProduct([x])


def _write(x):
    x[0] = 7.0


CAUGHT = {
    "an error of NumPy": (lambda x: np.linalg.inv(np.zeros((2, 2))), "not papilio's own"),
    "another error of ours": (lambda x: pp.transforms.haar(4)[9], "not papilio's own"),
    "a result that is not finite": (lambda x: np.array([np.nan]), "not finite"),
    "a result of another dtype": (lambda x: np.zeros(2, np.longdouble), "dtype"),
    "an argument that is changed": (_write, "changed in place"),
}


@pytest.mark.parametrize(("do", "message"), CAUGHT.values(), ids=CAUGHT.keys())
def test_what_calls_may_not_do_is_seen(do, message):
    with pytest.raises(Failed, match=message):
        try_call(Call(dict, do), {"x": np.ones(3)})


def test_a_refusal_of_papilios_own_is_accepted():
    arguments = {"x": np.array([[np.nan]])}
    with pytest.raises(ValueError, match="finite"):
        _refuse(**arguments)
    assert try_call(Call(dict, _refuse), arguments) is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_few_cases_of_each_kind_run(kind):
    """That they are made, and that the checks hold for them; `make fuzz` does the rest."""
    assert run_case(Case(kind, 1, 0)) is None


@pytest.mark.parametrize("case", MENDED, ids=str)
def test_what_was_mended_stays_mended(case):
    problem = run_case(case)
    assert problem is None, problem


# -- interruptions --------------------------------------------------------------------------------------


def test_a_cluster_that_learns_something_else_is_told(capsys):
    one, other = (pp.KSVD(3, 1, max_iter=2, tol=0.0, random_state=seed).fit(np.eye(9, 5)) for seed in (0, 1))
    workers._compare("loss 1", one, one)
    assert capsys.readouterr().out == ""
    other.components_[0, 0] += 1e-15
    workers._compare("loss 1", other, one)
    assert capsys.readouterr().out == "loss 1: the result differs from that of one process\n"


def test_whatever_an_interrupted_run_leaves_or_changes_is_told(tmp_path):
    for name, time_taken in (("first", "1"), ("second", "2"), ("third", "3")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result").write_text("the same")
        (tmp_path / name / "seconds").write_text(time_taken)
    wanted = kill.agreed(tmp_path / "first", tmp_path / "second")
    assert kill.differences(wanted, kill.contents(tmp_path / "third")) == []
    (tmp_path / "third" / "run.fresh").touch()
    (tmp_path / "third" / "result").write_text("another")
    (tmp_path / "third" / "seconds").unlink()
    assert kill.differences(wanted, kill.contents(tmp_path / "third")) == [
        "result differs from that of a run without interruption",
        "run.fresh was left behind",
        "seconds is missing",
    ]


LEAKING = "import sys, pathlib; pathlib.Path('left').touch() if len(sys.argv) > 1 else 0"


def test_a_run_that_leaves_other_files_is_told():
    count = iter(range(100))

    class Run(kill.Run):
        @property
        def command(self):
            return [sys.executable, "-c", LEAKING, *(["x"] if next(count) >= 2 else [])]

    said = []
    problems = kill.interrupted(Run("leaking", []), 1, np.random.default_rng(0), said.append)
    assert problems == ["work/left was left behind"]


# -- a minute of each -----------------------------------------------------------------------------------


# About a minute together.
CASES = {
    "calls": 400,
    "products": 120,
    "pursuit": 240,
    "files": 800,
    "checkpoints": 60,
    "commands": 20,
    "disks": 20,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
def test_many_random_cases_find_nothing(kind):
    said = []
    tally = run_kind(kind, 0, 600.0, said.append, LIMITS, count=CASES[kind])
    assert tally.cases == CASES[kind]
    assert not tally.failures, "\n".join(said)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["FastDictionaryLearning-file", "KSVD-memory"])
def test_interrupted_runs_end_as_others_do(name):
    said = []
    assert kill.interrupt_all(2, 0, said.append, [name]) == 0, "\n".join(said)
