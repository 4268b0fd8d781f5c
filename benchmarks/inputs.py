"""`factorize(M, inputs=X)`: errors of outputs for new inputs, with and without inputs, and the time it takes.

``python benchmarks/inputs.py [layers] [samples] [operators] [seconds]`` prints some of the tables; with
``layers:digits``, that of one network. They are trained here, the transformer as in its example.
"""

import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import scipy.linalg
import torch
from orthogonal import Table
from sklearn.datasets import load_digits, load_sample_images
from sklearn.feature_extraction.image import extract_patches_2d
from torch import nn

import papilio as pp

COMPLEXITIES = 0.5, 0.25, 0.1
COUNTS = 1, 10, 100, 1_000, 10_000
SECONDS, MORE_SECONDS = 1.0, 10.0  # for each fit of a layer, and of an operator
EXAMPLE = Path(__file__).parents[1] / "examples" / "compress_transformer.py"


def run(folder: Path) -> list[Table]:
    return [make() for make in TABLES.values()]


# -- networks, and the inputs of their layers --------------------------------------------------------------


def trained(sizes, x, y, loss, n_epochs):
    torch.manual_seed(0)
    model = nn.Sequential(*[part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())][:-1])
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(n_epochs):
        for batch in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            loss(model(x[batch]), y[batch]).backward()
            optimizer.step()
    return model


@cache
def digits():
    """A classifier of 8×8 digits."""
    data = load_digits()
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(data.data)))
    x, y = torch.tensor(data.data / 16, dtype=torch.float32)[order], torch.tensor(data.target)[order]
    return trained((64, 256, 256, 10), x[:1300], y[:1300], nn.functional.cross_entropy, 60), x[:1300], x[1300:]


@cache
def patches():
    """A network that removes noise from 8×8 patches of one photograph; tested on another one."""
    images = [image.mean(axis=2) / 255 - 0.5 for image in load_sample_images().images]
    clean = [
        torch.tensor(extract_patches_2d(image, (8, 8), max_patches=12_000, random_state=0), dtype=torch.float32)
        for image in images
    ]
    clean = [each.reshape(len(each), 64) for each in clean]
    torch.manual_seed(0)
    noisy = [each + 0.1 * torch.randn_like(each) for each in clean]
    return trained((64, 192, 192, 64), noisy[0], clean[0], nn.functional.mse_loss, 6), noisy[0], noisy[1]


@cache
def transformer():
    found: dict[str, Any] = {"__name__": EXAMPLE.stem}
    exec(compile(EXAMPLE.read_text().partition("options =")[0], EXAMPLE, "exec"), found)  # up to its training
    torch.manual_seed(1)
    context, n_windows = found["CONTEXT"], 160
    batches = []
    for text in (found["seen"], found["held_out"]):
        places = torch.randint(len(text) - context - 1, (n_windows,))
        batches.append(found["windows"](text, places)[0])
    return found["model"], *batches


NETWORKS = {"digits": digits, "patches": patches, "transformer": transformer}


@cache
def layers_of(name):
    """Each layer's matrix, and its inputs in training and in test, one per column."""
    model, *data = NETWORKS[name]()
    linears = {key: part for key, part in model.named_modules() if isinstance(part, nn.Linear)}
    inputs = {key: [] for key in linears}
    for key, part in linears.items():
        part.register_forward_pre_hook(
            lambda layer, args, key=key: inputs[key].append(
                args[0].reshape(-1, args[0].shape[-1]).double().numpy().T
            )
        )
    with torch.no_grad():
        for x in data:
            model(x)
    return {key: (part.weight.detach().double().numpy(), *inputs[key]) for key, part in linears.items()}


def output_error(M, product, X):
    return np.linalg.norm((M - product) @ X) / np.linalg.norm(M @ X)


def weighted_svd(M, X, entries):
    """The best product of the rank that so many entries allow, for the outputs of inputs with a small ridge."""
    A = X @ X.T / X.shape[1]
    values, vectors = np.linalg.eigh(A + 1e-4 * np.trace(A) / len(A) * np.eye(len(A)))
    root, inverse = ((vectors * values**power) @ vectors.T for power in (0.5, -0.5))
    U, sizes, V = np.linalg.svd(M @ root, full_matrices=False)
    rank = int(entries / sum(M.shape))
    return (U[:, :rank] * sizes[:rank]) @ V[:rank] @ inverse


# -- tables ------------------------------------------------------------------------------------------------


def layers(names=tuple(NETWORKS), complexities=COMPLEXITIES):
    table = Table(
        "Inputs: layers of trained networks",
        "Relative errors of the outputs for inputs that were not seen, of products with the same number of "
        "entries, and of a truncated singular value decomposition weighted by the inputs. Each fit has "
        f"{SECONDS:g} s.",
        ("network, layer", "complexity", "ratio", "aim", "without inputs", "with inputs", "weighted SVD"),
    )
    ratios = []
    for name in names:
        for key, (M, seen, new) in layers_of(name).items():
            for complexity in complexities:
                if complexity * M.size < sum(M.shape):
                    continue
                options = {"complexity": complexity, "time_budget": SECONDS}
                plain, fit = (
                    output_error(M, each.operator.toarray(), new)
                    for each in (pp.factorize(M, **options), pp.factorize(M, inputs=seen, **options))
                )
                svd = output_error(M, weighted_svd(M, seen, complexity * M.size), new)
                ratios.append(fit / plain)
                shape = f"{M.shape[0]}×{M.shape[1]}"
                row = f"{name} {key}, {shape}", f"{complexity:g}", f"{fit / plain:.2f}", "0.6 (mean)"
                table.rows.append((*row, f"{plain:.3f}", f"{fit:.3f}", f"{svd:.3f}"))
    table.rows.append(("mean", "", f"{np.mean(ratios):.2f}", "0.6", "", "", ""))
    return table


