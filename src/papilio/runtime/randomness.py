"""States of random generators as text, for checkpoints."""

import json
from math import isfinite
from typing import Any

import numpy as np

# Places in the buffers of MT19937 and Philox, which NumPy reads without a look at their ends.
_MOST = {"pos": 624, "buffer_pos": 4, "has_gauss": 1, "has_uint32": 1}


def random_as_text(random: np.random.RandomState) -> str:
    """The state of a generator. As text: the integers of some bit generators are too large for arrays."""
    return json.dumps(random.get_state(legacy=False), default=lambda array: array.tolist())


def restore_random(random: np.random.RandomState, text: str) -> None:
    """The inverse of `random_as_text`; ``ValueError`` if the text is not a state of such a generator."""
    found = json.loads(text)
    _compare("random", found, json.loads(random_as_text(random)))
    random.set_state(found)


def _compare(name: str, found: Any, sound: Any) -> None:
    """Refuse what has not the same structure as a state that is known to be sound."""
    if isinstance(sound, dict):
        fits = isinstance(found, dict) and found.keys() == sound.keys()
        pairs = [(key, found[key], sound[key]) for key in sound] if fits else []
    elif isinstance(sound, list):
        fits = isinstance(found, list) and len(found) == len(sound)
        pairs = [(name, each, 0) for each in found] if fits else []
    elif isinstance(sound, str):
        fits, pairs = found == sound, []
    else:
        kinds = int | float if isinstance(sound, float) else int
        fits = (
            isinstance(found, kinds)
            and isfinite(found)
            and (name == "gauss" or 0 <= found <= _MOST.get(name, found))
        )
        pairs = []
    if not fits:
        raise ValueError(f"{name} must be as in a state of this random generator, got {found!r:.60}")
    for pair in pairs:
        _compare(*pair)
