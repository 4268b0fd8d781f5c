"""Full disks: files cannot grow beyond so many bytes. What was there stays, and nothing is left behind."""

import resource
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import papilio as pp

from .case import Failed, noting
from .checkpoints import every_state
from .commands import call
from .commands import prepare as prepare

Rng = np.random.Generator
_X = np.random.default_rng(0).standard_normal((60, 6))
_OP = pp.SparseProduct([_X[:20].T @ _X[:20], _X[:9].T])


@contextmanager
def full_disk(n_bytes: int) -> Iterator[None]:
    """Let no file of this process become longer than ``n_bytes``: an error in the middle of writing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _save() -> None:
    _OP.save("out.npz")


def _command(*words: str) -> Callable[[], None]:
    def do() -> None:
        code, output, errors = call([*words])
        if code not in (0, 1, 2) or "Traceback" in output + errors or "PAPILIO_DEBUG" in errors:
            raise Failed(f"exit code {code}: {errors[-300:]}")
        if code:
            raise OSError(errors)

    return do


# What writes, and to which file.
ACTIONS: dict[str, tuple[Callable[[], None], str]] = {
    "save": (_save, "out.npz"),
    "apply": (_command("apply", "op.npz", "m.npy", "-o", "out.npy"), "out.npy"),
    "csv": (_command("apply", "op.npz", "m.npy", "-o", "out.csv"), "out.csv"),
    "encode": (_command("encode", "x.npy", "op.npz", "-o", "out.mtx", "--nonzero", "2"), "out.mtx"),
    "plot": (_command("plot", "op.npz", "-o", "out.png"), "out.png"),
    "factorize": (_command("factorize", "hadamard:8", "-o", "out.npz"), "out.npz"),
    "report": (_command("report", "op.npz", "-o", "out.html"), "out.html"),
}


def run(rng: Rng, folder: str) -> None:
    names = [*ACTIONS, "fit"]
    name = names[rng.integers(len(names))]
    limit = int(rng.choice([0, 1, 100, 1000, 2000, 4000, 20_000]))
    with noting(lambda: f"{name} on a disk with room for {limit} bytes"):
        if name == "fit":
            _fit(limit)
        else:
            _write(name, limit, bool(rng.integers(2)))


def _write(name: str, limit: int, is_there: bool) -> None:
    do, target = ACTIONS[name]
    _OP.save("op.npz")
    np.save("m.npy", np.ones((9, 4)))
    np.save("x.npy", _X)
    if is_there:
        Path(target).write_bytes(b"what was there")
    before = _files()
    try:
        with full_disk(limit):
            do()
    except OSError as error:
        if target not in str(error):
            raise Failed(f"the error does not name the file: {error}") from error
        if _files() != before:
            changed = sorted(before.items() ^ _files().items())
            raise Failed(f"{changed[0][0]} was changed or left behind") from error
        return
    if _files().keys() != before.keys() | {target}:
        raise Failed(f"{sorted(_files().keys() - before.keys())} were left behind")


def _fit(limit: int) -> None:
    """With a checkpoint that cannot be written; later there is room, and the result is what it would have been."""
    every_state()

    def make(**options: Any) -> Any:
        return pp.KSVD(8, 2, max_iter=4, tol=0.0, random_state=0, **options)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = make().fit(_X)
        try:
            with full_disk(limit):
                make(checkpoint="run").fit(_X)
        except OSError as error:
            if "run" not in str(error):
                raise Failed(f"the error does not name the file: {error}") from error
        found = make(checkpoint="run").fit(_X)
    if not np.array_equal(found.components_, expected.components_):
        raise Failed("the result is not what it would have been")
    if left := [each for each in _files() if each != "run"]:
        raise Failed(f"{left[0]} was left behind")


def _files() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path(".").rglob("*") if path.is_file()}
