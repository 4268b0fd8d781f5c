"""PyTorch is optional: what needs it says so, and nothing else loads it."""

import subprocess
import sys

import pytest

HIDDEN = "import sys; sys.modules['torch'] = None; import papilio as pp; "


def run(code):
    return subprocess.run([sys.executable, "-c", HIDDEN + code], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("code", ["import papilio.torch", "pp.transforms.hadamard(4).to_torch()"])
def test_a_missing_pytorch_is_named(code):
    done = run(code)
    assert done.returncode == 1
    assert "ImportError: papilio.torch needs PyTorch: pip install torch" in done.stderr


def test_operators_work_without_it():
    done = run("assert (pp.transforms.hadamard(4) @ [1.0, 0, 0, 0]).sum() == 4")
    assert done.returncode == 0, done.stderr