def samples(names=("digits", "patches"), complexity=0.25):
    table = Table(
        "Inputs: how many samples it takes",
        f"Mean over the layers of a network, at a complexity of {complexity:g}: the error of outputs for new "
        "inputs relative to that without inputs, and the largest such ratio of any layer.",
        ("network", "samples", "mean ratio", "largest", "aim"),
    )
    for name in names:
        ratios = {count: [] for count in COUNTS}
        for M, seen, new in layers_of(name).values():
            options = {"complexity": complexity, "time_budget": SECONDS}
            plain = output_error(M, pp.factorize(M, **options).operator.toarray(), new)
            order = np.random.default_rng(0).permutation(seen.shape[1])
            for count, found in ratios.items():
                fit = pp.factorize(M, inputs=seen[:, order[:count]], **options)
                found.append(output_error(M, fit.operator.toarray(), new) / plain)
        for count, found in ratios.items():
            given = f"{min(count, seen.shape[1]):,}"
            table.rows.append((name, given, f"{np.mean(found):.2f}", f"{max(found):.2f}", "1.00"))
    return table


def operators():
    table = Table(
        "Inputs: operators",
        "The error of outputs for smooth inputs that were not seen, at 1/25 of the entries, after at most "
        f"{MORE_SECONDS:g} s.",
        ("operator", "times lower", "aim", "without inputs", "with inputs", "weighted SVD"),
    )
    for name, (M, X) in {"blur": blur(), "gain": gain()}.items():
        seen, new = X[:, ::2], X[:, 1::2]
        options = {"complexity": 0.04, "time_budget": MORE_SECONDS}
        plain, fit = (pp.factorize(M, **options), pp.factorize(M, inputs=seen, **options))
        errors = [output_error(M, each.operator.toarray(), new) for each in (plain, fit)]
        svd = output_error(M, weighted_svd(M, seen, M.size / 25), new)
        row = name, f"{errors[0] / errors[1]:.1f}", "2.0", *(f"{error:.4f}" for error in (*errors, svd))
        table.rows.append(row)
    return table


def blur():
    """A blur of 24×24 pixels whose width varies, and patches of a photograph."""
    side = 24
    y, x = np.divmod(np.arange(side * side), side)
    widths = 1.0 + 1.5 * x / side
    M = np.exp(-((y[:, None] - y) ** 2 + (x[:, None] - x) ** 2) / (2 * widths[:, None] ** 2))
    M /= M.sum(axis=1, keepdims=True)
    image = load_sample_images().images[0].mean(axis=2)
    X = extract_patches_2d(image, (side, side), max_patches=4000, random_state=0).reshape(4000, -1)
    return M, X.T / 255


def gain():
    """Fields of 2,000 dipoles on a sphere at 200 sensors around it, and smooth activity on the sphere."""
    random = np.random.default_rng(0)
    sources, sensors = (random.standard_normal((n, 3)) for n in (2000, 200))
    sources /= np.linalg.norm(sources, axis=1, keepdims=True)
    sensors *= 1.3 / np.linalg.norm(sensors, axis=1, keepdims=True)
    moments = np.cross(sources, random.standard_normal((2000, 3)))
    apart = sensors[:, None] - sources
    M = (
        np.einsum("ijk,ijk->ij", np.cross(moments[None], apart), sensors[:, None])
        / np.linalg.norm(apart, axis=2) ** 3
    )
    kernel = np.exp((sources @ sources.T - 1) / 0.1)
    return M, scipy.linalg.cholesky(kernel + 1e-6 * np.eye(2000), lower=True) @ random.standard_normal(
        (2000, 2000)
    )


def seconds():
    table = Table(
        "Inputs: seconds",
        "One fit without and with inputs at a complexity of 0.25.",
        ("layer", "ratio", "aim", "without inputs", "with inputs"),
    )
    for key, (M, seen, _) in layers_of("digits").items():
        times = []
        for inputs in (None, seen):
            begin = perf_counter()
            pp.factorize(M, inputs=inputs, complexity=0.25)
            times.append(perf_counter() - begin)
        plain, fit = times
        row = f"digits {key}, {M.shape[0]}×{M.shape[1]}", f"{fit / plain:.2f}", "1.5", f"{plain:.2f}", f"{fit:.2f}"
        table.rows.append(row)
    return table


TABLES = {each.__name__: each for each in (layers, samples, operators, seconds)}


if __name__ == "__main__":
    for word in sys.argv[1:] or TABLES:
        name, _, network = word.partition(":")
        sys.stdout.write(TABLES[name](*([(network,)] if network else [])).markdown())
        sys.stdout.flush()
