"""Operators as files that need no Python: C99 and ONNX."""

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from ..runtime.files import as_path, replacing
from ..typing import Array, Path
from .factors import to_csr
from .portable import blocks_of, plan_of, scaled_entries
from .product import SparseProduct


def export(op: SparseProduct, path: Path) -> None:
    """See `SparseProduct.export`."""
    target = as_path("path", path)
    if target.suffix not in (".c", ".onnx"):
        raise ValueError(f"path must end in .c or .onnx, got {str(path)!r}")
    content = _onnx(op) if target.suffix == ".onnx" else _c(op, target).encode()
    with replacing(path) as partial:
        partial.write_bytes(content)


# -- C99 -----------------------------------------------------------------------------------------------

_PER_LINE = 8  # numbers of a table

# @ stands for the name of the file, and @WORD@ for what `_c` fills in.
_TEXT = """\
/* @ROWS@ x @COLUMNS@ matrix: a product of @FACTORS@ sparse factors with @ENTRIES@ entries.
 *
 * void @_apply(const @_number *x, @_number *y, @_number *scratch);    y = A x
 * void @_adjoint(const @_number *x, @_number *y, @_number *scratch);  y = A^H x
 *
 * @_number is @TYPE@. x, y and scratch must not overlap; scratch has room for @_SCRATCH numbers.
 */
#include <stdint.h>

typedef @TYPE@ @_number;
typedef @INDEX@ @_index;
enum { @_SCRATCH = @SCRATCH@ };

/* Blocks of one shape in a factor, each with rows that read the same columns. */
struct @_blocks {
    int32_t count, height, width;
    uint32_t rows, columns, values; /* where those of the first block begin */
};

static const struct @_blocks @_blocks[] = {@BLOCKS@};
static const @_index @_rows[] = {@ROW_TABLE@};
static const @_index @_columns[] = {@COLUMN_TABLE@};
static const @_number @_values[] = {@VALUES@};

@ARITHMETIC@
static void @_forward(const struct @_blocks *b, const @_number *x, @_number *y)
{
    const @_index *r = @_rows + b->rows, *c = @_columns + b->columns;
    const @_number *v = @_values + b->values, zero = {0};
    const int32_t h = b->height, w = b->width;
    int32_t n, i, j;
    if (h == 2 && w == 2) { /* butterflies */
        for (n = 0; n < b->count; n++, r += 2, c += 2, v += 4) {
            const @_number s = x[c[0]], t = x[c[1]];
            y[r[0]] = @_add(@_add(zero, v[0], s), v[1], t);
            y[r[1]] = @_add(@_add(zero, v[2], s), v[3], t);
        }
        return;
    }
    for (n = 0; n < b->count; n++, c += w) {
        for (i = 0; i + 4 <= h; i += 4, r += 4, v += 4 * w) {
            @_number s0 = zero, s1 = zero, s2 = zero, s3 = zero;
            for (j = 0; j < w; j++) {
                const @_number t = x[c[j]];
                s0 = @_add(s0, v[j], t);
                s1 = @_add(s1, v[w + j], t);
                s2 = @_add(s2, v[2 * w + j], t);
                s3 = @_add(s3, v[3 * w + j], t);
            }
            y[r[0]] = s0;
            y[r[1]] = s1;
            y[r[2]] = s2;
            y[r[3]] = s3;
        }
        for (; i < h; i++, r++, v += w) {
            @_number s = zero;
            for (j = 0; j < w; j++)
                s = @_add(s, v[j], x[c[j]]);
            y[*r] = s;
        }
    }
}

static void @_backward(const struct @_blocks *b, const @_number *x, @_number *y)
{
    const @_index *r = @_rows + b->rows, *c = @_columns + b->columns;
    const @_number *v = @_values + b->values;
    const int32_t h = b->height, w = b->width;
    int32_t n, i, j;
    if (h == 2 && w == 2) {
        for (n = 0; n < b->count; n++, r += 2, c += 2, v += 4) {
            const @_number s = x[r[0]], t = x[r[1]];
            y[c[0]] = @@CONJ@(@@CONJ@(y[c[0]], v[0], s), v[2], t);
            y[c[1]] = @@CONJ@(@@CONJ@(y[c[1]], v[1], s), v[3], t);
        }
        return;
    }
    for (n = 0; n < b->count; n++, c += w) {
        for (i = 0; i + 4 <= h; i += 4, r += 4, v += 4 * w) {
            const @_number s0 = x[r[0]], s1 = x[r[1]], s2 = x[r[2]], s3 = x[r[3]];
            for (j = 0; j < w; j++) {
                @_number t = @@CONJ@(y[c[j]], v[j], s0);
                t = @@CONJ@(t, v[w + j], s1);
                t = @@CONJ@(t, v[2 * w + j], s2);
                y[c[j]] = @@CONJ@(t, v[3 * w + j], s3);
            }
        }
        for (; i < h; i++, r++, v += w) {
            const @_number s = x[*r];
            for (j = 0; j < w; j++)
                y[c[j]] = @@CONJ@(y[c[j]], v[j], s);
        }
    }
}

static void @_factor(int32_t begin, int32_t end, const @_number *x, @_number *y)
{
    for (; begin < end; begin++)
        @_forward(&@_blocks[begin], x, y);
}

static void @_factor_adjoint(int32_t begin, int32_t end, int32_t size, const @_number *x, @_number *y)
{
    const @_number zero = {0};
    int32_t i;
    for (i = 0; i < size; i++)
        y[i] = zero;
    for (; begin < end; begin++)
        @_backward(&@_blocks[begin], x, y);
}

void @_apply(const @_number *x, @_number *y, @_number *scratch)
{
@APPLY@
}

void @_adjoint(const @_number *x, @_number *y, @_number *scratch)
{
@ADJOINT@
}
"""

