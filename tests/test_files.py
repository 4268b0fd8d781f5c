"""What is kept stays as it was: read-only values, copies, pickles, and files that are refused unless intact."""

import copy
import io
import os
import pickle
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from papilio import SparseProduct, load
from papilio.operators.factors import entries, to_csr

from .test_operators import ALL_DTYPES, CHAINS, DERIVED, RANDOM, evaluate, make, random_array

OP = SparseProduct([random_array(0, (3, 4), np.float64), random_array(1, (4, 2), np.float64)], -0.1)
PARTS = ("shape", "data", "indices", "indptr")
ARRAYS: dict[str, Any] = {"format": "papilio.SparseProduct", "version": 1, "scale": OP.scale, "n_factors": 2} | {
    f"{part}_{i}": np.array(getattr(to_csr(factor), part)) for i, factor in enumerate(OP.factors) for part in PARTS
}


# -- a value that does not change ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["factors", "scale", "shape", "dtype", "nnz", "T", "new", "_scale", "_factors"])
def test_attributes_can_neither_be_set_nor_deleted(name: str) -> None:
    op, before = make(np.float64)[0], make(np.float64)[0]
    for change in (lambda: setattr(op, name, 3), lambda: delattr(op, name)):
        with pytest.raises(AttributeError, match=name):
            change()
    assert op == before


@pytest.mark.parametrize("expression", DERIVED)
def test_factors_are_read_only_and_replacing_their_arrays_changes_nothing(expression: str) -> None:
    op = evaluate(expression, make(np.float64)[0])
    before = op.toarray()
    for i, held in enumerate(op.factors):
        if isinstance(held, np.ndarray):
            with pytest.raises(ValueError, match="read-only"):
                held[0, 0] = 1
            with pytest.raises(ValueError, match="WRITEABLE"):
                held.flags.writeable = True
            continue
        for part in ("data", "indices", "indptr"):
            with pytest.raises(ValueError, match="read-only"):
                getattr(op.factors[i], part)[0] = 1
            setattr(held, part, 2 * getattr(held, part))
    np.testing.assert_array_equal(op.toarray(), before)
    assert SparseProduct(op.factors, op.scale) == op


@pytest.mark.parametrize("form", [np.array, sp.csr_array, sp.csc_array, sp.coo_array])
def test_changing_the_input_afterwards_changes_nothing(form: Any) -> None:
    matrix = form(RANDOM)
    inputs = [matrix, form(np.eye(5))]
    op = SparseProduct(inputs)
    (matrix.data if sp.issparse(matrix) else matrix)[:] = 0
    inputs.clear()
    np.testing.assert_array_equal(op.toarray(), RANDOM)


SPECIAL = ["op * 0j"]


@pytest.mark.parametrize("expression", [*DERIVED, *SPECIAL])
def test_copies_and_pickles_are_equal_with_equal_hashes(expression: str) -> None:
    op = evaluate(expression, make(np.complex64)[0])
    pickles = [pickle.loads(pickle.dumps(op, protocol)) for protocol in (2, 5)]
    for other in (copy.copy(op), copy.deepcopy(op), *pickles):
        assert other == op
        assert (hash(other), repr(other)) == (hash(op), repr(op))
        assert not entries(other.factors[0]).flags.writeable


def test_equality_is_by_value_and_sees_every_difference() -> None:
    op, _ = make(np.float64)
    first, *rest = op.factors
    data = np.append(first.data[:-1], np.nextafter(first.data[-1], np.inf))
    nudged = sp.csr_array((data, first.indices, first.indptr), shape=first.shape)
    others = [-op, op.T, op.astype(np.complex128), op[:-1], op @ SparseProduct([np.eye(4)])]
    others.append(SparseProduct([nudged, *rest], op.scale))
    assert all(op != other for other in others)
    assert len({op, copy.deepcopy(op), *others}) == 1 + len(others)
    assert (op == op.toarray()) is False


# -- round trips ---------------------------------------------------------------------------------------


def bits(op: SparseProduct) -> list[Any]:
    stored = map(to_csr, op.factors)
    factors = [(f.shape, f.dtype, f.data.tobytes(), f.indices.tolist(), f.indptr.tolist()) for f in stored]
    return [op.dtype, op.scale.hex(), *factors]


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@pytest.mark.parametrize("sizes", [*CHAINS.values(), (1, 1)])
def test_round_trip_keeps_every_bit(tmp_path: Path, dtype: Any, sizes: tuple[int, ...]) -> None:
    op, _ = make(dtype, sizes, 0.1)
    for kept in (op, op.T, op[::-1], -op, op * 3j):
        kept.save(tmp_path / "op.npz")
        assert bits(load(tmp_path / "op.npz")) == bits(kept)


