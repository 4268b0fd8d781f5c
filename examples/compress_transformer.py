"""Can a language model do with a quarter of its entries? A small transformer, compressed and trained on.

    python examples/compress_transformer.py [FOLDER]

A transformer learns to continue the docstrings of Python's standard library, character by character. Then each of
its linear layers is replaced by a product of sparse factors, found by `papilio.torch.compress`. That costs
perplexity, the number of characters that the model hesitates between. A short training of the products, whose
values are parameters as the matrices were, wins most of it back. Needs the extra `torch`.
"""

import argparse
import ast
import math
import sysconfig
from pathlib import Path
from time import perf_counter

import matplotlib.figure
import torch
from torch import nn

from papilio.torch import compress

WIDTH, N_BLOCKS, N_HEADS, CONTEXT, BATCH = 128, 2, 4, 64, 32
N_STEPS, N_MORE_STEPS = 150, 60
COMPLEXITY, SECONDS_PER_LAYER = 0.25, 2.0
N_CHARACTERS = 600_000


def docstrings() -> str:
    """Docstrings of the standard library, in plain ASCII."""
    texts, size = [], 0
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        tree = ast.parse(path.read_bytes())
        kinds = ast.Module | ast.ClassDef | ast.FunctionDef
        found = [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, kinds)]
        texts += [text for text in found if text.isascii() and text]
        size = sum(map(len, texts))
        if size > N_CHARACTERS:
            break
    return "\n\n".join(texts)[:N_CHARACTERS]


class Block(nn.Module):
    """Attention and two dense layers, each added to what goes in."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_layers = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.queries_keys_values, self.mix = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        parts = self.queries_keys_values(self.before_attention(x)).view(batch, length, 3, N_HEADS, -1)
        attended = nn.functional.scaled_dot_product_attention(*parts.permute(2, 0, 3, 1, 4), is_causal=True)
        x = x + self.mix(attended.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(nn.functional.gelu(self.up(self.before_layers(x))))


class Transformer(nn.Module):
    def __init__(self, n_symbols: int) -> None:
        super().__init__()
        self.symbols, self.places = nn.Embedding(n_symbols, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(N_BLOCKS)))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, n_symbols))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.symbols(x) + self.places.weight[: x.shape[1]]))


def windows(text: torch.Tensor, starts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Stretches of the text, and the same one character later."""
    places = starts[:, None] + torch.arange(CONTEXT)
    return text[places], text[places + 1]


def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())


def train(model: nn.Module, text: torch.Tensor, n_steps: int, rate: float) -> float:
    """Some steps of AdamW; returns seconds."""
    begin = perf_counter()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=n_steps)
    for _ in range(n_steps):
        x, y = windows(text, torch.randint(len(text) - CONTEXT - 1, (BATCH,)))
        optimizer.zero_grad()
        loss_of(model, x, y).backward()
        optimizer.step()
        schedule.step()
    return perf_counter() - begin


@torch.no_grad()
def measure(model: nn.Module, held_out: torch.Tensor) -> tuple[float, float]:
    """The perplexity per character, and the characters read per second, best of several batches."""
    starts = torch.arange(0, len(held_out) - CONTEXT - 1, CONTEXT)
    losses, best = [], float("inf")
    for some in starts.split(BATCH)[:20]:
        x, y = windows(held_out, some)
        begin = perf_counter()
        logits = model(x)
        if len(x) == BATCH:
            best = min(best, perf_counter() - begin)
        losses.append(nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten()).item())
    return math.exp(sum(losses) / len(losses)), BATCH * CONTEXT / best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("."), help="for the figure")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)

    torch.manual_seed(0)
    text = docstrings()
    alphabet = sorted(set(text))
    codes = torch.tensor([alphabet.index(c) for c in text])
    split = len(codes) * 9 // 10
    seen, held_out = codes[:split], codes[split:]
    model = Transformer(len(alphabet))
    seconds = train(model, seen, N_STEPS, 2e-3)
    print(
        f"{len(text):,} characters of {len(alphabet)} kinds; {N_STEPS} steps of training took {seconds:.0f} s.\n"
    )

    rows = {"dense": measure(model, held_out)}
    begin = perf_counter()
    found = compress(model, complexity=COMPLEXITY, time_budget=SECONDS_PER_LAYER, vectors=BATCH * CONTEXT)
    print(f"{found}\nThat took {perf_counter() - begin:.0f} s.\n")
    rows["compressed"] = measure(found.model, held_out)
    seconds = train(found.model, seen, N_MORE_STEPS, 1e-3)
    rows["and trained on"] = measure(found.model, held_out)
    # What as many more steps do for the dense one, so that the comparison is fair.
    train(model, seen, N_MORE_STEPS, 1e-3)
    rows["dense, trained on"] = measure(model, held_out)

    print(f"{'':<20} {'perplexity':>10} {'characters per second':>22}")
    for name, (perplexity, speed) in rows.items():
        print(f"{name:<20} {perplexity:>10.2f} {speed:>22,.0f}")
    print(f"\n{N_MORE_STEPS} steps of the compressed model took {seconds:.0f} s.")

    figure = matplotlib.figure.Figure(figsize=(8, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes, i, title in ((left, 0, "perplexity per character"), (right, 1, "characters per second")):
        axes.barh(list(rows)[::-1], [row[i] for row in list(rows.values())[::-1]], color="tab:blue")
        axes.set_title(title)
    path = folder / "compress_transformer.png"
    figure.savefig(path, dpi=130)
    print(f"Figure: {path}")


if __name__ == "__main__":
    main()
