"""The estimators: scikit-learn's own checks, and what its users rely on beyond them."""

import inspect
import pickle
import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import papilio as pp

from .limits import lower

ESTIMATORS = {
    "KSVD": pp.KSVD,
    "SparseKSVD": pp.SparseKSVD,
    "OnlineDictionaryLearning": pp.OnlineDictionaryLearning,
    "FastDictionaryLearning": pp.FastDictionaryLearning,
}
X = pp.datasets.fact(120, n_features=16, n_nonzero_coefs=2, random_state=0).signals.T.copy()


@pytest.fixture
def short_refinement(monkeypatch):
    """Short refinement of fast dictionaries, where it does not count how good they are."""
    lower(monkeypatch, refinement_rounds=0)


@pytest.fixture(params=ESTIMATORS.values(), ids=ESTIMATORS.keys())
def make(request, short_refinement):
    """An estimator class, quick to fit."""
    short = {} if request.param is pp.FastDictionaryLearning else {"max_iter": 5}
    return lambda *sizes, **options: request.param(*sizes, **short | {"random_state": 0} | options)


@parametrize_with_checks([pp.FastDictionaryLearning(effort=0.1)])  # The slow tests check all of them.
def test_scikit_learns_own_checks_pass(estimator, check, short_refinement):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([make() for make in ESTIMATORS.values()])
def test_scikit_learns_own_checks_pass_with_defaults(estimator, check):
    check(estimator)


def test_the_fitted_attributes_agree(make):
    model = make(20, 3).fit(X)
    assert model.components_.shape == (20, 16)
    np.testing.assert_allclose(model.operator_.toarray().T, model.components_, atol=1e-12)
    assert model.relative_complexity_ == model.operator_.relative_complexity
    assert len(model.history_) == model.n_iter_ > 0
    assert list(model.get_feature_names_out()[:2]) == [f"{type(model).__name__.lower()}{i}" for i in (0, 1)]


def test_transform_is_omp_and_inverse_transform_the_synthesis(make):
    model = make(20, 3).fit(X)
    codes = model.transform(X)
    expected = pp.omp(model.operator_, X.T, 3).toarray().T
    np.testing.assert_allclose(codes @ model.components_, expected @ model.components_, atol=1e-8)
    assert (np.count_nonzero(codes, axis=1) <= 3).all()
    np.testing.assert_allclose(model.inverse_transform(codes), codes @ model.components_, atol=1e-10)
    np.testing.assert_allclose(model.inverse_transform(sp.csr_array(codes)), codes @ model.components_, atol=1e-10)


def test_sparse_codes_on_request(make):
    dense = make(20, 3).fit(X)
    sparse = make(20, 3, transform_sparse=True).fit(X)
    codes = sparse.transform(X)
    assert isinstance(codes, sp.csr_array)
    np.testing.assert_array_equal(codes.toarray(), dense.transform(X))


def test_the_score_is_minus_the_relative_error(make):
    model = make(n_nonzero_coefs=3).fit(X)
    missing = X - model.inverse_transform(model.transform(X))
    assert model.score(X) == pytest.approx(-np.linalg.norm(missing) / np.linalg.norm(X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dtype_stays(make, dtype):
    model = make(n_nonzero_coefs=3).fit(X.astype(dtype))
    assert model.components_.dtype == model.operator_.dtype == dtype
    assert model.transform(X.astype(dtype)).dtype == dtype
    assert model.inverse_transform(model.transform(X.astype(dtype))).dtype == dtype


def test_fits_repeat_bit_for_bit_and_survive_pickling_and_cloning(make):
    model = make(20, 3).fit(X)
    again = clone(model).fit(X)
    np.testing.assert_array_equal(model.components_, again.components_)
    kept = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(kept.transform(X), model.transform(X))


def test_fit_changes_neither_data_nor_parameters(make):
    data, model = X.copy(), make(20, 3)
    before = model.get_params()
    model.fit(data)
    np.testing.assert_array_equal(data, X)
    assert model.get_params() == before


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (1, 3), (5, 2), (7, 3), (9, 12), (30, 7)])
def test_defaults_adapt_to_few_features_and_samples_and_to_any_size(make, shape):
    data = np.random.default_rng(0).standard_normal(shape)
    codes = make().fit(data).transform(data)
    assert codes.shape == (shape[0], shape[1])
    assert np.isfinite(codes).all()


