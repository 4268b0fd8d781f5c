"""SparseProducts as arrays, which files and checkpoints share, and as npz files with a format and a version."""

from collections.abc import Mapping
from os import fspath

import numpy as np

from ..runtime.files import as_path, read_arrays, write_arrays
from ..typing import Array, Path
from ..validation import as_integer, as_real
from . import factors as csr
from .faust_files import is_faust, read_faust, write_faust
from .product import SparseProduct

_FORMAT, _VERSION = "papilio.SparseProduct", 1
_OTHERS = (".csv", ".h5", ".hdf5", ".json", ".mtx", ".npy", ".pickle", ".pkl", ".pt", ".txt")  # not written
_PARTS = ("data", "indices", "indptr", "shape")  # of factor i, stored as data_i, indices_i, ...


def to_arrays(op: SparseProduct) -> dict[str, Array]:
    """``op`` as named arrays; `from_arrays` is the inverse."""
    arrays = {"scale": np.array(op.scale), "n_factors": np.array(len(op.factors))}
    for i, factor in enumerate(op.factors):
        arrays |= {f"{part}_{i}": np.asarray(getattr(csr.to_csr(factor), part)) for part in _PARTS}
    return arrays


def from_arrays(arrays: Mapping[str, Array]) -> SparseProduct:
    """The product that `to_arrays` took apart; ``ValueError`` if the arrays are not exactly those of one."""
    try:
        count = as_integer("n_factors", arrays["n_factors"][()], 1, len(arrays))
        names = [[f"{part}_{i}" for part in _PARTS] for i in range(count)]
        unknown = set(arrays).difference(("scale", "n_factors"), *names)
        if unknown:
            raise ValueError(f"{min(unknown)!r} is unknown")
        factors = [csr.from_parts(f"factor {i}", *(arrays[name] for name in names[i])) for i in range(count)]
        if len({factor.dtype for factor in factors}) > 1:
            raise ValueError("its factors have different dtypes")
        return SparseProduct(factors, as_real("scale", arrays["scale"]))
    except KeyError as error:
        raise ValueError(f"no sound SparseProduct: {error.args[0]!r} is missing") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"no sound SparseProduct: {error}") from error


def save(op: SparseProduct, path: Path) -> None:
    """Write ``op`` to ``path``; see `SparseProduct.save`."""
    suffix = as_path("path", path).suffix.lower()
    if suffix in _OTHERS:
        raise ValueError(
            f"path must end in .npz, or in .mat for FAµST and MATLAB; {suffix} promises another format, got "
            f"{fspath(path)!r}"
        )
    if suffix == ".mat":
        write_faust(op, path)
    else:
        write_arrays(path, {"format": np.array(_FORMAT), "version": np.array(_VERSION)} | to_arrays(op))


def load(path: Path) -> SparseProduct:
    """Read the operator that `SparseProduct.save` wrote, or FAµST (pyfaust, matfaust).

    Nothing is unpickled, and everything that the file says is checked, so that files from others are safe to load.

    Parameters
    ----------
    path : path
        An npz file, or a .mat file of versions 5 to 7 with a cell array ``faust_factors``. The content tells
        which; the name does not count.

    Returns
    -------
    SparseProduct
        From an npz file, equal to the saved one, bit for bit. From a .mat file, with scale 1.

    Raises
    ------
    OSError
        If the file cannot be read or is not a regular file; `FileNotFoundError` if it does not exist.
    ValueError
        If the file is damaged, was written by neither, or holds anything but one sound SparseProduct.

    Examples
    --------
    >>> import tempfile, papilio as pp
    >>> path = tempfile.mkdtemp() + "/op.npz"
    >>> pp.transforms.haar(8).save(path)
    >>> pp.load(path) == pp.transforms.haar(8)
    True
    """
    if is_faust(path):
        return read_faust(path)
    arrays = read_arrays(path)
    try:
        found, version = str(arrays.pop("format", None)), arrays.pop("version", np.array(None))
        if found != _FORMAT:
            raise ValueError(f"its format must be {_FORMAT!r}, got {found!r}")
        as_integer("its version", version[()], _VERSION, _VERSION)
        return from_arrays(arrays)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{fspath(path)!r} does not hold a SparseProduct: {error}") from error
