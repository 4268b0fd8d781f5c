"""Bytes of intact files with something wrong in them."""

import io
import re
import struct
import zlib

import numpy as np
from hypothesis import strategies as st

NUMBERS = (b"0", b"-1", b"2147483648", b"99999999999999999999", b"1e999", b"nan", b"", b"1 1", b"\xff")
INTEGERS = (0, 1, 0xFFFFFFFF, 2**15, 2**31 - 1, 2**31)


@st.composite
def damaged(draw, content):
    """Bytes flipped, overwritten, cut or repeated, or numbers replaced: one to three times."""
    for _ in range(draw(st.integers(1, 3))):
        size = len(content)
        near = min(size, 150)  # the beginning or the end, where headers are
        places = st.integers(0, near) | st.integers(size - near, size) | st.integers(0, size)
        start, end = sorted((draw(places), draw(places)))
        match draw(st.sampled_from(("flip", "overwrite", "cut", "repeat", "integer", "digits"))):
            case "flip":
                flipped = bytes(byte ^ 1 << draw(st.integers(0, 7)) for byte in content[start : start + 1])
                content = content[:start] + flipped + content[start + 1 :]
            case "overwrite":
                new = draw(st.binary(min_size=1, max_size=40))
                content = content[:start] + new + content[start + len(new) * draw(st.booleans()) :]
            case "cut":
                content = content[:start] + draw(st.sampled_from((b"", content[end:])))
            case "repeat":
                content = content[:end] + content[start:]
            case "integer":
                number = struct.pack(draw(st.sampled_from("<>")) + "I", draw(st.sampled_from(INTEGERS)))
                content = content[:start] + number + content[start + 4 :]
            case "digits":
                if found := list(re.finditer(rb"[0-9]+", content[:4000])):
                    number = draw(st.sampled_from(found))
                    new = draw(st.sampled_from(NUMBERS))
                    content = content[: number.start()] + new + content[number.end() :]
    return content


@st.composite
def edited_npz(draw, content):
    """An npz file that is intact as such, with other names, shapes, dtypes or values in it."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        arrays = dict(archive)
    for _ in range(draw(st.integers(1, 2))):
        name, other = (draw(st.sampled_from(list(arrays))) for _ in range(2))
        match draw(st.sampled_from(("remove", "rename", "swap", "edit", "edit", "edit"))):
            case "remove" if len(arrays) > 1:
                del arrays[name]
            case "rename":
                arrays[name + "x"] = arrays.pop(name)
            case "swap":
                arrays[name], arrays[other] = arrays[other], arrays[name]
            case _:
                arrays[name] = draw(edited(arrays[name]))
    file = io.BytesIO()
    draw(st.sampled_from((np.savez, np.savez_compressed)))(file, **arrays)
    return file.getvalue()


@st.composite
def edited(draw, array):
    """An array with another value, shape or dtype."""
    array = array.copy()
    kind = draw(st.sampled_from(("value", "value", "axis", "half", "dtype", "text")))
    if kind == "value" and array.size and array.dtype.kind in "iufc":
        values = (0, 1, 2, 120, -1, 2**31 - 1) + ((np.nan, np.inf, 1e300) if array.dtype.kind in "fc" else ())
        with np.errstate(all="ignore"):
            array.flat[draw(st.integers(0, array.size - 1))] = np.array(draw(st.sampled_from(values))).astype(
                array.dtype
            )
        return array
    if kind == "dtype" and array.dtype.kind in "biufc":
        with np.errstate(all="ignore"):
            return array.real.astype(
                draw(st.sampled_from(("f4", "f8", "c16", "i4", "i8", "u1", "?", ">f8", "U5")))
            )
    if kind == "axis":
        return array[None]
    if kind == "half":
        return array.ravel()[: array.size // 2]
    return np.array(draw(st.sampled_from(("", "x", "{}", "[1]", "1e9", "-1"))))


@st.composite
def edited_png(draw, content):
    """A PNG file whose header says something else, with the right checksum."""
    start = 12  # after the signature and a length: the name of the chunk and its 13 bytes
    header = bytearray(content[start : start + 17])
    place = draw(st.sampled_from((4, 8)))
    header[place : place + 4] = struct.pack(">I", draw(st.sampled_from((0, 1, 40_000, 2**31 - 1))))
    if draw(st.booleans()):
        header[draw(st.integers(12, 16))] = draw(st.integers(0, 19))
    return content[:start] + bytes(header) + struct.pack(">I", zlib.crc32(header)) + content[start + 21 :]
