"""Compiled kernels, kept in files between processes by numba's own cache.

Numba finds a function by its own source file, but kernels contain functions of other files: so the folder of the
cache has a name that depends on all sources of the kernels. Numba fails where it cannot write, or where a file is
damaged, and may confuse signatures that two processes compile at the same time: here, the function is compiled.

Beside public names, this uses ``Dispatcher._cache`` and ``FunctionCache``, tried with numba 0.61 to 0.68.
"""

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba import njit, types
from numba.core.caching import FunctionCache
from numba.core.compiler_lock import global_compiler_lock

from .. import __version__

config: Any = numba.config

_KEPT_FOLDERS = 8  # Folders of earlier versions that are kept in each place.


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit` with these options as a decorator, kept in files where that is possible."""

    def decorate(function: Callable[..., Any]) -> Any:
        # Nothing calls kernels from C, and the wrapper for that takes a seventh of the time.
        dispatcher = njit(**{"no_cfunc_wrapper": True, **options})(function)
        if config.DISABLE_JIT:
            return dispatcher
        if (found := _cache_of(function)) is not None:
            dispatcher._cache = found
        compile = dispatcher.compile

        def compile_once(sig: Any) -> Any:
            """A constant in a call is no reason to compile the function once more."""
            return compile(tuple(map(types.unliteral, sig)) if isinstance(sig, tuple) else sig)

        dispatcher.compile = compile_once
        return dispatcher

    return decorate


class KernelCache(FunctionCache):
    """Numba's cache of one function; whatever goes wrong with files, the function is compiled."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        with suppress(Exception):
            found = super().load_overload(sig, target_context)
            if found is not None and tuple(found.signature.args) == tuple(getattr(sig, "args", sig)):
                return found
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception:  # The disk may be full, or an index damaged.
            with suppress(Exception):
                self.flush()


def _cache_of(function: Callable[..., Any]) -> KernelCache | None:
    """A cache in our folder; None where no folder can be written to."""
    if (folder := _folder()) is None:
        return None
    before, config.CACHE_DIR = config.CACHE_DIR, os.fspath(folder)  # numba reads it when a cache is made.
    try:
        return KernelCache(function)
    except RuntimeError:  # sources that are no files
        return None
    finally:
        config.CACHE_DIR = before


@cache
def _folder() -> Path | None:
    """The first of the places that is ours to write to, with a folder for these sources."""
    for place in _places():
        with suppress(OSError):
            folder = place / f"{_prefix()}{_hash_of_sources()}"
            if not folder.exists():
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
                folder.mkdir(mode=0o700, exist_ok=True)
                _remove_old(folder)
            if _is_ours(folder) and os.access(folder, os.W_OK):
                return folder
    return None


def _places() -> Iterator[Path]:
    """Where compiled kernels may be kept, the best place first; a place need not exist or be writable.

    With ``NUMBA_CACHE_DIR`` that is the only one; else they are beside the sources, in the user's cache and among
    the temporary files.
    """
    if config.CACHE_DIR:
        yield Path(config.CACHE_DIR).absolute()
        return
    yield Path(__file__).parent / "__pycache__"
    home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    if home.is_absolute():  # there may be no home
        yield home / "papilio"
    with suppress(OSError):  # there may be no place for temporary files
        yield Path(tempfile.gettempdir())


def _prefix() -> str:
    """What the names of this user's folders begin with."""
    return f"papilio-kernels-{os.geteuid() if hasattr(os, 'geteuid') else 'user'}-"


def _hash_of_sources() -> str:
    found = hashlib.sha256(repr((__version__, numba.__version__, sys.implementation.cache_tag)).encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        found.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:24]


def _is_ours(folder: Path) -> bool:
    """Whether only this user can write to it: loading compiled code runs it."""
    status = folder.lstat()
    is_private = not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not status.st_mode & 0o022)
    return is_private and not folder.is_symlink()


def _remove_old(folder: Path) -> None:
    """Keep only the newest folders of earlier versions."""
    others = [each for each in folder.parent.glob(f"{_prefix()}*") if each != folder and _is_ours(each)]
    for each in sorted(others, key=lambda each: each.stat().st_mtime)[:-_KEPT_FOLDERS]:
        shutil.rmtree(each, ignore_errors=True)


if hasattr(os, "register_at_fork"):  # a fork waits until no other thread compiles: the child would wait forever
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )
