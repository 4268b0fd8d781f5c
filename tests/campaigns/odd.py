"""Values that nobody should pass, and values that are merely unusual."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

Make = Callable[[np.random.Generator, Any], Any]  # from what stood there before


def _matrix(rng: np.random.Generator, value: Any) -> np.ndarray:
    """The value as an array, if it is one; else some matrix."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "fciub" and value.size:
        return value
    return rng.standard_normal((int(rng.integers(1, 9)), int(rng.integers(1, 9))))


def _plane(rng: np.random.Generator, value: Any) -> np.ndarray:
    """The value in two dimensions."""
    array = np.atleast_2d(_matrix(rng, value))
    return array.reshape(len(array), -1)


def _spoilt(number: Any) -> Make:
    """The same array with one other entry."""

    def make(rng: np.random.Generator, value: Any) -> Any:
        array = np.array(_matrix(rng, value), copy=True)
        array = array.astype(np.result_type(array.dtype, np.float64))
        array.flat[int(rng.integers(array.size))] = number
        return array

    return make


def _broken_csr(rng: np.random.Generator, value: Any) -> Any:
    """A csr_array whose parts do not fit: an index, a pointer or a length is wrong."""
    array = sp.csr_array(_plane(rng, value).real.astype(np.float64))
    if array.nnz == 0:
        array = sp.csr_array(np.eye(4))
    match int(rng.integers(6)):
        case 0:
            array.indices[int(rng.integers(array.nnz))] = int(rng.choice([-1, array.shape[1], 2**31 - 1]))
        case 1:
            array.indptr[int(rng.integers(array.indptr.size))] = int(rng.choice([-1, 10**6]))
        case 2:
            array.data = array.data[:-1]
        case 3:
            array.indices = array.indices[:-1]
        case 4:
            array.indptr = array.indptr[:-1]
        case _:
            array.indices[:] = array.indices[::-1].copy()  # not in order, perhaps twice
    return array


def _broken_coo(rng: np.random.Generator, value: Any) -> Any:
    array = sp.coo_array(_plane(rng, value).real.astype(np.float64))
    if array.nnz == 0:
        array = sp.coo_array(np.eye(4))
    array.coords[int(rng.integers(2))][int(rng.integers(array.nnz))] = int(rng.choice([-1, 10**6]))
    return array


def _broken(form: str) -> Make:
    """A sparse array of this format with one part out of range, too short or of another kind."""

    def make(rng: np.random.Generator, value: Any) -> Any:
        dense = _plane(rng, value).real.astype(np.float64)
        array = sp.coo_array(dense if dense.any() else np.eye(4)).asformat(form)
        name = {"csc": ("indices", "indptr", "data"), "bsr": ("indices", "indptr"), "dia": ("offsets", "data")}
        part = str(rng.choice(name.get(form, ("rows", "data"))))
        if form == "dok":
            array._dict[int(rng.choice([-1, 10**6])), 0] = 1.0
        elif form == "lil":
            getattr(array, part)[0] = [int(rng.choice([-1, 10**6]))] * int(rng.integers(1, 3))
        elif part == "data" or rng.integers(3) == 0:
            setattr(array, part, getattr(array, part)[:-1])
        else:
            changed = getattr(array, part).copy()
            changed[int(rng.integers(changed.size))] = int(rng.choice([-1, 10**6, 2**31 - 1]))
            setattr(array, part, changed)
        return array

    return make


def _in_unit(power: float) -> Make:
    """The same array times a power of two: this share of the exponents of its dtype."""

    def make(rng: np.random.Generator, value: Any) -> Any:
        array = _matrix(rng, value)
        array = array.astype(np.result_type(array.dtype, np.float32))
        with np.errstate(under="ignore"):
            half = array.dtype.type(2.0 ** int(power * np.finfo(array.dtype).maxexp / 2))
            return array * half * half

    return make


def _lazy(rng: np.random.Generator, value: Any) -> Any:
    """A Dask array in chunks of any sizes, one of which may fail to be computed."""
    array = _matrix(rng, value)
    try:
        import dask.array as da
    except ImportError:
        return array
    sizes = tuple(int(rng.integers(1, side + 1)) for side in array.shape)
    lazy = da.from_array(array, chunks=sizes)
    return lazy.map_blocks(_failing, dtype=array.dtype) if rng.integers(4) == 0 else lazy


