"""Public calls with valid small arguments, of which one or two are replaced by odd ones."""

import sys
import warnings
from contextlib import suppress
from typing import Any

import numpy as np

import papilio as pp

from .call import Call
from .case import Failed, noting
from .functions import FUNCTIONS
from .objects import OBJECTS
from .odd import odd
from .outcomes import fingerprint, require_refusal, require_sound

CALLS: dict[str, Call] = FUNCTIONS | OBJECTS


def prepare() -> None:
    """Compile what most calls need, which would take longer than a case may."""
    rng = np.random.default_rng(0)
    for name in ("omp", "palm", "ksvd", "fast_dictionary", "factorize"):
        with suppress(ValueError):  # a complex start for real signals is refused
            CALLS[name].do(**CALLS[name].make(rng))


def run(rng: np.random.Generator, folder: str) -> None:
    names = list(CALLS)
    name = names[rng.integers(len(names))]
    call = CALLS[name]
    arguments = call.make(rng)
    free = [argument for argument in arguments if argument not in call.kept]
    replaced = {}
    for argument in rng.permutation(free)[: int(rng.integers(1, 3))].tolist():
        kind, arguments[argument] = odd(rng, arguments[argument])
        replaced[argument] = kind
    with noting(lambda: f"{name}({_shown(arguments, replaced)})"):
        try_call(call, arguments)


def try_call(call: Call, arguments: dict[str, Any]) -> None:
    """Call it, and fail unless it returns something sound or refuses, and changes nothing."""
    before = {name: fingerprint(value) for name, value in arguments.items()}
    try:
        with warnings.catch_warnings():
            if not call.finite:  # NumPy warns of infinities, too
                warnings.simplefilter("ignore", RuntimeWarning)
            result = call.do(**arguments)
    except Exception as error:
        require_refusal(error, call.errors, call.by_sklearn)
    else:
        require_sound(result, call.finite)
        call.promise(result, **arguments)
    finally:
        _undo()
    for name, value in arguments.items():
        if fingerprint(value) != before[name]:
            raise Failed(f"{name} was changed in place")


def _undo() -> None:
    """What calls change for the whole process."""
    pp.set_num_threads(None)
    plot = sys.modules.get("matplotlib.pyplot")
    if plot is not None:
        plot.close("all")


def _shown(arguments: dict[str, Any], replaced: dict[str, str]) -> str:
    return ", ".join(f"{name}=<{kind}> {_brief(arguments[name])}" for name, kind in replaced.items())


def _brief(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.size > 4:
        return f"{value.dtype}{value.shape}"
    try:
        text = " ".join(repr(value).split())
    except Exception as error:  # of broken objects
        text = f"{type(value).__name__} whose repr raises {type(error).__name__}"
    return text if len(text) < 80 else f"{text[:80]}…"