def test_a_file_of_format_version_1_still_loads() -> None:
    expected = SparseProduct([[[1, 0, 2], [0, -3, 0]], [[0, 1j], [4, 0], [0, 0.5]]], -0.25)
    assert bits(load(Path(__file__).parent / "data" / "operator_v1.npz")) == bits(expected)


@pytest.mark.parametrize("kind", [str, Path])
@pytest.mark.parametrize("name", ["op.npz", "no suffix", "zwölf ∞.bin"])
def test_the_file_has_exactly_the_name_given_and_is_plain_npz(tmp_path: Path, kind: Any, name: str) -> None:
    (tmp_path / name).write_bytes(b"an old file")
    OP.save(kind(tmp_path / name))
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert bits(load(kind(tmp_path / name))) == bits(OP)
    with np.load(tmp_path / name, allow_pickle=False) as opened:
        assert set(opened.files) == set(ARRAYS)


# -- saving goes wrong ---------------------------------------------------------------------------------


@pytest.mark.parametrize("old", [b"the old file", None])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("step", ["numpy.savez", "os.fsync", "os.replace"])
def test_a_failed_save_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException, old: bytes | None
) -> None:
    def fail(file: Any, *args: Any, **kwargs: Any) -> None:
        if step == "numpy.savez":
            file.write(b"half of it")
        raise error

    if old is not None:
        (tmp_path / "op.npz").write_bytes(old)
    monkeypatch.setattr(step, fail)
    with pytest.raises(type(error)):
        OP.save(tmp_path / "op.npz")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == ({"op.npz": old} if old else {})


