"""The command line, as a person uses it: in a process of its own, where that may matter."""

import json
import os
import subprocess

import matplotlib
import numpy as np
import pytest
import scipy.sparse as sp
from PIL import Image

import papilio as pp
from papilio.cli import app, console, demo, factorizations, learn
from papilio.cli.console import Stopped, Terminal
from papilio.cli.inputs import draw_patches, read_matrix
from papilio.operators import speed as measure

from .processes import COMMAND, environment, run

matplotlib.use("Agg")


def facts(done):
    """What a command printed with ``--json``, which is all that it printed."""
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def refusal(done, code=2):
    """The one line that a command printed when it refused."""
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("papilio: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.fixture
def in_here(papilio):
    """A command in this process, as each one takes a second to start."""
    return lambda *words: subprocess.CompletedProcess(words, *papilio(*words))


@pytest.mark.slow
def test_a_matrix_is_factorized_described_drawn_applied_and_measured(tmp_path, in_here):
    H = pp.transforms.hadamard(32).toarray()
    np.savez(tmp_path / "many.npz", H=H, other=np.eye(3))
    x = np.random.default_rng(0).standard_normal((32, 5))
    np.save(tmp_path / "x.npy", x)

    result = facts(run("factorize", "many.npz:H", "-o", "op.npz", "--json", cwd=tmp_path))
    op = pp.load(tmp_path / "op.npz")
    assert op == pp.factorize(H).operator
    assert result["entries"] == op.nnz == 320
    assert result["relative_complexity"] == op.relative_complexity
    assert result["factors"] == [{"shape": [32, 32], "entries": 64}] * 5
    assert result["error"] < 1e-12
    assert result["status"] == "converged"

    told = in_here("info", "op.npz").stdout
    assert "32×32 float64: 5 factors with 320 entries instead of 1,024" in told
    assert facts(in_here("info", "op.npz", "--json"))["entries"] == 320

    facts(in_here("apply", "op.npz", "x.npy", "-o", "y.npy", "--adjoint", "--json"))
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), H.T @ x, atol=1e-10)

    in_here("export", "op.npz", "transform.c")
    assert "void transform_apply" in (tmp_path / "transform.c").read_text()
    (tmp_path / "transform.c").unlink()

    assert in_here("plot", "op.npz", "-o", "factors.png", "--quiet").stdout == ""
    with Image.open(tmp_path / "factors.png") as picture:
        assert picture.width > 3 * picture.height  # a product and five factors in a line

    measured = facts(in_here("bench", "op.npz", "--seconds", "0.05", "--block", "64", "--json"))
    assert [(m["form"], m["vectors"]) for m in measured["measurements"]] == [
        ("operator", 1),
        ("operator", 64),
        ("adjoint", 1),
        ("adjoint", 64),
    ]
    for m in measured["measurements"]:
        assert m["speed_up"] == pytest.approx(m["dense_seconds"] / m["product_seconds"])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "factors.png",
        "many.npz",
        "op.npz",
        "x.npy",
        "y.npy",
    ]