def _failing(chunk: Any) -> Any:
    if chunk.size:
        raise ValueError("a chunk that cannot be computed")
    return chunk


def raising(*_: Any) -> Any:
    """A callback that fails."""
    raise ValueError("a callback of its own mind")


def _sparse(form: str) -> Make:
    def make(rng: np.random.Generator, value: Any) -> Any:
        dense = _plane(rng, value)
        kind = sp.coo_array if rng.integers(2) else sp.coo_matrix
        return kind(dense * (rng.random(dense.shape) < 0.7)).asformat(form)

    return make


def _duplicates(rng: np.random.Generator, value: Any) -> Any:
    rows, columns = _plane(rng, value).shape
    places = rng.integers(0, rows, 8), rng.integers(0, columns, 8)
    return sp.coo_array((rng.choice([-1.0, 0.0, 1.0, 2.0], 8), places), shape=(rows, columns))


def _as(dtype: Any) -> Make:
    def make(rng: np.random.Generator, value: Any) -> Any:
        array = _matrix(rng, value)
        with np.errstate(all="ignore"):
            return (array.real if np.dtype(dtype).kind != "c" else array).astype(dtype)

    return make


def _masked(rng: np.random.Generator, value: Any) -> Any:
    array = _matrix(rng, value)
    return np.ma.masked_array(array, rng.random(array.shape) < 0.2)


def _structured(rng: np.random.Generator, value: Any) -> Any:
    return np.zeros(np.shape(_matrix(rng, value)), dtype=[("a", "f8"), ("b", "i4")])


def _read_only(rng: np.random.Generator, value: Any) -> Any:
    array = np.array(_matrix(rng, value))
    array.flags.writeable = False
    return array


def _strided(rng: np.random.Generator, value: Any) -> Any:
    array = _matrix(rng, value)
    for axis in range(array.ndim):
        array = np.repeat(array, 2, axis=axis)
    return array[tuple(slice(None, None, 2) for _ in range(array.ndim))]


def _unaligned(rng: np.random.Generator, value: Any) -> Any:
    array = np.ascontiguousarray(_matrix(rng, value))
    return np.frombuffer(b"!" + array.tobytes(), dtype=array.dtype, offset=1).reshape(array.shape)


def _frame(rng: np.random.Generator, value: Any) -> Any:
    try:
        import pandas as pd
    except ImportError:
        return _matrix(rng, value).tolist()
    return pd.DataFrame(_plane(rng, value))


def _objects() -> Any:
    array = np.empty((2, 2), dtype=object)
    array[0, 0], array[0, 1], array[1, 1] = "a", 1, _Liar()
    return array


def _numpy_matrix(rng: np.random.Generator, value: Any) -> Any:
    return np.asmatrix(_plane(rng, value))


class _Liar:
    """Looks like an array until one asks for it."""

    shape, dtype, ndim = (3, 3), np.dtype(np.float64), 2

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no array after all")

    def __repr__(self) -> str:
        return "<liar>"


