"""Random command lines, run in this process: they end with a known exit code, and leave what was asked for."""

import contextlib
import io
import os
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io

import papilio as pp

from .case import Failed, noting

Rng = np.random.Generator
_ODD = (
    "",
    "0",
    "1",
    "2",
    "-1",
    "nan",
    "inf",
    "1e400",
    "0.5",
    "1e-300",
    "99999999999999999999",
    "é",
    "x",
    "3.7",
    "4x4",
    ".",
)
_MATRICES = ("hadamard:8", "dft:8", "dct:8", "haar:8", "m.npy", "m.csv", "m.mat", "m.mtx", "op.npz", "img.png")
_STRANGE = (
    "missing.npy",
    "empty.npy",
    "nan.npy",
    "words.csv",
    "folder",
    "zero.npy",
    "deep.npy",
    "hadamard:7",
    "dct:0",
)
_STRANGE += ("dct:x", ":", "op.npz:none", "patches:999", "noisy:x", "-", "/dev/null", "huge.csv", "complex.npy")
_SAMPLES = ("x.npy", "x.csv", "shards", "patches:2")
_OPERATORS = ("op.npz", "hadamard:8", "m.npy")
# For each command: its inputs, the suffix of its output, and options with values that it takes.
COMMANDS: dict[str, tuple[list[tuple[str, ...]], str | None, dict[str, tuple[str, ...]]]] = {
    "factorize": (
        [_MATRICES],
        ".npz",
        {
            "--complexity": ("0.5", "0.9"),
            "--max-error": ("0.3",),
            "--n-factors": ("2", "3"),
            "--time-budget": ("1",),
        }
        | {
            "--method": ("auto", "low_rank", "thresholding", "butterfly"),
            "--block": ("2x2", "2"),
            "--random-state": ("3",),
        }
        | {"--speedup": ("1.5",), "--vectors": ("16",), "--report": ("page.html",), "--json": (), "--quiet": ()},
    ),
    "learn": (
        [_SAMPLES],
        ".npz",
        {
            "--n-components": ("8",),
            "--n-nonzero-coefs": ("2",),
            "--positive": (),
            "--method": ("fast", "ksvd", "online", "sparse-ksvd"),
        }
        | {
            "--complexity": ("0.8",),
            "--n-factors": ("2",),
            "--block": ("1",),
            "--patches": ("2",),
            "--n-patches": ("50",),
        }
        | {
            "--checkpoint": ("run.ckpt",),
            "--random-state": ("3",),
            "--report": ("page.html",),
            "--json": (),
            "--quiet": (),
        },
    ),
    "tradeoff": (
        [_MATRICES[:6]],
        "",
        {
            "--points": ("2", "3"),
            "--n-factors": ("2",),
            "--n-components": ("8",),
            "--n-nonzero-coefs": ("2",),
            "--json": (),
        }
        | {"--random-state": ("3",), "--quiet": ()},
    ),
    "encode": (
        [("x.npy", "x.csv"), ("d.npz", "d.npy")],
        ".npz .mtx .mat",
        {"--n-nonzero-coefs": ("2",), "--tol": ("0.1",), "--positive": (), "--json": (), "--quiet": ()},
    ),
    "apply": (
        [_OPERATORS, _MATRICES],
        ".npy .csv .mat",
        {"--adjoint": (), "--rows": (), "--json": (), "--quiet": ()},
    ),
    "denoise": (
        [("img.png", "grey.npy")],
        ".png .npy .tif",
        {"--sigma": ("20",), "--n-components": ("16",), "--complexity": ("0.8",), "--stride": ("3",), "--json": ()}
        | {"--dictionary": ("d16.npz",), "--random-state": ("3",), "--quiet": ()},
    ),
    "info": ([_MATRICES], None, {"--json": (), "--quiet": ()}),
    "plot": (
        [_OPERATORS],
        ".png .svg",
        {
            "--kind": ("factors", "atoms"),
            "--target": ("hadamard:8",),
            "--atom-shape": ("2x4",),
            "--json": (),
            "--quiet": (),
        },
    ),
    "bench": ([_OPERATORS], None, {"--block": ("4",), "--json": (), "--quiet": ()}),
    "report": (
        [_OPERATORS],
        ".html",
        {
            "--target": ("hadamard:8",),
            "--samples": ("x.npy",),
            "--n-nonzero-coefs": ("2",),
            "--json": (),
            "--quiet": (),
        },
    ),
}
# Options whose values say how long to work: odd ones would be obeyed.
_PATIENT = ("--time-budget", "--points", "--n-patches")
_WRITTEN = ("-o", "--output", "--report", "--checkpoint")


