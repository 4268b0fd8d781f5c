"""Files of every format that papilio reads, most of them damaged: it reads them, or refuses them by name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

import papilio as pp
from papilio.cli import inputs
from papilio.cli.console import BadInput
from papilio.cli.formats import Image

from .call import gaussian, real
from .case import Failed, noting
from .damage import damaged, edited_npz, edited_png
from .outcomes import is_refusal, require_sound

Rng = np.random.Generator


def _sparse(rng: Rng) -> Any:
    return sp.csr_array(real(rng, 6, 5) * (rng.random((6, 5)) < 0.5))


def _operator(path: str, rng: Rng) -> None:
    pp.SparseProduct([_sparse(rng), real(rng, 5, 4)], 0.5).save(path)


def _png(path: str, rng: Rng) -> None:
    from PIL import Image

    shape = [(9, 8), (9, 8, 3), (9, 8, 4)][rng.integers(3)]
    Image.fromarray(rng.integers(0, 256, shape).astype(np.uint8)).save(path)


def _csv(path: str, rng: Rng) -> None:
    heading = "a,b,c,d,e" if rng.integers(2) else ""
    np.savetxt(path, real(rng, 6, 5), delimiter=",", header=heading, comments="")


MAKERS: dict[str, Callable[[str, Rng], Any]] = {
    "op.npz": _operator,
    "op.mat": _operator,
    "m.npy": lambda path, rng: np.save(path, np.asarray(gaussian(rng, 6, 5), order=str(rng.choice(["C", "F"])))),
    "one.npz": lambda path, rng: np.savez(path, anything=gaussian(rng, 6, 5)),
    "packed.npz": lambda path, rng: np.savez_compressed(path, anything=real(rng, 6, 5)),
    "csr.npz": lambda path, rng: sp.save_npz(path, _sparse(rng)),
    "csc.npz": lambda path, rng: sp.save_npz(path, sp.csc_array(_sparse(rng)), compressed=False),
    "coo.npz": lambda path, rng: sp.save_npz(path, sp.coo_array(_sparse(rng)), compressed=False),
    "m.csv": _csv,
    "m.mat": lambda path, rng: scipy.io.savemat(
        path, {"M": gaussian(rng, 6, 5)}, do_compression=bool(rng.integers(2))
    ),
    "sparse.mat": lambda path, rng: scipy.io.savemat(path, {"M": sp.csc_matrix(_sparse(rng))}),
    "m.mtx": lambda path, rng: scipy.io.mmwrite(path, real(rng, 6, 5)),
    "sparse.mtx": lambda path, rng: scipy.io.mmwrite(path, _sparse(rng)),
    "m.png": _png,
}


def _samples(path: str) -> Any:
    samples = pp.datasets.on_disk(path)
    return samples.load()


def readers(name: str) -> list[Callable[[str], Any]]:
    """All that read a file of this name."""
    common: list[Callable[[str], Any]] = [inputs.read_matrix, inputs.read_operator]
    if name.startswith("op."):
        return [pp.load, *common]
    if name.endswith(".npy"):
        return [_samples, inputs.read_pixels, *common]
    return [inputs.read_pixels, *common] if name.endswith(".png") else common


def run(rng: Rng, folder: str) -> None:
    name = list(MAKERS)[rng.integers(len(MAKERS))]
    MAKERS[name](name, rng)
    sound = Path(name).read_bytes()
    content = _changed(rng, name, sound)
    if rng.integers(20) == 0:
        content = sound
    Path(name).write_bytes(content)
    for read in readers(name):
        with noting(lambda read=read: f"{read.__name__} of {name}, {len(content)} bytes"):
            _read(read, name, content == sound)


def _changed(rng: Rng, name: str, content: bytes) -> bytes:
    if name.endswith((".mat", ".mtx")):  # SciPy reads these, and may end the process if they are damaged.
        return content
    if name.endswith(".npz") and rng.integers(2):
        return edited_npz(rng, content)
    if name.endswith(".png") and rng.integers(2):
        return edited_png(rng, content)
    return damaged(rng, content)


def _read(read: Callable[[str], Any], name: str, is_sound: bool) -> None:
    try:
        value = read(name)
    except BadInput as error:
        named = name in str(error)
    except (ValueError, OSError) as error:
        if not is_refusal(error, (OSError,)):
            raise Failed(f"{type(error).__name__} that is not papilio's own: {error}") from error
        named = name in str(error)
    else:
        if not isinstance(value, Image):  # of any numbers
            require_sound(value)
        return
    if not named:
        raise Failed("the error does not name the file")
    if is_sound and not (read is inputs.read_pixels and name.endswith(".npy")):
        raise Failed("a sound file is refused")
