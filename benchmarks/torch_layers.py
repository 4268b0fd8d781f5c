"""`FastLinear` on the CPU: seconds beside ``torch.nn.Linear``, and errors beside Monarch projections.

``python benchmarks/torch_layers.py [speed] [errors]`` prints some of the tables.
"""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from common import best_times, clock
from orthogonal import Table
from torch import nn

import papilio as pp
from papilio.torch import FastLinear

try:  # it imports Triton, which is not among what it requires
    from torch_structured import Butterfly
    from torch_structured.monarch.blockdiag_butterfly_multiply import blockdiag_butterfly_multiply
    from torch_structured.monarch.blockdiag_butterfly_projection import blockdiag_butterfly_project
    from torch_structured.monarch.monarch_linear import MonarchLinear
except ImportError:
    Butterfly = None

BATCH, ROUNDS, BURST, PAUSE = 256, 8, 4, 0.02
N_PROJECTED = 256  # rows and columns of the matrices that are projected


def run(folder: Path) -> list[Table]:
    return [make() for make in TABLES.values()]


# -- seconds ----------------------------------------------------------------------------------------------


def speed() -> Table:
    table = Table(
        "PyTorch layers: seconds",
        f"float32, batches of {BATCH}, {torch.get_num_threads()} threads: the forward pass without gradients, and "
        "both passes with gradients by the input and all parameters. Ratios are the time of the other layer "
        "divided by that of `FastLinear`.",
        ("layer", "pass", "against", "times faster", "aim", "FastLinear", "other"),
    )
    cases: list[tuple[int, dict[str, object], dict[str, float]]] = [
        (1024, {"complexity": 0.1}, {"forward": 2.0, "both": 1.3}),
        (1024, {"complexity": 0.1, "block": 16}, {"forward": 2.0, "both": 1.3}),
        (1024, {"complexity": 0.25}, {"forward": 1.2}),
        (1024, {"complexity": 0.25, "block": 16}, {"forward": 1.2}),
        (256, {"complexity": 0.25}, {}),
    ]
    for n, options, aims in cases:
        torch.manual_seed(0)
        layers = {"papilio": FastLinear(n, n, **options), "nn.Linear": nn.Linear(n, n)}
        compare(table, f"{n}×{n}, {written(options)}", layers, n, aims)
    n_factors = 10
    butterfly = FastLinear(1024, 1024, n_factors=n_factors, complexity=2 * n_factors / 1024)
    others: dict[str, nn.Module] = {"nn.Linear": nn.Linear(1024, 1024), "plain PyTorch": PlainButterfly(1024)}
    if Butterfly is not None:
        others["torch-structured"] = Butterfly(1024, 1024)
    compare(table, "1024×1024, butterfly", {"papilio": butterfly, **others}, 1024, {"forward": 3.0})
    monarch = FastLinear(1024, 1024, complexity=2 * 32 / 1024)
    others = {"nn.Linear": nn.Linear(1024, 1024), "plain PyTorch": PlainMonarch(32)}
    if Butterfly is not None:
        others["torch-structured"] = MonarchLinear(1024, 1024, nblocks=32)
    compare(table, "1024×1024, Monarch", {"papilio": monarch, **others}, 1024, {"forward": 3.0})
    return table


def compare(table: Table, name: str, layers: dict[str, nn.Module], n: int, aims: dict[str, float]) -> None:
    """Rows of the table for one layer against the others."""
    x = torch.randn(BATCH, n)
    for way, call in (("forward", forward), ("both", both)):
        calls: dict[str, Callable[[], object]] = {
            key: lambda layer=layer, call=call: call(layer, x) for key, layer in layers.items()
        }
        times = best_times(calls, ROUNDS, BURST, PAUSE)
        ours = times.pop("papilio")
        for other, seconds in times.items():
            has_aim = way in aims and (other == "torch-structured") == (aims[way] == 3.0)
            aim = f"≥ {aims[way]:g}" if has_aim else ""
            ratio = f"**{seconds / ours:.2f}**"
            table.rows.append((name, way, other, ratio, aim, clock(ours), clock(seconds)))


@torch.no_grad()
def forward(layer: nn.Module, x: torch.Tensor) -> None:
    layer(x)


def both(layer: nn.Module, x: torch.Tensor) -> None:
    layer.zero_grad()
    given = x.detach().requires_grad_()
    y = layer(given)
    y.backward(torch.ones_like(y))


def written(options: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in options.items())


