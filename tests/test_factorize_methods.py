"""factorize on all kinds of matrices: targets are met, errors are honest, and the right method wins."""

from itertools import cycle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import papilio as pp
from papilio.search.methods import NAMES as METHODS
from papilio.search.methods import sparse_factors as candidates

from .helpers import gaussian, orthogonal, true_error

TWO_FACTORS = ("low_rank", "subspaces", "sparse_basis", "sparse_plus_low_rank")


def permuted(matrix, seed=0):
    rng = np.random.default_rng(seed)
    return matrix[rng.permutation(len(matrix))][:, rng.permutation(matrix.shape[1])]


def kernel(rows, columns):
    """1/(1 + |x − y|²) for points x and y on two curves."""
    s, t = np.linspace(0, 1, rows)[:, None], np.linspace(0, 1, columns)
    return 1 / (1 + (s - t) ** 2 + (np.sin(3 * s) - 1.5 - np.cos(2 * t)) ** 2)


def sparse(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, n)) * (rng.random((n, n)) < 0.1)


def noisy_hadamard(n, level=0.05):
    return permuted(pp.transforms.hadamard(n).toarray()) + level * gaussian((n, n), seed=1)


MATRICES = {
    "Gaussian": lambda: gaussian((16, 16)),
    "orthogonal": lambda: orthogonal(16),
    "product of sparse factors": lambda: pp.datasets.factorizable_dictionary(16, 2, random_state=0).toarray(),
    "low rank plus noise": lambda: gaussian((16, 3)) @ gaussian((3, 16)) + 0.01 * gaussian((16, 16), seed=1),
    "kernel": lambda: kernel(20, 20),
    "permuted Hadamard": lambda: permuted(pp.transforms.hadamard(16).toarray()),
    "noisy permuted Hadamard": lambda: noisy_hadamard(16),
    "permuted DFT": lambda: permuted(pp.transforms.dft(16).toarray()),
    "complex Gaussian": lambda: gaussian((12, 12)) + 1j * gaussian((12, 12), seed=1),
    "sparse": lambda: sparse(20),
    "rank one": lambda: np.outer(gaussian((12,)), gaussian((15,), seed=1)),
    "wide": lambda: gaussian((8, 20)),
    "tall": lambda: gaussian((20, 8)),
    "wide kernel": lambda: kernel(12, 32),
    "single precision": lambda: gaussian((12, 12)).astype(np.float32),
}


def assert_honest(matrix, result):
    """The operator is of M's shape and kind, and its error is what the result says."""
    assert result.operator.shape == matrix.shape
    assert result.operator.dtype == matrix.dtype
    rounding = 100 * float(np.finfo(matrix.dtype).eps)
    assert result.error == pytest.approx(true_error(matrix, result.operator), rel=rounding, abs=rounding)


# -- targets -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("name", "complexity"), list(zip(MATRICES, cycle([0.3, 0.5]), strict=False)))
def test_complexity_is_kept_and_the_attempts_say_what_was_found(name, complexity, few_rounds):
    M = MATRICES[name]()
    result = pp.factorize(M, complexity=complexity)
    assert_honest(M, result)
    assert result.operator.relative_complexity <= complexity
    within = [attempt for attempt in result.attempts if 0 < attempt.nnz <= complexity * M.size]
    assert min(attempt.error for attempt in within) == pytest.approx(result.error, rel=0, abs=1e-13)
    taken = [attempt for attempt in within if attempt.error == result.error]
    assert (result.method, result.operator.nnz) in [(attempt.method, attempt.nnz) for attempt in taken]


