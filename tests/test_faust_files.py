"""SparseProducts in the .mat files of FAµST: a cell array `faust_factors`, here as SciPy writes it."""

import random
import struct
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import papilio as pp
from papilio import SparseProduct

from .helpers import DTYPES, as_array, gaussian
from .test_cli_readers import element

SPARSE = np.array([[0, 2.5, 0, -1], [3, 0, 0, 0], [0, 0.5, 1, 0]])
MILLION = 10**6


def cells(*factors: Any) -> Any:
    """A 1×M object array, which SciPy writes as a cell array."""
    made = np.empty((1, len(factors)), dtype=object)
    made[0] = [None] * len(factors)
    for i, factor in enumerate(factors):
        made[0, i] = factor
    return made


def write(path: Path, *factors: Any, packed: bool = False, **others: Any) -> Path:
    scipy.io.savemat(path, {"faust_factors": cells(*factors)} | others, do_compression=packed)
    return path


# -- reading -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["f.mat", "without suffix", "f.npz"])
def test_files_of_faust_are_read_whatever_their_name(tmp_path: Path, packed: bool, name: str) -> None:
    dense, sparse = gaussian((4, 2)), sp.csc_matrix(SPARSE)
    write(tmp_path / "f.mat", sparse, dense, packed=packed, note="words", other=np.eye(2))
    (tmp_path / "f.mat").rename(tmp_path / name)
    assert pp.load(tmp_path / name) == SparseProduct([SPARSE, dense])


@pytest.mark.parametrize("form", [np.asarray, sp.csc_matrix])
@pytest.mark.parametrize("dtype", [*DTYPES, np.int16, np.uint8])
def test_factors_are_read_in_their_dtype(tmp_path: Path, form: Any, dtype: Any) -> None:
    if form is sp.csc_matrix and np.dtype(dtype).kind in "iu":
        dtype = np.float64  # MATLAB has no other sparse numbers
    matrix = (SPARSE * (1 + 2j)).astype(dtype) if np.dtype(dtype).kind == "c" else SPARSE.astype(dtype)
    op = pp.load(write(tmp_path / "f.mat", form(matrix)))
    assert op == SparseProduct([matrix])
    assert op.dtype == (dtype if np.dtype(dtype).kind in "fc" else np.float64)


def test_a_column_of_cells_and_one_entry_are_read(tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "f.mat", {"faust_factors": cells(SPARSE, SPARSE.T).T})
    assert pp.load(tmp_path / "f.mat") == SparseProduct([SPARSE, SPARSE.T])
    assert pp.load(write(tmp_path / "f.mat", np.array([[3.5]]))).toarray() == [[3.5]]


# -- writing -------------------------------------------------------------------------------------------


def scipys(path: Path) -> list[Any]:
    return [as_array(factor) for factor in scipy.io.loadmat(path)["faust_factors"][0]]


@pytest.mark.filterwarnings("ignore:The default value for `spmatrix`:DeprecationWarning")  # of SciPy's reader
@pytest.mark.parametrize("factors", [[SPARSE], [SPARSE, gaussian((4, 2))], [[[2.0]]], [np.zeros((2, 3))]])
def test_what_is_saved_as_mat_is_a_cell_array_of_the_factors(tmp_path: Path, factors: Any, dtype: Any) -> None:
    op = SparseProduct([np.asarray(factor).astype(dtype) for factor in factors])
    op.save(tmp_path / "F.MAT")
    stored = scipys(tmp_path / "F.MAT")
    assert len(stored) == len(op.factors)
    for written, factor in zip(stored, op.factors, strict=True):
        assert written.dtype == dtype
        np.testing.assert_array_equal(written, as_array(factor))
    assert pp.load(tmp_path / "F.MAT") == op


