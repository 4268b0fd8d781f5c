"""`compress`: which layers it replaces, and what it reports."""

import pytest

torch = pytest.importorskip("torch", reason="papilio.torch needs the extra torch")

from papilio.torch import FastLinear, compress, compression  # noqa: E402

nn = torch.nn


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(16, 8), nn.Linear(8, 16, bias=False)
        self.inner = nn.Sequential(nn.Linear(8, 8), nn.modules.linear.NonDynamicallyQuantizableLinear(8, 8))
        self.head.weight = self.embedding.weight

    def forward(self, x):
        return self.head(self.inner(self.embedding(x)))


def low_rank(n_in, n_out):
    torch.manual_seed(0)
    linear = nn.Linear(n_in, n_out)
    linear.weight.data = torch.outer(torch.randn(n_out), torch.randn(n_in))
    return linear


def test_layers_that_are_smaller_are_replaced_in_a_copy():
    model = nn.Sequential(low_rank(32, 16), nn.ReLU(), nn.Sequential(low_rank(16, 8)))
    found = compress(model, max_error=1e-3, gain="entries", method="low_rank")
    assert [type(module) for module in (model[0], model[2][0])] == [nn.Linear] * 2
    assert [type(module) for module in (found.model[0], found.model[2][0])] == [FastLinear] * 2
    x = torch.randn(3, 32)
    torch.testing.assert_close(found.model(x), model(x), rtol=1e-3, atol=1e-3)
    assert [layer.name for layer in found.layers] == ["0", "2.0"]
    assert all(layer.is_replaced and layer.error < 1e-3 and layer.complexity < 0.3 for layer in found.layers)
    lines = str(found).splitlines()
    assert lines[1].split()[:2] == ["0", "16×32"]
    assert lines[-1].startswith("2 of 2 layers replaced; 640 entries before, ")


def test_in_place_changes_the_model_itself():
    model = nn.Sequential(low_rank(16, 16))
    assert compress(model, complexity=0.5, gain="entries", in_place=True, method="low_rank").model is model
    assert type(model[0]) is FastLinear


def test_a_layer_alone_is_a_model():
    assert type(compress(low_rank(16, 16), complexity=0.5, gain="entries", method="low_rank").model) is FastLinear


def test_layers_that_others_rely_on_are_kept():
    found = compress(Tied(), complexity=0.9, gain="entries", method="low_rank")
    assert [(layer.name, layer.is_replaced, layer.reason) for layer in found.layers] == [
        ("head", False, "its matrix is shared"),
        ("inner.0", True, ""),
        ("inner.1", False, "of class NonDynamicallyQuantizableLinear"),
    ]
    assert "kept: its matrix is shared" in str(found)
    assert found.model(torch.tensor([1, 2])).shape == (2, 16)


@pytest.mark.parametrize(("ratio", "is_replaced"), [(1.5, True), (0.8, False)])
def test_seconds_decide_by_default(ratio, is_replaced, monkeypatch):
    monkeypatch.setattr(compression, "_speedup", lambda *_: ratio)
    found = compress(nn.Sequential(low_rank(16, 16)), complexity=0.5, method="low_rank")
    (layer,) = found.layers
    assert (layer.is_replaced, layer.speedup) == (is_replaced, ratio)
    assert (type(found.model[0]) is FastLinear) == is_replaced
    assert layer.reason == ("" if is_replaced else "not faster")


def test_the_speedup_is_that_of_the_calls():
    slow, fast = nn.Linear(1024, 1024), FastLinear(1024, 1024, complexity=0.05)
    assert compression._speedup(slow, fast, 64) > 1
    assert compression._speedup(slow, nn.Sequential(slow, slow, slow), 64) < 1


def test_bad_input_is_named():
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module, got list"):
        compress([], complexity=0.5)
    with pytest.raises(ValueError, match="gain must be one of"):
        compress(nn.Linear(4, 4), gain="more")
    with pytest.raises(ValueError, match="vectors must be"):
        compress(nn.Linear(4, 4), vectors=0)


def correlated(n_samples, n):
    torch.manual_seed(1)
    return torch.randn(n_samples, n) @ (torch.randn(n, n) * 0.7 ** torch.arange(n)[:, None])


@torch.no_grad()
def output_error(before, after, x):
    return float((before(x) - after(x)).norm() / before(x).norm())


@pytest.mark.parametrize(
    "as_data", [lambda x: x, lambda x: x.split(64), lambda x: [{"input": x}], lambda x: [(x,)]]
)
def test_data_lower_the_errors_of_outputs(as_data):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Dropout(), nn.Linear(24, 8)).train()
    x, options = correlated(400, 16), {"complexity": 0.5, "gain": "entries", "method": "low_rank"}
    plain, found = compress(model, **options), compress(model, data=as_data(x[:200]), **options)
    assert all(part.training for part in found.model)
    dense, *others = (each.eval() for each in (model, plain.model, found.model))
    errors = [output_error(dense, each, x[200:]) for each in others]
    assert errors[1] < 0.8 * errors[0]
    first = found.layers[0]
    assert 0 < first.error < 2 * errors[0]
    assert first.matrix_error > first.error
    assert "of the matrix" in str(found)
    assert "of the matrix" not in str(plain)


class Reversed(nn.Module):
    """Layers that are called in another order than they are listed, and one that is not called."""

    def __init__(self):
        super().__init__()
        self.last, self.unused, self.first = nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(12, 12)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))


def test_layers_see_what_the_replaced_ones_before_them_give(monkeypatch):
    torch.manual_seed(0)
    seen, from_linear = [], FastLinear.from_linear

    def watched(layer, *, inputs, **options):
        seen.append(inputs)
        return from_linear(layer, inputs=inputs, **options)

    monkeypatch.setattr(FastLinear, "from_linear", watched)
    model, x = Reversed(), correlated(50, 12)
    found = compress(model, data=x, complexity=0.6, gain="entries", method="low_rank")
    assert [layer.name for layer in found.layers] == ["last", "unused", "first"]
    assert seen[2] is None
    for sums, rows in zip(seen, (x, torch.relu(found.model.first(x)).detach()), strict=False):
        gram = (rows - rows.mean(0)).double()
        gram = gram.T @ gram
        torch.testing.assert_close(torch.from_numpy(sums.gram), gram, rtol=1e-4, atol=1e-4)
    means = [each(x).mean(0) for each in (model.first, found.model.first)]
    torch.testing.assert_close(*means, rtol=1e-4, atol=1e-4)


def test_in_place_all_or_nothing():
    model = nn.Sequential(nn.Linear(12, 12), nn.Linear(12, 12))
    model[1].register_forward_pre_hook(lambda layer, args: (args[0] * float("nan") if is_replaced() else args[0],))

    def is_replaced():
        return type(model[0]) is FastLinear

    with pytest.raises(ValueError, match="data must give finite inputs"):
        compress(model, data=correlated(20, 12), complexity=0.6, gain="entries", method="low_rank", in_place=True)
    assert not is_replaced()


@pytest.mark.parametrize(("data", "error"), [([], ValueError), ([1], TypeError), (3, TypeError)])
def test_bad_data_are_named(data, error):
    with pytest.raises(error, match="data"):
        compress(nn.Sequential(nn.Linear(8, 8)), data=data, complexity=0.5, method="low_rank")
