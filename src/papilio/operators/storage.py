"""SparseProducts in files: npz without pickle, with a format and its version, every part checked on reading."""

import os
from typing import Any

import numpy as np

from ..runtime.files import read_arrays, write_arrays
from ..typing import Array
from ..validation import as_integer, as_real
from . import csr
from .product import SparseProduct

_FORMAT = "papilio.SparseProduct"
_VERSION = 1
_PARTS = ("data", "indices", "indptr", "shape")


def save(op: SparseProduct, path: str | os.PathLike[str]) -> None:
    """Write ``op`` to ``path``; `load` reads it back."""
    arrays: dict[str, Any] = {
        "format": np.array(_FORMAT),
        "version": np.array(_VERSION),
        "scale": np.array(op.scale),
        "n_factors": np.array(len(op.factors)),
    }
    for i, factor in enumerate(op.factors):
        parts = (factor.data, factor.indices, factor.indptr, np.array(factor.shape, dtype=np.int64))
        arrays.update({f"{name}_{i}": part for name, part in zip(_PARTS, parts, strict=True)})
    write_arrays(path, arrays)


def load(path: str | os.PathLike[str]) -> SparseProduct:
    """The SparseProduct that `SparseProduct.save` wrote to ``path``.

    Raises
    ------
    OSError
        If the file cannot be read: `FileNotFoundError` if there is none.
    ValueError
        If the file is damaged, was not written by papilio, or holds anything but a sound SparseProduct.
    """
    arrays = read_arrays(path)
    try:
        return _from_arrays(arrays)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        detail = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{os.fspath(path)!r} does not hold a sound SparseProduct: {detail}") from error


def _from_arrays(arrays: dict[str, Array]) -> SparseProduct:
    if arrays["format"].shape or str(arrays["format"]) != _FORMAT:
        raise ValueError(f"its format is not {_FORMAT!r}")
    as_integer("its version", arrays["version"][()], _VERSION, _VERSION)
    count = as_integer("n_factors", arrays["n_factors"][()], 1, len(arrays))
    unknown = set(arrays) - {"format", "version", "scale", "n_factors"}
    unknown -= {f"{part}_{i}" for i in range(count) for part in _PARTS}
    if unknown:
        raise ValueError(f"{min(unknown)!r} is unknown")
    factors = [csr.from_parts(f"factor {i}", *(arrays[f"{part}_{i}"] for part in _PARTS)) for i in range(count)]
    if len({factor.dtype for factor in factors}) > 1:
        raise ValueError("its factors have different dtypes")
    return SparseProduct(factors, as_real("scale", arrays["scale"]))
