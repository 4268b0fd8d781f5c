"""SparseProducts outside papilio: npz files, the .mat files of FAµST, and objects of PyLops and pyfaust."""

import warnings
from collections.abc import Mapping, Sequence
from math import prod
from os import fspath
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..runtime.files import as_path, as_regular, read_arrays, replacing, write_arrays
from ..typing import Array, Path
from ..validation import as_integer, as_real, require_finite
from .factors import Factor, entries, from_parts, scaled, to_csr
from .product import SparseProduct

if TYPE_CHECKING:
    import pyfaust

FAUST_FACTORS = "faust_factors"  # the cell array of the factors, from left to right, in a .mat file of FAµST
_FORMAT, _VERSION = "papilio.SparseProduct", 1
_HDF = b"\x89HDF"
_OTHER_FORMATS = (".csv", ".h5", ".hdf5", ".json", ".mtx", ".npy", ".pickle", ".pkl", ".pt", ".txt")
_PARTS = ("data", "indices", "indptr", "shape")  # Those of factor i are stored as data_i, indices_i, and so on.


# -- saving and loading --------------------------------------------------------------------------------


def save(op: SparseProduct, path: Path) -> None:
    """Write ``op`` to ``path``; see `SparseProduct.save`."""
    suffix = as_path("path", path).suffix.lower()
    if suffix in _OTHER_FORMATS:
        raise ValueError(
            f"path must end in .npz, or in .mat for FAµST and MATLAB; {suffix} promises another format, got "
            f"{fspath(path)!r}"
        )
    if suffix == ".mat":
        _write_faust(op, path)
    else:
        write_arrays(path, {"format": np.array(_FORMAT), "version": np.array(_VERSION)} | to_arrays(op))


def load(path: Path) -> SparseProduct:
    """Read the operator that `SparseProduct.save` wrote, or FAµST (pyfaust, matfaust).

    Nothing is unpickled, and the factors are checked. npz files from others are safe to load; .mat files are read
    by `scipy.io.loadmat`, and are as safe as that.

    Parameters
    ----------
    path : path
        An npz file, or a .mat file of versions 5 to 7 with a cell array ``faust_factors``. The content decides
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
        If the file is damaged, was written by neither, or holds anything but one valid SparseProduct.

    Examples
    --------
    >>> import tempfile, papilio as pp
    >>> path = tempfile.mkdtemp() + "/op.npz"
    >>> pp.transforms.haar(8).save(path)
    >>> pp.load(path) == pp.transforms.haar(8)
    True
    """
    with open(as_regular(path), "rb") as file:
        if _is_mat(file.read(128)):
            return _read_faust(file, path)
    arrays = read_arrays(path)
    try:
        found, version = str(arrays.pop("format", None)), arrays.pop("version", np.array(None))
        if found != _FORMAT:
            raise ValueError(f"its format must be {_FORMAT!r}, got {found!r}")
        as_integer("its version", version[()], _VERSION, _VERSION)
        return from_arrays(arrays)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{fspath(path)!r} does not hold a SparseProduct: {error}") from error


# -- named arrays, which npz files and checkpoints share -----------------------------------------------


def to_arrays(op: SparseProduct) -> dict[str, Array]:
    """``op`` as named arrays; `from_arrays` is the inverse."""
    arrays = {"scale": np.array(op.scale), "n_factors": np.array(len(op.factors))}
    for i, factor in enumerate(op.factors):
        arrays |= {f"{part}_{i}": np.asarray(getattr(to_csr(factor), part)) for part in _PARTS}
    return arrays


def from_arrays(arrays: Mapping[str, Array]) -> SparseProduct:
    """The product that `to_arrays` took apart; ``ValueError`` if the arrays are not exactly those of one."""
    try:
        count = as_integer("n_factors", arrays["n_factors"][()], 1, len(arrays))
        names = [[f"{part}_{i}" for part in _PARTS] for i in range(count)]
        unknown = set(arrays).difference(("scale", "n_factors"), *names)
        if unknown:
            raise ValueError(f"{min(unknown)!r} is unknown")
        factors = [from_parts(f"factor {i}", *(arrays[name] for name in names[i])) for i in range(count)]
        if len({factor.dtype for factor in factors}) > 1:
            raise ValueError("its factors have different dtypes")
        return SparseProduct(factors, as_real("scale", arrays["scale"]))
    except KeyError as error:
        raise ValueError(f"not a valid SparseProduct: {error.args[0]!r} is missing") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"not a valid SparseProduct: {error}") from error


# -- .mat files ----------------------------------------------------------------------------------------


