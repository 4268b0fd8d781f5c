"""Integers in memory that several threads share, for kernels: numba functions of addresses."""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_WORD = ir.IntType(64)


def _function(emit: Callable[..., Any], count: int) -> Any:
    """``emit(builder, pointer, *integers)`` as a numba function of an address and ``count − 1`` integers."""

    def typed(context: Any, arguments: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, given: Any) -> Any:
            address, *others = (builder.extract_value(given[0], i) for i in range(count))
            return emit(builder, builder.inttoptr(address, _WORD.as_pointer()), *others)

        return types.int64(types.UniTuple(types.int64, count)), generate

    return intrinsic(typed)


def _load(builder: ir.IRBuilder, pointer: ir.Value) -> Any:
    return builder.load_atomic(pointer, "acquire", 8)


def _store(builder: ir.IRBuilder, pointer: ir.Value, value: ir.Value) -> Any:
    builder.store_atomic(value, pointer, "release", 8)
    return value


def _add(builder: ir.IRBuilder, pointer: ir.Value, value: ir.Value) -> Any:
    return builder.atomic_rmw("add", pointer, value, "acq_rel")


def _exchange(builder: ir.IRBuilder, pointer: ir.Value, expected: ir.Value, value: ir.Value) -> Any:
    result = builder.cmpxchg(pointer, expected, value, "acq_rel", "acquire")
    return builder.extract_value(result, 0)


load = _function(_load, 1)  # ((address,)): the value
store = _function(_store, 2)  # ((address, value))
add = _function(_add, 2)  # ((address, value)): the value before
exchange = _function(_exchange, 3)  # ((address, expected, value)): the value before; written if as expected
