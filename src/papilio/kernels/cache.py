"""Compiled kernels, kept in files between processes.

Numba has a cache of its own, which is not used here, for four reasons. It knows a function by its own source file,
but kernels contain functions of other files. It raises an error where it finds no folder to write to, or a damaged
file. It may confuse two signatures that two processes compile at the same time. And it unpickles what anybody may
have written.

Here each signature of a function has a file of its own, with a checksum, in a folder whose name depends on all
sources of the kernels. What goes wrong with files is never an error: the function is compiled.
"""

import hashlib
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba import njit, types
from numba.core import config
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.serialize import dumps

from .. import __version__
from ..runtime.forks import hold_over_forks
from .turns import Turn

_KEPT_FOLDERS = 8  # of other versions, in each place
_LONGEST_COMPILATION = 30.0  # seconds
_SETTINGS = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "DISABLE_INTEL_SVML")


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit` with these options as a decorator, and with this module's cache."""

    def decorate(function: Callable[..., Any]) -> Any:
        # Without what C would call: nothing does, and it takes a seventh of the time.
        dispatcher = njit(**{"no_cfunc_wrapper": True, **options})(function)
        # Numba may be told not to compile; and values from around a function are in no source.
        if hasattr(dispatcher, "_cache") and function.__closure__ is None:
            dispatcher._cache = KernelCache(function)
            dispatcher.compile = dispatcher._cache.in_turn(dispatcher.compile)
        return dispatcher

    return decorate


class KernelCache(NullCache):
    """The cache of one function, as its numba dispatcher uses it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._turns: dict[Any, Turn] = {}  # of the signatures that are being compiled

    def in_turn(self, compile: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """``compile``, with the end of the turn that `load_overload` may have begun, however it ends."""

        def compile_in_turn(sig: Any) -> Any:
            if isinstance(sig, tuple):  # a constant in a call is no reason to compile the function once more
                sig = tuple(map(types.unliteral, sig))
            try:
                return compile(sig)
            finally:
                if turn := self._turns.pop(sig, None):
                    turn.end()

        return compile_in_turn

    @property
    def cache_path(self) -> str | None:
        """The first folder that is looked into."""
        folder = next(folders(), None)
        return None if folder is None else os.fspath(folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled function for a signature, or None if it is this process's turn to compile it."""
        target_context.refresh()  # numba must know all types before it loads a function
        name, key = self._file_of(sig, target_context.codegen())

        def load() -> Any:
            for folder in folders():
                # Whatever a file leads to that is damaged, gone or not ours.
                with suppress(Exception):
                    return CompileResult._rebuild(target_context, *pickle.loads(_read(folder, name, key)))
            return None

        found = load()
        if found is None and (folder := _folder_to_write()) is not None:
            self._turns[sig] = turn = Turn()
            found = turn.wait_for(folder / f"{name}.lock", load)
        return found

    def save_overload(self, sig: Any, cres: Any) -> None:
        """Keep a function that was just compiled, wherever that is possible."""
        with suppress(Exception):
            if cres.library.has_dynamic_globals or _is_stale():
                return
            name, key = self._file_of(sig, cres.codegen)
            content = dumps(cres._reduce())
            any(_write(folder, name, key, content) for folder in folders())

    def _file_of(self, sig: Any, codegen: Any) -> tuple[str, bytes]:
        """The name of a signature's file, and its key: what the compiled code depends on, beside the sources."""
        name = f"{self._function.__module__}.{self._function.__qualname__}"
        processor, code = codegen.magic_tuple(), self._function.__code__.co_code
        key = hashlib.sha256(repr((name, sig, processor, code)).encode()).digest()
        short = name.removeprefix(f"{__package__}.").replace("<", "").replace(">", "")
        return f"{short}-{key.hex()[:24]}.bin", key


def folders() -> Iterator[Path]:
    """Where compiled kernels may be kept, the best place first; a place need not exist or be writable.

    With ``NUMBA_CACHE_DIR`` that is the only one; else they are beside the sources, in the user's cache and among
    the temporary files.
    """
    if _STAMP is None:
        return
    leaf = f"{_prefix()}{_STAMP}"
    chosen = getattr(config, "CACHE_DIR", "")
    if chosen:
        yield Path(chosen).absolute() / leaf
        return
    yield Path(__file__).parent / "__pycache__" / leaf
    home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    if home.is_absolute():  # there may be no home
        yield home / "papilio" / leaf
    with suppress(OSError):  # there may be no place for temporary files
        yield Path(tempfile.gettempdir()) / leaf


def _prefix() -> str:
    """What the names of this user's folders begin with."""
    return f"papilio-kernels-{os.geteuid() if hasattr(os, 'geteuid') else 'user'}-"


def _hash_of_sources() -> str | None:
    """A hash of the sources of all kernels, for they are compiled into one another, and of what compiles them.

    None if the sources cannot be read.
    """
    versions = __version__, numba.__version__, llvmlite.__version__, sys.implementation.cache_tag
    settings = [str(getattr(config, name, None)) for name in _SETTINGS]
    found = hashlib.sha256(repr((versions, settings)).encode())
    try:
        sources = [each for each in files(__package__).iterdir() if each.name.endswith((".py", ".pyc"))]
        for each in sorted(sources, key=lambda each: each.name):
            found.update(each.name.encode() + b"\0" + hashlib.sha256(each.read_bytes()).digest())
    except OSError:
        return None
    return found.hexdigest()[:24] if sources else None


def _is_stale() -> bool:
    """Whether the sources changed since they were loaded: those would be taken for the compiled code's."""
    return _hash_of_sources() != _STAMP


def _folder_to_write() -> Path | None:
    """The first of the folders that can be written to, as far as is known; None if nothing is to be kept."""
    if _is_stale():
        return None
    for folder in folders():
        with suppress(OSError):
            _make(folder)
            _require_ours(os.lstat(folder), folder)
            if os.access(folder, os.W_OK):
                return folder
    return None


def _is_ours(status: os.stat_result) -> bool:
    """Whether nobody else could write it: to load compiled code is to run it."""
    return not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not status.st_mode & 0o022)


def _require_ours(status: os.stat_result, path: Path) -> None:
    if not _is_ours(status):
        raise PermissionError(f"{os.fspath(path)!r} must belong to this user, and be writable by nobody else")


def _read(folder: Path, name: str, key: bytes) -> bytes:
    """What `_write` wrote; `OSError` or `ValueError` if that is not there as it was written."""
    _require_ours(os.lstat(folder), folder)
    with open(folder / name, "rb", opener=_open_no_link) as file:
        _require_ours(os.fstat(file.fileno()), folder / name)
        checksum, content = file.read(32), file.read()
    if checksum != hashlib.sha256(key + content).digest():
        raise ValueError(f"{os.fspath(folder / name)!r} is damaged")
    return content


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))


def _write(folder: Path, name: str, key: bytes, content: bytes) -> bool:
    """Write a file, whole or not at all; False if that is not possible."""
    try:
        _make(folder)
        _require_ours(os.lstat(folder), folder)
        number, partial = tempfile.mkstemp(".part", dir=folder)
        try:
            with open(number, "wb") as file:
                file.write(hashlib.sha256(key + content).digest() + content)
            os.replace(partial, folder / name)
        except BaseException:
            with suppress(OSError):
                os.unlink(partial)
            raise
    except OSError:
        return False
    return True


def _make(folder: Path) -> None:
    """Make a folder that nobody else may enter, unless it is there; only the newest of its kind are kept."""
    if folder.exists():
        return
    os.makedirs(folder.parent, 0o700, exist_ok=True)
    with suppress(FileExistsError):  # another process was faster
        os.mkdir(folder, 0o700)
    others = []
    for each in folder.parent.glob(f"{_prefix()}*"):
        with suppress(OSError):  # another process removes them, too
            status = each.lstat()
            if each != folder and _is_ours(status):
                others.append((status.st_mtime, each))
    for _, each in sorted(others)[:-_KEPT_FOLDERS]:
        shutil.rmtree(each, ignore_errors=True)


hold_over_forks(global_compiler_lock._lock, _LONGEST_COMPILATION)
_STAMP = _hash_of_sources()  # of what this process has loaded