def test_constant_and_zero_data_are_learned_without_a_warning(make):
    for data in (np.zeros((12, 6)), np.ones((12, 6))):
        assert np.isfinite(make().fit(data).transform(data)).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "n_components must be an integer of at least 1"),
        ({"n_components": 2.5}, "n_components"),
        ({"n_nonzero_coefs": 0}, "n_nonzero_coefs"),
        ({"n_nonzero_coefs": 17}, "n_nonzero_coefs must be an integer of at least 1 and at most 16"),
        ({"n_components": 3, "n_nonzero_coefs": 4}, "n_nonzero_coefs"),
        ({"checkpoint": 3}, "checkpoint"),
        ({"callback": 3}, "callback"),
        ({"random_state": "no"}, "no"),
    ],
)
def test_impossible_parameters_are_refused_by_name(make, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make(**options).fit(X)


def test_codes_of_the_wrong_width_are_refused(make):
    with pytest.raises(ValueError, match="X must have 20 columns"):
        make(20, 3).fit(X).inverse_transform(np.ones((2, 16)))


def test_a_callback_sees_the_steps_and_can_stop(make):
    steps = []

    def stop(step):
        steps.append(step)
        return len(steps) == 2

    model = make(20, 3, callback=stop).fit(X)
    assert steps[0].error >= 0
    assert np.isfinite(model.transform(X)).all()
    assert len(model.history_) <= 4


LIMITED = [pp.KSVD, pp.SparseKSVD, pp.OnlineDictionaryLearning]


@pytest.mark.parametrize(
    ("make", "options"),
    [
        *((make, options) for make in LIMITED for options in ({"max_iter": 0}, {"tol": -1.0}, {"tol": np.nan})),
        (pp.FastDictionaryLearning, {"effort": -1.0}),
        (pp.KSVD, {"plain": "yes"}),
    ],
)
def test_impossible_limits_are_refused_by_name(make, options):
    with pytest.raises((ValueError, TypeError), match=next(iter(options))):
        make(**options).fit(X)


def test_constructors_have_at_most_fifteen_parameters_documented_in_their_order():
    for make in (*ESTIMATORS.values(), pp.OrthogonalDictionaryLearning):
        names = list(inspect.signature(make).parameters)
        assert len(names) <= 15
        assert re.findall(r"^    (\w+) : ", make.__doc__.split("Attributes\n")[0], re.MULTILINE) == names


def test_in_a_pipeline_with_a_grid_search(make):
    labels = (X[:, 0] > 0).astype(int)
    search = GridSearchCV(
        make_pipeline(make(), LogisticRegression()),
        {f"{type(make()).__name__.lower()}__n_nonzero_coefs": [1, 2]},
        cv=2,
    )
    assert search.fit(X, labels).predict(X).shape == (120,)


# -- each estimator's own ------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [pp.OnlineDictionaryLearning, pp.FastDictionaryLearning])
def test_partial_fit_learns_from_batch_to_batch(make):
    data = pp.datasets.rand(4000, n_features=16, n_nonzero_coefs=2, random_state=0).signals.T
    model = make(n_nonzero_coefs=2, random_state=0)
    scores = []
    for batch in np.split(data, 40):
        model.partial_fit(batch)
        scores.append(model.score(data))
    assert scores[-1] > scores[0]
    assert len(model.history_) == model.n_iter_
    assert model.history_[-1].phase == "partial fit"


@pytest.mark.parametrize("make", [pp.OnlineDictionaryLearning, pp.FastDictionaryLearning])
def test_partial_fit_goes_on_from_a_fit(make):
    data = np.random.default_rng(0).standard_normal((2000, 16))
    model = make(n_nonzero_coefs=2, random_state=0).fit(data)
    before, count = model.score(data), len(model.history_)
    model.partial_fit(data[:50])  # On their own they would make it worse by 3 %.
    assert model.score(data) > 1.005 * before  # scores are negative
    assert len(model.history_) == count + 1


def test_a_stopped_fast_fit_can_go_on_with_partial_fit(short_refinement):
    model = pp.FastDictionaryLearning(n_nonzero_coefs=3, random_state=0, callback=lambda step: True)
    model.partial_fit(X).partial_fit(X)
    assert np.isfinite(model.transform(X)).all()


@pytest.mark.parametrize(
    ("shape", "complexity", "n_factors"),
    [
        ((16, 16), 0.3, None),
        ((16, 16), 0.8, 3),
        ((16, 40), 0.5, None),
        ((16, 40), 0.3, 3),
        ((16, 9), 0.8, None),
        ((16, 9), 0.5, 3),
    ],
)
def test_complexity_is_never_exceeded_and_is_used(shape, complexity, n_factors, short_refinement):
    wanted = {"complexity": complexity}
    if n_factors is not None:
        wanted = {"schedule": pp.Schedule.with_complexity(shape, complexity, n_factors)}
    model = pp.FastDictionaryLearning(shape[1], 3, **wanted, effort=0.1, random_state=0).fit(X)
    assert 0.9 * complexity <= model.relative_complexity_ <= complexity
    assert len(model.operator_.factors) == (2 if n_factors is None else n_factors)


@pytest.mark.slow
def test_the_error_falls_as_complexity_grows():
    data = pp.datasets.rand(random_state=0).signals.T
    scores = [
        pp.FastDictionaryLearning(n_nonzero_coefs=5, complexity=c, random_state=0).fit(data).score(data)
        for c in (0.15, 0.3, 0.8)
    ]
    assert scores == sorted(scores)


def test_more_atoms_than_samples_are_warned_of_at_the_callers_line(make):
    with pytest.warns(UserWarning, match=r"20 atoms are too many for 10 samples") as caught:
        make(20, 2).fit(X[:10])
    assert [each.filename for each in caught if "atoms" in str(each.message)] == [__file__]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"complexity": 0.05}, "complexity must be at least 0.125 for 2 factors"),
        ({"complexity": -1.0}, "complexity"),
        ({"complexity": 30}, "complexity must be a real number from 0 to 1, got 30"),
        ({"complexity": np.nan}, "complexity"),
        ({"schedule": pp.Schedule.paper(8, 3, 2, 32)}, "schedule must be for"),
        ({"schedule": 3}, "schedule must be a Schedule"),
        ({"schedule": pp.Schedule.paper(16, 3, 2, 128), "complexity": 0.5}, "complexity and schedule cannot be"),
        ({"speedup": 2, "complexity": 0.5}, "complexity and speedup cannot be combined: give one of them"),
        ({"init": "svd"}, "init must be one of 'ksvd', 'online'"),
        ({"init": np.ones((3, 3))}, "init must have shape"),
    ],
)
def test_impossible_targets_of_fast_dictionaries_are_named(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        pp.FastDictionaryLearning(**options).fit(X)


def test_every_start_of_a_fast_dictionary_works(short_refinement):
    start = np.random.default_rng(0).standard_normal((16, 16))
    for init in ("ksvd", "online", start, start.tolist()):
        model = pp.FastDictionaryLearning(n_nonzero_coefs=3, init=init, effort=0.1, random_state=0).fit(X)
        assert model.relative_complexity_ <= 0.5


@pytest.mark.parametrize("make", LIMITED)
def test_reaching_max_iter_warns(make):
    with pytest.warns(ConvergenceWarning, match="increase max_iter"):
        model = make(20, 3, max_iter=1, random_state=0).fit(X)
    assert model.status_ == "max_iter"


@pytest.mark.parametrize(
    ("make", "options"),
    [(pp.KSVD, {"max_iter": 8}), (pp.OnlineDictionaryLearning, {"max_iter": 8}), (pp.FastDictionaryLearning, {})],
)
def test_the_share_of_work_that_is_done_rises_to_one(make, options, short_refinement):
    seen = []
    make(20, 3, **options, random_state=0, callback=lambda step: seen.append(step.done)).fit(X)
    assert (np.diff(seen) >= 0).all()
    assert seen[0] < 0.3
    assert seen[-1] == pytest.approx(1)


def test_a_few_features_with_nearly_all_energy_are_warned_of(make, recwarn):
    make(20, 2).fit(X)
    assert not [each for each in recwarn if "energy" in str(each.message)]
    uneven = X.copy()
    uneven[:, 3] *= 1e6
    with pytest.warns(UserWarning, match=r"1 of 16 features carry all but .* of the energy") as caught:
        make(20, 2).fit(uneven)
    assert [each.filename for each in caught if "energy" in str(each.message)] == [__file__]


@pytest.mark.parametrize("make", [pp.KSVD, pp.OnlineDictionaryLearning])
def test_learning_with_a_penalty_reaches_the_objective_of_scikit_learn(make):
    """½‖x − Dγ‖² + alpha·‖γ‖₁ of new codes: at most one percent above that of scikit-learn's learner."""
    from sklearn.decomposition import MiniBatchDictionaryLearning

    data, alpha = pp.datasets.image_patches(600, 4, random_state=0), 0.3
    data = data / data.std()

    def objective(dictionary):
        codes = pp.lasso(dictionary, data.T, alpha)
        return (0.5 * np.linalg.norm(data.T - dictionary @ codes) ** 2 + alpha * abs(codes).sum()) / len(data)

    model = make(24, fit_algorithm="lasso", alpha=alpha, random_state=0).fit(data)
    learner = MiniBatchDictionaryLearning(
        24, alpha=alpha, max_iter=10, batch_size=64, fit_algorithm="cd", random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # scikit-learn's coordinate descent warns.
        ours, theirs = objective(model.components_.T), objective(learner.fit(data).components_.T)
    assert ours <= 1.01 * theirs
    empty = 0.5 * np.linalg.norm(data) ** 2 / len(data)
    assert model.history_.error[-1] == pytest.approx(np.sqrt(ours / empty), rel=1e-6)
    model.set_params(transform_algorithm="lasso")
    expected = pp.lasso(model.components_.T, data.T, alpha).toarray()
    np.testing.assert_allclose(model.transform(data).T, expected, atol=1e-9)


def test_print_as_a_callback_writes_a_line_for_each_step(make, capsys):
    model = make(callback=print).fit(X)
    written = capsys.readouterr()
    assert written.err == ""
    lines = [line for line in written.out.splitlines() if "relative error" in line]
    assert len(lines) >= len(model.history_)