class PlainButterfly(nn.Module):
    """log₂ n layers of 2×2 blocks, as they are written in PyTorch."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.n_layers = n.bit_length() - 1
        self.twiddle = nn.Parameter(torch.randn(self.n_layers, n // 2, 2, 2) / 2**0.5)
        self.bias = nn.Parameter(torch.zeros(n))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, n = x.shape
        for i in range(self.n_layers):
            stride = 1 << i
            pairs = x.view(batch, n // (2 * stride), 2, stride)
            blocks = self.twiddle[i].view(n // (2 * stride), stride, 2, 2).permute(0, 2, 3, 1)
            x = (blocks * pairs[:, :, None]).sum(dim=3).reshape(batch, n)
        return x + self.bias


class PlainMonarch(nn.Module):
    """Two block-diagonal factors with b blocks of b×b, and the permutation between them, by batched products."""

    def __init__(self, b: int) -> None:
        super().__init__()
        self.right, self.left = (nn.Parameter(torch.randn(b, b, b) / b**0.5) for _ in range(2))
        self.bias = nn.Parameter(torch.zeros(b * b))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, batch = len(self.left), len(x)
        x = torch.bmm(x.view(batch, b, b).transpose(0, 1), self.right)  # (block, batch, b)
        x = torch.bmm(x.permute(2, 1, 0), self.left)
        return x.permute(1, 2, 0).reshape(batch, b * b) + self.bias


# -- errors -----------------------------------------------------------------------------------------------


def errors() -> Table:
    table = Table(
        "PyTorch layers: pretrained matrices",
        f"{N_PROJECTED}×{N_PROJECTED} matrices as products of as many entries as a Monarch matrix has, 2n√n: the "
        "relative error of `FastLinear.from_linear`, and of the projection onto Monarch matrices, which is the "
        "best rank-one approximation of each of n blocks of √n×√n (torch-structured's, if that is installed). "
        "Last, the complexity of a layer with at most that projection's error.",
        ("matrix", "FastLinear", "Monarch", "complexity", "complexity at Monarch's error"),
    )
    n = N_PROJECTED
    complexity = 2 / n**0.5
    for name, matrix in matrices(n).items():
        linear = nn.Linear(n, n, bias=False)
        linear.weight.data = torch.from_numpy(matrix).float()
        layer = FastLinear.from_linear(linear, complexity=complexity, time_budget=35.0)
        theirs = monarch_error(matrix)
        same = FastLinear.from_linear(linear, max_error=theirs, time_budget=5.0)
        cells = f"**{layer.error:.3f}**", f"{theirs:.3f}", f"{layer.relative_complexity:.3f}"
        table.rows.append((name, *cells, f"{same.relative_complexity:.3f}"))
    return table


def matrices(n: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    rank = 4
    low = random.standard_normal((n, rank)) @ random.standard_normal((rank, n)) / rank**0.5
    butterfly = pp.transforms.hadamard(n).toarray()
    rows, columns = random.permutation(n), random.permutation(n)
    product = np.eye(n)
    for factor in pp.transforms.hadamard(n).factors:  # a butterfly with random entries
        drawn = factor.copy()
        drawn.data = random.standard_normal(drawn.data.size)
        product = product @ drawn.toarray()
    return {
        "random": random.standard_normal((n, n)),
        f"rank {rank} and noise (10 %)": low + 0.1 * random.standard_normal((n, n)),
        "permuted Hadamard": butterfly[rows][:, columns],
        "permuted random butterfly": product[rows][:, columns],
    }


def monarch_error(matrix: np.ndarray) -> float:
    """The relative error of the best Monarch matrix with √n blocks of √n×√n in both factors.

    Its rows are (l, j), its columns (k, i); for each j and k, the √n×√n matrix of entries l, i has rank one.
    """
    if Butterfly is not None:
        target = torch.from_numpy(matrix)
        found = blockdiag_butterfly_multiply(
            torch.eye(len(matrix), dtype=target.dtype), *blockdiag_butterfly_project(target)
        ).T
        return float((found - target).norm() / target.norm())
    b = round(len(matrix) ** 0.5)
    blocks = matrix.reshape(b, b, b, b).transpose(1, 2, 0, 3)
    kept = np.linalg.svd(blocks, compute_uv=False)[..., 0] ** 2
    return float(np.sqrt(max(1 - kept.sum() / np.linalg.norm(matrix) ** 2, 0.0)))


TABLES = {"speed": speed, "errors": errors}


def main() -> None:
    for name in sys.argv[1:] or TABLES:
        sys.stdout.write(TABLES[name]().markdown() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
