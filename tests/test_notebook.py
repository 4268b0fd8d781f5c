"""In a notebook an operator shows itself: soundly, small, on any page."""

import base64
import io
from html.parser import HTMLParser

import numpy as np
import pytest
import scipy.sparse as sp

import papilio as pp

BIG = sp.random_array((300_000, 200_000), density=2e-6, rng=0, format="csr")
OPERATORS = {
    "one entry": pp.SparseProduct([[[1.0]]]),
    "zero": pp.SparseProduct([np.zeros((3, 2))], 0.0),
    "complex": pp.transforms.dft(16),
    "hadamard": pp.transforms.hadamard(1024),
    "single precision": pp.transforms.hadamard(8).astype(np.float32),
    "long": pp.SparseProduct([np.eye(4)] * 200),
    "tall": pp.SparseProduct([sp.csr_array(np.ones((5000, 1))), np.ones((1, 3))]),
    "huge": pp.SparseProduct([BIG, BIG.T]),
    "noise": pp.SparseProduct([np.random.default_rng(i).standard_normal((300, 300)) for i in range(12)]),
}


class Checker(HTMLParser):
    """Every element is closed in order, and nothing is loaded from elsewhere."""

    def __init__(self):
        super().__init__()
        self.open, self.images, self.text = [], [], ""

    def handle_starttag(self, tag, attributes):
        assert tag in ("div", "strong", "table", "tr", "td", "img", "br", "sub")
        if tag == "img":
            self.images.append(dict(attributes))
        if tag not in ("img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def parse(fragment):
    checker = Checker()
    checker.feed(fragment)
    checker.close()
    assert not checker.open
    return checker


@pytest.mark.parametrize("name", OPERATORS)
def test_the_fragment_is_valid_small_and_shows_the_figures(name):
    op = OPERATORS[name]
    fragment = op._repr_html_()
    assert len(fragment.encode()) < 100_000
    assert "http" not in fragment
    assert "<script" not in fragment
    shown = parse(fragment)
    for fact in (str(op.dtype), f"{op.shape[0]} × {op.shape[1]}", f"{op.nnz:,}", f"{op.relative_complexity:.4g}"):
        assert fact in shown.text
    assert f"of {len(op.factors)} factor" in shown.text
    assert len(shown.images) == min(len(op.factors), 7 if len(op.factors) > 8 else 8)


def pixels(image):
    from PIL import Image

    kind, data = image["src"].split(",")
    assert kind == "data:image/png;base64"
    picture = Image.open(io.BytesIO(base64.b64decode(data)))
    picture.load()
    return np.asarray(picture.convert("RGBA")).astype(int)


def test_pictures_show_where_entries_are_and_their_signs():
    values = np.array([[0.0, 2.0, 0.0], [-1e-6, 0.0, -2.0]])
    picture = pixels(parse(pp.SparseProduct([values])._repr_html_()).images[0])
    assert picture.shape == (2, 3, 4)
    is_blue = picture[..., 2] > picture[..., 0] + 20
    is_orange = picture[..., 0] > picture[..., 2] + 20
    np.testing.assert_array_equal(is_blue, values < -1)
    np.testing.assert_array_equal(is_orange, values > 1)
    assert abs(picture[0, 0] - picture[1, 0]).max() <= 1  # a tiny entry looks like zero


def test_a_factorization_shows_its_figures_and_its_factors():
    fit = pp.factorize(pp.transforms.hadamard(16).toarray())
    fragment = fit._repr_html_()
    assert len(fragment.encode()) < 100_000
    shown = parse(fragment)
    for fact in ("16 × 16 float64", "4 factors", "exact", "128 of 256", "0.5", "kronecker", "converged"):
        assert fact in shown.text
    assert len(shown.images) == 4
    assert "speed-up" not in shown.text  # nothing is measured for a view
    assert "speedup" not in vars(fit)
    vars(fit)["speedup"] = pp.results.Speedup(0.5, 3.0)
    assert "one vector 0.5× (slower), 256 vectors 3×" in parse(fit._repr_html_()).text


@pytest.mark.parametrize("value", [1.0, 0.0, 1j])
def test_small_and_rough_factorizations_are_shown_too(value):
    fit = pp.factorize(np.full((1, 1), value))
    assert "1 × 1" in parse(fit._repr_html_()).text
    noise = np.random.default_rng(0).standard_normal((8, 8)) * (value or 1)
    fit = pp.palm(noise, [pp.constraints.Sparse((8, 8), 20)] * 2, max_iter=3)
    assert f"{fit.error:.3g}" in parse(fit._repr_html_()).text
    assert "found by" not in fit._repr_html_()


def tradeoff(*points, status=pp.results.Status.CONVERGED):
    made = [
        pp.results.TradeoffPoint(complexity, error, pp.SparseProduct([np.eye(4)[:k].T @ np.eye(4)[:k]]))
        for complexity, error, k in points
    ]
    return pp.Tradeoff(tuple(made), 0.0, status, 1.0, "error <of 2>")


def test_a_tradeoff_is_readable_as_text():
    found = tradeoff((0.1, 0.9, 1), (0.2, 0.03, 2), (0.9, 1e-16, 4))
    assert repr(found) == (
        "<Tradeoff of a 4×4 float64 matrix: 3 points, knee at relative complexity 0.125, error <of 2> 0.03>"
    )
    lines = str(found).splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["0.1", "0.0625", "1", "0.9"],
        ["0.2", "0.125", "2", "0.03", "knee"],
        ["0.9", "0.25", "4", "exact"],
    ]
    vars(found)["speedups"] = (pp.results.Speedup(1.0, 2.0), pp.results.Speedup(1.0, 0.5)) * 2
    assert "0.5× (slower)  knee" in str(found)
    assert repr(tradeoff(status=pp.results.Status.STOPPED)) == "<Tradeoff without points, stopped>"
    assert str(tradeoff()).split() == ["complexity", "needed", "entries", "error", "<of", "2>"]


def test_a_tradeoff_is_a_table_in_a_notebook():
    found = tradeoff((0.1, 0.9, 1), (0.9, 0.0, 4))
    fragment = found._repr_html_()
    assert "<td>exact</td>" in fragment
    assert "error &lt;of 2&gt;" in fragment
    assert fragment.count("font-weight:bold") == 1
    assert "×" not in fragment
    vars(found)["speedups"] = (pp.results.Speedup(1.0, 2.0), pp.results.Speedup(1.0, 0.5))
    assert "0.5× (slower)" in found._repr_html_()
    assert tradeoff()._repr_html_()
