"""Many complexities in one call: monotone, within its limits, cheap, and stopped without loss."""

import json
import os

import matplotlib
import numpy as np
import pytest

import papilio as pp
from papilio import results
from papilio.cli import factorizations as command
from papilio.cli.console import ProgressBar, Stopped
from papilio.dictionary import complexities as dictionaries
from papilio.operators.speed import speedup_of
from papilio.search.methods import sparse_factors as candidates
from papilio.search.tradeoff import never_rising

from .helpers import gaussian, true_error

matplotlib.use("Agg")

COMPLEXITIES = [0.35, 0.5, 0.7, 0.9]


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch):
    """Enough to see what is meant."""
    monkeypatch.setattr(candidates, "_ROUNDS", 16)
    monkeypatch.setattr(results, "speedup_of", lambda op: speedup_of(op, 0.0))


@pytest.fixture(scope="module")
def matrix():
    return gaussian((10, 14))


@pytest.fixture(scope="module")
def signals():
    return pp.datasets.rand(200, n_features=10, n_nonzero_coefs=2, random_state=0).signals


@pytest.fixture(params=["matrix", "signals"])
def tradeoff(request):
    """The sweep of a matrix, or of dictionaries, as a function of options."""
    data = request.getfixturevalue(request.param)

    def call(**options):
        if request.param == "matrix":
            return pp.tradeoff(data, COMPLEXITIES, **options)
        return pp.dictionary.dictionary_tradeoff(data, None, 2, complexities=COMPLEXITIES, **options)

    call.is_learned = request.param == "signals"
    return call


def check(sweep, complexities):
    assert [point.complexity for point in sweep.points] == pytest.approx(complexities)
    for point in sweep.points:
        assert point.operator.relative_complexity <= point.complexity + 1e-12
    errors = [point.error for point in sweep.points]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < errors[0]
    assert sweep.status == "converged"
    assert sweep.seconds > 0


@pytest.mark.slow
def test_a_matrix_is_approximated_better_the_more_entries_it_may_have(matrix):
    sweep = pp.tradeoff(matrix, COMPLEXITIES)
    check(sweep, COMPLEXITIES)
    for point in sweep.points:
        assert point.error == pytest.approx(true_error(matrix, point.operator))
    assert sweep.dense_error == 0
    assert sweep.error_name == "relative error"


def coding_error(signals, operator):
    missed = signals - operator @ pp.omp(operator, signals, 2)
    return np.linalg.norm(missed) / np.linalg.norm(signals)


def test_signals_are_coded_better_the_more_entries_the_dictionary_may_have(signals):
    sweep = pp.dictionary.dictionary_tradeoff(signals, 12, 2, complexities=COMPLEXITIES)
    check(sweep, COMPLEXITIES)
    for point in sweep.points:
        assert point.operator.shape == (10, 12)
        assert point.error == pytest.approx(coding_error(signals, point.operator), rel=1e-6)
    assert sweep.error_name == "relative error, 2 atoms per signal"
    dense = pp.KSVD(12, 2, random_state=0).fit(signals.T)
    assert sweep.dense_error == pytest.approx(dense.history_[-1].error, rel=0.02)


def test_many_signals_are_learned_from_in_part_and_measured_in_full(signals, monkeypatch):
    def only_point():
        return pp.dictionary.dictionary_tradeoff(signals, None, 2, complexities=[0.6]).points[0]

    monkeypatch.setattr(dictionaries, "enough", lambda n_components: 60)
    point = only_point()
    assert point.error == pytest.approx(coding_error(signals, point.operator), rel=1e-6)
    monkeypatch.undo()
    assert only_point().error < point.error


def test_a_small_matrix_has_what_is_possible(matrix):
    first, last = (point.complexity for point in pp.tradeoff(matrix, 2).points)
    assert 24 / 140 <= first < 24 / 140 + 0.001  # one entry per column of each factor
    assert last == pytest.approx(0.8)
    assert [point.complexity for point in pp.tradeoff(np.ones((2, 2))).points] == [1.0]


def test_structure_is_found_at_once_and_is_the_knee():
    H = pp.transforms.hadamard(16).toarray()
    sweep = pp.tradeoff(H, [0.2, 0.4, 0.5, 0.6, 0.9])
    assert [point.error < 1e-12 for point in sweep.points] == [False, False, True, True, True]
    assert sweep.knee is sweep.points[2]
    assert sweep.front == sweep.points[:3]
    assert sweep.points[4].operator is sweep.points[2].operator


