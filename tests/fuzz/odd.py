"""Odd arguments: arrays in unusual forms, arrays with wrong contents, and what is no array at all."""

from decimal import Decimal
from fractions import Fraction

import dask.array as da
import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st


class Liar:
    """Looks like an array until one asks for it."""

    shape, dtype, ndim = (3, 3), np.dtype(np.float64), 2

    def __array__(self, *_, **__):
        raise RuntimeError("no array after all")

    def __repr__(self):
        return "<liar>"


def raising(*_):
    """A callback, or a chunk of a Dask array, that fails."""
    raise ValueError("it cannot be computed")


def plane(array):
    """In two dimensions."""
    return np.atleast_2d(array).reshape(max(len(np.atleast_1d(array)), 1), -1)


def frame(array, rng):
    try:
        from pandas import DataFrame
    except ImportError:
        return array.tolist()
    return DataFrame(plane(array))


def with_entry(number):
    """The same array with one other entry."""

    def make(array, rng):
        changed = array.astype(np.result_type(array.dtype, np.float64))
        changed.flat[rng.integers(array.size)] = number
        return changed

    return make


def times_power_of_two(share):
    """The same array in other units: this share of the exponents of its dtype."""

    def make(array, rng):
        array = array.astype(np.result_type(array.dtype, np.float32))
        with np.errstate(under="ignore"):
            half = array.dtype.type(2.0 ** int(share * np.finfo(array.dtype).maxexp / 2))
            return array * half * half

    return make


def cast(dtype):
    def make(array, rng):
        with np.errstate(all="ignore"):
            return (array if np.dtype(dtype).kind == "c" else array.real).astype(dtype)

    return make


def sparse(form):
    def make(array, rng):
        dense = plane(array)
        kind = sp.coo_array if rng.integers(2) else sp.coo_matrix
        return kind(dense * (rng.random(dense.shape) < 0.7)).asformat(form)

    return make


PARTS = {
    "csr": ("indices", "indptr", "data"),
    "csc": ("indices", "indptr", "data"),
    "bsr": ("indices", "indptr"),
    "dia": ("offsets", "data"),
    "lil": ("rows", "data"),
    "coo": ("row", "col"),
    "dok": (),
}


def broken(form):
    """A sparse array of this format with one part out of range or too short."""

    def make(array, rng):
        dense = plane(array).real.astype(np.float64)
        result = sp.coo_array(dense if dense.any() else np.eye(4)).asformat(form)
        place = int(rng.choice([-1, 10**6, 2**31 - 1]))
        if form == "dok":
            result._dict[place, 0] = 1.0
            return result
        name = str(rng.choice(PARTS[form]))
        part = getattr(result, name).copy()
        if form == "lil":
            part[0] = [place] * 2
        elif form != "coo" and (name == "data" or rng.integers(3) == 0):
            part = part[:-1]
        else:
            part[rng.integers(part.size)] = place
        setattr(result, name, part)
        return result

    return make


def lazy(array, rng):
    """A Dask array in chunks of any sizes, one of which may fail to be computed."""
    chunks = tuple(int(rng.integers(1, side + 1)) for side in array.shape)
    result = da.from_array(array, chunks=chunks)
    return result if rng.integers(4) else result.map_blocks(raising, dtype=array.dtype, meta=array[:0])


def strided(array, rng):
    for axis in range(array.ndim):
        array = np.repeat(array, 2, axis=axis)
    return array[tuple(slice(None, None, 2) for _ in range(array.ndim))]


def unaligned(array, rng):
    return np.frombuffer(b"!" + array.tobytes(), dtype=array.dtype, offset=1).reshape(array.shape)


def read_only(array, rng):
    array = array.copy()
    array.flags.writeable = False
    return array


# The same numbers in another form, then other numbers: a call takes them, or refuses.
ARRAYS = {
    "read-only": read_only,
    "strided": strided,
    "unaligned": unaligned,
    "reversed": lambda array, rng: array[..., ::-1].copy()[..., ::-1],
    "column-major": lambda array, rng: np.asfortranarray(array),
    "big-endian": lambda array, rng: array.astype(array.dtype.newbyteorder(">")),
    "list": lambda array, rng: array.tolist(),
    "matrix": lambda array, rng: np.asmatrix(plane(array)),
    "frame": frame,
    "lazy": lazy,
    **{
        name: cast(name) for name in ("float16", "float32", "longdouble", "clongdouble", "complex64", "complex128")
    },
    **{name: cast(name) for name in ("bool", "int8", "uint8", "int64", "uint64")},
    **{form: sparse(form) for form in PARTS},
    **{f"times 2^({share} maxexp)": times_power_of_two(share) for share in (-1.02, -0.9, -0.5, 0.5, 0.9)},
    **{f"with {number}": with_entry(number) for number in (np.nan, np.inf, 1e300, 1e30)},
    "all huge": lambda array, rng: np.full(array.shape, 1e300),
    "all tiny": lambda array, rng: np.full(array.shape, 1e-310),
    "zeros": lambda array, rng: np.zeros_like(array),
    "ones": lambda array, rng: np.ones_like(array),
    "empty": lambda array, rng: np.empty([(0, 4), (4, 0), (0, 0), (0,), (1, 0, 3)][rng.integers(5)]),
    "another shape": lambda array, rng: rng.standard_normal(tuple(rng.integers(1, 7, rng.integers(0, 5)))),
    "transposed": lambda array, rng: array.T,
    "objects": lambda array, rng: array.astype(object),
    "dates": lambda array, rng: np.zeros(array.shape, "M8[s]"),
    "words": lambda array, rng: array.astype(str),
    "records": lambda array, rng: np.zeros(array.shape, dtype=[("a", "f8"), ("b", "i4")]),
    "masked": lambda array, rng: np.ma.masked_array(array, rng.random(array.shape) < 0.2),
    "nested": lambda array, rng: [array, array],
    **{f"broken {form}": broken(form) for form in PARTS},
}
VALUES = (
    *(None, True, False, 0, 1, 2, 3, -1, 7, 2**31, 2**63, -(2**63), 10**30),
    *(0.0, -0.0, 0.5, 1.0, 1.5, -1.0, 1e-320, 1e-200, 1e-30, 1e30, 1e200, 1e308, np.nan, np.inf, -np.inf),
    *(1j, complex(np.nan, 1), Fraction(1, 3), Decimal("0.1"), "", "3", "auto", "nan", "é\0", b"3"),
    *(np.float16(2), np.float32(0.5), np.longdouble(2), np.int8(3), np.uint64(2**63), np.bool_(True)),
    *(np.array(3), np.array(0.5), np.array([2]), np.array([0.5]), np.datetime64("2020"), np.timedelta64(3, "s")),
    *((), (2,), (3, 4), (4, 3, 2), [], [3], {}, {"a": 1}, set(), range(3), slice(None), object, Liar(), Ellipsis),
    *([[1.0, 2.0], [3.0]], np.array([["a", 1], [None, len]], dtype=object)),
    *(sp.coo_array(np.eye(3)).astype(np.longdouble), len, raising),
)


@st.composite
def odd(draw, value):
    """Something to pass instead of ``value``."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fc" or draw(st.integers(0, 4)) == 4:
        return draw(st.sampled_from(VALUES))
    make = ARRAYS[draw(st.sampled_from(list(ARRAYS)))]
    return make(value, np.random.default_rng(draw(st.integers(0, 99))))
