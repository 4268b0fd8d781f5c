"""Operators as files that need no Python: C99 and ONNX."""

import re
from collections.abc import Sequence
from importlib.resources import files
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
        "COMPLEX": int(is_complex),
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
    # In the template, @ stands for the name of the file, and @WORD@ for one of the parts.
    template = files(__package__).joinpath("export.c").read_text("utf-8")
    return re.sub("@([A-Z_]+)@", lambda found: str(parts[found[1]]), template).replace("@", name)


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
