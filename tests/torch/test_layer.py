"""`FastLinear`: its entries, gradients, forms and state, against dense layers and plain PyTorch."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

torch = pytest.importorskip("torch", reason="papilio.torch needs the extra torch")

import papilio as pp  # noqa: E402
from papilio.torch import FastLinear  # noqa: E402
from papilio.torch.patterns import spread_supports  # noqa: E402

nn = torch.nn


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def by_weight(layer, x):
    """What a dense layer with the same matrix gives."""
    return nn.functional.linear(x, layer.weight, layer.bias)


def ragged(dtype=torch.float64):
    """A layer with different numbers of entries in its rows, one of them empty, and with a scale."""
    random = np.random.default_rng(0)
    masks = [random.random(shape) < 0.4 for shape in ((7, 6), (6, 9))]
    masks[0][3] = False
    layer = FastLinear(9, 7, dtype=dtype, supports=[mask.astype(float) for mask in masks])
    layer.scale = 0.5
    return layer


# -- values and gradients ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [ragged, lambda: FastLinear(32, 24, dtype=torch.float64, complexity=0.4, block=4)]
)
@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (0,)])
def test_the_output_is_that_of_the_dense_layer(make, shape):
    layer = make()
    x = torch.randn(*shape, layer.in_features, dtype=torch.float64)
    expected = by_weight(layer, x)
    assert layer(x).shape == expected.shape
    torch.testing.assert_close(layer(x), expected)
    with torch.no_grad():  # Another kernel runs.
        torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_gradients_are_those_of_differences(dtype):
    layer = ragged(dtype)
    x = torch.randn(4, 9, dtype=dtype, requires_grad=True)

    def call(x, entries, bias):
        return torch.func.functional_call(layer, {"entries": entries, "bias": bias}, (x,))

    assert torch.autograd.gradcheck(call, (x, layer.entries, layer.bias))
    assert torch.autograd.gradgradcheck(call, (x, layer.entries, layer.bias))


def test_only_parameters_that_require_it_get_a_gradient():
    layer = ragged()
    layer(torch.randn(3, 9, dtype=torch.float64)).sum().backward()
    assert layer.entries.grad.abs().sum() > 0
    layer.requires_grad_(False)
    x = torch.randn(3, 9, dtype=torch.float64, requires_grad=True)
    layer(x).sum().backward()
    torch.testing.assert_close(x.grad, layer.weight.sum(dim=0).expand(3, 9))


@pytest.mark.parametrize("make", [ragged, lambda: FastLinear(32, 24, dtype=torch.float64, complexity=0.4)])
def test_gradients_are_those_of_the_dense_layer(make):
    layer = make()
    x = torch.randn(5, layer.in_features, dtype=torch.float64, requires_grad=True)
    y = by_weight(layer, x)
    torch.testing.assert_close(layer(x), y)
    ours, theirs = (torch.autograd.grad(each.pow(2).sum(), (x, layer.entries)) for each in (layer(x), y))
    torch.testing.assert_close(ours, theirs)


def test_inputs_in_any_memory_order():
    layer = ragged()
    x = torch.randn(9, 6, dtype=torch.float64).T
    torch.testing.assert_close(layer(x), by_weight(layer, x))
    layer, x = ragged(torch.complex128), torch.randn(6, 9, dtype=torch.complex128)
    torch.testing.assert_close(layer(x.conj()), by_weight(layer, x.conj()))


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_is_stored_and_computed_in_single(half):
    layer = FastLinear(32, 32, complexity=0.5).to(half)
    x = torch.randn(4, 32, dtype=half)
    y = layer(x)
    assert y.dtype == layer.entries.dtype == half
    exact = by_weight(copy.deepcopy(layer).double(), x.double())
    torch.testing.assert_close(y.double(), exact, rtol=2 * torch.finfo(half).eps, atol=1e-4)
    y.sum().backward()
    assert layer.entries.grad.dtype == half


# -- forms ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "op",
    [
        pp.transforms.hadamard(16),
        pp.transforms.dft(8),
        pp.transforms.haar(8).astype(np.float32) * 3.7,
        pp.SparseProduct([np.ones((3, 2)), sp.random_array((2, 5), density=0.5, rng=0)], scale=-0.1),
    ],
    ids=["hadamard", "dft", "scaled haar", "dense and sparse"],
)
def test_operators_come_back_as_they_were(op):
    layer = op.to_torch()
    assert layer.to_operator() == op
    assert layer.bias is None
    X = np.random.default_rng(0).standard_normal((3, op.shape[1])).astype(op.dtype)
    np.testing.assert_allclose(layer(torch.from_numpy(X)).detach().numpy(), (op @ X.T).T, rtol=1e-5, atol=1e-6)
    assert torch.from_numpy(op.toarray()).allclose(layer.weight)


def relative(found, target):
    return float(((found - target).norm() / target.norm()).detach())


def test_from_linear_reports_its_error():
    linear = nn.Linear(24, 16)
    layer = FastLinear.from_linear(linear, complexity=0.5, method="low_rank")
    assert layer.relative_complexity <= 0.5
    assert layer.error == pytest.approx(relative(layer.weight, linear.weight), rel=1e-4)
    assert f"error={layer.error:.3g}" in repr(layer)
    assert torch.equal(layer.bias, linear.bias)
    low_rank = nn.Linear(24, 16, bias=False, dtype=torch.bfloat16)
    low_rank.weight.data = torch.outer(torch.arange(16.0), torch.arange(24.0)).to(torch.bfloat16)
    layer = FastLinear.from_linear(low_rank, max_error=0.05, method="low_rank")
    assert layer.error <= 0.05
    assert layer.relative_complexity < 0.2
    assert layer.entries.dtype == torch.bfloat16


def test_state_comes_back_with_its_supports(tmp_path):
    layer, other = ragged(), ragged()
    layer.reset_parameters()
    layer.scale = 0.25
    x = torch.randn(3, 9, dtype=torch.float64)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other(x), layer(x))
    torch.save(layer.state_dict(), tmp_path / "state.pt")
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert other.to_operator() == layer.to_operator()


def test_a_state_with_other_supports_is_taken_over():
    masks = [np.array([[1, 1, 0], [0, 0, 1]]), np.array([[0, 1, 1], [1, 0, 0]])]
    layer, other = (FastLinear(3, 2, supports=[mask], dtype=torch.float64) for mask in masks)
    other.load_state_dict(layer.state_dict())
    assert other.to_operator() == layer.to_operator()
    x = torch.randn(4, 3, dtype=torch.float64)
    torch.testing.assert_close(other(x), by_weight(layer, x))
    torch.testing.assert_close(other.weight, layer.weight)


@pytest.mark.parametrize(
    ("name", "place", "value"), [("columns", -1, 9), ("columns", 0, -1), ("pointers", 1, -1), ("sizes", 0, 6)]
)
def test_a_damaged_state_is_refused(name, place, value):
    layer, x = ragged(), torch.randn(3, 9, dtype=torch.float64)
    state = copy.deepcopy(layer.state_dict())
    state[name][place] = value
    with pytest.raises(RuntimeError, match=r"columns, pointers and sizes must describe factors"):
        layer.load_state_dict(state)
    torch.testing.assert_close(layer(x), by_weight(layer, x))


@pytest.mark.parametrize("strict", [True, False])
def test_a_state_of_another_size_is_refused_as_pytorch_does(strict):
    layer, other = FastLinear(16, 8, complexity=0.5), FastLinear(16, 8, complexity=0.75)
    expected = layer(torch.ones(16))
    with pytest.raises(RuntimeError, match=r"size mismatch for entries: copying a param with shape"):
        layer.load_state_dict(other.state_dict(), strict=strict)
    assert layer(torch.ones(16)).shape == expected.shape


def test_supports_that_change_in_place_are_seen():
    layer, x = FastLinear(3, 2, supports=[np.eye(2, 3)]), torch.randn(4, 3)
    layer(x)
    layer.columns[:] = torch.tensor([2, 1])
    y = layer(x) - layer.bias
    torch.testing.assert_close(y, x[:, [2, 1]] * layer.entries)
    layer.columns[0] = 3
    with pytest.raises(ValueError, match="factor 0 is broken"):
        layer(x)


def test_copies_and_pickles_work_by_themselves():
    layer, x = ragged(), torch.randn(2, 9, dtype=torch.float64)
    expected = layer(x)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(other(x), expected)
        other.entries.data.zero_()
    assert torch.equal(layer(x), expected)


def test_moves_keep_the_layer():
    layer = FastLinear(8, 8, device="meta")
    assert layer.entries.is_meta
    assert layer(torch.empty(3, 8, device="meta")).shape == (3, 8)
    layer = FastLinear(8, 8).double()
    assert layer(torch.ones(8)).dtype == torch.float64
    assert layer.columns.dtype == torch.int32


@pytest.mark.parametrize(
    "write",
    [nn.init.xavier_uniform_, lambda weight: weight.data.zero_(), lambda weight: weight.detach().fill_(1.0)],
    ids=["init", "data", "detached"],
)
def test_nothing_is_written_into_the_computed_weight(write):
    layer = FastLinear(8, 8)
    with pytest.raises(RuntimeError, match="weight is computed: write into entries"):
        write(layer.weight)


def test_entries_can_be_parametrized():
    class Twice(nn.Module):
        def forward(self, entries):
            return 2 * entries

    layer = FastLinear(8, 8, bias=False)
    expected = 4 * layer(torch.ones(8))  # There are two factors.
    nn.utils.parametrize.register_parametrization(layer, "entries", Twice())
    torch.testing.assert_close(layer(torch.ones(8)), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_gives_its_dtype(dtype):
    layer, linear, x = FastLinear(16, 8), nn.Linear(16, 8), torch.randn(3, 16)
    expected = layer(x)
    with torch.autocast("cpu", dtype=dtype):
        assert layer(x).dtype == linear(x).dtype == dtype
        torch.testing.assert_close(layer(x).float(), expected, rtol=2e-2, atol=1e-2)
        assert layer.double()(x.double()).dtype == torch.float64


# -- where it starts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{"complexity": 0.2}, {"complexity": 0.2, "block": 8}, {"complexity": 0.3, "n_factors": 4}],
    ids=["two factors", "blocks", "four factors"],
)
@pytest.mark.parametrize("shape", [(128, 128), (128, 64), (64, 128)])
def test_outputs_vary_as_those_of_linear_layers(shape, options):
    x = torch.randn(500, shape[0])

    def variance(make):
        with torch.no_grad():
            return torch.stack([make()(x).var() for _ in range(10)]).mean()

    fast = variance(lambda: FastLinear(*shape, **options))
    assert fast == pytest.approx(float(variance(lambda: nn.Linear(*shape))), rel=0.12)


def test_complex_entries_have_the_same_variance():
    layer = FastLinear(256, 256, bias=False, dtype=torch.complex128)
    with torch.no_grad():
        y = layer(torch.randn(200, 256))
    assert float(y.abs().pow(2).mean()) == pytest.approx(1 / 3, rel=0.12)


@pytest.mark.parametrize("sizes", [(64, 64, 64), (48, 48, 96), (17, 17, 23), (10, 10, 64), (64, 10, 10)])
@pytest.mark.parametrize("complexity", [0.4, 0.7, 1.0])
def test_supports_use_what_they_may_and_connect_everything(sizes, complexity):
    masks = spread_supports(sizes, complexity, 1)
    used = sum(mask.nnz for mask in masks) / (sizes[0] * sizes[-1])
    assert 0.6 * complexity < used <= complexity
    for mask in masks:
        assert len(set(np.diff(mask.indptr))) == 1
        assert np.bincount(mask.indices, minlength=mask.shape[1]).min() > 0
    connected = ((masks[0] @ masks[1]).toarray() > 0).mean()
    assert connected == 1 if 17 not in sizes else connected > 0.8  # uneven groups may overlap


def test_two_entries_per_row_are_a_butterfly():
    n = 16
    layer = FastLinear(n, n, bias=False, dtype=torch.float64, n_factors=4, complexity=2 * 4 / n)
    layer.entries.data = torch.tensor([1.0, 1.0, 1.0, -1.0], dtype=torch.float64).repeat(n // 2 * 4)
    H = layer.weight.detach().numpy()
    np.testing.assert_allclose(H, pp.transforms.hadamard(n).toarray())


def test_root_n_entries_per_row_are_block_diagonal_up_to_permutations():
    layer = FastLinear(16, 16, complexity=2 * 4 / 16)
    for factor in layer.to_operator().factors:
        order = np.argsort(factor.indices.reshape(16, 4)[:, 0], kind="stable")
        columns = np.unique(factor.indices.reshape(16, 4)[order], axis=0)
        blocks = factor.toarray()[order][:, columns.ravel()]
        assert (blocks != 0).tolist() == (np.kron(np.eye(4), np.ones((4, 4))) > 0).tolist()


# -- bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: FastLinear(0, 3), ValueError, "in_features must be"),
        (lambda: FastLinear(8, 8, complexity=0.01), ValueError, "complexity must be at least 0.25"),
        (lambda: FastLinear(8, 8, complexity=2), ValueError, "complexity must be"),
        (lambda: FastLinear(8, 9, block=4), ValueError, "out_features must be a multiple of block=4"),
        (lambda: FastLinear(8, 8, n_factors=1), ValueError, "n_factors must be"),
        (lambda: FastLinear(8, 8, bias="no"), TypeError, "bias must be True or False"),
        (lambda: FastLinear(2, 2, supports=[np.eye(2)], block=1), ValueError, "block and supports"),
        (lambda: FastLinear(2, 2, supports=[np.eye(3)]), ValueError, "supports must chain"),
        (lambda: FastLinear(2, 2, supports=[np.zeros((2, 2))]), ValueError, "supports must have entries"),
        (lambda: FastLinear(2, 2, supports=3), TypeError, "supports must be a sequence"),
        (lambda: FastLinear(4, 2)(torch.ones(3)), ValueError, "x must have 4 entries"),
        (lambda: FastLinear.from_operator(np.eye(2)), TypeError, "op must be a papilio.SparseProduct"),
        (
            lambda: FastLinear.from_operator(pp.transforms.haar(4), bias=torch.ones(3)),
            ValueError,
            "bias must be a tensor of 4 numbers",
        ),
        (lambda: FastLinear.from_linear(nn.ReLU(), complexity=0.5), TypeError, "layer must be a torch.nn.Linear"),
        (
            lambda: FastLinear.from_linear(nn.Linear(4, 4), complexity=0.5, max_error=0.1),
            ValueError,
            "cannot be combined",
        ),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_layer_is_projected_on_a_chain():
    linear = nn.Linear(24, 36)
    chain = pp.transforms.butterfly_chain((36, 24), n_factors=2)
    layer = FastLinear.from_linear(linear, supports=chain)
    fit = pp.butterfly(linear.weight.detach().numpy(), chain)
    assert layer.error == fit.error
    assert layer.to_operator() == fit.operator
    assert FastLinear(24, 36, supports=chain).entries.numel() == sum(pattern.nnz for pattern in chain)


def test_supports_without_a_best_fit_are_refused():
    supports = [np.tril(np.ones((4, 4))), np.triu(np.ones((4, 4)))]
    with pytest.raises(ValueError, match="supports must be chainable"):
        FastLinear.from_linear(nn.Linear(4, 4), supports=supports)
    with pytest.raises(ValueError, match="leave out the other options"):
        FastLinear.from_linear(nn.Linear(4, 4), supports=[(1, 4, 4, 1)], complexity=0.5)


@torch.no_grad()
@pytest.mark.parametrize("bias", [False, True])
def test_from_linear_with_inputs_fits_the_outputs(bias):
    torch.manual_seed(0)
    linear = torch.nn.Linear(16, 12, bias=bias)
    x = torch.randn(4, 50, 16) * 0.7 ** torch.arange(16) + bias
    options = {"complexity": 0.5, "method": "low_rank"}
    plain, fast = (FastLinear.from_linear(linear, inputs=inputs, **options) for inputs in (None, x))
    errors = [float((layer(x) - linear(x)).norm()) for layer in (plain, fast)]
    assert errors[1] < 0.7 * errors[0]
    deviations = linear(x) - linear(x).mean((0, 1)) * bias
    share = errors[1] / float(deviations.norm())
    assert share < fast.error < 2 * share  # Few samples leave some doubt.
    assert (plain.matrix_error, fast.matrix_error) == (None, pytest.approx(relative_matrix_error(fast, linear)))
    with pytest.raises(ValueError, match="inputs must have 16 entries along its last axis"):
        FastLinear.from_linear(linear, inputs=x.mT)


def relative_matrix_error(fast, linear):
    return float((fast.weight - linear.weight).norm() / linear.weight.norm())