_REAL = """\
static inline @_number @_add(@_number sum, @_number a, @_number b)
{
    return sum + a * b;
}
"""
_COMPLEX = """\
static inline @_number @_add(@_number sum, @_number a, @_number b)
{
    sum.re += a.re * b.re - a.im * b.im;
    sum.im += a.re * b.im + a.im * b.re;
    return sum;
}

static inline @_number @_add_conj(@_number sum, @_number a, @_number b)
{
    sum.re += a.re * b.re + a.im * b.im;
    sum.im += a.re * b.im - a.im * b.re;
    return sum;
}
"""


def _c(op: SparseProduct, path: FilePath) -> str:
    """The text of a C file."""
    factors, entries, begin = [to_csr(factor) for factor in op.factors[::-1]], scaled_entries(op), op.nnz
    blocks, ends, places = [], [0], [0, 0, 0]
    tables: tuple[list[Array], ...] = ([], [], [])  # rows, columns and values
    for factor in factors:
        begin -= factor.nnz
        for rows, columns, at in blocks_of(factor):
            blocks.append(f"{{{', '.join(map(str, (*at.shape, *places)))}}}")
            values = np.where(at < 0, 0, np.append(entries, 0)[begin + at])
            for i, part in enumerate((rows, columns, values)):
                tables[i].append(part.ravel())
                places[i] += part.size
        ends.append(len(blocks))
    inner = [factor.shape[0] for factor in factors[:-1]]
    number = "float" if op.dtype.itemsize == 4 * (1 + (op.dtype.kind == "c")) else "double"
    is_complex = op.dtype.kind == "c"
    values = np.concatenate(tables[2]).astype(op.dtype)
    parts = {
        "ROWS": op.shape[0],
        "COLUMNS": op.shape[1],
        "FACTORS": len(factors),
        "ENTRIES": op.nnz,
        "TYPE": f"struct {{ {number} re, im; }}" if is_complex else number,
        "INDEX": "uint16_t" if max(op.shape + tuple(inner)) <= 1 << 16 else "uint32_t",
        "SCRATCH": min(2, len(inner)) * max(inner, default=0),
        "BLOCKS": _lines(blocks),
        "ROW_TABLE": _lines(np.concatenate(tables[0]).astype(str).tolist()),
        "COLUMN_TABLE": _lines(np.concatenate(tables[1]).astype(str).tolist()),
        "VALUES": _lines(_written(values)),
        "ARITHMETIC": _COMPLEX if is_complex else _REAL,
        "CONJ": "_add_conj" if is_complex else "_add",
        "APPLY": _calls("factor", [f"{a}, {b}" for a, b in pairwise(ends)], max(inner, default=0)),
        "ADJOINT": _calls(
            "factor_adjoint",
            [f"{a}, {b}, {f.shape[1]}" for (a, b), f in zip(pairwise(ends), factors, strict=True)][::-1],
            max(inner, default=0),
        ),
    }
    name = re.sub(r"\W", "_", path.stem, flags=re.ASCII)
    name = f"op_{name}" if name[:1].isdigit() else name
    return re.sub("@([A-Z_]+)@", lambda found: str(parts[found[1]]), _TEXT).replace("@", name)