@pytest.mark.slow
def test_the_sweep_does_not_depend_on_the_unit_and_repeats(matrix):
    first = pp.tradeoff(matrix, COMPLEXITIES[:2])
    for other in (pp.tradeoff(matrix, COMPLEXITIES[:2]), pp.tradeoff(2.0**40 * matrix, COMPLEXITIES[:2])):
        assert [point.error for point in other.points] == [point.error for point in first.points]


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_number_types_stay_as_they_are(dtype):
    M = np.random.default_rng(0).standard_normal((6, 6)).astype(dtype)
    if M.dtype.kind == "c":
        M = M + 1j * M[::-1]
    sweep = pp.tradeoff(M, [0.4, 0.8])
    check(sweep, [0.4, 0.8])
    assert all(point.operator.dtype == dtype for point in sweep.points)


def test_at_complexity_one_the_result_is_the_matrix_itself(matrix):
    sweep = pp.tradeoff(matrix, [0.5, 1.0])
    assert sweep.points[0].error > 0.01
    assert sweep.points[1].error == 0.0
    np.testing.assert_array_equal(sweep.points[1].operator.toarray(), matrix)
    assert len(pp.tradeoff(matrix, [1.0], n_factors=2).points[0].operator.factors) == 2


def test_a_better_point_with_fewer_entries_replaces_a_worse_one():
    points = made((10, 0.5), (20, 0.6), (30, 0.4), (40, 0.4)).points
    chosen = never_rising(points)
    assert [(point.complexity, point.error) for point in chosen] == [
        (0.1, 0.5),
        (0.2, 0.5),
        (0.3, 0.4),
        (0.4, 0.4),
    ]
    assert [point.operator.nnz for point in chosen] == [10, 10, 30, 30]


# -- callbacks -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_callback_hears_which_point_it_is_and_how_much_is_done(tradeoff):
    steps = []
    tradeoff(callback=steps.append)
    shares = [step.done for step in steps]
    assert all(0 <= share <= 1 for share in shares)
    assert shares == sorted(shares)
    assert shares[-1] > 0.7
    for i in range(4):
        assert any(step.phase.startswith(f"point {i + 1} of 4") for step in steps)


@pytest.mark.slow
def test_a_sweep_that_is_stopped_returns_the_points_so_far(tradeoff):
    whole = tradeoff()
    sweep = tradeoff(callback=lambda step: step.phase.startswith("point 3"))
    assert sweep.status == "stopped"
    # Dictionaries go from the highest complexity to the lowest, a matrix the other way.
    kept = whole.points[2:] if tradeoff.is_learned else whole.points[:2]
    assert [point.complexity for point in sweep.points] == [point.complexity for point in kept]
    if not tradeoff.is_learned:
        assert [point.error for point in sweep.points] == [point.error for point in kept]


def test_a_sweep_that_is_stopped_at_once_still_has_a_point(tradeoff):
    sweep = tradeoff(callback=lambda step: True)
    (point,) = sweep.points
    assert point.operator.relative_complexity <= point.complexity
    assert np.isfinite(point.error)
    assert sweep.knee is point