@pytest.mark.slow
def test_a_dictionary_is_learned_and_used(tmp_path, in_here):
    X = pp.datasets.rand(300, n_features=16, n_nonzero_coefs=3, random_state=0).signals.T
    np.savetxt(tmp_path / "X.csv", X, delimiter=",", fmt="%.17g")
    options = ("--n-nonzero-coefs", "3", "--complexity", "0.6", "--random-state", "1", "--json")
    result = facts(in_here("learn", "X.csv", "-o", "dict.npz", *options))
    D = pp.load(tmp_path / "dict.npz")
    model = pp.FastDictionaryLearning(n_nonzero_coefs=3, complexity=0.6, random_state=1).fit(X)
    np.testing.assert_allclose(D.toarray(), model.components_.T, atol=1e-8)
    assert result["error"] == pytest.approx(-model.score(X))
    assert result["relative_complexity"] <= 0.6

    coded = facts(in_here("encode", "X.csv", "dict.npz", "-o", "codes.npz", "--n-nonzero-coefs", "3", "--json"))
    codes = sp.load_npz(tmp_path / "codes.npz")
    np.testing.assert_allclose(codes.toarray(), model.transform(X), atol=1e-10)
    assert coded["error"] == pytest.approx(result["error"])
    assert (coded["shape"], coded["entries"]) == ([300, 16], codes.nnz)

    in_here("apply", "dict.npz", "codes.npz", "-o", "back.npy", "--rows")
    np.testing.assert_allclose(np.load(tmp_path / "back.npy"), model.inverse_transform(codes), atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "make"),
    [("ksvd", pp.KSVD), ("online", pp.OnlineDictionaryLearning), ("sparse-ksvd", pp.SparseKSVD)],
)
def test_every_method_learns_what_its_estimator_learns(method, make, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (24, 20)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "image.png")
    image = str(tmp_path / "image.png")
    chosen = learn.Method(method)
    learn.learn(image, tmp_path / "d.npz", 20, 2, chosen, patch_size=4, n_patches=150, random_state=3)
    X = draw_patches(read_matrix(image), 4, 150, 3)
    learned = make(20, 2, random_state=3).fit(X).operator_
    np.testing.assert_array_equal(pp.load(tmp_path / "d.npz").toarray(), learned.toarray())


@pytest.mark.slow
def test_invalid_requests_are_refused_in_one_line_before_any_work(tmp_path, in_here):
    np.save(tmp_path / "M.npy", np.eye(8))
    np.save(tmp_path / "nan.npy", np.full((4, 4), np.nan))
    np.save(tmp_path / "objects.npy", np.array([[{}]]), allow_pickle=True)
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / "i.png")
    before = sorted(tmp_path.iterdir())
    cases = {
        ("factorize", "gone.npy", "-o", "op.npz"): "gone.npy: there is no such file",
        ("factorize", "nan.npy", "-o", "op.npz"): "nan.npy must hold finite numbers only",
        ("factorize", "objects.npy", "-o", "op.npz"): "not an intact .npy file",
        ("factorize", "M.npy", "-o", "gone/op.npz"): "there is no folder",
        ("factorize", "M.npy", "-o", "op.npy"): "must end in .npz",
        ("factorize", "M.npy"): "--output",
        (
            "factorize",
            "M.npy",
            "-o",
            "op.npz",
            "--complexity",
            "2",
        ): "complexity must be a real number from 0 to 1",
        ("factorize", "M.npy", "-o", "op.npz", "--n-factors", "many"): "Invalid value for '--n-factors'",
        ("factorize", "M.npy", "-o", "op.npz", "--method", "magic"): "method must be one of",
        ("learn", "i.png", "-o", "d.npz"): "--patches SIZE",
        ("learn", "M.npy", "-o", "d.npz", "--method", "ksvd", "--n-factors", "3"): "are for --method fast",
        ("learn", "M.npy", "-o", "d.npz", "--method", "ksvd", "--block", "4"): "are for --method fast",
        ("learn", "M.npy", "-o", "d.npz", "--complexity", "30"): "complexity must be a real number from 0 to 1",
        ("learn", "M.npy", "-o", "d.npz", "--block", "4x"): "--block must be one or two positive integers",
        ("learn", "M.npy", "-o", "d.npz", "--block", "4x4x4"): "--block must be one or two positive integers",
        ("learn", "M.npy", "-o", "d.npz", "--block", "0"): "--block must be one or two positive integers",
        ("encode", "M.npy", "hadamard:4", "-o", "c.npz"): "rows must have 4 features",
        ("apply", "M.npy", "hadamard:4", "-o", "y.npy"): "vectors must have 8 entries, got 4",
        ("plot", "M.npy", "-o", "f.doc"): "must end in .png or .pdf or .svg",
        (
            "plot",
            "M.npy",
            "-o",
            "f.png",
            "--kind",
            "atoms",
            "--atom-shape",
            "4x4",
        ): "atom_shape must hold 8 entries",
        ("plot", "M.npy", "-o", "f.png", "--kind", "atoms", "--atom-shape", "4x"): "--atom-shape must be like 8x8",
        ("report", "M.npy", "-o", "r.html", "--atom-shape", "3x3"): "atom_shape must hold 8 entries",
        ("nonsense",): "nonsense",
    }
    for arguments, message in cases.items():
        done = run(*arguments, cwd=tmp_path) if arguments == ("factorize", "M.npy") else in_here(*arguments)
        assert message in refusal(done), arguments
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.slow
def test_a_traceback_is_shown_only_on_request(tmp_path):
    shown = run("info", "gone.npz", cwd=tmp_path, PAPILIO_DEBUG="1")
    assert shown.returncode == 2
    assert "Traceback" in shown.stderr
    assert shown.stderr.splitlines()[-1] == "papilio: gone.npz: there is no such file"


