"""No file is read as something else than it says, and none unpacks to more memory than is allowed."""

import io
import json
import os
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from PIL import Image

import papilio as pp
from papilio.cli import inputs
from papilio.cli.console import BadInput, printable
from papilio.cli.inputs import read_pixels as read_image
from papilio.cli.outputs import write

pytestmark = pytest.mark.usefixtures("here")


def save(name, content):
    with open(name, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    return name


# -- text ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,NA,3\n4,5,6\n", "'NA'"),
        ("1,2,\n3,4,\n", "column 3"),
        ("1,2\n3,4,\n", "number of columns changed"),
        ("x,1\n2,3\n", "'x'"),
        ("a,b\n1,2\n\n# words\n3,four\n", "'four'"),
        ("a,b,c\n1,2\n3,4\n", "its heading must have 2 cells, as the rows have, got 3"),
        ("1,2\n3\n", "number of columns changed"),
        (",,\n1,2,3\n", "could not convert"),
        ("NA,NA\n1,2\n", "'NA'"),
        ('"1","2"\n3,4\n', "could not convert"),
        ("1,5;2,5\n3,5;4,5\n", "'5;2'"),
        ("1,2+3i\n4,5\n", "'2+3i'"),
        ("1_0,2\n3,4\n", "'1_0'"),
        ("1,nan\n3,4\n", "must hold finite numbers only"),
        ("1,inf\n3,4\n", "must hold finite numbers only"),
        ("# only words\n", "it is empty"),
        ("a,b\n", "it holds no numbers"),
        (b"1,2\n\xe4,3\n", "'utf-8' codec"),
        ("1,2\n3,4\n".encode("utf-16"), "'utf-8' codec"),
    ],
)
def test_a_table_that_is_not_all_numbers_is_refused(text, message):
    with pytest.raises(BadInput, match=r"m\.csv") as refused:
        inputs.read_matrix(save("m.csv", text))
    assert message in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    "text",
    [
        ",a,b\n0,1.5,2\n1,3,4\n",  # pandas
        '"","a","b"\n"1",1.5,2\n"2",3,4\n',  # R
        "Unnamed: 0,a,b\n0,1.5,2\n",  # pandas, read and written again
        "index,a\n0,1\n",
        "id,a\n0,1\n",
        ",0,1\n0,1.5,2\n1,3,4\n",  # pandas, whose columns have no names
        ";a;b\n0;1;2\n",
    ],
)
def test_a_column_of_row_names_does_not_become_data(text):
    with pytest.raises(BadInput, match=r"its first column is an index, not data; .* index=False"):
        inputs.read_matrix(save("m.csv", text))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,2 # c\n3,4\n", [[1, 2], [3, 4]]),
        ("# c\n\n1,2\n", [[1, 2]]),
        ("1+2j,3\n(4-1j),1j\n", [[1 + 2j, 3], [4 - 1j, 1j]]),
        ("i,j\n1,2\n", [[1, 2]]),
        ("real,imag j\n1,2\n", [[1, 2]]),
        ("\ufeffa;b\r\n1;-2e3\r\n", [[1, -2000]]),
        ("1 2\r\n3  4\r\n", [[1, 2], [3, 4]]),
        ("length (m)  time (s)\n1 2\n", [[1, 2]]),
        ("2020-01,2020-02\n1,2\n", [[1, 2]]),
        ("1\n2\n", [[1], [2]]),
        (" 1 ,\t2\n", [[1, 2]]),
    ],
)
def test_a_table_of_numbers_loses_none_of_them(text, values):
    matrix = inputs.read_matrix(save("m.csv", text))
    assert matrix.tolist() == values
    assert matrix.dtype == np.array(values, np.result_type(np.array(values), float)).dtype


def test_complex_results_in_csv_come_back_as_they_were(here):
    values = pp.transforms.dft(5).toarray()
    write(here / "y.csv", values)
    np.testing.assert_array_equal(inputs.read_matrix("y.csv"), values)


# -- limits on what is unpacked -----------------------------------------------------------------------------

MILLION = 10**6


def packed_npz(**arrays):
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def png(side):
    file = io.BytesIO()
    Image.fromarray(np.zeros((side, side), np.uint8)).save(file, "png")
    return file.getvalue()


# Each takes a few kilobytes, and much more than ten megabytes when it is unpacked.
BOMBS = {
    "wide.mtx": b"%%MatrixMarket matrix coordinate real general\n600000 2 1\n1 1 1\n",
    "dense.mtx": b"%%MatrixMarket matrix coordinate real general\n3000 3000 1\n1 1 1\n",
    "zeros.npz": packed_npz(a=np.zeros(2 * MILLION)),
    "wide.npz": packed_npz(
        format=np.array("csr"),
        shape=np.array([2, MILLION]),
        data=np.ones(1),
        indices=np.zeros(1, np.int32),
        indptr=np.array([0, 1, 1]),
    ),
    "black.png": png(1500),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_does_not_become_large_in_memory(name, monkeypatch):
    save(name, BOMBS[name])
    monkeypatch.setenv("PAPILIO_MAX_FILE_BYTES", str(10 * MILLION))
    tracemalloc.start()
    try:
        with pytest.raises(BadInput, match="PAPILIO_MAX_FILE_BYTES"):
            inputs.read_matrix(name)
        assert tracemalloc.get_traced_memory()[1] < 6 * MILLION
    finally:
        tracemalloc.stop()
    monkeypatch.delenv("PAPILIO_MAX_FILE_BYTES")
    assert inputs.read_matrix(name).size >= MILLION


# -- archives and MATLAB's files ----------------------------------------------------------------------------


def archive(*names):
    file, array = io.BytesIO(), io.BytesIO()
    np.save(array, np.eye(2))
    with zipfile.ZipFile(file, "w") as opened, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about names that occur twice
        for name in names:
            opened.writestr(name, array.getvalue())
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (archive(*(f"{i}.npy" for i in range(2000))), "and 1992 more"),
        (archive(*("x" * 5000 + f"{i}.npy" for i in range(2))), "name one of its matrices"),
        (archive(), "it holds none at all"),
    ],
)
def test_invalid_archives_are_refused_in_one_line(content, message):
    with pytest.raises(BadInput) as refused:
        inputs.read(save("m.npz", content))
    assert message in str(refused.value)
    assert len(str(refused.value)) < 600