@pytest.mark.filterwarnings("ignore:The default value for `spmatrix`:DeprecationWarning")
@pytest.mark.parametrize("scale", [-0.5, 0.0, 3.0])
def test_the_scale_goes_into_the_first_factor(tmp_path: Path, scale: float) -> None:
    op = SparseProduct([SPARSE, gaussian((4, 2))], scale)
    op.save(tmp_path / "f.mat")
    stored = scipys(tmp_path / "f.mat")
    np.testing.assert_array_equal(stored[0], scale * SPARSE)
    np.testing.assert_array_equal(stored[1], gaussian((4, 2)))
    assert pp.load(tmp_path / "f.mat").scale == 1.0
    large = SparseProduct([[[1e300]], [[1e-300]]], 1e200)
    large.save(tmp_path / "f.mat")
    np.testing.assert_allclose(pp.load(tmp_path / "f.mat").toarray(), 1e200)


def test_a_scale_that_no_factor_can_take_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="scale"):
        SparseProduct([[[1e300]], [[1e300]]], 1e300).save(tmp_path / "f.mat")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["scipy.io.savemat", "os.fsync", "os.replace"])
def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    (tmp_path / "f.mat").write_bytes(b"old")

    def fail(*args: Any, **options: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(step, fail)
    with pytest.raises(OSError, match="disk full"):
        SparseProduct([SPARSE]).save(tmp_path / "f.mat")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"f.mat": b"old"}


@pytest.mark.parametrize("name", ["op.npy", "op.csv", "op.TXT", "op.mtx", "op.h5", "op.pkl"])
def test_names_of_other_formats_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=rf"^path must end in \.npz.*\{Path(name).suffix.lower()} promises"):
        SparseProduct([SPARSE]).save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


# -- files that are not what they should be ------------------------------------------------------------


def matrix(name: str, flags: int, dimensions: Any, *parts: Any) -> bytes:
    described = [(6, struct.pack("<II", flags, 0)), (5, struct.pack(f"<{len(dimensions)}i", *dimensions))]
    return element(14, b"".join(element(*part) for part in [*described, (1, name.encode()), *parts]))


def file(*members: bytes, shape: Any = None, name: str = "faust_factors", packed: bool = False) -> bytes:
    described = [(6, struct.pack("<II", 1, 0)), (5, struct.pack("<2i", *(shape or (1, len(members)))))]
    head = b"".join(element(*part) for part in [*described, (1, name.encode())])
    whole = element(14, head + b"".join(members))
    if packed:
        data = zlib.compress(whole)
        whole = struct.pack("<II", 15, len(data)) + data
    return b"MATLAB 5.0".ljust(124) + b"\0\1IM" + whole


ONE = matrix("", 6, (1, 1), (9, np.ones(1).tobytes()))
TEXT = matrix("", 4, (1, 1), (4, b"a\0"))
CELL = matrix("", 1, (1, 1), (9, b""))
WRONG = {
    "no cells": file(shape=(1, 0)),
    "no such variable": file(ONE, name="factors"),
    "more members than cells": file(ONE, ONE, shape=(1, 1)),
    "fewer members than cells": file(ONE, shape=(1, 2)),
    "negative shape": file(ONE, shape=(-1, -1)),
    "very many cells": file(ONE, shape=(2**31 - 1, 2**31 - 1)),
    "text": file(ONE, TEXT),
    "a cell in a cell": file(CELL),
    "a matrix of no entries": file(matrix("", 6, (0, 1), (9, b""))),
    "a matrix of negative shape": file(matrix("", 6, (-1, -1), (9, np.ones(1).tobytes()))),
    "numbers instead of a matrix": file(element(9, np.ones(1).tobytes())),
    "too few numbers": file(matrix("", 6, (2, 2), (9, np.ones(1).tobytes()))),
    "chains that do not fit": file(ONE, matrix("", 6, (2, 1), (9, np.ones(2).tobytes()))),
    "NaN": file(matrix("", 6, (1, 1), (9, np.array([np.nan]).tobytes()))),
    "three dimensions": file(matrix("", 6, (1, 1, 1), (9, np.ones(1).tobytes()))),
    "index out of range": file(matrix("", 5, (1, 1), (5, b"\7\0\0\0"), (5, b"\0\0\0\0\1\0\0\0"), (9, bytes(8)))),
    "pointers that fall": file(matrix("", 5, (1, 1), (5, b"\0\0\0\0"), (5, b"\1\0\0\0\0\0\0\0"), (9, bytes(8)))),
    "a sparse matrix without values": file(matrix("", 5, (1, 1), (5, b"\0\0\0\0"))),
    "version 7.3": b"\x89HDF\r\n\x1a\n" + bytes(600),
    "only a header": file(ONE)[:128],
    "a matrix of that name": b"MATLAB 5.0".ljust(124)
    + b"\0\1IM"
    + matrix("faust_factors", 6, (1, 1), (9, bytes(8))),
}


