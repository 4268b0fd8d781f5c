"""Products with arrays of other libraries, against those with NumPy's arrays."""

import importlib
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import papilio as pp

DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
random = np.random.default_rng(0)


def ragged(n_rows, n_columns):
    """Rows with different numbers of entries, one of them empty."""
    matrix = random.standard_normal((n_rows, n_columns)) * (random.random((n_rows, n_columns)) < 0.3)
    matrix[2] = 0
    return matrix


OPERATORS = {
    "butterflies": 0.5 * pp.transforms.hadamard(16),
    "complex": pp.transforms.dft(8),
    "passes": pp.transforms.haar(8),
    "ragged": pp.SparseProduct([ragged(30, 24), ragged(24, 40)], scale=0.3),
    "dense": pp.SparseProduct([random.standard_normal((5, 3)), ragged(3, 7)]),
    "blocks": pp.SparseProduct([sp.block_diag([random.standard_normal((3, 4))] * 5), np.eye(20)]),
    "zero": pp.SparseProduct([np.zeros((3, 4))]),
}


@pytest.fixture(params=["torch", "jax.numpy", "array_api_strict"])
def xp(request):
    if request.param != "jax.numpy":
        yield pytest.importorskip(request.param)
        return
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield importlib.import_module(request.param)
    jax.config.update("jax_enable_x64", before)


def vectors(op, shape, dtype):
    shape = (*shape[:-1], op.shape[1], *shape[-1:])
    x = random.standard_normal(shape).astype(dtype)
    return x * (1 + 2j) if x.dtype.kind == "c" else x


def assert_equals(found, expected):
    found = np.asarray(found)
    assert found.dtype == expected.dtype
    atol = 200 * np.finfo(expected.dtype).eps * max(np.abs(expected).max(), 1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPERATORS)
def test_products_are_those_of_numpy(xp, name, dtype):
    op = OPERATORS[name].astype(np.result_type(dtype, np.complex64) if name == "complex" else dtype)
    for each, shape in ((op, ()), (op.H, (4,)), (op.T, (2, 3, 4)), (op[1:3], (4,))):
        x = vectors(each, shape, dtype)
        given = xp.asarray(x)
        for found in (each @ given, each.to(xp) @ given):
            assert type(found) is type(given)
            assert_equals(found, each @ x)


def test_vectors_from_the_left(xp):
    if xp.__name__ == "array_api_strict":
        pytest.skip("its arrays refuse other operands")
    op, x = OPERATORS["ragged"], random.standard_normal((5, 30))
    for given in (x, x[0]):
        assert_equals(xp.asarray(given) @ op, given @ op)


def test_the_device_comes_back():
    strict = pytest.importorskip("array_api_strict")
    op, device = OPERATORS["ragged"], strict.Device("device1")
    x = strict.asarray(random.standard_normal(40), device=device)
    for found in (op @ x, op.to(strict, device) @ x, op.to(strict, device).H.H @ x):
        assert found.device == device


def test_bad_input_is_named(xp):
    op = OPERATORS["ragged"]
    for product in (lambda x: op @ x, lambda x: op.to(xp) @ x):
        with pytest.raises(ValueError, match="x must be a vector of 40 entries or a block"):
            product(xp.ones(3))
    with pytest.raises(TypeError, match="namespace must be a module of the array API"):
        op.to(np.linalg)


@pytest.mark.parametrize("name", OPERATORS)
def test_transformations_of_jax(name):
    jax = pytest.importorskip("jax")
    op = OPERATORS[name].astype(np.complex64 if name == "complex" else np.float32)
    X = random.standard_normal((3, op.shape[1])).astype(np.float32)

    def loss(x):
        return (op @ x).real.sum()

    for _ in range(2):  # nothing that belongs to the first trace is kept
        assert_equals(jax.jit(lambda X: op @ X)(X.T), op @ X.T)
        assert_equals(jax.vmap(lambda x: op @ x)(X), (op @ X.T).T)
        assert_equals(jax.grad(loss)(X[0]), (op.T @ np.ones(op.shape[0], np.float32)).real)
    apply, params = op.to_jax()
    assert_equals(jax.jit(apply)(params, X.T), op @ X.T)


def test_entries_have_gradients_in_jax():
    jax = pytest.importorskip("jax")
    op = OPERATORS["ragged"].astype(np.float32)
    apply, params = op.to_jax()
    assert [param.size for param in params] == [factor.nnz for factor in op.factors]
    x = random.standard_normal(40).astype(np.float32)
    found = jax.grad(lambda params: apply(params, x).sum())(params)
    left, right = (factor.toarray() for factor in op.factors)
    by_right = op.scale * np.outer(left.sum(axis=0), x)[right != 0]
    by_left = op.scale * np.outer(np.ones(30), right @ x)[left != 0]
    np.testing.assert_allclose(found[0], by_left, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found[1], by_right, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["ragged", "complex"])
def test_transformations_of_torch(name):
    torch = pytest.importorskip("torch")
    op = OPERATORS[name]
    x = torch.from_numpy(random.standard_normal((op.shape[1], 3))).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: op @ x, x)
    assert torch.autograd.gradgradcheck(lambda x: op @ x, x)
    torch.testing.assert_close(torch.func.vmap(lambda x: op @ x, 1, 1)(x), op @ x)
    prepared = op.to(torch)
    compiled = torch.compile(lambda x: prepared(x), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), op @ x)
    (found,) = torch.autograd.grad(compiled(x).real.sum(), x)
    expected = (op.T @ torch.ones(op.shape[0], dtype=torch.float64)).real
    torch.testing.assert_close(found, expected[:, None].expand(-1, 3))


DISPATCHES = """
import numpy as np, sklearn, papilio as pp, array_api_strict as xp
X = np.random.default_rng(0).standard_normal((60, 8))
model = pp.KSVD(10, 2, max_iter=2, random_state=0).fit(X)
given = xp.asarray(X, device=xp.Device("CPU_DEVICE"))
with sklearn.config_context(array_api_dispatch=True):
    codes = model.transform(given)
assert type(codes) is type(given) and codes.device == given.device
assert (np.asarray(codes) == model.transform(X)).all()
"""


def test_codes_are_arrays_of_the_library_with_scikit_learns_dispatch():
    pytest.importorskip("array_api_strict")
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}  # scikit-learn wants it before SciPy is imported.
    command = [sys.executable, "-c", DISPATCHES]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
