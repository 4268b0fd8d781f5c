"""Locks in processes that are forked.

A fork copies all locks, but only the thread that forks. A lock that another thread held would never be released in
the child, and what it guards could be half changed.
"""

import functools
import os
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

T = TypeVar("T")


def hold_over_forks(lock: Any, patience: float, in_child: Callable[[], None] = lambda: None) -> None:
    """Let forks wait until no other thread holds ``lock``; in the child it is free, and ``in_child`` is called.

    After ``patience`` seconds, a fork goes on without it, and it is made anew in the child.
    """
    local = threading.local()

    def before() -> None:
        local.is_held = lock.acquire(timeout=patience)

    def after_in_parent() -> None:
        if local.is_held:
            lock.release()

    def after_in_child() -> None:
        if local.is_held:
            lock.release()
        else:
            lock._at_fork_reinit()
        in_child()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_parent=after_in_parent, after_in_child=after_in_child)


class cached_property(functools.cached_property[T]):
    """`functools.cached_property` without its lock, which Python 3.11 has one of for all objects of a class.

    Two threads that ask at the same time both compute the value, as they do from Python 3.12 on.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        super().__init__(function)
        self.lock = nullcontext()
