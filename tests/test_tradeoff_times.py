"""Trade-offs against measured time: measured when shown, once per operator, and left out where it cannot be."""

import json
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

import papilio as pp
from papilio import results
from papilio.operators import speed as measure
from papilio.plot.tradeoffs import relative_times
from papilio.report import Subject, page
from papilio.results import Speedup, TradeoffPoint

pytestmark = pytest.mark.usefixtures("close_figures")


def diagonal(entries):
    values = np.zeros((10, 10))
    values.flat[:entries] = 1
    return pp.SparseProduct([values])


@pytest.fixture
def sweep():
    """Four points, of which the last two share an operator."""
    few, some, many = map(diagonal, (10, 30, 60))
    found = [(0.1, 0.9, few), (0.3, 0.4, some), (0.6, 0.2, many), (0.9, 0.2, many)]
    return pp.Tradeoff(tuple(TradeoffPoint(*point) for point in found), 0.1, pp.results.Status.CONVERGED, 1.0)


GAINS = {10: 4.0, 30: 2.0, 60: 0.8}
SLOWER = '<span class="slower">0.8× <small>slower</small></span>'
TIMES = [0.25, 0.5, 1.25, 1.25]


@pytest.fixture
def measured(monkeypatch):
    """Measurements of chosen results, by the number of entries; records the operators."""
    calls = []

    def fake(op):
        calls.append(op)
        gain = GAINS.get(op.nnz, 1.5)
        return Speedup(gain / 2, gain)

    monkeypatch.setattr(results, "speedup_of", fake)
    return calls


# -- measuring -----------------------------------------------------------------------------------------------


def test_each_operator_is_measured_once_and_on_first_use(sweep, measured):
    assert not measured
    assert [speedup.block for speedup in sweep.speedups] == [4.0, 2.0, 0.8, 0.8]
    assert sweep.speedups is sweep.speedups
    assert [op.nnz for op in measured] == [10, 30, 60]
    assert relative_times(sweep) == TIMES


def test_real_measurements_are_positive(sweep):
    assert all(min(speedup) > 0 for speedup in sweep.speedups)


# -- the figure ----------------------------------------------------------------------------------------------


def points_of(ax):
    return next(line for line in ax.lines if line.get_label() == "points").get_xydata()


@pytest.mark.parametrize("make", [lambda: None, Figure, lambda: Figure().subfigures(1, 2)[1]])
def test_errors_are_drawn_against_complexities_and_beside_them_against_times(sweep, measured, make):
    left = sweep.plot(make())
    _, right = left.figure.axes
    assert left is left.figure.axes[0]
    errors = [point.error for point in sweep.points]
    complexities = [point.operator.relative_complexity for point in sweep.points]
    np.testing.assert_allclose(points_of(left), np.transpose([complexities, errors]))
    np.testing.assert_allclose(points_of(right), np.transpose([TIMES, errors]))
    assert left.get_xlabel().startswith("relative complexity")
    assert right.get_xlabel() == "time for 256 vectors / time of the dense matrix"
    assert (left.get_xscale(), right.get_xscale()) == ("linear", "log")
    assert left.get_ylim() == right.get_ylim()
    assert left.get_ylabel() == "relative error"


# -- the page ------------------------------------------------------------------------------------------------


def written(sweep):
    return page("op", [Subject("op", sweep.knee.operator, tradeoff=sweep)], "1")


def test_the_page_shows_both_diagrams_and_a_column_of_speedups(sweep, measured):
    text = written(sweep)
    assert "<h2>Error against complexity and time</h2>" in text
    assert 'alt="relative error against complexity and time, 4 points"' in text
    assert "a block of 256 vectors, relative to the dense matrix" in text
    rows = text.split("<th>speed-up</th>")[1].split("</table>")[0].split("<tr")[1:]
    assert [row.split("<td>")[-1].split("</td>")[0] for row in rows] == ["4×", "2×", SLOWER, SLOWER]
    assert "Below 1× the dense matrix is faster" in text
    assert len(measured) == 3


# -- the command ---------------------------------------------------------------------------------------------


@pytest.fixture
def found(sweep, monkeypatch):
    """The command finds this trade-off at once, for a matrix and for samples."""
    for home, name in ((pp, "tradeoff"), (pp.dictionary, "dictionary_tradeoff")):
        monkeypatch.setattr(home, name, lambda *arguments, **options: replace(sweep))


@pytest.mark.parametrize("words", [(), ("--n-nonzero-coefs", 2)])
def test_the_command_lists_speedups(found, measured, papilio, words):
    code, out, err = papilio("tradeoff", "hadamard:16", "-o", "sweep", *words)
    assert (code, err) == (0, "")
    heading, _, *lines = [line for line in out.splitlines() if line.strip()]
    assert heading.split() == ["complexity", "needed", "entries", "error", "speed-up"]
    assert [line.split()[4] for line in lines[:4]] == ["4×", "2×", "0.8×", "0.8×"]
    assert "256 vectors at once, compared with the dense matrix, measured on this machine" in out
    assert len(measured) == 3


def test_the_command_gives_speedups_as_json(found, measured, papilio):
    told = json.loads(papilio("tradeoff", "hadamard:16", "-o", "sweep", "--json")[1])
    assert [point["speedup_vector"] for point in told["points"]] == [2.0, 1.0, 0.4, 0.4]
    assert [point["speedup_block"] for point in told["points"]] == [4.0, 2.0, 0.8, 0.8]


@pytest.fixture
def too_large(monkeypatch):
    """No dense matrix fits into the memory."""
    monkeypatch.setattr(measure, "memory", lambda: 0)


def test_the_page_leaves_times_out_where_they_cannot_be_measured(sweep, too_large):
    text = written(sweep)
    assert "<h2>Error against complexity</h2>" in text
    assert 'alt="relative error against complexity, 4 points"' in text
    assert "speed-up" not in text
    assert "nan" not in text


def test_places_that_are_neither_axes_nor_figures_are_refused(sweep, measured):
    for series in (sweep, {"a": [(0.5, 0.5)]}):
        with pytest.raises(TypeError, match="ax must be matplotlib Axes, a Figure or a SubFigure, got str"):
            pp.plot.tradeoff(series, "figure")
    assert not measured
