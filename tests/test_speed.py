"""Speed is measured against the dense matrix, kept with the result, and told where there is nothing to gain."""

import copy
import json
import pickle
import warnings
from dataclasses import replace
from math import isnan

import numpy as np
import pytest

import papilio as pp
from papilio import results
from papilio.operators import speed as measure
from papilio.results import Factorization, Speedup, slower_sentence, warn_if_slower


def fit_of(op):
    return Factorization(op, error=0.0)


@pytest.fixture
def fake(monkeypatch):
    """Chosen measurements, and a model: sets the gains for one vector and for a block, and records the calls."""

    def set_to(vector, block):
        calls = []

        def compare(op, dense, vectors, budget):
            calls.append((op, dense.shape, dense.dtype, vectors))
            return measure.Speed("operator", vectors, 1.0, 1.0 / (vector if vectors == 1 else block))

        monkeypatch.setattr(measure, "compare", compare)
        monkeypatch.setattr(results, "modelled_speedup", lambda op: Speedup(vector, block))
        return calls

    return set_to


# -- measuring ---------------------------------------------------------------------------------------------


def test_a_comparison_is_of_the_same_product():
    op = pp.transforms.hadamard(16)
    calls = []

    class Dense:
        def __matmul__(self, x):
            calls.append(x.shape)
            return x

    speed = measure.compare(op, Dense(), 3, budget=0.0)
    assert set(calls) == {(16, 3)}
    assert speed.gain == speed.dense / speed.product > 0


def test_both_ways_are_compared_for_one_vector_and_a_block():
    op = pp.transforms.dct(8)
    speeds = list(measure.both_ways(op, op.toarray(), 5, budget=0.0))
    assert [speed[:2] for speed in speeds] == [("operator", 1), ("operator", 5), ("adjoint", 1), ("adjoint", 5)]


# -- results know theirs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_the_speedup_is_of_the_operator_against_a_dense_matrix_for_one_vector_and_256(fake, dtype):
    op = pp.SparseProduct([np.ones((5, 3)), np.ones((3, 7))]).astype(dtype)
    calls = fake(3.14159, 52.7)
    speedup = fit_of(op).speedup
    assert speedup == pytest.approx((3.14159, 52.7))
    assert calls == [(op, (5, 7), dtype, 1), (op, (5, 7), dtype, 256)]
    assert speedup.block_size == 256
    assert str(speedup) == "one vector 3.1×, 256 vectors 53× the dense matrix's speed"
    assert "1,234×" in str(Speedup(1.0, 1234.4))


def test_the_speedup_is_measured_once_and_does_not_travel(fake):
    fit = fit_of(pp.transforms.haar(8))
    calls = fake(2.0, 3.0)
    assert fit.speedup is fit.speedup
    assert len(calls) == 2
    other = fit_of(pp.transforms.haar(8))
    assert fit == other
    assert repr(fit) == repr(other)
    for same in (pickle.loads(pickle.dumps(fit)), copy.deepcopy(fit), replace(fit, n_iter=0)):
        assert same == fit
        before = len(calls)
        assert same.speedup == (2.0, 3.0)
        assert len(calls) == before + 2
    with pytest.raises(AttributeError):
        fit.error = 1.0


def test_matrices_beyond_the_memory_are_not_measured(monkeypatch, fake):
    fit = fit_of(pp.transforms.hadamard(128))
    calls = fake(0.1, 0.1)
    monkeypatch.setattr(measure, "memory", lambda: 4 * 8 * 128 * (128 + 2 * 256) - 1)
    assert all(map(isnan, fit.speedup))
    assert "not measured" in str(fit.speedup)
    assert slower_sentence(fit.operator, fit.speedup) == ""
    assert not calls
    monkeypatch.setattr(measure, "memory", lambda: 4 * 8 * 128 * (128 + 2 * 256))
    assert fit_of(fit.operator).speedup == pytest.approx((0.1, 0.1))


def test_a_real_measurement_gives_two_positive_numbers():
    speedup = fit_of(pp.SparseProduct([np.ones((70, 1)), np.ones((1, 70))])).speedup
    assert min(speedup) > 0


