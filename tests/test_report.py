"""The page about a result: valid HTML that needs nothing else, is small, and shows the right numbers."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import scipy.sparse

import papilio as pp
from papilio import results
from papilio.cli import learn
from papilio.cli import pages as command
from papilio.operators import speed as measure
from papilio.report import Subject, page

VOID = {"meta", "link", "img", "br"}
MOST_BYTES = 2_000_000


class Reader(HTMLParser):
    """Elements of a page, which must be closed in order."""

    def __init__(self, text):
        super().__init__()
        self.found, self._open, self.text = [], [], []
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open and self._open[-1] != "style":
            self.text.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.found if name == tag]

    def headings(self, level):
        return [tag for tag, _ in self.found if tag == level]


def check(text):
    """What holds for every page."""
    assert text.startswith("<!doctype html>")
    assert len(text.encode()) < MOST_BYTES
    read = Reader(text)
    assert read.all("html") == [{"lang": "en"}]
    assert not read.all("script")
    assert not [name for _, attributes in read.found for name in attributes if name.startswith("on")]
    addresses = [a[name] for _, a in read.found for name in ("src", "href", "srcset") if name in a]
    assert all(address.startswith("data:") for address in addresses)
    assert not re.search(r"url\(|@import|https?://", text)
    assert all(a["alt"] for a in read.all("img"))
    assert len(read.headings("h1")) == 1
    return read


def history(*phases):
    steps = [
        pp.results.Step(phase, i + 1, 0.9 ** (i + 1), 1.0, 0.1 * i)
        for phase, count in phases
        for i in range(count)
    ]
    return pp.results.History(steps)


@pytest.fixture(autouse=True)
def short_measurements(monkeypatch):
    monkeypatch.setattr(results, "speedup_of", lambda op: measure.speedup_of(op, 0.0))


@pytest.fixture(scope="module")
def sweep():
    factors = [np.triu(np.ones((16, 16))), np.tril(np.ones((16, 20)))]
    points = [
        pp.results.TradeoffPoint(
            complexity, error, pp.SparseProduct([factor[:, :k] @ np.eye(k, 16) for factor in factors[:1]])
        )
        for complexity, error, k in ((0.1, 0.9, 4), (0.3, 0.3, 8), (0.8, 0.2, 16))
    ]
    return pp.Tradeoff(tuple(points), 0.1, pp.results.Status.CONVERGED, 1.0, "relative error, 2 atoms per sample")


def test_a_page_with_all_sections_is_valid_html(sweep):
    op = pp.transforms.haar(16)
    subject = Subject(
        "haar.npz",
        op,
        "haar:16",
        0.1234,
        speeds=[measure.Speed("product", 1, 4e-6, 2e-6), measure.Speed("product", 256, 9e-5, 2e-5)],
        history=history(("split 1", 5), ("global 1", 7), ("final", 1)),
        attempts=[
            pp.results.Attempt("transform", "no known transform", np.inf, 0, 0.1),
            pp.results.Attempt("low_rank", "rank 2", 0.5, 64, 1),
        ],
        tradeoff=sweep,
        atom_shape=(4, 4),
        facts={"Time": "1.5 s"},
    )
    text = page("haar.npz", [subject], "1.2.3")
    words = " ".join(check(text).text)
    for expected in (
        "0.123",
        f"{op.nnz:,}",
        f"product of {len(op.factors)} sparse factors",
        "4.5×",
        "2× for one",
        "haar:16",
        "no known transform",
        "1.5 s",
        "papilio 1.2.3",
        "knee",
        "relative error, 2 atoms per sample",
    ):
        assert expected in words, expected
    assert len(check(text).headings("h2")) == 7
    assert "final" not in words


def test_sections_without_data_are_left_out():
    read = check(page("op", [Subject("op", pp.transforms.hadamard(8))], "1"))
    words = " ".join(read.text)
    assert "not known" in words
    for heading in ("Atoms", "Speed", "Error against complexity", "How the error fell", "Methods tried"):
        assert heading not in words


def test_errors_that_are_not_finite_are_said_not_drawn():
    steps = history(("palm", 1))
    broken = pp.results.History([steps[0]._replace(error=np.nan), steps[0]._replace(error=np.inf)])
    subject = Subject("op", pp.transforms.hadamard(4), error=np.nan, history=broken)
    words = " ".join(check(page("op", [subject], "1")).text)
    assert "not finite" in words
    assert "How the error fell" not in words


# -- the command ---------------------------------------------------------------------------------------------


@pytest.fixture
def papilio(papilio, monkeypatch):
    """The command line, which measures speed as short as it can."""
    monkeypatch.setattr(command, "both_ways", lambda op, dense, block: measure.both_ways(op, dense, block, 0.0))
    return papilio


def test_the_error_is_that_against_the_target(tmp_path, papilio):
    H = pp.transforms.hadamard(16)
    H.save(tmp_path / "op.npz")
    np.save(tmp_path / "M.npy", 2 * H.toarray())
    code, out, err = papilio("report", "op.npz", "-o", "page.html", "--target", "M.npy", "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["error"] == pytest.approx(0.5)
    assert told["bytes"] == (tmp_path / "page.html").stat().st_size
    words = " ".join(check((tmp_path / "page.html").read_text()).text)
    for expected in ("op.npz", "M.npy", "Speed on this machine", "Atoms"):
        assert expected in words


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_errors_do_not_depend_on_the_unit(tmp_path, papilio, unit):
    np.save(tmp_path / "M.npy", unit * np.eye(4))
    pp.SparseProduct([np.zeros((4, 4))]).save(tmp_path / "zero.npz")
    pp.SparseProduct([np.eye(4)[:, :1]]).save(tmp_path / "one.npz")
    told = papilio("report", "zero.npz", "-o", "p.html", "--target", "M.npy", "--json")[1]
    assert json.loads(told)["error"] == pytest.approx(1.0)
    told = papilio("report", "one.npz", "-o", "p.html", "--samples", "M.npy", "--json")[1]
    assert json.loads(told)["error"] == pytest.approx(np.sqrt(0.75))


def test_a_page_is_written_whatever_the_name_of_the_file(tmp_path, papilio):
    name = "a\udcff.npz"  # bytes that are no text
    try:
        pp.transforms.hadamard(4).save(tmp_path / name)
    except (OSError, UnicodeError):
        pytest.skip("this file system has no such names")
    code, _, err = papilio("report", name, "-o", "p.html", "--quiet")
    assert (code, err) == (0, "")
    assert "a\\udcff.npz" in (tmp_path / "p.html").read_text(encoding="utf-8")


def test_the_error_of_a_dictionary_is_that_of_coding(tmp_path, papilio):
    data = pp.datasets.rand(50, n_features=9, n_nonzero_coefs=2, random_state=0)
    pp.SparseProduct([data.dictionary]).save(tmp_path / "d.npz")
    np.save(tmp_path / "X.npy", data.signals.T)
    code, out, _ = papilio(
        "report", "d.npz", "-o", "p.html", "--samples", "X.npy", "--n-nonzero-coefs", 2, "--json"
    )
    missed = data.signals - data.dictionary @ pp.omp(data.dictionary, data.signals, 2)
    assert code == 0
    expected = np.linalg.norm(missed) / np.linalg.norm(data.signals)
    assert json.loads(out)["error"] == pytest.approx(expected, abs=1e-9)
    words = " ".join(check((tmp_path / "p.html").read_text()).text)
    assert "2 atoms per sample" in words
    assert "Speed" not in words  # one dense factor is what it would be compared with


def test_invalid_options_of_report_are_refused(tmp_path, papilio):
    pp.transforms.hadamard(8).save(tmp_path / "op.npz")
    cases = {
        ("-o", "page.pdf"): "must end in .html",
        ("-o", "p.html", "--target", "hadamard:4"): "--target must be 8×8",
        ("-o", "p.html", "--samples", "hadamard:4"): "--samples must have 8 features",
        ("-o", "p.html", "--samples", "hadamard:8", "--target", "hadamard:8"): "exclude each other",
        ("-o", "p.html", "--n-nonzero-coefs", "3"): "--n-nonzero-coefs is for --samples",
        ("-o", "p.html", "--samples", "hadamard:8", "--n-nonzero-coefs", "0"): "--n-nonzero-coefs",
        (
            "-o",
            "p.html",
            "--samples",
            "hadamard:8",
            "--n-nonzero-coefs",
            "9",
        ): "--n-nonzero-coefs must be at most 8",
    }
    for words, message in cases.items():
        code, _, err = papilio("report", "op.npz", *words)
        assert code == 2
        assert message in err
    assert not (tmp_path / "p.html").exists()


@pytest.mark.slow
def test_factorize_and_tradeoff_write_a_page_on_request(tmp_path, papilio):
    np.save(tmp_path / "M.npy", np.random.default_rng(0).standard_normal((8, 8)))
    assert (
        papilio(
            "factorize",
            "M.npy",
            "-o",
            "op.npz",
            "--complexity",
            0.6,
            "--method",
            "hierarchical",
            "--report",
            "f.html",
        )[0]
        == 0
    )
    words = " ".join(check((tmp_path / "f.html").read_text()).text)
    for expected in ("M.npy as a product of 2 sparse factors", "How the error fell", "Methods tried"):
        assert expected in words
    assert papilio("tradeoff", "M.npy", "-o", "tradeoff", "--points", 2, "--report", "t.html")[0] == 0
    assert "Error against complexity" in " ".join(check((tmp_path / "t.html").read_text()).text)
    words = ("factorize", "M.npy", "-o", "op.npz", "--complexity", 0.5, "--method", "thresholding")
    assert papilio(*words, "--report", "one.html")[0] == 0
    text = " ".join(check((tmp_path / "one.html").read_text()).text)
    assert "M.npy as one sparse factor" in text
    assert "Speed on this machine" in text
    code, _, err = papilio("factorize", "M.npy", "-o", "op.npz", "--report", "gone/f.html")
    assert code == 2
    assert "there is no folder" in err


@pytest.mark.slow
def test_learn_writes_a_page_on_request(tmp_path, papilio):
    X = pp.datasets.rand(100, n_features=9, n_nonzero_coefs=2, random_state=0).signals.T
    np.save(tmp_path / "X.npy", X)
    learn.learn(
        str(tmp_path / "X.npy"), tmp_path / "d.npz", n_nonzero_coefs=2, report=tmp_path / "l.html", random_state=0
    )
    words = " ".join(check((tmp_path / "l.html").read_text()).text)
    for expected in ("FastDictionaryLearning", "Atoms", "2 atoms per sample", "How the error fell", "Status"):
        assert expected in words


def test_atoms_are_drawn_unless_a_single_one_is_too_large():
    op = pp.SparseProduct([np.arange(12.0).reshape(6, 2)])
    read = check(page("op", [Subject("op", op, atom_shape=(2, 3))], "1"))
    assert "patches of 2 × 3, all 2" in " ".join(read.text)
    assert len(read.all("img")) == 2
    tall = scipy.sparse.csr_array(([1.0], ([0], [0])), shape=(700**2, 1))
    for shape in ((700, 700), (700**2, 1)):
        text = page("op", [Subject("op", pp.SparseProduct([tall]), atom_shape=shape)], "1")
        assert "Atoms" not in " ".join(check(text).text)
