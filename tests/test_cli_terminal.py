"""On a real terminal: progress with the time left, Ctrl-C and SIGTERM, which keep what can be kept."""

import json
import signal

import numpy as np
import pytest

import papilio as pp

from .processes import OnTerminal, run

# Long enough to be interrupted at any moment that a test chooses.
LONG = (
    "learn",
    "patches:8",
    "-o",
    "dict.npz",
    "--n-components",
    "256",
    "--n-nonzero-coefs",
    "5",
    "--random-state",
    "0",
)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_ctrl_c_and_sigterm_keep_the_dictionary_so_far(number, code, tmp_path):
    session = OnTerminal(*LONG, "--json", cwd=tmp_path)
    session.wait_for(r"Learning.*[1-9] %.*0:00:\d\d.*left:.*ksvd \d+: error 0\.\d+")
    session.interrupt(number)
    assert session.end() == code
    assert session.last_line().startswith("papilio: stopped; the dense dictionary so far is in dict.npz")
    op = pp.load(tmp_path / "dict.npz")
    assert op.shape == (64, 256)
    facts = json.loads(session.output)
    assert facts["status"] == "stopped"
    assert f"{facts['error']:.4g}" in session.last_line()
    X = pp.datasets.image_patches(10_000, 8, random_state=0)
    error = np.linalg.norm(X.T - op @ pp.omp(op.toarray(), X.T, 5)) / np.linalg.norm(X)
    assert facts["error"] == pytest.approx(error)


@pytest.mark.slow
def test_ctrl_c_twice_drops_everything_and_says_so(tmp_path):
    session = OnTerminal(*LONG, cwd=tmp_path)
    session.wait_for(r"ksvd \d+")
    session.interrupt()
    session.interrupt()
    code = session.end()
    # The first may have been heeded before the second came.
    if list(tmp_path.iterdir()):
        assert pp.load(tmp_path / "dict.npz").shape == (64, 256)
    else:
        assert session.last_line() == "papilio: stopped; nothing was written"
    assert code == 130


@pytest.mark.slow
def test_sigterm_ends_a_command_that_keeps_nothing(tmp_path):
    session = OnTerminal("denoise", "noisy:30", "-o", "clean.png", "--sigma", "30", cwd=tmp_path)
    session.wait_for(r"Denoising.*[1-9] %")
    session.interrupt(signal.SIGTERM)
    assert session.end() == 143
    assert session.last_line() == "papilio: stopped; nothing was written"
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_ctrl_c_leaves_nothing_where_there_is_nothing_to_keep(tmp_path):
    np.save(tmp_path / "M.npy", np.random.default_rng(0).standard_normal((200, 200)))
    before = sorted(path.name for path in tmp_path.iterdir())
    session = OnTerminal("factorize", "M.npy", "-o", "op.npz", "--max-error", "1e-9", cwd=tmp_path)
    session.wait_for(r"Factorizing.*[1-9] %.*left: \x1b\[36m0:\d\d:\d\d")
    session.interrupt()
    assert session.end() == 130
    if "so far" in session.last_line():
        assert pp.load(tmp_path / "op.npz").shape == (200, 200)
    else:
        assert session.last_line() == "papilio: stopped; nothing was written"
        assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.slow
def test_quiet_shows_nothing(tmp_path):
    session = OnTerminal("factorize", "hadamard:16", "-o", "op.npz", "--quiet", cwd=tmp_path)
    assert session.end() == 0
    assert session.shown == session.output == ""


def test_the_progress_bar_is_cleared_at_the_end(tmp_path):
    session = OnTerminal("factorize", "hadamard:16", "-o", "op.npz", cwd=tmp_path)
    assert session.end() == 0
    assert "Factorizing" in session.shown
    assert session.shown.rstrip().endswith(("\x1b[2K", "\x1b[?25h"))  # the bar is wiped out, the cursor back
    assert "128 entries" in session.output


@pytest.mark.slow
def test_logs_get_no_progress_bar(tmp_path):
    done = run("factorize", "hadamard:16", "-o", "op.npz", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Factorizing" not in done.stdout
