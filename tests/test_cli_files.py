"""Files of every format are read as what they hold; damaged and hostile ones get one clear line."""

import contextlib
import io
import os
import pickle
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from numpy.lib import format as npy
from PIL import Image

import papilio as pp
from papilio.cli import inputs
from papilio.cli.console import BadInput, Failed
from papilio.cli.outputs import DENSE, check_output, write
from papilio.runtime.files import replacing

pytestmark = pytest.mark.usefixtures("here")
MATRIX = np.array([[1.0, 0.0, -2.5], [0.0, 1e-30, 7.0]])
SPARSE = sp.csr_array(MATRIX)


def save_text(name, text):
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)


SAVERS = {
    "m.npy": lambda name: np.save(name, MATRIX),
    "fortran.npy": lambda name: np.save(name, np.asfortranarray(MATRIX)),
    "m.NPY": lambda name: Path(name).write_bytes(as_npy(MATRIX)),
    "one.npz": lambda name: np.savez(name, anything=MATRIX),
    "packed.npz": lambda name: np.savez_compressed(name, anything=MATRIX),
    "csr.npz": lambda name: sp.save_npz(name, SPARSE),
    "csc.npz": lambda name: sp.save_npz(name, sp.csc_array(SPARSE), compressed=False),
    "coo.npz": lambda name: sp.save_npz(name, sp.coo_array(SPARSE)),
    "op.npz": lambda name: pp.SparseProduct([SPARSE]).save(name),
    "m.csv": lambda name: np.savetxt(name, MATRIX, delimiter=","),
    "m.txt": lambda name: np.savetxt(name, MATRIX),
    "excel.csv": lambda name: save_text(name, "\ufeffa;b;c\r\n1;0;-2.5\r\n\r\n0;1e-30;7\r\n"),
    "m.mat": lambda name: scipy.io.savemat(name, {"M": MATRIX, "title": "words"}),
    "sparse.mat": lambda name: scipy.io.savemat(name, {"M": sp.csc_matrix(MATRIX)}),
    "m.mtx": lambda name: scipy.io.mmwrite(name, MATRIX),
    "sparse.mtx": lambda name: scipy.io.mmwrite(name, SPARSE),
}


@pytest.mark.parametrize("name", SAVERS)
def test_every_format_is_read(name):
    SAVERS[name](name)
    np.testing.assert_allclose(inputs.read_matrix(name), MATRIX, rtol=1e-15)
    np.testing.assert_allclose(inputs.read_operator(name).toarray(), MATRIX, rtol=1e-15)


def test_one_of_several_matrices_is_selected_by_name(here):
    np.savez("two.npz", a=MATRIX, b=MATRIX.T)
    scipy.io.savemat("two.mat", {"a": MATRIX, "b": MATRIX.T})
    for name in ("two.npz", "two.mat"):
        np.testing.assert_array_equal(inputs.read_matrix(f"{name}:b"), MATRIX.T)
        np.testing.assert_array_equal(inputs.read_matrix(f"{here / name}:a"), MATRIX)
        with pytest.raises(BadInput, match=f"name one of its matrices, as in {name}:a; it holds a, b"):
            inputs.read(name)
        with pytest.raises(BadInput, match="holds no matrix 'c'; it holds a, b"):
            inputs.read(f"{name}:c")
    os.rename("two.npz", "odd:b.npz")
    np.testing.assert_array_equal(inputs.read("odd:b.npz:b"), MATRIX.T)


def test_images_are_read_as_grey_values_from_0_to_1():
    grey = np.arange(0, 240, 20, dtype=np.uint8).reshape(3, 4)
    Image.fromarray(grey).save("grey.png")
    np.testing.assert_allclose(inputs.read_matrix("grey.png"), grey / 255, atol=1e-6)
    Image.fromarray(grey.astype(np.uint16) * 257).save("deep.png")
    np.testing.assert_allclose(inputs.read_matrix("deep.png"), grey / 255, atol=1e-6)
    red = np.zeros((3, 4, 4), np.uint8)
    red[..., 0], red[..., 3] = 255, 255
    Image.fromarray(red).save("red.PNG")
    np.testing.assert_allclose(inputs.read_matrix("red.PNG"), 0.299, atol=1e-3)