@pytest.mark.parametrize("limit", [0.3, pytest.param(0.03, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MATRICES)
def test_max_error_is_kept_with_the_fewest_entries_of_all_attempts(name, limit, few_rounds):
    M = MATRICES[name]()
    result = pp.factorize(M, max_error=limit)
    assert_honest(M, result)
    assert result.error <= limit
    reaching = [attempt.nnz for attempt in result.attempts if attempt.error <= limit]
    assert result.operator.nnz == min([*reaching, np.count_nonzero(M)])


@pytest.mark.slow
def test_max_error_takes_the_first_rank_that_reaches_it():
    M = gaussian((24, 4)) @ gaussian((4, 24), seed=1)
    sizes = np.linalg.svd(M, compute_uv=False)
    missed = [np.linalg.norm(sizes[rank:]) / np.linalg.norm(sizes) for rank in range(5)]
    for rank in (1, 3):
        result = pp.factorize(M, max_error=1.001 * missed[rank], method="low_rank")
        assert result.error <= 1.001 * missed[rank]
        assert result.operator.nnz <= rank * 48


@pytest.mark.parametrize("name", MATRICES)
def test_without_a_target_nothing_is_worse_than_the_matrix_itself(name, few_rounds):
    M = MATRICES[name]()
    result = pp.factorize(M)
    assert_honest(M, result)
    assert result.error + result.operator.relative_complexity <= 1


@pytest.mark.slow
@pytest.mark.parametrize("M", [kernel(16, 16), orthogonal(16)], ids=["kernel", "orthogonal"])
def test_the_knee_is_not_above_other_complexities(M):
    def cost(result):
        return result.error + result.operator.relative_complexity

    knee = cost(pp.factorize(M))
    for complexity in (0.2, 0.5):
        assert knee <= cost(pp.factorize(M, complexity=complexity)) + 0.05


@pytest.mark.slow
@pytest.mark.parametrize("target", [{}, {"complexity": 0.6}], ids=["knee", "complexity"])
@pytest.mark.parametrize("n_factors", [2, 3, 4])
def test_a_number_of_factors_is_kept_with_every_target(n_factors, target, few_rounds):
    for M in (gaussian((16, 16)), kernel(12, 20), noisy_hadamard(16)):
        result = pp.factorize(M, n_factors=n_factors, **target)
        assert len(result.operator.factors) == n_factors
        assert_honest(M, result)
        assert result.operator.relative_complexity <= target.get("complexity", 1)


SHAPES = st.one_of(
    st.tuples(st.just(1), st.integers(1, 9)),
    st.tuples(st.integers(1, 9), st.just(1)),
    st.tuples(st.integers(2, 7), st.integers(2, 7)),
)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    shape=SHAPES,
    complexity=st.one_of(st.none(), st.floats(0.01, 1.0), st.sampled_from([0.25, 0.5, 1.0])),
    n_factors=st.sampled_from([None, None, 2, 3]),
    seed=st.integers(0, 5),
    kind=st.sampled_from(["real", "complex", "single", "integer", "ones"]),
)
def test_unusual_shapes_and_complexities_are_accepted_or_named(shape, complexity, n_factors, seed, kind):
    M = gaussian(shape, seed=seed)
    if kind == "complex":
        M = M + 1j * gaussian(shape, seed=seed + 1)
    elif kind == "single":
        M = M.astype(np.float32)
    elif kind == "integer":
        M = np.round(M)
    elif kind == "ones":
        M = np.ones(shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "_ROUNDS", 2)
        try:
            result = pp.factorize(M, complexity=complexity, n_factors=n_factors)
        except ValueError as error:
            assert complexity is not None
            assert str(error).startswith("complexity must")  # noqa: PT017
            return
    assert_honest(M, result)
    if complexity is not None:
        assert result.operator.nnz <= complexity * M.size + 1e-9


# -- attempts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target", [{"complexity": 0.5}, pytest.param({}, marks=pytest.mark.slow)], ids=["complexity", "knee"]
)
@pytest.mark.parametrize(
    ("make", "method"),
    [
        (lambda: kernel(20, 20), "low_rank or nested"),
        (lambda: kernel(16, 32), "low_rank or nested"),
        (lambda: noisy_hadamard(16), "butterfly"),
        (lambda: permuted(pp.transforms.dft(16).toarray()), "butterfly or rotations"),
        (lambda: gaussian((16, 16)), "hierarchical"),
        (lambda: gaussian((20, 10)), "hierarchical"),
        (lambda: sparse(20), "itself"),
    ],
    ids=["kernel", "wide kernel", "noisy Hadamard", "DFT", "Gaussian", "tall Gaussian", "sparse"],
)
def test_each_kind_of_matrix_has_its_method(make, method, target):
    assert pp.factorize(make(), **target).method in method.split(" or ")


@pytest.mark.parametrize("method", ["low_rank", "hierarchical"])
@pytest.mark.parametrize(
    "target", [{"complexity": 0.5}, {"max_error": 0.5}, {}], ids=["complexity", "error", "knee"]
)
def test_a_method_can_be_forced(method, target, few_rounds):
    M = noisy_hadamard(16)
    result = pp.factorize(M, method=method, **target)
    # Without a target, no product of low rank is better than the matrix itself.
    assert result.method == ("itself" if method == "low_rank" and not target else method)
    assert {attempt.method for attempt in result.attempts} == {method}
    assert_honest(M, result)


def test_butterflies_can_be_forced_and_are_not_claimed_where_there_are_none():
    M = noisy_hadamard(16)
    found = pp.factorize(M, method="butterfly")
    assert found.method == "butterfly"
    assert len(found.operator.factors) == 4
    assert_honest(M, found)
    M = gaussian((16, 16))
    none = pp.factorize(M, method="butterfly")
    assert none.method == "itself"
    assert none.error == 0
    np.testing.assert_array_equal(none.operator.toarray(), M)
    assert [(attempt.method, attempt.detail) for attempt in none.attempts] == [("butterfly", "no structure")]