def test_paths_that_cannot_be_files_keep_their_own_errors(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    for use in (load, OP.save):
        with pytest.raises(FileNotFoundError):
            use(tmp_path / "missing" / "op.npz")
        with pytest.raises(IsADirectoryError):
            use(tmp_path / "directory")
    with pytest.raises(FileNotFoundError):
        load(str(tmp_path / "missing.npz"))
    assert [path.name for path in tmp_path.iterdir()] == ["directory"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
@pytest.mark.parametrize("name", ["pipe", "link", "loop"])
def test_pipes_and_loops_are_neither_read_nor_replaced(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "loop").symlink_to("loop")
    before = {path.name: path.lstat().st_mode for path in tmp_path.iterdir()}
    for use in (load, OP.save):
        with pytest.raises(OSError, match="symbolic links" if name == "loop" else "not a regular"):
            use(tmp_path / name)
    assert {path.name: path.lstat().st_mode for path in tmp_path.iterdir()} == before


def test_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    for target in ("old.npz", "new.npz"):
        (tmp_path / "link.npz").symlink_to(target)
        OP.save(tmp_path / "link.npz")
        assert (tmp_path / "link.npz").is_symlink()
        assert bits(load(tmp_path / "link.npz")) == bits(load(tmp_path / target)) == bits(OP)
        (tmp_path / "link.npz").unlink()


# -- files that are not what they should be ------------------------------------------------------------


def in_memory(write: Callable[..., None], *args: Any, **kwargs: Any) -> bytes:
    file = io.BytesIO()
    write(file, *args, **kwargs)
    return file.getvalue()


def archive(write: Callable[..., None] = np.savez, /, **changes: Any) -> bytes:
    """The file of OP with some arrays changed, or left out where the change is None."""
    return in_memory(write, **{name: value for name, value in (ARRAYS | changes).items() if value is not None})


def assert_refused(tmp_path: Path, content: bytes) -> None:
    """ValueError that names the file."""
    path = tmp_path / "hostile.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(path.name)):
        load(path)


def changed(name: str, position: int, value: Any) -> dict[str, Any]:
    array = ARRAYS[name].copy()
    array[position] = value
    return {name: array}


def one_factor(columns: int, indptr: Any) -> dict[str, Any]:
    rest = dict.fromkeys(name for name in ARRAYS if name.endswith("_1"))
    shape = np.array([len(indptr) - 1, columns])
    return rest | {"n_factors": 1, "shape_0": shape, "indices_0": np.arange(12), "indptr_0": np.array(indptr)}


DATA, INDICES, INDPTR = ARRAYS["data_0"], ARRAYS["indices_0"], ARRAYS["indptr_0"]  # 12 entries, a full 3×4 factor
INT64 = np.iinfo(np.int64)
CHANGES: list[dict[str, Any]] = [
    *({name: None} for name in ARRAYS),
    *({name: 1} for name in ("extra", "data_2")),
    *({"format": x} for x in ("papilio.Other", "", 1, ["papilio.SparseProduct"])),
    *({"version": x} for x in (2, 0, -1, [1], np.nan, 1j, "one")),
    *({"n_factors": x} for x in (0, -1, 1, 3, 10**9, 2**63, 2.0, True, "2", [2], np.nan)),
    *({"scale": x} for x in (np.nan, np.inf, 1j, "1", [1.0])),
    *({"shape_0": np.array(x)} for x in ([3, 5], [4, 4], [-3, 4], [2**62, 4], [0, 4], [3.0, 4.0], [3], 3)),
    *({"shape_1": np.array(x, dtype=np.uint64)} for x in ([4, 2**63], [4, 2**64 - 1], [2**64 - 4, 2])),
    *(changed("indices_0", 5, x) for x in (4, -1, 0, 2**30)),
    *({"indices_0": x} for x in (INDICES[:-1], INDICES[::-1], INDICES.reshape(3, 4), INDICES * 1.0)),
    *({"indices_0": INDICES.astype(x)} for x in ("int8", "uint64", ">i4", ">i8", "bool")),
    *(changed("indptr_0", at, x) for at, x in ((0, 1), (1, 9), (1, -4), (2, 10**9), (3, 11), (3, 13), (3, 2**30))),
    *({"indptr_0": x} for x in (np.append(INDPTR, 12), INDPTR[:-1], INDPTR[:0], INDPTR[None], INDPTR * 1.0)),
    *({"indptr_0": INDPTR.astype(x)} for x in ("int8", "uint64", ">i4", ">i8")),
    *(changed("data_0", 3, x) for x in (np.nan, np.inf, -np.inf)),
    *({"data_0": x} for x in (DATA[:-1], np.append(DATA, 1), DATA.reshape(3, 4), DATA[:0])),
    *({"data_0": DATA.astype(x)} for x in ("f4", "c8", "c16")),
    *({"data_0": DATA.astype(x), "data_1": DATA[:8].astype(x)} for x in ("f2", "i8", "?", ">f8", "U9", "S9", "g")),
    *({"version": x} for x in (1.5, True, "1")),
    {"shape_1": np.array([4, 2**62])},
    one_factor(12, [0, INT64.max, INT64.min, -1, 12]),
]


@pytest.mark.parametrize("changes", CHANGES, ids=lambda x: repr(x)[:60])
def test_a_change_to_any_array_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert_refused(tmp_path, archive(**changes))


def test_pickles_are_refused_and_do_not_run(tmp_path: Path) -> None:
    class Bait:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "sprung"),)

    content = archive(data_0=np.array([Bait()], dtype=object))
    assert_refused(tmp_path, content)
    assert not (tmp_path / "sprung").exists()
    with np.load(io.BytesIO(content), allow_pickle=True) as opened:
        assert opened["data_0"].shape == (1,)
    assert (tmp_path / "sprung").exists()  # the bait works where pickles are read


# -- damage and malice below the level of arrays -------------------------------------------------------


@pytest.fixture
def saved(tmp_path: Path) -> bytes:
    OP.save(tmp_path / "op.npz")
    return (tmp_path / "op.npz").read_bytes()


def test_a_truncated_file_is_refused(tmp_path: Path, saved: bytes) -> None:
    for length in (*range(0, len(saved), 37), len(saved) - 1):
        assert_refused(tmp_path, saved[:length])


@pytest.mark.parametrize("part", ["archive", "end record"])
def test_a_flipped_bit_is_refused_or_harmless(tmp_path: Path, saved: bytes, part: str) -> None:
    end = saved.rindex(b"PK\5\6")
    flips = random.Random(0).sample(range(8 * end), 600) if part == "archive" else range(8 * end, 8 * len(saved))
    outcomes = {"refused": 0, "equal": 0}
    for bit in flips:
        damaged = bytearray(saved)
        damaged[bit // 8] ^= 1 << bit % 8
        (tmp_path / "op.npz").write_bytes(damaged)
        try:
            assert bits(load(tmp_path / "op.npz")) == bits(OP)
            outcomes["equal"] += 1
        except ValueError:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 0


@pytest.mark.parametrize("use", [load, OP.save])
@pytest.mark.parametrize("path", [None, 3, b"op.npz", ["op.npz"]])
def test_a_path_of_another_type_is_named(use: Any, path: Any) -> None:
    with pytest.raises(TypeError, match=r"^path must be a path"):
        use(path)
    with pytest.raises(ValueError, match=r"^path must not hold a null character"):
        use("op\0.npz")
