"""Learned encoders: training lowers the objective, on matrices and products; PyTorch is not needed after it."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import papilio as pp
from papilio.coding import training
from papilio.coding.encoder import encode, fista_layers, objectives

pytest.importorskip("torch", reason="learned encoders are trained with PyTorch: pip install torch")

RNG = np.random.default_rng(0)
D = RNG.standard_normal((12, 20))
D /= np.linalg.norm(D, axis=0)
X = (RNG.standard_normal((600, 20)) * (RNG.random((600, 20)) < 0.15)) @ D.T
OPTIONS = {"alpha": 0.1, "n_layers": 3, "max_iter": 8, "tol": 0, "random_state": 0}


def start(model):
    """The score of the layers before training."""
    norm = np.linalg.norm(D, 2)
    layers = fista_layers(D, norm, model.n_layers, model.alpha, model._groups)
    return -objectives(D, X.T, encode(layers, X.T, model._groups), model.alpha, model._groups).mean()


@pytest.mark.parametrize("options", [{}, {"penalty": "group", "groups": np.repeat(np.arange(10), 2)}])
def test_training_lowers_the_objective_and_matrices_lower_it_further(options):
    steps = pp.coding.LearnedEncoder(D, **OPTIONS, **options).fit(X)
    matrices = pp.coding.LearnedEncoder(D, learn="matrices", **{**OPTIONS, "max_iter": 30}, **options).fit(X)
    assert start(steps) < steps.score(X) < matrices.score(X)
    if not options:
        best = -objectives(D, X.T, pp.lasso(D, X.T, 0.1).toarray(), 0.1, steps._groups).mean()
        assert matrices.score(X) <= best
        assert best - matrices.score(X) < 0.5 * (best - start(steps))


def test_the_error_is_the_objective_over_that_of_empty_codes():
    model = pp.coding.LearnedEncoder(D, **OPTIONS).fit(X)
    empty = 0.5 * (X**2).sum(axis=1).mean()
    assert min(model.history_.error) == pytest.approx(-model.score(X) / empty, rel=1e-4)
    assert model.status_ == "max_iter"
    assert model.n_iter_ == len(model.history_) == 8


def test_products_stay_products_with_their_supports():
    op = pp.SparseProduct([D * (RNG.random(D.shape) < 0.5), np.eye(20) + np.eye(20, k=1)], scale=0.5)
    steps = pp.coding.LearnedEncoder(op, **OPTIONS).fit(X)
    assert all(layer.synthesis is layer.analysis for layer in steps.layers_)
    assert steps.layers_[0].synthesis == op
    free = pp.coding.LearnedEncoder(op, learn="matrices", **OPTIONS).fit(X)
    assert free.score(X) > steps.score(X)
    for layer in free.layers_:
        for matrix in (layer.synthesis, layer.analysis):
            assert isinstance(matrix, pp.SparseProduct)
            assert matrix != op
            for mine, its in zip(matrix.factors, op.factors, strict=True):
                assert not (np.asarray(mine.todense() != 0) & (its.toarray() == 0)).any()


def test_complexity_limits_the_products_of_layers():
    model = pp.coding.LearnedEncoder(D, complexity=0.8, learn="matrices", **OPTIONS).fit(X)
    for layer in model.layers_:
        assert layer.synthesis.relative_complexity <= 0.8
        assert layer.analysis.relative_complexity <= 0.8
    np.testing.assert_allclose(model.operator_.toarray(), D)


def test_fits_repeat_and_survive_cloning_and_pickling_without_pytorch(tmp_path):
    model = pp.coding.LearnedEncoder(D, **OPTIONS).fit(X)
    codes = model.transform(X)
    np.testing.assert_array_equal(clone(model).fit(X).transform(X), codes)
    assert model.transform(X.astype(np.float32)).dtype == np.float32
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(model))
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "codes.npy", codes)
    code = (
        "import sys, pickle, numpy as np;"
        "model = pickle.load(open('model.pickle', 'rb'));"
        "np.testing.assert_allclose(model.transform(np.load('X.npy')), np.load('codes.npy'), atol=1e-12);"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


def test_a_callback_sees_the_passes_and_can_stop():
    seen = []

    def stop(step):
        if step.iteration:  # Steps between passes have none.
            seen.append(step)
        return len(seen) == 2

    model = pp.coding.LearnedEncoder(D, callback=stop, **OPTIONS).fit(X)
    assert model.status_ == "stopped"
    assert [step.phase for step in seen] == ["steps", "steps"]
    assert start(model) <= model.score(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dictionary": np.eye(3)}, "dictionary must have 12 rows"),
        ({"dictionary": D * 1j}, "dictionary must be real"),
        ({"n_layers": 0}, "n_layers must be an integer of at least 1"),
        ({"alpha": 0}, "alpha must be above 0"),
        ({"penalty": "l2"}, "penalty must be one of 'l1', 'group'"),
        ({"penalty": "group"}, "groups must be given"),
        ({"groups": np.ones(20)}, "groups must not be given"),
        ({"penalty": "group", "groups": np.ones(3)}, "groups must have 20 labels"),
        ({"learn": "all"}, "learn must be one of 'steps', 'matrices'"),
        ({"complexity": 2}, "complexity"),
        ({"max_iter": 0}, "max_iter"),
        ({"tol": -1}, "tol"),
        ({"batch_size": 0}, "batch_size"),
        ({"callback": 3}, "callback"),
    ],
)
def test_bad_parameters_are_named(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        pp.coding.LearnedEncoder(**({"dictionary": D} | OPTIONS | options)).fit(X)


@parametrize_with_checks([pp.coding.LearnedEncoder(n_layers=2, max_iter=2, alpha=0.1)])
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


def test_epochs_go_through_all_samples_in_batches(monkeypatch):
    planned, sizes = [], []
    optimizer, loss = training.Network.optimizer, training.Network.loss

    def recorded(self, matrices, n_steps):
        planned.append(n_steps)
        return optimizer(self, matrices, n_steps)

    monkeypatch.setattr(training.Network, "optimizer", recorded)
    monkeypatch.setattr(training.Network, "loss", lambda self, x: (sizes.append(len(x)), loss(self, x))[1])
    pp.coding.LearnedEncoder(D, **OPTIONS | {"max_iter": 3}, batch_size=250).fit(X)
    sizes = [size for size in sizes if size < len(X)]  # The others measure the error.
    assert sizes == [250, 250, 100] * 3
    assert planned == [len(sizes)]