def test_matlab_files_without_a_usable_matrix_are_refused():
    outside = sp.csc_array(np.eye(2))
    outside.indices[1] = 7
    for variables, message in (
        ({"cells": np.array([[1.0], "a"], dtype=object), "text": "words"}, "it holds none at all"),
        ({}, "it holds none at all"),
        ({"M": outside}, "indices must be < 2"),
        ({"M": np.ones((2, 2, 2))}, "must be a matrix"),
        ({"M": np.array([[np.nan]])}, "finite numbers only"),
    ):
        scipy.io.savemat("m.mat", variables)
        with pytest.raises(BadInput, match=message):
            inputs.read_matrix("m.mat")
    with pytest.raises(BadInput, match=r"m\.mat: .*7\.3 cannot be read; save with -v7"):
        inputs.read(save("m.mat", b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM" + bytes(400)))


# -- images -------------------------------------------------------------------------------------------------


def test_grey_values_are_those_of_the_pixels_in_every_mode(here):
    grey = np.arange(0, 256, 4, dtype=np.uint8).reshape(8, 8)
    image = Image.fromarray(grey)
    for mode in ("L", "LA", "RGB", "RGBA", "P"):
        image.convert(mode).save("m.png")
        np.testing.assert_allclose(inputs.read_matrix("m.png"), grey / 255, atol=1e-6)
    Image.fromarray(grey > 100).save("m.png")
    np.testing.assert_allclose(inputs.read_matrix("m.png"), grey > 100, atol=1e-6)
    (here / "deep.pgm").write_bytes(b"P5 8 8 65535\n" + (grey.astype(">u2") * 257).tobytes())
    np.testing.assert_allclose(inputs.read_matrix("deep.pgm"), grey / 255, atol=1e-6)


# -- regular files, and names -------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
@pytest.mark.parametrize("end", ["npy", "npz", "csv", "txt", "mat", "mtx", "png"])
def test_a_pipe_is_refused_and_not_waited_for(end):
    os.mkfifo(f"m.{end}")
    os.symlink(f"m.{end}", f"link.{end}")
    for name in (f"m.{end}", f"link.{end}"):
        for reader in [inputs.read, *[read_image] * (end == "png")]:
            with pytest.raises(BadInput, match=f"{name}: not a regular file"):
                reader(name)


ODD = "a\x1b]0;b\x07\x9b31m\u202e\x7f\udcff"
SHOWN = r"a\x1b]0;b\x07\x9b31m\u202e\x7f\udcff"


def test_only_characters_that_print_are_shown():
    assert printable(ODD) == SHOWN
    assert printable("two\nlines") == r"two\nlines"
    assert printable("größe ∞ 大きさ.npz") == "größe ∞ 大きさ.npz"


@pytest.mark.skipif(os.name == "nt", reason="names cannot hold these characters")
def test_control_characters_in_names_are_escaped(papilio, here):
    np.save(f"{ODD}.npy", np.eye(4))
    save("member.npz", archive(f"{ODD[:-1]}.npy", "b.npy"))
    save("cell.csv", f"1,{ODD[:-1]}\n")
    scipy.io.savemat("name.mat", {"\x1b[31m": np.eye(1), "b": np.eye(1)})
    commands = [
        ("info", f"{ODD}.csv"),
        ("info", "member.npz"),
        ("info", f"member.npz:{ODD}"),
        ("info", "cell.csv"),
        ("info", "name.mat"),
        ("info", "hadamard:8", f"--{ODD}"),
        (ODD,),
        ("learn", f"{ODD}.npy", "-o", "d.npz", "--n-nonzero-coefs", 9),
        ("apply", f"{ODD}.npy", "hadamard:4", "-o", f"{ODD}/y.npy"),
        ("apply", f"{ODD}.npy", "hadamard:4", "-o", f"{ODD}-2.npy"),
    ]
    for command in commands:
        code, out, err = papilio(*command)
        assert code == (0 if command is commands[-1] else 2), err
        assert all(line.isprintable() for line in (out + err).splitlines()), command
    code, out, err = papilio(*commands[-1], "--json")
    assert (code, err) == (0, "")
    assert out.removesuffix("\n").isprintable()
    assert json.loads(out)["output"] == f"{ODD}-2.npy"