@pytest.mark.parametrize("name", WRONG)
def test_odd_files_are_refused_by_their_names(tmp_path: Path, name: str) -> None:
    (tmp_path / "odd.mat").write_bytes(WRONG[name])
    with pytest.raises(ValueError, match=r"odd\.mat"):
        pp.load(tmp_path / "odd.mat")


def test_the_sound_file_that_these_are_made_of_is_read(tmp_path: Path) -> None:
    for packed in (False, True):
        (tmp_path / "f.mat").write_bytes(file(ONE, ONE, packed=packed))
        assert pp.load(tmp_path / "f.mat") == SparseProduct([[[1.0]], [[1.0]]])


BOMBS = {
    "bytes for doubles": file(matrix("", 6, (2000, 1000), (2, bytes(2 * MILLION))), packed=True),
    "doubles": file(matrix("", 6, (2000, 1000), (9, bytes(16 * MILLION))), packed=True),
    "sparse columns": file(matrix("", 5, (1, MILLION), (5, b""), (5, bytes(4)), (9, b""))),
    "many sparse matrices": file(*[matrix("", 5, (100_000, 1), (5, b""), (5, bytes(8)), (9, b""))] * 40),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_does_not_become_large_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "bomb.mat").write_bytes(BOMBS[name])
    monkeypatch.setenv("PAPILIO_MAX_FILE_BYTES", str(10 * MILLION))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"bomb\.mat.*PAPILIO_MAX_FILE_BYTES"):
            pp.load(tmp_path / "bomb.mat")
        assert tracemalloc.get_traced_memory()[1] < 6 * MILLION
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("packed", [False, True])
def test_damaged_files_are_refused_or_read_and_nothing_else(tmp_path: Path, packed: bool) -> None:
    path = write(tmp_path / "f.mat", sp.csc_matrix(SPARSE), gaussian((4, 2)), packed=packed)
    content, outcomes = path.read_bytes(), {"refused": 0, "read": 0}
    damage, unnamed = random.Random(0), 0
    for _ in range(300):
        damaged = bytearray(content)
        for _ in range(damage.choice((1, 1, 4))):
            damaged[damage.randrange(len(damaged))] ^= 1 << damage.randrange(8)
        path.write_bytes(damaged[: damage.choice((None, damage.randrange(len(damaged))))])
        try:
            assert isinstance(pp.load(path), SparseProduct)
            outcomes["read"] += 1
        except ValueError as error:
            outcomes["refused"] += 1
            unnamed += "f.mat" not in str(error)
    assert outcomes["refused"] > 50
    assert not unnamed


# -- the command line ----------------------------------------------------------------------------------


def test_the_command_line_takes_files_of_faust_for_operators(papilio: Any) -> None:
    from papilio.cli import inputs

    write(Path("f.mat"), SPARSE, gaussian((4, 2)))
    assert inputs.read("f.mat") == SparseProduct([SPARSE, gaussian((4, 2))])
    code, out, err = papilio("info", "f.mat")
    assert (code, err) == (0, "")
    assert "3×2" in out
