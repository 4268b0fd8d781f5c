"""Models with `FastLinear` that are traced, transformed and compiled, and that are right where they are loaded."""

import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="papilio.torch needs the extra torch")

from papilio.torch import FastLinear  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's exporters warn of much that is their own


@pytest.fixture
def model():
    """Even and ragged factors, an empty row, and a scale."""
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    masks = [random.random(shape) < 0.4 for shape in ((7, 6), (6, 12))]
    masks[0][3] = False
    last = FastLinear(12, 7, supports=[mask.astype(float) for mask in masks])
    last.scale = 0.5
    return nn.Sequential(FastLinear(16, 12, complexity=0.5), nn.ReLU(), last)


@pytest.fixture
def x():
    return torch.from_numpy(np.random.default_rng(1).standard_normal((5, 16), dtype=np.float32))


LOADS = """
import sys, torch
folder, alone = sys.argv[1:]
if alone == "False":
    from papilio.torch import FastLinear
    others = [FastLinear(2 * n, n, complexity=0.5)(torch.ones(2 * n)) for n in (8, 200)]
x, y = torch.load(f"{folder}/data.pt")
models = [torch.export.load(f"{folder}/exported.pt2").module(), torch.jit.load(f"{folder}/traced.pt")]
if alone == "False":
    models.append(torch.jit.load(f"{folder}/scripted.pt"))
    models.append(torch.load(f"{folder}/model.pt", weights_only=False))
for model in models:
    torch.testing.assert_close(model(x), y)
    torch.testing.assert_close(model(x[:2]), y[:2])
assert ("papilio" in sys.modules) == (alone == "False")
"""


@pytest.mark.slow
def test_saved_models_are_right_in_other_processes(model, x, tmp_path):
    batch = torch.export.Dim("batch")
    torch.export.save(torch.export.export(model, (x,), dynamic_shapes=({0: batch},)), tmp_path / "exported.pt2")
    torch.jit.trace(model, x).save(tmp_path / "traced.pt")
    torch.jit.script(model).save(tmp_path / "scripted.pt")
    torch.save(model, tmp_path / "model.pt")
    torch.save((x, model(x).detach()), tmp_path / "data.pt")
    for alone in (True, False):
        command = [sys.executable, "-W", "ignore", "-c", LOADS, str(tmp_path), str(alone)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def graph_of(name, model, x, folder):
    if name == "strict export":
        return torch.export.export(model, (x,), strict=True).module()
    if name == "export":
        return torch.export.export(model, (x,)).module()
    if name == "trace":
        return torch.jit.trace(model, x)
    if name == "script":
        return torch.jit.script(model)
    if name == "fx":
        return torch.fx.symbolic_trace(model)
    if name == "compile":
        return torch.compile(model, fullgraph=True, backend="aot_eager")
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    torch.onnx.export(model, (x,), folder / "model.onnx", dynamo=name == "onnx", verbose=False)
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    return lambda x: torch.from_numpy(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])


NAMES = ["strict export", "export", "trace", "script", "fx", "compile", "onnx", "onnx by trace"]


@pytest.mark.parametrize("name", NAMES)
def test_graphs_give_the_same_after_the_model_is_deleted(name, model, x, tmp_path):
    expected = model(x).detach()
    graph = graph_of(name, model, x, tmp_path)
    del model
    torch.testing.assert_close(graph(x).detach(), expected)


def test_compiled_models_have_the_same_gradients(model, x):
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    parameters = list(model.parameters())
    found, expected = (torch.autograd.grad(each(x).sum(), parameters) for each in (compiled, model))
    torch.testing.assert_close(found, expected)


def test_blocks_of_equal_shapes_share_compiled_graphs():
    class Block(nn.Module):
        def __init__(self, scale):
            super().__init__()
            self.layer = FastLinear(16, 8, complexity=0.5)
            self.layer.scale = scale

        def forward(self, x):
            return torch.relu(self.layer(x))

    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounter()
    with torch._dynamo.config.patch(fail_on_recompile_limit_hit=True):
        for i in range(12):
            block = Block(1.0 + i)
            y = torch.compile(block, fullgraph=True, backend=counter)(torch.ones(3, 16))
            torch.testing.assert_close(y, block(torch.ones(3, 16)))
    assert counter.frame_count <= 2  # nn.Linear has as many.


def test_transformations_of_functions(model, x):
    parameters = dict(model.named_parameters())

    def loss(parameters, x):
        return torch.func.functional_call(model, parameters, (x,)).pow(2).sum()

    loss(parameters, x).backward()
    expected = {name: parameter.grad for name, parameter in parameters.items()}
    torch.testing.assert_close(torch.func.grad(loss)(parameters, x), expected)
    for_each = torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, x)
    torch.testing.assert_close({name: each.sum(dim=0) for name, each in for_each.items()}, expected)
    torch.testing.assert_close(torch.func.vmap(model)(x), model(x))
