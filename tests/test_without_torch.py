"""PyTorch, JAX and ONNX are optional: what needs them says so, and nothing else loads them."""

import subprocess
import sys

import pytest

HIDDEN = "import sys; sys.modules.update(torch=None, jax=None, onnx=None); import papilio as pp; "


def run(code):
    return subprocess.run([sys.executable, "-c", HIDDEN + code], capture_output=True, text=True)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import papilio.torch", "papilio.torch needs PyTorch: pip install torch"),
        ("pp.transforms.hadamard(4).to_torch()", "papilio.torch needs PyTorch: pip install torch"),
        ("pp.transforms.hadamard(4).to_jax()", "to_jax needs JAX: pip install jax"),
        ("pp.transforms.hadamard(4).export('op.onnx')", "export to ONNX needs the package onnx: pip install onnx"),
    ],
)
def test_missing_packages_are_named(code, message):
    done = run(code)
    assert done.returncode == 1
    assert f"ImportError: {message}" in done.stderr


def test_operators_work_without_them():
    done = run("assert (pp.transforms.hadamard(4) @ [1.0, 0, 0, 0]).sum() == 4")
    assert done.returncode == 0, done.stderr