def mat_classes(file: IO[bytes]) -> dict[str, str]:
    """MATLAB's classes of the variables in a .mat file, by name, as `scipy.io.whosmat` gives them."""
    from scipy.io import whosmat

    file.seek(0)
    if file.read(10).startswith((b"MATLAB 7.3", _HDF)):
        raise ValueError("files of MATLAB's version 7.3 cannot be read; save with -v7")
    return {name: kind for name, _, kind in whosmat(file)}


def mat_variable(file: IO[bytes], name: str) -> Any:
    """One variable of a .mat file; the others are not read."""
    from scipy.io import loadmat

    with warnings.catch_warnings():
        # Newer versions of SciPy warn unless `spmatrix` is given, which older versions do not accept.
        warnings.filterwarnings("ignore", "The default value for `spmatrix`", DeprecationWarning)
        return loadmat(file, variable_names=[name])[name]


def _is_mat(start: bytes) -> bool:
    """Whether a file that begins with these 128 bytes is a .mat file of version 5 or later."""
    return start.startswith(_HDF) or (start[:2] != b"PK" and start[126:] in (b"IM", b"MI"))


def _read_faust(file: IO[bytes], path: Path) -> SparseProduct:
    """The product in a .mat file of FAµST, which ``path`` names in errors."""
    try:
        if mat_classes(file).get(FAUST_FACTORS) != "cell":
            raise ValueError(f"it has no cell array {FAUST_FACTORS!r}")
        return SparseProduct(np.ravel(mat_variable(file, FAUST_FACTORS), "F").tolist())
    except Exception as error:  # SciPy raises errors of many kinds on damaged files.
        raise ValueError(f"{fspath(path)!r} does not hold a product of factors: {error}") from error


def _write_faust(op: SparseProduct, path: Path) -> None:
    from scipy.io import savemat

    factors = _with_scale_in_a_factor(op)
    cells = np.empty((1, len(factors)), dtype=object)
    for i, factor in enumerate(factors):
        cells[0, i] = sp.csc_matrix(factor) if sp.issparse(factor) else factor
    with replacing(path) as partial, open(partial, "xb") as file:
        savemat(file, {FAUST_FACTORS: cells})


def _with_scale_in_a_factor(op: SparseProduct) -> list[Factor]:
    """The factors, the first of them times the scale."""
    first, *others = op.factors
    first = scaled(first, op.scale)
    require_finite("the scale times a factor", entries(first))
    return [first, *others]


# -- other operator libraries, which are imported when they are needed ---------------------------------


def to_pylops(op: SparseProduct, dims: Any, dimsd: Any) -> Any:
    """See `SparseProduct.to_pylops`."""
    try:
        import pylops
    except ImportError as error:
        raise ImportError("to_pylops needs PyLops: pip install pylops") from error
    dims, dimsd = _as_dims("dims", dims, op.shape[1]), _as_dims("dimsd", dimsd, op.shape[0])
    return pylops.LinearOperator(op, dims=dims, dimsd=dimsd)


def _as_dims(name: str, value: int | Sequence[int] | None, size: int) -> tuple[int, ...]:
    given = (size,) if value is None else value if isinstance(value, Sequence) else (value,)
    dims = tuple(as_integer(f"{name}[{i}]", side, 1) for i, side in enumerate(given))
    if prod(dims) != size:
        raise ValueError(f"{name} must have {size} entries in all, got {dims}")
    return dims


def to_faust(op: SparseProduct) -> Any:
    """See `SparseProduct.to_faust`."""
    try:
        import pyfaust
    except ImportError as error:
        raise ImportError("to_faust needs pyfaust: pip install pyfaust") from error
    dtype = np.dtype(np.complex128) if op.dtype.kind == "c" else op.dtype  # FAµST has no complex64.
    factors = [factor.astype(dtype) for factor in _with_scale_in_a_factor(op)]
    return pyfaust.Faust([sp.csr_matrix(f) if sp.issparse(f) else np.asfortranarray(f) for f in factors])


def from_faust(faust: "pyfaust.Faust") -> SparseProduct:
    """The factors of a Faust of pyfaust, as a SparseProduct.

    Parameters
    ----------
    faust : pyfaust.Faust
        Also transposed, conjugated or sliced.

    Returns
    -------
    SparseProduct
        With the same factors, bit by bit, and scale 1.

    Examples
    --------
    >>> import papilio as pp
    >>> try:
    ...     op = pp.operators.from_faust(pp.transforms.hadamard(4).to_faust())
    ... except ImportError:  # pyfaust is not installed
    ...     op = pp.transforms.hadamard(4)
    >>> op == pp.transforms.hadamard(4)
    True
    """
    try:
        count, factor = faust.numfactors(), faust.factors
    except AttributeError:
        raise TypeError(f"faust must be a Faust of pyfaust, got {type(faust).__name__}") from None
    return SparseProduct([factor(i) for i in range(count)])
