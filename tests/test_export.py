"""Exported operators, compiled and run, against the operators."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
import scipy.sparse as sp

import papilio as pp

random = np.random.default_rng(0)


def ragged(n_rows, n_columns):
    matrix = random.standard_normal((n_rows, n_columns)) * (random.random((n_rows, n_columns)) < 0.3)
    matrix[2] = 0
    return matrix


def learned():
    """A dictionary of 4×4 blocks."""
    schedule = pp.Schedule.with_complexity((32, 32), 0.6, None, 4)
    signals = random.standard_normal((32, 200))
    return pp.dictionary.fast_dictionary(signals, schedule, 3, max_iter=5, random_state=0).dictionary


OPERATORS = {
    "hadamard64": lambda: pp.transforms.hadamard(64),
    "hadamard1024": lambda: pp.transforms.hadamard(1024).astype(np.float32),
    "dct": lambda: pp.transforms.dct(32),
    "wavelet": lambda: pp.transforms.haar(64),
    "learned": learned,
    "dft": lambda: pp.transforms.dft(32),
    "dft32": lambda: pp.transforms.dft(16).astype(np.complex64),
    "2 ragged": lambda: pp.SparseProduct([ragged(30, 24), ragged(24, 40)], scale=0.3),
    "blocks": lambda: pp.SparseProduct([sp.block_diag([random.standard_normal((7, 4))] * 5), np.eye(20)]),
    "dense": lambda: pp.SparseProduct([random.standard_normal((9, 3))]),
    "zero": lambda: pp.SparseProduct([np.zeros((3, 4))]),
}


def assert_equals(found, expected):
    scale = max(float(np.abs(expected).max()), 1.0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=50 * np.finfo(expected.dtype).eps * scale)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("name", OPERATORS)
def test_the_c_file_multiplies(name, compiler, tmp_path):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    op = OPERATORS[name]()
    op.export(tmp_path / f"{name}.c")
    flags = ["-Wall", "-Wextra", "-Werror", "-std=c99", "-pedantic", "-O2", "-shared", "-fPIC", "-nostdlib"]
    command = [compiler, *flags, "-o", "op.so", f"{name}.c"]
    subprocess.run(command, check=True, cwd=tmp_path)
    functions = ctypes.CDLL(str(tmp_path / "op.so"))
    prefix = "op_2_ragged" if name == "2 ragged" else name
    for function, each in ((f"{prefix}_apply", op), (f"{prefix}_adjoint", op.H)):
        x = random.standard_normal(each.shape[1]).astype(op.dtype)
        x = x * (1 + 2j) if op.dtype.kind == "c" else x
        y, scratch = np.full(each.shape[0], np.nan, op.dtype), np.full(4096, np.nan, op.dtype)
        getattr(functions, function)(*(ctypes.c_void_p(array.ctypes.data) for array in (x, y, scratch)))
        assert_equals(y, each @ x)


@pytest.mark.parametrize("name", OPERATORS)
def test_onnx_multiplies(name, tmp_path):
    pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    op = OPERATORS[name]()
    op = op.real if op.dtype.kind == "c" else op
    op.export(tmp_path / "op.onnx")
    x = random.standard_normal((op.shape[1], 5)).astype(op.dtype)
    (y,) = onnxruntime.InferenceSession(tmp_path / "op.onnx").run(None, {"x": x})
    assert y.dtype == op.dtype
    assert_equals(y, op @ x)


def test_bad_input_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"path must end in \.c or \.onnx, got"):
        pp.transforms.dft(4).export(tmp_path / "op.npz")
    pytest.importorskip("onnx")
    with pytest.raises(TypeError, match="ONNX multiplies real matrices only"):
        pp.transforms.dft(4).export(tmp_path / "op.onnx")
