"""Properties in processes that are forked."""

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

T = TypeVar("T")


class cached_property(functools.cached_property[T]):
    """`functools.cached_property` without its lock, which Python 3.11 has one of for all objects of a class.

    A fork copies that lock, but not the thread that would release it. Two threads that ask at the same time both
    compute the value, as they do from Python 3.12 on.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        super().__init__(function)
        self.lock = nullcontext()
