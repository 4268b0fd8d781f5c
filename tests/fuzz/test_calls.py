"""Public calls with one or two odd arguments return something sound, or refuse in the package's own words."""

import dataclasses
import inspect
import os
import resource
import sys
import traceback
import warnings
from collections.abc import Mapping

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given
from hypothesis import strategies as st

import papilio as pp

from ..helpers import ALL_DTYPES
from . import odd
from .calls import CALLS

OURS, SCIKIT_LEARN = (os.path.dirname(os.path.abspath(package.__file__)) for package in (pp, sklearn))


@pytest.fixture(autouse=True)
def limited(here, monkeypatch):
    """Four more gigabytes; what a call changes for the whole process is undone."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    with open("/proc/self/statm", encoding="utf-8") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 30), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)
    pp.set_num_threads(None)


def fingerprint(value):
    """What would change if somebody wrote to ``value``."""
    if isinstance(value, np.ma.MaskedArray):
        return fingerprint(value.data), fingerprint(np.ma.getmaskarray(value))
    if isinstance(value, np.ndarray):
        content = repr(value.tolist()) if value.dtype.hasobject else value.tobytes()
        return value.dtype.str, value.shape, value.strides, value.flags.writeable, content
    if sp.issparse(value):
        if value.format == "dok":
            return value.shape, repr(sorted(value.items(), key=repr))
        names = ("data", "indices", "indptr", "offsets", "rows", "coords")
        return value.format, value.shape, [fingerprint(getattr(value, name, None)) for name in names]
    if isinstance(value, list | tuple):
        return type(value).__name__, [fingerprint(each) for each in value]
    if isinstance(value, dict):
        return [(key, fingerprint(each)) for key, each in value.items()]
    return fingerprint(value.to_numpy()) if hasattr(value, "to_numpy") else None


def arrays_in(result, depth=0):
    """All arrays of a result, wherever they are in it."""
    if isinstance(result, np.ndarray | float | complex | np.number):
        yield np.asarray(result)
    elif sp.issparse(result):
        yield result.tocsr().data
    elif isinstance(result, pp.SparseProduct):
        yield from arrays_in([result.scale, *result.factors], depth)
    elif depth > 4 or isinstance(result, pp.results.Attempt | type):  # an attempt may have found nothing
        return
    elif dataclasses.is_dataclass(result):
        fields = [getattr(result, each.name, None) for each in dataclasses.fields(result)]
        yield from arrays_in(fields, depth + 1)
    elif isinstance(result, list | tuple | Mapping):
        for each in result.values() if isinstance(result, Mapping) else result:
            yield from arrays_in(each, depth + 1)


def assert_sound(result, finite):
    for array in arrays_in(result):
        assert array.dtype.kind in "fcbiu"
        assert array.dtype.isnative
        assert array.dtype not in (np.float16, np.longdouble, np.clongdouble)
        assert not finite or array.dtype.kind not in "fc" or np.isfinite(array).all()


def is_refusal(error, more):
    """Whether an error is the package's own, or of scikit-learn's checks, or of the odd argument itself."""
    if isinstance(error, MemoryError):
        return True  # more was asked for than there is
    innermost = os.path.abspath(traceback.extract_tb(error.__traceback__)[-1].filename)
    if innermost == odd.__file__:
        return True
    if isinstance(error, OSError) and error.filename is not None:
        return isinstance(error, more)
    return isinstance(error, (TypeError, ValueError, *more)) and innermost.startswith((OURS, SCIKIT_LEARN))


def stopping(after=40):
    """A callback that stops a run which odd limits would let go on for ever."""
    calls = iter(range(after))
    return lambda step: next(calls, None) is None


def close_figures():
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


def takes_callback(do):
    try:
        return "callback" in inspect.signature(do).parameters
    except ValueError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
@given(data=st.data())
def test_unusual_arguments_are_refused_or_give_a_valid_result(name, data):
    call = CALLS[name]
    dtype = data.draw(st.sampled_from(ALL_DTYPES))
    options = {key: value for key, value in call.options.items() if data.draw(st.booleans())}
    arguments = {
        key: value.astype(dtype) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value
        for key, value in (call.arguments | options).items()
    }
    if takes_callback(call.do) or name.endswith(".fit"):
        arguments["callback"] = stopping()
    free = sorted(arguments.keys() - set(call.kept))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's matrices are deprecated.
        for key in data.draw(st.lists(st.sampled_from(free), min_size=1, max_size=2, unique=True)):
            arguments[key] = data.draw(odd.odd(arguments[key]), label=key)
    before = {key: fingerprint(value) for key, value in arguments.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error" if call.finite else "ignore", RuntimeWarning)
        try:
            result = call.do(**arguments)
        except Exception as error:
            if not is_refusal(error, call.errors):
                raise
        else:
            assert_sound(result, call.finite)
            given_shape = getattr(arguments.get(call.shape_of), "shape", None)
            if given_shape is not None:
                assert getattr(result, "operator", result).shape == given_shape
        finally:
            close_figures()
    assert {key: fingerprint(value) for key, value in arguments.items()} == before
