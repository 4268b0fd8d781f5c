"""What calls may do: return sound results, or refuse in papilio's own words; and leave their arguments alone."""

import dataclasses
import os
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
import sklearn

import papilio as pp

from . import odd
from .case import Failed

_OURS = os.path.dirname(os.path.abspath(pp.__file__)) + os.sep
_SKLEARN = os.path.dirname(os.path.abspath(sklearn.__file__)) + os.sep
_REFUSALS = (TypeError, ValueError)  # NotFittedError is a ValueError


def is_refusal(error: BaseException, more: tuple[type[BaseException], ...] = (), sklearns: bool = False) -> bool:
    """Whether papilio itself raised an error of an accepted type, or scikit-learn's validation did."""
    innermost = os.path.abspath(traceback.extract_tb(error.__traceback__)[-1].filename)
    if innermost == odd.__file__:
        return True  # of an argument itself
    if not isinstance(error, (*_REFUSALS, *more)):
        return False
    if isinstance(error, OSError) and error.filename is not None:
        return True  # in Python's own words, with the file
    return innermost.startswith(_OURS) or (sklearns and innermost.startswith(_SKLEARN))


def require_refusal(error: Exception, more: tuple[type[BaseException], ...] = (), sklearns: bool = False) -> None:
    """Raise `Failed` from ``error`` unless it is a refusal."""
    if not is_refusal(error, more, sklearns):
        raise Failed(f"{type(error).__name__} that is not papilio's own: {error}") from error


def fingerprint(value: Any, depth: int = 0) -> Any:
    """What would change if somebody wrote to ``value``."""
    if isinstance(value, np.ma.MaskedArray):
        return fingerprint(value.data), fingerprint(np.ma.getmaskarray(value))
    if isinstance(value, np.ndarray):
        content = repr(value.tolist()) if value.dtype.hasobject else value.tobytes()
        return value.dtype.str, value.shape, value.strides, value.flags.writeable, content
    if sp.issparse(value):
        if value.format == "dok":
            return "dok", value.shape, repr(sorted(value.items(), key=repr))
        names = ("data", "indices", "indptr", "offsets", "rows", "coords")
        return value.format, value.shape, [fingerprint(getattr(value, n, None), depth + 1) for n in names]
    if isinstance(value, list | tuple) and depth < 4:
        return type(value).__name__, [fingerprint(each, depth + 1) for each in value]
    if isinstance(value, dict) and depth < 4:
        return [(key, fingerprint(each, depth + 1)) for key, each in value.items()]
    if hasattr(value, "to_numpy"):
        return fingerprint(value.to_numpy(), depth + 1)
    return None


def arrays_in(result: Any, depth: int = 0) -> Iterator[np.ndarray]:
    """All arrays of a result, wherever they are in it."""
    if isinstance(result, np.ndarray):
        yield result
    elif isinstance(result, float | complex | np.number):
        yield np.asarray(result)
    elif sp.issparse(result):
        yield result.data if result.format not in ("dok", "lil") else result.toarray()
    elif isinstance(result, pp.SparseProduct):
        yield np.asarray(result.scale)
        for factor in result.factors:
            yield from arrays_in(factor, depth + 1)
    elif depth > 4 or isinstance(result, pp.results.Attempt):  # errors of attempts that found nothing are infinite
        return
    elif isinstance(result, list | tuple):
        for each in result:
            yield from arrays_in(each, depth + 1)
    elif isinstance(result, Mapping):
        for each in result.values():
            yield from arrays_in(each, depth + 1)
    elif dataclasses.is_dataclass(result) and not isinstance(result, type):
        for each in dataclasses.fields(result):
            yield from arrays_in(getattr(result, each.name, None), depth + 1)


def require_sound(result: Any, finite: bool = True) -> None:
    """Arrays are of a dtype that papilio promises and, unless they need not be, finite."""
    for array in arrays_in(result):
        if array.dtype.kind not in "fcbiu" or array.dtype in (np.float16, np.longdouble, np.clongdouble):
            raise Failed(f"a result has the dtype {array.dtype}")
        if not array.dtype.isnative:
            raise Failed(f"a result has the byte order of another machine, {array.dtype}")
        if finite and array.dtype.kind in "fc" and not np.isfinite(array).all():
            raise Failed(f"a result of dtype {array.dtype} and shape {array.shape} is not finite")
