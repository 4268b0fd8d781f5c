"""Layers that are trained: a classifier of digits, as good as with dense layers."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="papilio.torch needs the extra torch")

from sklearn.datasets import load_digits  # noqa: E402
from sklearn.model_selection import train_test_split  # noqa: E402

from papilio.torch import FastLinear  # noqa: E402

nn = torch.nn


def accuracy(make, seed, n_steps=1200, width=256):
    """The held-out accuracy of a classifier of two layers, in percent."""
    X, y = load_digits(return_X_y=True)
    parts = train_test_split(X / 16.0, y, test_size=0.4, random_state=seed, stratify=y)
    X, held_out, y, labels = (
        torch.from_numpy(part.astype(np.float32 if part.ndim > 1 else np.int64)) for part in parts
    )
    torch.manual_seed(seed)
    model = nn.Sequential(make(64, width), nn.ReLU(), make(width, 10))
    optimizer = torch.optim.Adam(model.parameters(), weight_decay=1e-5)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=n_steps)
    for _ in range(n_steps):
        chosen = torch.randint(len(X), (64,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(X[chosen]), y[chosen]).backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        return 100 * float((model(held_out).argmax(dim=1) == labels).float().mean())


@pytest.mark.slow
def test_a_quarter_of_the_entries_classify_digits_as_well():
    seeds = range(5)
    dense = [accuracy(nn.Linear, seed) for seed in seeds]
    fast = [accuracy(lambda n, m: FastLinear(n, m, complexity=0.25), seed) for seed in seeds]
    assert np.mean(dense) > 96
    lost = np.subtract(dense, fast)
    # Sums in another order, as on another number of threads, lead to another model.
    assert lost.mean() < 0.5 + lost.std(ddof=1) / len(lost) ** 0.5


def test_training_lowers_the_loss():
    torch.manual_seed(0)
    layer, target = FastLinear(32, 32, complexity=0.3), torch.randn(32, 32) / 6
    optimizer = torch.optim.Adam(layer.parameters(), lr=1e-2)
    x = torch.randn(256, 32)
    losses = []
    for _ in range(100):
        optimizer.zero_grad()
        loss = (layer(x) - x @ target).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