# -- bad input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([[np.nan]],), {}, "M must hold finite numbers only"),
        ((np.ones((3, 3)), 0), {}, "complexities must be an integer of at least 1"),
        ((np.ones((3, 3)), 0.5), {}, "complexities must be a number of points or a sequence"),
        ((np.ones((3, 3)), []), {}, "complexities must hold at least one number"),
        ((np.ones((9, 9)), [0.5, 1.5]), {}, r"complexities\[1\] must be a real number from 0 to 1"),
        ((np.ones((9, 9)), [0.5, 0.1]), {}, r"complexities\[1\] must be at least 0.2222"),
        ((np.ones((3, 3)),), {"n_factors": 1}, "n_factors must be an integer of at least 2"),
        (
            (np.ones((3, 3)),),
            {"n_factors": 9},
            "n_factors must be less than 9: one entry per row or column of each of 9 factors of a 3×3 matrix",
        ),
        ((np.ones((1, 6)),), {"n_factors": 2}, "M must be larger: one entry per row or column"),
        ((np.ones((9, 9)),), {"callback": 1}, "callback must be callable"),
        ((np.ones((9, 9)),), {"random_state": "x"}, "random_state must be"),
    ],
)
def test_bad_input_is_named_before_any_work(arguments, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        pp.tradeoff(*arguments, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_nonzero_coefs": 10}, "n_nonzero_coefs must be an integer of at least 1"),
        ({"n_components": 1}, "n_components must be an integer of at least 2"),
        ({"n_factors": 1}, "n_factors must be an integer of at least 2"),
        ({"complexities": [0.1]}, r"complexities\[0\] must be at least 0.2222"),
        ({"callback": 1}, "callback must be callable"),
        ({"random_state": "x"}, "random_state must be"),
    ],
)
def test_bad_input_of_dictionaries_is_named_before_any_work(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        pp.dictionary.dictionary_tradeoff(np.ones((9, 9)), **options)


# -- the result ----------------------------------------------------------------------------------------------


def made(*pairs, dense_error=0.0):
    """A trade-off of 10×10 matrices with these numbers of entries and errors."""
    points = []
    for entries, error in pairs:
        diagonal = np.zeros((10, 10))
        diagonal.flat[:entries] = 1
        points.append(pp.results.TradeoffPoint(entries / 100, error, pp.SparseProduct([diagonal])))
    return pp.Tradeoff(tuple(points), dense_error, pp.results.Status.CONVERGED, 1.0)


def test_the_front_leaves_out_what_gains_nothing():
    sweep = made((10, 0.9), (20, 0.5), (30, 0.5), (40, 0.4))
    assert [round(point.complexity, 2) for point in sweep.front] == [0.1, 0.2, 0.4]


def test_the_knee_is_where_more_entries_no_longer_pay():
    assert made((5, 0.90), (20, 0.40), (60, 0.30), (90, 0.25)).knee.complexity == 0.2
    assert made((5, 0.90), (20, 0.85), (40, 0.01), (90, 0.0)).knee.complexity == 0.4
    assert made((5, 0.5)).knee.complexity == 0.05


def test_the_best_within_a_complexity_is_found():
    sweep = made((10, 0.9), (20, 0.5), (40, 0.4))
    assert sweep.at(0.3).error == 0.5
    assert sweep.at(0.4).error == 0.4
    with pytest.raises(ValueError, match=r"complexity must be at least 0\.1"):
        sweep.at(0.05)


def test_a_saved_sweep_has_a_table_and_all_operators(tmp_path):
    sweep = made((5, 0.90), (20, 0.40), (60, 0.30))
    sweep.save(tmp_path / "new" / "sweep")
    heading, *lines = (tmp_path / "new" / "sweep" / "points.csv").read_text().splitlines()
    assert heading == "complexity,relative_complexity,entries,error,knee,file"
    assert [line.split(",")[4] for line in lines] == ["0", "1", "0"]
    for line, point in zip(lines, sweep.points, strict=True):
        assert pp.load(tmp_path / "new" / "sweep" / line.split(",")[5]) == point.operator
    assert pp.load(tmp_path / "new" / "sweep" / "knee.npz") == sweep.knee.operator


# -- the command ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_writes_what_the_function_finds(tmp_path, papilio, matrix):
    np.save(tmp_path / "M.npy", matrix)
    code, out, err = papilio("tradeoff", "M.npy", "-o", "sweep", "--points", 3, "--json")
    assert (code, err) == (0, "")
    told, sweep = json.loads(out), pp.tradeoff(matrix, 3)
    assert [point["error"] for point in told["points"]] == [point.error for point in sweep.points]
    assert sweep.points[told["knee"]] is sweep.knee
    names = sorted(path.name for path in (tmp_path / "sweep").iterdir())
    operators = [f"operator-0{i}.npz" for i in (1, 2, 3)]
    assert names == ["knee.npz", *operators, "points.csv", "tradeoff.png"]
    assert pp.load(tmp_path / "sweep" / "knee.npz") == sweep.knee.operator


def test_after_ctrl_c_the_points_so_far_are_kept(tmp_path, monkeypatch, matrix):
    np.save(tmp_path / "M.npy", matrix)
    report = ProgressBar.report

    def interrupting(bar, step):
        if step.phase.startswith("point 2") and not bar.stopping:
            os.kill(os.getpid(), 2)  # Ctrl-C
        return report(bar, step)

    monkeypatch.setattr(ProgressBar, "report", interrupting)
    with pytest.raises(Stopped, match="the 1 of 3 points so far are in"):
        command.tradeoff(str(tmp_path / "M.npy"), tmp_path / "sweep", 3)
    assert (tmp_path / "sweep" / "operator-01.npz").exists()
    assert not (tmp_path / "sweep" / "operator-02.npz").exists()


def test_invalid_options_of_report_are_refused(tmp_path, papilio, matrix):
    np.save(tmp_path / "M.npy", matrix)
    (tmp_path / "file").touch()
    assert "cannot be used as a folder" in papilio("tradeoff", "M.npy", "-o", "file")[2]
    assert "--patches is for images" in papilio("tradeoff", "M.npy", "-o", "sweep", "--patches", 4)[2]
    assert "samples must be real" in papilio("tradeoff", "dft:8", "-o", "sweep", "--n-nonzero-coefs", 2)[2]
    assert "no such file" in papilio("tradeoff", "none.npy", "-o", "sweep")[2]
    assert not (tmp_path / "sweep").exists()


def test_the_default_is_twelve_complexities_in_equal_ratios():
    sweep = pp.tradeoff(np.eye(64))
    np.testing.assert_allclose([point.complexity for point in sweep.points], np.geomspace(0.05, 0.8, 12))