def prepare() -> None:
    """Run some commands, which compile what the others need."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            make_files()
            call(["factorize", "m.npy", "-o", "o.npz", "--complexity", "0.5"])
            call(["plot", "o.npz", "-o", "o.png"])
            for method in ("fast", "ksvd", "online", "sparse-ksvd"):
                call(["learn", "x.npy", "-o", "o.npz", "--method", method])
        finally:
            os.chdir(before)


def make_files() -> None:
    """Small inputs of every kind, sound and unsound, in the working directory."""
    from PIL import Image

    rng = np.random.default_rng(0)
    M, X = rng.standard_normal((8, 8)), rng.standard_normal((40, 6))
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
    np.save("d.npy", rng.standard_normal((6, 9)))
    pp.SparseProduct([rng.standard_normal((6, 9))]).save("d.npz")
    pp.SparseProduct([np.eye(16)]).save("d16.npz")
    Image.fromarray(rng.integers(0, 256, (16, 14, 3)).astype(np.uint8)).save("img.png")
    np.save("grey.npy", rng.random((16, 14)))
    np.save("empty.npy", np.empty((0, 4)))
    np.save("nan.npy", np.full((4, 4), np.nan))
    np.save("zero.npy", np.zeros((8, 8)))
    np.save("deep.npy", np.zeros((2, 3, 4)))
    np.save("complex.npy", M + 1j)
    Path("words.csv").write_text("a,b\nc,d\n")
    Path("huge.csv").write_text("1e308,1e308\n1e308,-1e308\n")
    os.mkdir("folder")


def command_line(rng: Rng) -> list[str]:
    """Words after ``papilio``; about half of all lines are usable."""
    name = list(COMMANDS)[rng.integers(len(COMMANDS))]
    inputs, suffixes, options = COMMANDS[name]
    strange = rng.integers(3) == 0
    words = [name, *(_any(rng, _STRANGE if strange and rng.integers(2) else each) for each in inputs)]
    if suffixes is not None:
        suffix = (
            _any(rng, suffixes.split() or ("",)) if rng.integers(12) else _any(rng, (".xyz", "", ".npz", ".PNG"))
        )
        words += ["-o", _any(rng, ("folder/", "", "none/", "")) + "out" + suffix]
    odd = rng.integers(2) == 0
    for option, values in options.items():
        needed = option in ("--sigma", "--time-budget", "--points", "--n-patches")
        if needed or rng.integers(3) == 0:
            words.append(option)
            if values:
                replaced = odd and option not in _PATIENT and rng.integers(3) == 0
                words.append(_any(rng, _ODD if replaced else values))
    if name == "bench":
        words += ["--seconds", "0.01"]
    if rng.integers(15) == 0:
        words.insert(
            int(rng.integers(len(words) + 1)), _any(rng, (*_ODD, "--nonsense", "--help", "--version", "--"))
        )
    return words


def _any(rng: Rng, values: tuple[str, ...] | list[str]) -> str:
    return str(values[rng.integers(len(values))])


def run(rng: Rng, folder: str) -> None:
    make_files()
    words = command_line(rng)
    before = _files()
    with noting(lambda: f"papilio {' '.join(map(repr, words))}"):
        code, output, errors = call(words)
        if code not in (0, 1, 2):
            raise Failed(f"the exit code is {code}")
        for text in (output, errors):
            if "Traceback" in text or "PAPILIO_DEBUG=1 shows where" in text:
                raise Failed(f"an error that nobody foresaw: {text.strip()[-300:]}")
        if code and not errors.strip():
            raise Failed(f"exit code {code} without a word")
        _check_files(words, before, code)


def call(words: list[str]) -> tuple[Any, str, str]:
    """The exit code, the output and the errors of a command in this process."""
    from papilio.cli import app

    output, errors, given = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["papilio", *words]
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            code = app.run()
    finally:
        sys.argv = given
    return code, output.getvalue(), errors.getvalue()


def _files() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path(".").rglob("*") if path.is_file()}


def _check_files(words: list[str], before: dict[str, bytes], code: int) -> None:
    """New files are those that were asked for, or in a folder that was; no other file has changed."""
    asked = [os.path.normpath(word) for mark, word in pairwise(words) if mark in _WRITTEN]
    for path, content in _files().items():
        wanted = any(path == each or path.startswith(each + os.sep) for each in asked)
        if path not in before and not wanted:
            raise Failed(f"{path} was left behind by exit code {code}")
        if path in before and content != before[path] and not wanted:
            raise Failed(f"{path} was changed")
        if wanted and code == 0 and path == "run.ckpt":
            raise Failed("the checkpoint of a finished run was left behind")
    if gone := before.keys() - _files().keys():
        raise Failed(f"{', '.join(sorted(gone))} was removed")