# The same numbers in another form: most calls should take them, and all should take them or refuse.
UNUSUAL: dict[str, Make] = {
    "read-only": _read_only,
    "strided": _strided,
    "reversed": lambda rng, value: _matrix(rng, value)[..., ::-1].copy()[..., ::-1],
    "column-major": lambda rng, value: np.asfortranarray(_matrix(rng, value)),
    "unaligned": _unaligned,
    "big-endian": lambda rng, value: (a := _matrix(rng, value)).astype(a.dtype.newbyteorder(">")),
    "list": lambda rng, value: _matrix(rng, value).tolist(),
    "frame": _frame,
    "matrix": _numpy_matrix,
    "memory-mapped": lambda rng, value: _memmap(_matrix(rng, value)),
    **{name: _as(name) for name in ("float16", "float32", "longdouble", "clongdouble", "complex64", "complex128")},
    **{name: _as(name) for name in ("bool", "int8", "uint8", "int64", "uint64")},
    **{form: _sparse(form) for form in ("csr", "csc", "coo", "lil", "dok", "dia", "bsr")},
    "duplicates": _duplicates,
    "lazy": _lazy,
    **{f"in units of {power}": _in_unit(power) for power in (-1.02, -0.9, -0.5, 0.5, 0.9)},
}
NUMBERS: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 2, 3, -1, 7, 2**31, 2**63, -(2**63), 10**30),
    *(0.0, -0.0, 0.5, 1.0, 1.5, -1.0, 1e-320, 1e-200, 1e-30, 1e30, 1e200, 1e308, np.nan, np.inf, -np.inf),
    *(1j, complex(np.nan, 1), Fraction(1, 3), Decimal("0.1"), "", "3", "auto", "nan", "é\0", b"3"),
    *(np.float16(2), np.float32(0.5), np.longdouble(2), np.int8(3), np.uint64(2**63), np.bool_(True)),
    *(np.array(3), np.array(0.5), np.array([2]), np.array([0.5]), np.datetime64("2020"), np.timedelta64(3, "s")),
    *((), (2,), (3, 4), (4, 3, 2), [], [3], {}, {"a": 1}, set(), range(3), slice(None), object, _Liar(), Ellipsis),
    lambda *_: None,
    raising,
)
WRONG: dict[str, Make] = {
    "number": lambda rng, value: NUMBERS[int(rng.integers(len(NUMBERS)))],
    "another number": lambda rng, value: NUMBERS[int(rng.integers(len(NUMBERS)))],
    "nan": _spoilt(np.nan),
    "infinity": _spoilt(np.inf),
    "huge entry": _spoilt(1e300),
    "large entry": _spoilt(1e30),
    "all huge": lambda rng, value: np.full_like(_matrix(rng, value), 1e300, dtype=np.float64),
    "all tiny": lambda rng, value: np.full_like(_matrix(rng, value), 1e-310, dtype=np.float64),
    "zeros": lambda rng, value: np.zeros_like(_matrix(rng, value)),
    "ones": lambda rng, value: np.ones_like(_matrix(rng, value)),
    "empty": lambda rng, value: np.empty([(0, 4), (4, 0), (0, 0), (0,), (1, 0, 3)][int(rng.integers(5))]),
    "other shape": lambda rng, value: rng.standard_normal(tuple(rng.integers(1, 7, int(rng.integers(0, 5))))),
    "transposed": lambda rng, value: _matrix(rng, value).T,
    "0-d": lambda rng, value: np.array(rng.standard_normal()),
    "objects": lambda rng, value: _matrix(rng, value).astype(object),
    "object of objects": lambda rng, value: _objects(),
    "dates": lambda rng, value: np.zeros(np.shape(_matrix(rng, value)), "M8[s]"),
    "words": lambda rng, value: _matrix(rng, value).astype(str),
    "structured": _structured,
    "masked": _masked,
    "ragged": lambda rng, value: [[1.0, 2.0], [3.0]],
    "nested": lambda rng, value: [value, value],
    "broken csr": _broken_csr,
    "broken coo": _broken_coo,
    **{f"broken {form}": _broken(form) for form in ("csc", "bsr", "dia", "lil", "dok")},
    "sparse, extended": lambda rng, value: sp.coo_array(np.eye(3)).astype(np.longdouble),
}


def _memmap(array: np.ndarray) -> np.ndarray:
    name = f"map-{array.size}.bin"  # in the folder of the case
    array = np.ascontiguousarray(array)
    array.tofile(name)
    return np.memmap(name, array.dtype, "r", shape=array.shape)


def odd(rng: np.random.Generator, value: Any) -> tuple[str, Any]:
    """A name, and something to pass instead of ``value``."""
    makers = UNUSUAL if rng.integers(2) and not np.isscalar(value) and value is not None else WRONG
    names = list(makers)
    name = (
        "number"
        if makers is WRONG and not _is_array(value) and rng.integers(4)
        else names[rng.integers(len(names))]
    )
    return name, makers[name](rng, value)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or sp.issparse(value)
