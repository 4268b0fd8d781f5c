"""Random command lines end with a known exit code, say why, and leave only what was asked for."""

import contextlib
import os
import tempfile
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import papilio as pp

from ..helpers import gaussian
from .test_calls import close_figures

ODD = ("0", "1", "2", "-1", "nan", "inf", "1e400", "0.5", "1e-300", "9" * 20, "é", "x", "3.7", "4x4", ".")
MATRICES = ("hadamard:8", "dft:8", "dct:8", "haar:8", "m.npy", "m.csv", "m.mat", "m.mtx", "op.npz", "img.png")
MISSING = ("missing.npy", "op.npz:none", "hadamard:7", "dct:0", "dct:x", "noisy:x", "patches:999", ":", "-")
STRANGE = (
    "empty.npy",
    "nan.npy",
    "words.csv",
    "folder",
    "zero.npy",
    "deep.npy",
    "huge.csv",
    "complex.npy",
    *MISSING,
)
SAMPLES = ("x.npy", "x.csv", "shards", "patches:2")
OPERATORS = ("op.npz", "hadamard:8", "m.npy")
COMMON = {"--json": "", "--quiet": ""}
SEED = {"--random-state": "3"}
CODES = {"--n-components": "8", "--n-nonzero-coefs": "2"}
# For each command: its inputs, the endings of its output, options that it takes, and those that keep it short.
COMMANDS = {
    "factorize": (
        [MATRICES],
        [".npz"],
        {"--complexity": "0.5 0.9", "--max-error": "0.3", "--n-factors": "2 3", "--block": "2x2 2"}
        | {"--method": "auto low_rank thresholding butterfly", "--speedup": "1.5", "--vectors": "16"}
        | {"--report": "page.html"}
        | SEED,
        ["--time-budget", "1"],
    ),
    "learn": (
        [SAMPLES],
        [".npz"],
        {"--method": "fast ksvd online sparse-ksvd", "--positive": "", "--complexity": "0.8", "--block": "1"}
        | {"--n-factors": "2", "--patches": "2", "--checkpoint": "run.ckpt", "--report": "page.html"}
        | CODES
        | SEED,
        ["--n-patches", "50"],
    ),
    "tradeoff": ([MATRICES[:6]], [""], {"--n-factors": "2"} | CODES | SEED, ["--points", "2"]),
    "encode": (
        [SAMPLES[:2], ["d.npz", "d.npy"]],
        [".npz", ".mtx", ".mat"],
        {"--n-nonzero-coefs": "2", "--tol": "0.1", "--positive": ""},
        [],
    ),
    "apply": ([OPERATORS, MATRICES], [".npy", ".csv", ".mat"], {"--adjoint": "", "--rows": ""}, []),
    "denoise": (
        [["img.png", "grey.npy"]],
        [".png", ".npy", ".tif"],
        {"--n-components": "16", "--complexity": "0.8", "--stride": "3", "--dictionary": "d16.npz"} | SEED,
        ["--sigma", "20"],
    ),
    "info": ([MATRICES], None, {}, []),
    "plot": (
        [OPERATORS],
        [".png", ".svg"],
        {"--kind": "factors atoms", "--target": "hadamard:8", "--atom-shape": "2x4"},
        [],
    ),
    "bench": ([OPERATORS], None, {"--block": "4"}, ["--seconds", "0.01"]),
    "report": (
        [OPERATORS],
        [".html"],
        {"--target": "hadamard:8", "--samples": "x.npy", "--n-nonzero-coefs": "2"},
        [],
    ),
}


def make_files():
    """Small inputs of every kind, intact and not."""
    M, X = gaussian((8, 8)), gaussian((40, 6))
    np.save("m.npy", M)
    np.savetxt("m.csv", M, delimiter=",")
    scipy.io.savemat("m.mat", {"M": M})
    scipy.io.mmwrite("m.mtx", M)
    pp.SparseProduct([np.triu(M), np.tril(M)]).save("op.npz")
    np.save("x.npy", X)
    np.savetxt("x.csv", X, delimiter=",")
    os.mkdir("shards")
    np.save("shards/a.npy", X[:20])
    np.save("shards/b.npy", X[20:])
    np.save("d.npy", gaussian((6, 9)))
    pp.SparseProduct([gaussian((6, 9))]).save("d.npz")
    pp.SparseProduct([np.eye(16)]).save("d16.npz")
    pixels = np.random.default_rng(0).random((16, 14))
    Image.fromarray((255 * pixels).astype(np.uint8)).save("img.png")
    np.save("grey.npy", pixels)
    np.save("empty.npy", np.empty((0, 4)))
    np.save("nan.npy", np.full((4, 4), np.nan))
    np.save("zero.npy", np.zeros((8, 8)))
    np.save("deep.npy", np.zeros((2, 3, 4)))
    np.save("complex.npy", M + 1j)
    Path("words.csv").write_text("a,b\nc,d\n", encoding="utf-8")
    Path("huge.csv").write_text("1e308,1e308\n1e308,-1e308\n", encoding="utf-8")
    os.mkdir("folder")


@st.composite
def command_lines(draw, name):
    """Words after ``papilio``; about half of all lines are usable."""
    inputs, endings, options, always = COMMANDS[name]
    strange, odd = draw(st.integers(0, 3)) == 3, draw(st.booleans())
    words = [name, *(draw(st.sampled_from(STRANGE if strange else each)) for each in inputs)]
    if endings is not None:
        usual = draw(st.integers(0, 11)) < 11
        ending = draw(st.sampled_from(endings if usual else [".xyz", "", ".npz", ".PNG"]))
        words += ["-o", draw(st.sampled_from(("", "folder/", "none/"))) + "out" + ending]
    for option, values in (options | COMMON).items():
        if draw(st.integers(0, 2)) == 2:
            replaced = odd and draw(st.booleans())
            words += [option, *([draw(st.sampled_from(ODD if replaced else values.split()))] if values else [])]
    words += always
    if draw(st.integers(0, 14)) == 14:
        place = draw(st.integers(0, len(words)))
        words.insert(place, draw(st.sampled_from((*ODD, "", "--nonsense", "--help", "--version", "--"))))
    return words


def files():
    return {str(path): path.read_bytes() for path in Path(".").rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
@given(data=st.data())
def test_random_command_lines_end_well(papilio, name, data):
    words = data.draw(command_lines(name))
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        make_files()
        before = files()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            code, output, errors = papilio(*words)
        close_figures()
        assert code in (0, 1, 2)
        assert "Traceback" not in output + errors
        assert "PAPILIO_DEBUG=1 shows where" not in errors  # an error that nobody foresaw
        assert code == 0 or errors.strip()
        written = ("-o", "--output", "--report", "--checkpoint")
        asked = [os.path.normpath(word) for option, word in pairwise(words) if option in written]
        changed = {name for name, content in files().items() if before.get(name) != content}
        assert all(any(name == each or name.startswith(each + os.sep) for each in asked) for name in changed)
        assert before.keys() <= files().keys()
        assert code != 0 or "run.ckpt" not in changed  # the run is finished