@pytest.mark.slow
def test_a_search_is_far_better_than_the_hierarchical_strategy_alone():
    Q = orthogonal(16)
    plain = pp.hierarchical(Q, candidates.even_schedule((16, 16), 2, 128, "left"))
    assert pp.factorize(Q, complexity=0.5).error < 0.85 * plain.error


# -- time, callbacks, random numbers -------------------------------------------------------------------


@pytest.mark.parametrize(
    "target", [{"complexity": 0.5}, {"max_error": 0.2}, {}], ids=["complexity", "error", "knee"]
)
def test_a_callback_sees_steps_whose_share_grows_to_nearly_all(target, few_rounds):
    seen = []
    result = pp.factorize(gaussian((12, 12)), callback=seen.append, **target)
    done = [step.done for step in seen]
    assert all(isinstance(step, pp.results.Step) for step in seen)
    assert all(0 <= share <= 1 for share in done)
    assert done == sorted(done)
    assert done[0] < 0.05
    assert [step.done for step in seen if not step.phase.endswith("end")][-1] > 0.8
    assert all(": " in step.phase or step.phase.replace(" ", "_") in METHODS for step in seen)
    assert result.status != "stopped"


@pytest.mark.parametrize(
    "target", [{"complexity": 0.5}, {"max_error": 0.2}, {}], ids=["complexity", "error", "knee"]
)
@pytest.mark.parametrize("at", [1, 40, 700])
def test_a_callback_ends_the_search_when_it_says_so(target, at):
    M = gaussian((12, 12))
    seen = []

    def stop(step):
        seen.append(step)
        return len(seen) == at

    result = pp.factorize(M, callback=stop, **target)
    assert len(seen) == at
    assert result.status == "stopped"
    assert_honest(M, result)
    assert result.operator.relative_complexity <= target.get("complexity", 1)
    assert result.error <= target.get("max_error", 1)


def test_results_repeat_by_default_and_with_a_seed_and_leave_other_random_numbers_alone(few_rounds):
    M = gaussian((12, 12))
    state = np.random.get_state()[1].tolist()  # noqa: NPY002
    for options in ({}, {"random_state": 3}):
        first = pp.factorize(M, complexity=0.5, **options)
        again = pp.factorize(M, complexity=0.5, **options)
        assert first.operator == again.operator
        assert [attempt[:4] for attempt in first.attempts] == [attempt[:4] for attempt in again.attempts]
    other = pp.factorize(M, complexity=0.5, random_state=4)
    assert [attempt.error for attempt in first.attempts] != [attempt.error for attempt in other.attempts]
    assert np.random.get_state()[1].tolist() == state  # noqa: NPY002


@pytest.mark.parametrize(
    ("target", "error", "named"),
    [
        ({"time_budget": -1}, ValueError, "time_budget"),
        ({"time_budget": "soon"}, TypeError, "time_budget"),
        ({"time_budget": np.nan}, ValueError, "time_budget"),
        ({"callback": 3}, TypeError, "callback"),
        ({"method": "magic"}, ValueError, "method"),
        ({"method": None}, ValueError, "method"),
        ({"random_state": -1}, ValueError, "random_state"),
        ({"random_state": "dice"}, ValueError, "random_state"),
        ({"complexity": np.nan}, ValueError, "complexity"),
        ({"max_error": np.inf}, ValueError, "max_error"),
        ({"n_factors": 2.5}, TypeError, "n_factors"),
    ],
)
def test_bad_arguments_are_named_before_any_work(target, error, named):
    seen = []
    with pytest.raises(error, match=named):
        pp.factorize(gaussian((8, 8)), **{"callback": seen.append, **target})
    assert not seen


def stop_after(count):
    """A callback that ends a search after so many steps."""
    steps = []

    def stop(step):
        steps.append(step)
        return len(steps) >= count

    return stop


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["noise", "zeros", "one entry"])
def test_complexity_holds_whatever_a_method_finds(method, kind):
    matrix = np.zeros((9, 7))
    matrix[2, 3] = kind == "one entry"
    if kind == "noise":
        matrix = np.random.default_rng(0).standard_normal((9, 7))
    for n_factors in (None, 2) if method in TWO_FACTORS else (None, 2, 3):
        fit = pp.factorize(matrix, method=method, complexity=0.6, n_factors=n_factors, callback=stop_after(20))
        assert fit.operator.nnz <= 0.6 * matrix.size
        assert n_factors in (None, len(fit.operator.factors))
        size = np.linalg.norm(matrix) or 1.0
        assert fit.error == pytest.approx(np.linalg.norm(matrix - fit.operator.toarray()) / size, abs=1e-12)
        if fit.status == "no_structure" and kind == "noise":
            assert fit.method == "thresholding"
