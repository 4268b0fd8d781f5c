"""
A language model with a quarter of its entries
==============================================

A small transformer learns to continue the docstrings of Python's standard library, character by character. Then
each of its linear layers is replaced by a product of sparse factors, found by :func:`papilio.torch.compress`. Some
of the text, as ``data``, tells what the layers are applied to, and so which errors matter. Compression raises the
perplexity: the number of equally likely characters among which a choice would be as uncertain. The values of the
products are parameters, as the matrices were, so a short training can lower it again. How much is lost, and is
anything gained in time? Needs the extra ``torch``.
"""

import ast
import math
import sys
import sysconfig
from copy import deepcopy
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import torch
from torch import nn

from papilio.torch import FastLinear, compress

WIDTH, N_BLOCKS, N_HEADS, CONTEXT, BATCH = 128, 2, 4, 64, 32
N_STEPS, N_MORE_STEPS = 150, 60
COMPLEXITY, SECONDS_PER_LAYER = 0.25, 1.5
N_CHARACTERS, N_WINDOWS = 600_000, 160  # of the latter, each gives 64 inputs of every layer

# %%
# The text
# --------
#
# Docstrings in plain ASCII. The last tenth is held out.


def docstrings():
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef
    texts = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        tree = ast.parse(path.read_bytes())
        found = [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, kinds)]
        texts += [text for text in found if text.isascii() and text]
        if sum(map(len, texts)) > N_CHARACTERS:
            break
    return "\n\n".join(texts)[:N_CHARACTERS]


text = docstrings()
alphabet = sorted(set(text))
codes = torch.tensor([alphabet.index(c) for c in text])
split = len(codes) * 9 // 10
seen, held_out = codes[:split], codes[split:]
print(f"{len(text):,} characters of {len(alphabet)} kinds")

# %%
# The model
# ---------
#
# Two blocks, each with attention and two dense layers, and what it takes to train and to measure them.


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before_attention, self.before_layers = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.queries_keys_values, self.mix = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        parts = self.queries_keys_values(self.before_attention(x)).view(batch, length, 3, N_HEADS, -1)
        attended = nn.functional.scaled_dot_product_attention(*parts.permute(2, 0, 3, 1, 4), is_causal=True)
        x = x + self.mix(attended.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(nn.functional.gelu(self.up(self.before_layers(x))))


class Transformer(nn.Module):
    def __init__(self, n_symbols):
        super().__init__()
        self.symbols, self.places = nn.Embedding(n_symbols, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(N_BLOCKS)))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, n_symbols))

    def forward(self, x):
        return self.head(self.blocks(self.symbols(x) + self.places.weight[: x.shape[1]]))


def windows(text, starts):
    """Stretches of the text, and the same one character later."""
    places = starts[:, None] + torch.arange(CONTEXT)
    return text[places], text[places + 1]


def train(model, n_steps, rate):
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=n_steps)
    for _ in range(n_steps):
        x, y = windows(seen, torch.randint(len(seen) - CONTEXT - 1, (BATCH,)))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
        optimizer.step()
        schedule.step()


@torch.no_grad()
def measure(model):
    """The entries of all linear layers, and the perplexity per character."""
    linear = [part for part in model.modules() if isinstance(part, nn.Linear | FastLinear)]
    matrices = [part.entries if isinstance(part, FastLinear) else part.weight for part in linear]
    entries = sum(int(matrix.count_nonzero()) for matrix in matrices)
    x, y = windows(held_out, torch.arange(0, len(held_out) - CONTEXT - 1, CONTEXT)[: 20 * BATCH])
    return entries, math.exp(nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()).item())


@torch.no_grad()
def pruned(model):
    """The model with the largest entries of each matrix, which are as many as those of the products."""
    model = deepcopy(model)
    for part in model.modules():
        if isinstance(part, nn.Linear):
            sizes = part.weight.abs()
            part.weight *= sizes > sizes.flatten().kthvalue(int((1 - COMPLEXITY) * sizes.numel())).values
    return model


@torch.no_grad()
def speeds(*models):
    """Characters read per second, in batches, the best of several that are taken in turns."""
    x, _ = windows(held_out, torch.arange(BATCH))
    best = [math.inf] * len(models)
    for _ in range(20):
        for i, each in enumerate(models):
            begin = perf_counter()
            each(x)
            best[i] = min(best[i], perf_counter() - begin)
    return [x.numel() / seconds for seconds in best]


# %%
# Trained, compressed, and trained further
# ----------------------------------------
#
# Beside the products stand the largest entries of each matrix, as many as theirs, and low rank. The dense model
# gets as many more steps as the compressed one, so that the comparison is fair.

torch.manual_seed(0)
model = Transformer(len(alphabet))
train(model, N_STEPS, 2e-3)
rows = {"dense": measure(model)}
options = {"complexity": COMPLEXITY, "time_budget": SECONDS_PER_LAYER, "gain": "entries"}
rows["pruned by magnitude"] = measure(pruned(model))
data = windows(seen, torch.randint(len(seen) - CONTEXT - 1, (N_WINDOWS,)))[0]
rows["low rank, with data"] = measure(compress(model, data=data, **options, method="low_rank").model)
rows["compressed, without data"] = measure(compress(model, **options).model)
found = compress(model, data=data, **options)
print(found)
rows["compressed"] = measure(found.model)
train(found.model, N_MORE_STEPS, 1e-3)
rows["compressed, trained further"] = measure(found.model)
train(model, N_MORE_STEPS, 1e-3)
rows["dense, trained further"] = measure(model)

# %%
# What is gained, and what is lost
# --------------------------------
#
# Data cost only a pass for each layer, and save most of the loss. Compare the compressed model before and after
# the further training, and then with the dense one that was trained as long. What is gained for certain is memory:
# about a quarter of the entries is left. Whether time is gained
# depends on the width and the machine; with a width of 128, dense products are hard to beat. Without
# ``gain="entries"``, ``compress`` would replace only the layers that become faster.

print(f"{'':<28} {'entries':>9} {'perplexity':>11}")
for name, (entries, perplexity) in rows.items():
    print(f"{name:<28} {entries:>9,} {perplexity:>11.2f}")
dense, fast = speeds(model, found.model)
print(f"characters per second: {dense:,.0f} dense, {fast:,.0f} compressed: {fast / dense:.2f} times as fast")

fig, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained", sharey=True)
colours = ["0.5", *["#56b4e9"] * 3, "#d55e00", "#d55e00", "0.5"]
titles = "entries of linear layers", "perplexity per character"
for ax, title, values in zip(axes, titles, zip(*rows.values(), strict=True), strict=True):
    ax.barh(list(rows), values, color=colours)
    ax.set_xlabel(title)
    ax.xaxis.set_major_locator(plt.MaxNLocator(4))
    ax.spines[["top", "right"]].set_visible(False)
axes[0].invert_yaxis()

# sphinx_gallery_start_ignore
if "__file__" in globals() and len(sys.argv) > 1:  # run as a script, with a folder for the figures
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for number in plt.get_fignums():
        path = folder / f"{Path(__file__).stem}_{number}.png"
        plt.figure(number).savefig(path, dpi=130)
        print(f"Figure: {path}")
# sphinx_gallery_end_ignore