@pytest.mark.slow
def test_broken_pipe_exits_quietly(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [COMMAND, "info", "hadamard:8"], stdout=writer, stderr=subprocess.PIPE, cwd=tmp_path, env=environment()
    )
    os.close(writer)
    assert done.returncode == 1
    assert done.stderr == b""


# -- without a process: endings that cannot be provoked from outside ---------------------------------------


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        (MemoryError(), "not enough memory", 1),
        (OSError(28, "No space left on device"), "No space left", 1),
        (
            ZeroDivisionError("division by zero"),
            "ZeroDivisionError: division by zero (PAPILIO_DEBUG=1 shows where)",
            1,
        ),
        (ValueError("complexity must be\nless"), "complexity must be less", 2),
    ],
)
def test_every_other_error_is_one_line(error, message, code, monkeypatch, capsys):
    def fail(**options):
        raise error

    monkeypatch.setattr(app, "app", fail)
    assert app.run() == code
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1


def test_a_factorization_that_is_stopped_is_saved(tmp_path, monkeypatch, capsys):
    np.save(tmp_path / "M.npy", np.random.default_rng(0).standard_normal((24, 24)))
    report = console.ProgressBar.report

    def interrupting(bar, step):
        if not bar.stopping:
            os.kill(os.getpid(), 2)  # Ctrl-C
        return report(bar, step)

    monkeypatch.setattr(console.ProgressBar, "report", interrupting)
    with pytest.raises(Stopped, match="the factors so far are in"):
        factorizations.factorize(str(tmp_path / "M.npy"), tmp_path / "op.npz")
    assert pp.load(tmp_path / "op.npz").shape == (24, 24)
    assert capsys.readouterr().out == ""


@pytest.mark.slow
def test_the_demo_reports_speed_ups_and_where_the_figures_are(tmp_path, monkeypatch, capsys):
    def compare(op, dense, vectors):
        gain = 2.5 if op.relative_complexity <= 0.3 else 0.8
        return measure.Speed("operator", vectors, gain, 1.0)

    monkeypatch.setattr(demo, "SIZES", (8, 16))
    monkeypatch.setattr(demo, "N_PATCHES", 150)
    monkeypatch.setattr(demo, "N_ATOMS", 64)
    monkeypatch.setattr(demo, "compare", compare)
    demo.run(Terminal(), tmp_path / "new" / "figures")
    shown = capsys.readouterr().out.strip().splitlines()
    headings = next(line for line in shown if "method" in line)
    for heading in ("entries", "share", "error", "time", "speed-up"):
        assert heading in headings
    assert sum("hierarchical" in line for line in shown) == 2
    rows = [line.split() for line in shown if "64×64" in line]
    assert [row[0] for row in rows[:2]] == ["DCT", "dense"]
    assert [(*row[:2], *row[-2:]) for row in rows[2:]] == [  # fast is only what is faster than the dense matrix
        ("product", "0.5", "0.8×", "(slower)"),
        ("fast", "0.25", "2.5×", "2.5×"),
    ]
    names = sorted(path.name for path in (tmp_path / "new" / "figures").iterdir())
    assert len(names) == 5
    assert shown[-1].startswith(f"Figures are in {tmp_path / 'new' / 'figures'}: ")
    assert sorted(shown[-1].split(": ")[1].split(", ")) == names