def _calls(function: str, arguments: list[str], room: int) -> str:
    """Calls for one factor after the other, through the two halves of the scratch."""
    at = ["x", *("scratch" if i % 2 == 0 else f"scratch + {room}" for i in range(len(arguments) - 1)), "y"]
    calls = [
        f"    @_{function}({numbers}, {given}, {found});"
        for numbers, (given, found) in zip(arguments, pairwise(at), strict=True)
    ]
    return "\n".join(["    (void)scratch;", *calls] if len(calls) == 1 else calls)


def _written(values: Array) -> list[str]:
    """Numbers as C reads them, in as few digits as give them back exactly."""
    if values.dtype.kind == "c":
        return [f"{{{re}, {im}}}" for re, im in zip(_written(values.real), _written(values.imag), strict=True)]
    suffix = "f" if values.dtype == np.float32 else ""
    return [f"{text}{suffix}" for text in values.astype(str)]


def _lines(words: Sequence[str]) -> str:
    lines = (", ".join(words[begin : begin + _PER_LINE]) for begin in range(0, len(words), _PER_LINE))
    return "\n    " + ",\n    ".join(lines)


# -- ONNX ----------------------------------------------------------------------------------------------


def _onnx(op: SparseProduct) -> bytes:
    """A model from a block of columns ``x`` to ``y``, in ONNX's own operations."""
    try:
        from onnx import checker, helper
    except ImportError as error:
        raise ImportError("export to ONNX needs the package onnx: pip install onnx") from error
    if op.dtype.kind == "c":
        raise TypeError(
            f"ONNX multiplies real matrices only, got an operator of {op.dtype}: export its real and imag"
        )
    plan, kind = plan_of(op), helper.np_dtype_to_tensor_dtype(op.dtype)
    graph = _Graph()
    values = plan.values(np, scaled_entries(op), plan.indices)
    y = plan.apply(graph, values, plan.indices, _Tensor(graph, "x"))
    graph.add("Identity", y.name, output="y")
    ends = [
        helper.make_tensor_value_info(name, kind, [size, "vectors"])
        for name, size in (("x", op.shape[1]), ("y", op.shape[0]))
    ]
    made = helper.make_graph(graph.nodes, "product", ends[:1], ends[1:], graph.constants)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    checker.check_model(model)
    return bytes(model.SerializeToString())


class _Graph:
    """The functions of the array API that a product takes, as nodes of a graph of ONNX."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operation: str, *inputs: "str | Array", output: str = "", **attributes: Any) -> "_Tensor":
        from onnx import helper, numpy_helper

        names = []
        for given in inputs:
            if not isinstance(given, str):
                self.constants.append(numpy_helper.from_array(given, f"constant{len(self.constants)}"))
                given = self.constants[-1].name
            names.append(given)
        output = output or f"{operation}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, names, [output], **attributes))
        return _Tensor(self, output)

    def take(self, x: "_Tensor", indices: Array, axis: int) -> "_Tensor":
        return self.add("Gather", x.name, indices, axis=axis)

    def reshape(self, x: "_Tensor", shape: tuple[int, ...]) -> "_Tensor":
        return self.add("Reshape", x.name, np.array(shape, np.int64))

    def concat(self, parts: "list[_Tensor]") -> "_Tensor":
        return self.add("Concat", *(part.name for part in parts), axis=0)


class _Tensor:
    """A tensor of such a graph, with as many columns as there are vectors."""

    shape = (-1, -1)
    __array_ufunc__ = None  # NumPy's arrays leave products to it

    def __init__(self, graph: _Graph, name: str) -> None:
        self._graph, self.name = graph, name

    def __rmatmul__(self, block: Array) -> "_Tensor":
        return self._graph.add("MatMul", block, self.name)

    def __rmul__(self, block: Array) -> "_Tensor":
        return self._graph.add("Mul", block, self.name)