def test_built_in_data_have_names_unless_a_file_has_them():
    np.testing.assert_array_equal(inputs.read_matrix("hadamard:8"), pp.transforms.hadamard(8).toarray())
    assert inputs.read_operator("dft:8").dtype == np.complex128
    assert inputs.read_matrix("patches:4").shape == (10_000, 16)
    for wrong in ("hadamard:7", "haar:x", "dct:0", "nothing:4"):
        with pytest.raises(BadInput, match=wrong):
            inputs.read(wrong)


# -- damaged and hostile --------------------------------------------------------------------------------


class Bomb:
    """Unpickling it would leave a mark."""

    def __reduce__(self):
        return open, ("mark", "w")


def npy_bytes(header, values=b""):
    file = io.BytesIO()
    npy.write_array_header_1_0(file, header)
    return file.getvalue() + values


def claims(shape):
    return npy_bytes({"descr": "<f8", "fortran_order": False, "shape": shape}, b"\0" * 64)


def npz_bytes(**members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return file.getvalue()


def as_npy(value, **options):
    file = io.BytesIO()
    np.save(file, value, **options)
    return file.getvalue()


def sparse_npz(**changes):
    parts = {
        "format": np.array("csr"),
        "shape": np.array([2, 3]),
        "data": SPARSE.data,
        "indices": SPARSE.indices,
        "indptr": SPARSE.indptr,
    } | changes
    return npz_bytes(**{name: as_npy(part) for name, part in parts.items()})


GOOD_NPY = as_npy(MATRIX)
HOSTILE = {
    "empty.npy": b"",
    "empty.npz": b"",
    "empty.csv": b" \n\n",
    "heading.csv": b"a,b\n",
    "words.csv": b"1,2\n3,four\n",
    "ragged.csv": b"1,2\n3\n",
    "latin.csv": b"1,2\n\xff\xfe,3\n",
    "empty.mat": b"",
    "noise.mat": bytes(range(256)) * 4,
    "empty.mtx": b"",
    "words.mtx": b"%%MatrixMarket matrix nonsense real general\n",
    "large.mtx": b"%%MatrixMarket matrix array real general\n1000000 1000000\n1.0\n",
    "many.mtx": b"%%MatrixMarket matrix coordinate real general\n3 3 99999999999\n1 1 1.0\n",
    "tall.mtx": b"%%MatrixMarket matrix coordinate real general\n90000000000 3 1\n1 1 1.0\n",
    "outside.mtx": b"%%MatrixMarket matrix coordinate real general\n3 3 1\n7 1 1.0\n",
    "noise.png": b"\x89PNG\r\n\x1a\n" + bytes(100),
    "bomb.png": b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBBI", 13, b"IHDR", 60000, 60000, 8, 0, 0, 0, 0, 0x0),
    "half.npy": GOOD_NPY[:-9],
    "large.npy": claims((10**6, 10**6)),
    "overflow.npy": claims((2**62, 8)),
    "negative.npy": claims((-1, 8)),
    "pickle.npy": as_npy(np.array([Bomb()], dtype=object), allow_pickle=True),
    "bare.npy": pickle.dumps(Bomb()),
    "pickle.npz": npz_bytes(a=as_npy(np.array([Bomb()], dtype=object), allow_pickle=True)),
    "large.npz": npz_bytes(a=claims((10**6, 10**6))),
    "half.npz": npz_bytes(a=GOOD_NPY)[:-40],
    "noise.npz": b"PK\x03\x04" + bytes(60),
    "outside.npz": sparse_npz(indices=SPARSE.indices + 10**6),
    "pointers.npz": sparse_npz(indptr=np.array([0, 10**6, 4])),
    "kind.npz": sparse_npz(format=np.array("xyz")),
    "tall.npz": sparse_npz(format=np.array("csc"), shape=np.array([9 * 10**10, 2])),
    "shape.npz": sparse_npz(shape=np.array([2, -3])),
    "operator.npz": npz_bytes(format=as_npy("x"), version=as_npy(1), n_factors=as_npy(1)),
    "nan.npy": as_npy(np.array([[1.0, np.nan]])),
    "text.npy": as_npy(np.array([["a"]])),
    "cube.npy": as_npy(np.ones((2, 2, 2))),
    "none.npy": as_npy(np.ones((0, 3))),
    "unknown.xyz": b"1",
    "no suffix": b"1",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_damaged_and_hostile_files_are_refused_in_one_line(name, here):
    (here / name).write_bytes(HOSTILE[name])
    before = sorted(here.iterdir())
    for reader in (inputs.read_matrix, inputs.read_operator):
        with pytest.raises(BadInput) as refused:
            reader(name)
        message = str(refused.value)
        assert name in message
        assert "\n" not in message
        assert len(message) < 400
    assert sorted(here.iterdir()) == before  # nothing was run


def test_a_pickle_that_is_loaded_would_be_noticed(here):
    pickle.loads(pickle.dumps(Bomb())).close()
    assert (here / "mark").exists()


def test_a_matrix_that_is_too_large_when_dense_is_refused():
    huge = sp.coo_array(([1.0], ([5], [7])), shape=(10**6, 10**6))
    sp.save_npz("huge.npz", huge)
    assert inputs.read("huge.npz").shape == huge.shape
    with pytest.raises(BadInput, match="too large"):
        inputs.read_matrix("huge.npz")


def test_missing_files_and_folders_are_named(here):
    (here / "folder.npy").mkdir()
    for name in ("gone.npy", "folder.npy"):
        with pytest.raises(BadInput, match=name):
            inputs.read(name)


# -- outputs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "value"), [("y.npy", MATRIX), ("y.csv", MATRIX), ("y.mat", MATRIX)])
def test_dense_results_come_back_as_they_were(name, value, here):
    write(here / name, value)
    np.testing.assert_array_equal(inputs.read_matrix(name), value)
    assert [path.name for path in here.iterdir()] == [name]


@pytest.mark.parametrize("name", ["codes.npz", "codes.mtx", "codes.mat"])
def test_sparse_results_come_back_as_they_were(name, here):
    write(here / name, SPARSE)
    np.testing.assert_allclose(inputs.read_matrix(name), MATRIX, rtol=1e-15)
    assert [path.name for path in here.iterdir()] == [name]


def test_a_failed_write_leaves_the_old_file(here):
    path = here / "y.npy"
    path.write_text("old")
    with contextlib.suppress(RuntimeError), replacing(path) as partial:
        partial.write_text("new")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(here.iterdir()) == [path]


def test_a_new_file_keeps_the_mode_and_the_link_of_the_old_one(here):
    path = here / "y.npy"
    path.write_text("old")
    path.chmod(0o640)
    (here / "link.npy").symlink_to(path)
    write(here / "link.npy", MATRIX)
    assert (here / "link.npy").is_symlink()
    assert os.name == "nt" or path.stat().st_mode & 0o777 == 0o640
    np.testing.assert_array_equal(np.load(path), MATRIX)


def test_outputs_that_cannot_be_written_are_refused_before_work(here, monkeypatch):
    (here / "folder.npy").mkdir()
    cases = {
        "gone/y.npy": "there is no folder",
        "y.doc": r"must end in \.npy or \.csv or \.mat",
        "folder.npy": "not a regular file",
    }
    if hasattr(os, "mkfifo"):
        os.mkfifo(here / "pipe.npy")
        cases["pipe.npy"] = "not a regular file"
    for name, message in cases.items():
        with pytest.raises(BadInput, match=message):
            check_output(here / name, DENSE)
    if sys.platform == "linux":
        with pytest.raises(BadInput, match="cannot be written"):
            check_output(Path("/proc/y.npy"), DENSE)
    check_output(here / "y.npy", DENSE)
    assert not (here / "y.npy").exists()


def test_a_full_disk_is_reported_in_one_line(here, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(Failed, match=r"y\.npy: could not be written: No space left on device"):
        write(here / "y.npy", MATRIX)
    assert not list(here.iterdir())
