"""SciPy's sparse objects: valid ones are converted, and corrupt ones never reach compiled code."""

import matplotlib
import numpy as np
import pytest
import scipy.sparse as sp

import papilio as pp
from papilio.validation import as_sparse

matplotlib.use("Agg")

N = 4
LINES = ("csr", "csc", "bsr")
FORMATS = ("csr", "csc", "coo", "bsr", "dia", "dok", "lil")
MATRIX = np.array([[0.0, 2.0, 0.0, 1.0], [3.0, 0.0, -1.0, 0.0], [0.0, 0.0, 4.0, 0.0], [5.0, 0.0, 0.0, 6.0]])
OPERATOR = pp.SparseProduct([MATRIX, np.eye(N)], 2.0)


def sound(form, kind="array"):
    return getattr(sp, f"{form}_{kind}")(MATRIX)


def with_part(form, part, change):
    """A sparse array one of whose parts was changed behind SciPy's back."""
    broken = getattr(sp, f"{form}_array")(MATRIX)
    setattr(broken, part, change(getattr(broken, part)))
    return broken


def first(value):
    def change(array):
        array = np.array(array)
        array[0] = value
        return array

    return change


def last(value):
    def change(array):
        array = np.array(array)
        array[-1] = value
        return array

    return change


def broken_lists():
    broken = sp.lil_array(MATRIX)
    broken.rows[1] = [0, 10**8]
    return broken


def uneven_lists():
    broken = sp.lil_array(MATRIX)
    broken.rows[1] = [0]
    return broken


def broken_keys():
    broken = sp.dok_array(MATRIX)
    broken._dict[(10**8, 0)] = 1.0
    return broken


def without_a_coordinate():
    broken = sp.coo_array(MATRIX)
    broken.coords = broken.coords[:1]
    return broken


BROKEN = {
    **{f"{form}: index": with_part(form, "indices", first(10**8)) for form in LINES},
    **{f"{form}: negative index": with_part(form, "indices", first(-1)) for form in LINES},
    **{f"{form}: first pointer": with_part(form, "indptr", first(1)) for form in LINES},
    **{f"{form}: last pointer": with_part(form, "indptr", last(10**8)) for form in LINES},
    **{
        f"{form}: falling pointers": with_part(form, "indptr", lambda p: p[[0, 3, 1, 2, -1]]) for form in LINES[:2]
    },
    **{f"{form}: few pointers": with_part(form, "indptr", lambda p: p[:-1]) for form in LINES},
    **{f"{form}: few indices": with_part(form, "indices", lambda i: i[:-1]) for form in LINES},
    **{f"{form}: few values": with_part(form, "data", lambda d: d[:-1]) for form in (*LINES, "coo", "dia")},
    "csr: fractions": with_part("csr", "indices", lambda i: i + 0.5),
    "csr: a table of indices": with_part("csr", "indices", lambda i: i[:, None]),
    "csr: unsigned": with_part("csr", "indices", lambda i: np.full(i.size, 2**63, np.uint64)),
    "bsr: blocks": with_part("bsr", "data", lambda d: np.ones((len(d), 3, 3))),
    "bsr: no blocks": with_part("bsr", "data", np.ravel),
    "coo: row": with_part("coo", "row", first(10**8)),
    "coo: column": with_part("coo", "col", first(-1)),
    "coo: few rows": with_part("coo", "row", lambda r: r[:-1]),
    "coo: no columns": without_a_coordinate(),
    "dia: offsets": with_part("dia", "offsets", lambda o: o[:-1]),
    "dia: fractions": with_part("dia", "offsets", lambda o: o + 0.5),
    "lil: column": broken_lists(),
    "lil: lengths": uneven_lists(),
    "dok: key": broken_keys(),
}
X = np.arange(12.0).reshape(N, 3)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_object_is_refused_by_name(name):
    with pytest.raises(ValueError, match=r"^data must be a valid sparse matrix, got a corrupt "):
        as_sparse("data", BROKEN[name])


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("form", FORMATS)
def test_every_format_stands_for_its_matrix(form, kind):
    given = sound(form, kind)
    before = given.toarray()
    np.testing.assert_array_equal((OPERATOR @ given).toarray(), OPERATOR.toarray() @ MATRIX)
    np.testing.assert_array_equal(np.asarray(given @ OPERATOR), MATRIX @ OPERATOR.toarray())
    np.testing.assert_array_equal(pp.SparseProduct([given]).toarray(), MATRIX)
    np.testing.assert_array_equal(pp.constraints.Support(given).project(np.ones((N, N))) != 0, MATRIX != 0)
    np.testing.assert_array_equal(pp.Moments.of(np.eye(N), given).cross, MATRIX.T)
    np.testing.assert_array_equal(given.toarray(), before)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.float32, np.float64, np.complex64, ">f8", ">i4"])
@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_unsorted_duplicate_and_zero_entries_add_up(form, dtype):
    rows, columns = np.array([2, 0, 2, 1, 0]), np.array([3, 1, 3, 0, 1])
    values = np.array([1, 1, 1, 0, 1], dtype=np.dtype(dtype).newbyteorder("="))
    expected = np.array([[0.0, 2.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 2.0]])
    given = sp.coo_array((values, (rows, columns)), shape=(3, 4))
    if form != "coo":
        major, minor = (rows, columns) if form == "csr" else (columns, rows)
        order = np.argsort(major, kind="stable")
        starts = np.searchsorted(major[order], np.arange((3 if form == "csr" else 4) + 1))
        given = getattr(sp, f"{form}_array")((values[order], minor[order], starts), shape=(3, 4))
        given.has_canonical_format = True  # a claim that does not hold
    given.data = given.data.astype(dtype)  # SciPy takes no other byte order
    np.testing.assert_array_equal(as_sparse("data", given).toarray(), expected)
    op = pp.SparseProduct([given])
    np.testing.assert_array_equal(op.toarray(), expected)
    assert op.nnz == 2


def test_float16_and_extended_precision_become_double():
    for dtype in (np.float16, np.longdouble):
        given = sp.csr_array(MATRIX)
        given.data = given.data.astype(dtype)
        assert as_sparse("data", given).dtype == np.float64
        np.testing.assert_array_equal(pp.SparseProduct([given]).toarray(), MATRIX)
