"""The C files of `SparseProduct.export`, beside ``op @ x`` in Python and beside a plain dense loop in C."""

import ctypes
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from common import best_times, clock
from orthogonal import Table

import papilio as pp

FLAGS = ("-Wall", "-Wextra", "-Werror", "-std=c99", "-O2", "-shared", "-fPIC")
HARNESS = """
typedef {number} number;
static const number matrix[] = {{{entries}}};

void dense(const number *x, number *y, number *scratch)
{{
    (void)scratch;
    for (int i = 0; i < {rows}; i++) {{
        number sum = 0;
        for (int j = 0; j < {columns}; j++)
            sum += matrix[{columns} * i + j] * x[j];
        y[i] = sum;
    }}
}}

void repeat(void (*call)(const number *, number *, number *), const number *x, number *y, number *scratch)
{{
    for (int i = 0; i < {times}; i++)
        call(x, y, scratch);
}}
"""


def run(folder: Path) -> list[Table]:
    compilers = [name for name in ("gcc", "clang") if shutil.which(name)]
    table = Table(
        "Exported C files",
        "One vector: the functions of `op.export`, compiled with `-std=c99 -O2`; a dense loop in C, compiled the "
        "same way; `op @ x` from Python. The last column is the time of the dense loop divided by that of "
        "`apply`.",
        ("operator", "dtype", "compiler", "apply", "adjoint", "dense loop", "`op @ x`", "dense ÷ apply"),
    )
    for name, op in operators().items():
        for compiler in compilers:
            table.rows.append((name, str(op.dtype), compiler, *times(op, compiler)))
    return [table]


def operators() -> dict[str, pp.SparseProduct]:
    random = np.random.default_rng(0)
    schedule = pp.Schedule.with_complexity((64, 128), 0.3, None, 4)
    signals = random.standard_normal((64, 2000))
    learned = pp.dictionary.fast_dictionary(signals, schedule, 4, max_iter=20, random_state=0).dictionary
    return {
        "Hadamard, 64": pp.transforms.hadamard(64),
        "Hadamard, 64, float": pp.transforms.hadamard(64).astype(np.float32),
        "Hadamard, 1024": pp.transforms.hadamard(1024),
        "DCT, 256": pp.transforms.dct(256),
        "Haar wavelet, 256": pp.transforms.haar(256),
        "dictionary, 64×128, 4×4 blocks": learned,
    }


def times(op: pp.SparseProduct, compiler: str) -> tuple[str, ...]:
    repetitions = 20_000_000 // (op.shape[0] * op.shape[1]) + 10
    number = "float" if op.dtype == np.float32 else "double"
    entries = ",\n".join(map(str, op.toarray().ravel().tolist()))
    x, y = (
        np.random.default_rng(0).standard_normal(op.shape[1]).astype(op.dtype),
        np.empty(max(op.shape), op.dtype),
    )
    adjoint_of = np.ones(op.shape[0], op.dtype)
    scratch = np.empty(4 * max(max(factor.shape) for factor in op.factors), op.dtype)
    with TemporaryDirectory() as place:
        op.export(Path(place) / "op.c")
        harness = HARNESS.format(
            number=number, entries=entries, rows=op.shape[0], columns=op.shape[1], times=repetitions
        )
        (Path(place) / "harness.c").write_text(harness)
        for name in ("op", "harness"):
            subprocess.run([compiler, *FLAGS, "-o", f"{name}.so", f"{name}.c"], cwd=place, check=True)
        loaded, own = (ctypes.CDLL(f"{place}/{name}.so") for name in ("op", "harness"))

    def repeated(function: object, given: np.ndarray) -> object:
        addresses = [ctypes.c_void_p(array.ctypes.data) for array in (given, y, scratch)]
        return lambda: own.repeat(function, *addresses)

    found = best_times(
        {
            "apply": repeated(loaded.op_apply, x),
            "adjoint": repeated(loaded.op_adjoint, adjoint_of),
            "dense": repeated(own.dense, x),
        },
        5,
        2,
    )
    found = {key: seconds / repetitions for key, seconds in found.items()}
    found |= best_times({"papilio": lambda: op @ x}, 20, 50)
    cells = [clock(found[key]) for key in ("apply", "adjoint", "dense", "papilio")]
    return (*cells, f"**{found['dense'] / found['apply']:.2f}**")


if __name__ == "__main__":
    for each in run(Path(__file__).parent):
        print(each.markdown())  # noqa: T201
