"""Matrices in MATLAB's .mat files, versions 5 to 7.

`scipy.io.loadmat` crashes the process on some damaged files; a test tells when it no longer does. So it runs in a
process of its own, which writes the matrices of numbers again.
"""

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from ..operators.csr import as_csr
from .limits import check_sides, memory

_REWRITE = """
import contextlib, io, sys
from scipy.io import loadmat, savemat
with contextlib.suppress(ImportError, ValueError):  # not on Windows, nor above another limit
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]), resource.getrlimit(resource.RLIMIT_AS)[1]))
found, sound = loadmat(sys.argv[1]), io.BytesIO()
savemat(sound, {name: x for name, x in found.items() if hasattr(x, "dtype") and x.dtype.kind in "biufc"})
sys.stdout.buffer.write(sound.getbuffer())
"""


def read_mat(path: Path) -> dict[str, Any]:
    """The matrices of numbers by name."""
    from scipy.io import loadmat

    with open(path, "rb") as file:
        head = file.read(128)
    if head.startswith((b"MATLAB 7.3", b"\x89HDF\r\n\x1a\n")):
        raise ValueError("files of MATLAB's version 7.3 cannot be read; save with -v7")
    if head[126:] not in (b"IM", b"MI"):
        raise ValueError("it does not begin as version 5 of the format does")
    done = subprocess.run([sys.executable, "-P", "-c", _REWRITE, path, str(memory())], capture_output=True)
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise ValueError(lines[-1] if lines else "a part is damaged")
    matrices = {name: x for name, x in loadmat(io.BytesIO(done.stdout)).items() if not name.startswith("__")}
    for name, matrix in matrices.items():
        if sp.issparse(matrix):
            check_sides(matrix.shape)
            matrices[name] = as_csr(name, matrix)
    return matrices