# -- the warning -------------------------------------------------------------------------------------------


def test_a_product_that_is_slower_for_one_vector_and_for_a_block_is_warned_about(fake):
    fake(0.123, 0.4567)

    def caller():  # It stands for `factorize`.
        warn_if_slower(fit_of(pp.transforms.hadamard(128)))

    figures = r"^the product is slower .* one vector 0\.12×, 256 vectors 0\.46×"
    with pytest.warns(UserWarning, match=figures) as record:
        caller()
    assert record[0].filename == __file__
    message = str(record[0].message)
    assert "by the model" in message
    assert "measured" not in message
    for advice in ("complexity", "max_error", "toarray()"):
        assert advice in message


def test_whether_it_warns_does_not_depend_on_what_else_the_machine_does(monkeypatch):
    monkeypatch.setattr(measure, "perf_counter", lambda: pytest.fail("the clock was read"))
    fits = [fit_of(pp.SparseProduct([np.ones((150, k)), np.ones((k, 150))])) for k in (2, 140)]
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for fit in fits:
            warn_if_slower(fit)
    assert len(found) == 1


@pytest.mark.parametrize(
    ("n", "gains"),
    [
        (128, (0.91, 0.1)),  # one vector is as fast
        (128, (0.1, 0.91)),  # a block is
        (64, (0.1, 0.1)),  # The call takes longer than the product.
    ],
)
def test_fast_or_small_products_do_not_warn(fake, n, gains):
    fake(*gains)
    op = pp.transforms.hadamard(n)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_slower(fit_of(op))
    assert slower_sentence(op, Speedup(*gains)) == ""


# -- the command line --------------------------------------------------------------------------------------


@pytest.fixture
def command(papilio, monkeypatch):
    """`papilio factorize`, told what it finds."""

    def call(fit, *words):
        def factorize(*_, **__):
            warn_if_slower(fit)  # The function does the same.
            return fit

        monkeypatch.setattr(pp, "factorize", factorize)
        return papilio("factorize", "hadamard:16", "-o", "op.npz", *words)

    return call


@pytest.mark.parametrize(
    ("status", "words", "said", "met"),
    [
        ("converged", (), "error 0.25, converged after", None),
        ("max_iter", (), "error 0.25, all iterations done after", None),
        ("converged", ("--complexity", "0.5"), "target met, converged after", True),
        ("converged", ("--complexity", "0.49"), "target missed, converged after", False),
        ("converged", ("--max-error", "0.25"), "target met, converged after", True),
        ("no_structure", ("--max-error", "0.2"), "target missed, no structure found after", False),
        ("stopped", ("--max-error", "0.2"), "target missed, stopped early after", False),
    ],
)
def test_the_command_says_whether_the_target_was_met(fake, command, status, words, said, met):
    fake(3.0, 4.0)
    fit = replace(fit_of(pp.transforms.hadamard(16)), error=0.25, status=pp.results.Status(status))
    code, out, err = command(fit, *words)
    assert code == 0
    assert said in out
    assert "one vector 3×, 256 vectors 4× the dense matrix's speed" in out
    assert bool(err) == (status in ("no_structure", "stopped") or met is False)
    code, out, err = command(fit, *words, "--json")
    told = json.loads(out)
    assert told["target_met"] is met
    assert told["status"] == status
    assert (told["speedup_vector"], told["speedup_block"]) == pytest.approx((3.0, 4.0))


def test_the_command_notes_that_a_product_is_slower_once(fake, command, monkeypatch):
    fake(0.5, 0.6)
    fit = fit_of(pp.transforms.hadamard(128))

    code, _, err = command(fit)
    assert code == 0
    assert err.count("slower than the dense matrix: one vector 0.5×, 256 vectors 0.6×") == 1
    assert command(fit, "--quiet") == (0, "", "")
    monkeypatch.setattr(measure, "memory", lambda: 0)
    told = json.loads(command(fit_of(fit.operator), "--json")[1])
    assert told["speedup_vector"] is told["speedup_block"] is None
