"""Sound bytes made unsound."""

import io
import re
import struct
import zlib
from typing import Any

import numpy as np

_INTEGERS = (0, 1, -1, 2**15, 2**31 - 1, -(2**31), 2**32 - 1)
_NUMBERS = (b"0", b"-1", b"2147483648", b"99999999999999999999", b"1e999", b"nan", b"", b"1 1", b"0x10", b"\xff")


def damaged(rng: np.random.Generator, content: bytes) -> bytes:
    """Bytes flipped, cut, inserted or repeated, or numbers replaced: one to three times."""
    for _ in range(int(rng.integers(1, 4))):
        content = _CHANGES[rng.integers(len(_CHANGES))](rng, content)
    return content


def _place(rng: np.random.Generator, content: bytes) -> int:
    """Anywhere; in half of all cases near the beginning or the end, where headers and directories are."""
    size = len(content) + 1
    match int(rng.integers(4)):
        case 0:
            return int(rng.integers(min(size, 150)))
        case 1:
            return size - 1 - int(rng.integers(min(size, 150)))
    return int(rng.integers(size))


def _flip(rng: np.random.Generator, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        place = min(_place(rng, content), len(changed) - 1)
        if changed:
            changed[place] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def _overwrite(rng: np.random.Generator, content: bytes) -> bytes:
    place, count = _place(rng, content), int(rng.integers(1, 40))
    return content[:place] + rng.bytes(count) + content[place + count :]


def _cut(rng: np.random.Generator, content: bytes) -> bytes:
    place = _place(rng, content)
    return content[:place] if rng.integers(2) else content[:place] + content[place + int(rng.integers(1, 64)) :]


def _insert(rng: np.random.Generator, content: bytes) -> bytes:
    place = _place(rng, content)
    return content[:place] + rng.bytes(int(rng.integers(1, 20))) + content[place:]


def _repeat(rng: np.random.Generator, content: bytes) -> bytes:
    first, last = sorted((_place(rng, content), _place(rng, content)))
    return content[:last] + content[first:last] * int(rng.integers(1, 4)) + content[last:]


def _integer(rng: np.random.Generator, content: bytes) -> bytes:
    """Four bytes of a number, in either order of bytes."""
    place = _place(rng, content)
    number = int(rng.choice(_INTEGERS)) & 0xFFFFFFFF
    return content[:place] + struct.pack("<I" if rng.integers(2) else ">I", number) + content[place + 4 :]


def _digits(rng: np.random.Generator, content: bytes) -> bytes:
    """A number that is written in digits, such as a side in the header of a .npy or .mtx file."""
    found = list(re.finditer(rb"[0-9]+", content[:4000]))
    if not found:
        return content
    match = found[rng.integers(len(found))]
    return content[: match.start()] + _NUMBERS[rng.integers(len(_NUMBERS))] + content[match.end() :]


_CHANGES = (_flip, _flip, _overwrite, _cut, _insert, _repeat, _integer, _digits, _digits)


def edited_npz(rng: np.random.Generator, content: bytes) -> bytes:
    """An intact npz file with other names, shapes, dtypes or values in it."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        arrays = dict(archive)
    arrays = edited_arrays(rng, arrays)
    file = io.BytesIO()
    save: Any = np.savez_compressed if rng.integers(6) == 0 else np.savez
    save(file, **arrays)
    return file.getvalue()


def edited_arrays(rng: np.random.Generator, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """One or two arrays are removed, renamed, swapped or changed."""
    arrays = dict(arrays)
    for _ in range(int(rng.integers(1, 3))):
        names = list(arrays)
        if not names:
            return arrays
        name, other = (str(names[rng.integers(len(names))]) for _ in range(2))
        match int(rng.integers(6)):
            case 0:
                del arrays[name]
            case 1:
                arrays[name + "x"] = arrays.pop(name)
            case 2:
                arrays[name], arrays[other] = arrays[other], arrays[name]
            case _:
                arrays[name] = edited(rng, arrays[name])
    return arrays


def edited(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """An array with another value, shape or dtype."""
    array = np.array(array)
    with np.errstate(all="ignore"):
        match int(rng.integers(8)):
            case 0 if array.dtype.kind in "iuf" and array.size:
                array.flat[rng.integers(array.size)] = rng.choice([0, 1, 2, 120])
            case 1 if array.dtype.kind in "if" and array.size:
                array.flat[rng.integers(array.size)] = -1
            case 2 if array.dtype.kind in "fc" and array.size:
                array.flat[rng.integers(array.size)] = rng.choice([np.nan, np.inf, 1e300])
            case 3 if array.dtype.kind in "iuf" and array.size:
                array.flat[rng.integers(array.size)] = np.array(2**31 - 1).astype(array.dtype)
            case 4:
                return array[None]
            case 5:
                return array.ravel()[: array.size // 2]
            case 6:
                kinds = ("f4", "f8", "c16", "i4", "i8", "u1", "?", "f2", ">f8", "U5")
                if array.dtype.kind in "biufc":
                    return array.real.astype(kinds[rng.integers(len(kinds))])
            case _:
                return np.array(["", "x", "{}", "[1]", "1e9", "-1"][rng.integers(6)])
    return array


def edited_png(rng: np.random.Generator, content: bytes) -> bytes:
    """A PNG file whose header says something else, with the right checksum."""
    start = 12  # after the signature and a length: the name of the chunk and its 13 bytes
    header = bytearray(content[start : start + 17])
    place = 4 + int(rng.choice([0, 4]))
    header[place : place + 4] = struct.pack(">I", int(rng.choice([0, 1, 40_000, 2**31 - 1])))
    if rng.integers(2):
        header[12 + int(rng.integers(5))] = int(rng.integers(20))
    return content[:start] + bytes(header) + struct.pack(">I", zlib.crc32(header)) + content[start + 21 :]
