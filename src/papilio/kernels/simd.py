"""Vector instructions for the kernels that apply products: numba functions whose machine code is spelled out.

A factor is packed in *groups*: ``height`` rows with a common set of columns. The entries of a group in one column
are a *strip*: they stand one after the other, and the strips of a group follow each other. Group g has the strips
from ``pointers[g]`` to ``pointers[g + 1]``, strip n stands in column ``columns[n]``, and row k of group g is
``rows[g · height + k]``.

Numba's loops over such strips stay far below the speed of the processor: the sums go through memory with every
strip. Here they stay in registers until a group is done, so that a multiplication costs as much as in BLAS.
Addresses are plain integers, steps from one row to the next are in bytes, and nothing is checked.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import config
from numba.core.cgutils import unpack_tuple
from numba.extending import intrinsic

HEIGHTS = (4, 2, 1)  # Heights of the groups: as many rows as there are registers for.
TILE = 256  # bytes of one row of a tile at the most: all registers for a row of a group together, with AVX-512

# What numba compiles for: this machine, or what its settings name.
_FEATURES: str = getattr(config, "CPU_FEATURES", None) or llvm.get_host_cpu_features().flatten()
REGISTER = 64 if "+avx512f" in _FEATURES else 32 if "+avx" in _FEATURES else 16  # bytes
_REGISTERS = 32 if "+avx512f" in _FEATURES or "+neon" in _FEATURES else 16
_UNROLLED = 4  # strips at a time for one vector: each addition to one sum would wait for the one before

_WORD, _INDEX = ir.IntType(64), ir.IntType(32)
_FAST = ("contract", "nsz")  # fused multiply-adds are welcome; sums keep their order


def _constant(number: int) -> ir.Constant:
    return ir.Constant(_WORD, number)


class _Emitter:
    """Writes machine code for numbers of one dtype, real or complex; complex ones are pairs of real lanes."""

    def __init__(self, builder: ir.IRBuilder, dtype: Any) -> None:
        self.builder = builder
        self.parts = 2 if isinstance(dtype, types.Complex) else 1
        real = dtype.underlying_float if self.parts == 2 else dtype
        self.scalar, self.size = (ir.FloatType(), 4) if real == types.float32 else (ir.DoubleType(), 8)

    def add(self, address: ir.Value, offset: ir.Value | int) -> ir.Value:
        return self.builder.add(address, _constant(offset) if isinstance(offset, int) else offset)

    def multiply(self, number: ir.Value, factor: int) -> ir.Value:
        return self.builder.mul(number, _constant(factor))

    def load(self, address: ir.Value, lanes: int = 0) -> ir.Value:
        """``lanes`` numbers, or one that is not a vector."""
        kind = self.vector(lanes) if lanes else self.scalar
        return self._access(self.builder.load(self._pointer(address, kind)))

    def store(self, value: ir.Value, address: ir.Value) -> None:
        self._access(self.builder.store(value, self._pointer(address, value.type)))

    def word(self, address: ir.Value) -> ir.Value:
        """A 64-bit integer."""
        return self.builder.load(self._pointer(address, _WORD))

    def index(self, address: ir.Value) -> ir.Value:
        """An unsigned 32-bit integer, as a 64-bit one."""
        return self.builder.zext(self.builder.load(self._pointer(address, _INDEX)), _WORD)

    def vector(self, lanes: int) -> ir.VectorType:
        return ir.VectorType(self.scalar, lanes)

    def zeros(self, lanes: int) -> ir.Constant:
        return ir.Constant(self.vector(lanes), [0.0] * lanes)

    def prefetch(self, address: ir.Value) -> None:
        """Ask for a line of memory that will be read, wherever it is: no address is wrong."""
        pointer, integer = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, integer, integer, integer])
        function = self.builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        to_read, into_second_cache, data = (ir.Constant(integer, number) for number in (0, 2, 1))
        self.builder.call(function, [self._pointer(address, ir.IntType(8)), to_read, into_second_cache, data])

    def spread(self, number: ir.Value, lanes: int) -> ir.Value:
        """One number in all lanes."""
        first = self.builder.insert_element(self.zeros(lanes), number, ir.Constant(_INDEX, 0))
        return self.shuffle(first, first, [0] * lanes)

    def shuffle(self, first: ir.Value, second: ir.Value, lanes: Sequence[int]) -> ir.Value:
        """Lanes of two vectors; those of the second are counted on from the first's."""
        return self.builder.shuffle_vector(
            first, second, ir.Constant(ir.VectorType(_INDEX, len(lanes)), list(lanes))
        )

    def plus_product(self, total: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.fadd(self.builder.fmul(a, b, flags=_FAST), total, flags=_FAST)

    def joined(self, sums: Sequence[ir.Value]) -> ir.Value:
        """first + i·second for complex numbers, whose parts are neighbouring lanes; else the only sum."""
        if self.parts == 1:
            return sums[0]
        lanes = sums[1].type.count
        turned = self.shuffle(sums[1], sums[1], [lane ^ 1 for lane in range(lanes)])
        signs = ir.Constant(self.vector(lanes), [-1.0, 1.0] * (lanes // 2))
        return self.plus_product(sums[0], turned, signs)

    def loop(
        self,
        begin: ir.Value,
        end: ir.Value,
        step: int,
        body: Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]],
        state: Sequence[ir.Value] = (),
    ) -> tuple[ir.Value, list[ir.Value]]:
        """state = body(n, state) for n = begin, begin + step, … as long as a whole step is left; n and state."""
        builder, before = self.builder, self.builder.block
        head, inside, after = (builder.append_basic_block(name) for name in ("head", "inside", "after"))
        builder.branch(head)
        builder.position_at_end(head)
        n = builder.phi(_WORD)
        n.add_incoming(begin, before)
        now = [builder.phi(value.type) for value in state]
        for phi, value in zip(now, state, strict=True):
            phi.add_incoming(value, before)
        following = self.add(n, step)
        builder.cbranch(builder.icmp_signed("<=", following, end), inside, after)
        builder.position_at_end(inside)
        new = body(n, now)
        for phi, value in zip([n, *now], [following, *new], strict=True):
            phi.add_incoming(value, builder.block)
        builder.branch(head)
        builder.position_at_end(after)
        return n, now

    def _pointer(self, address: ir.Value, kind: ir.Type) -> ir.Value:
        return self.builder.inttoptr(address, kind.as_pointer())

    def _access(self, instruction: Any) -> Any:
        instruction.align = self.size
        return instruction


def _function(emit: Callable[..., None]) -> Any:
    """``emit(emitter, *integers)`` as a numba function of an array, for its dtype, and of a tuple of integers."""

    def typed(context: Any, values: Any, integers: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Sequence[ir.Value]) -> Any:
            emit(_Emitter(builder, signature.args[0].dtype), *unpack_tuple(builder, arguments[1]))
            return context.get_dummy_value()

        return types.void(values, types.UniTuple(types.int64, len(integers))), generate

    return intrinsic(typed)


def _at_a_time(n_values: int, parts: int) -> int:
    """The registers of each row that a strip of ``n_values`` real numbers is multiplied by at a time.

    The sums, what is read and one value of the strip should have registers of their own; for a single value, what
    is read needs none. Three fill up sixteen registers, as BLAS does it, and pay where tiles are made for them.
    """
    for count in (8, 4, 3, 2):
        needed = count * n_values + count * (n_values > 1) + 1
        if needed <= _REGISTERS and count * REGISTER <= TILE and (count != 3 or parts == 1):
            return count
    return 1


def _of_height(emit_of: Callable[[int], Callable[..., None]]) -> Any:
    """A numba function whose first integer says for which height to run what is emitted for each."""

    def emit(code: _Emitter, height: ir.Value, *others: ir.Value) -> None:
        for each in HEIGHTS:
            with code.builder.if_then(code.builder.icmp_signed("==", height, _constant(each))):
                emit_of(each)(code, *others)

    return _function(emit)


def _groups(height: int) -> Callable[..., None]:
    """Apply the groups of one height to the vectors of a tile.

    The arguments are the values' array (for its dtype), the addresses of pointers, rows, columns and values, the
    number of groups, address and step of the source and of the result, the bytes of a row, whole registers, and
    whether sums are added to what is in the result.
    """

    def emit(
        code: _Emitter,
        pointers: ir.Value,
        rows: ir.Value,
        columns: ir.Value,
        values: ir.Value,
        count: ir.Value,
        source: ir.Value,
        source_step: ir.Value,
        result: ir.Value,
        result_step: ir.Value,
        width: ir.Value,
        adds: ir.Value,
    ) -> None:
        builder, lanes, n_values = code.builder, REGISTER // code.size, height * code.parts

        def first_sums(ends: list[ir.Value], registers: int) -> list[ir.Value]:
            """Zeros, or what is in the result; the imaginary part's sums, if any, are zeros."""
            with builder.if_else(builder.icmp_signed("!=", adds, _constant(0))) as (then, otherwise):
                with then:
                    found = [
                        code.load(code.add(end, REGISTER * w), lanes) for end in ends for w in range(registers)
                    ]
                    after_then = builder.block
                with otherwise:
                    after_otherwise = builder.block
            sums = [code.zeros(lanes)] * (n_values * registers)
            for i, value in enumerate(found):
                phi = builder.phi(value.type)
                phi.add_incoming(value, after_then)
                phi.add_incoming(code.zeros(lanes), after_otherwise)
                sums[i // registers * code.parts * registers + i % registers] = phi
            return sums

        def of_group(g: ir.Value, _: list[ir.Value]) -> Sequence[ir.Value]:
            at = code.add(pointers, code.multiply(g, 8))
            begin, end = code.word(at), code.word(code.add(at, 8))
            own_rows = code.add(rows, code.multiply(g, 4 * height))
            places = [code.index(code.add(own_rows, 4 * k)) for k in range(height)]
            targets = [code.add(result, builder.mul(place, result_step)) for place in places]

            def of_part(registers: int) -> Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]]:
                def of_registers(t: ir.Value, _: list[ir.Value]) -> Sequence[ir.Value]:
                    here = code.add(source, t)

                    def of_strip(n: ir.Value, sums: list[ir.Value]) -> Sequence[ir.Value]:
                        place = code.index(code.add(columns, code.multiply(n, 4)))
                        line = code.add(here, builder.mul(place, source_step))
                        strip = code.add(values, code.multiply(n, n_values * code.size))
                        x = [code.load(code.add(line, REGISTER * w), lanes) for w in range(registers)]
                        new = []
                        for k in range(n_values):
                            value = code.spread(code.load(code.add(strip, code.size * k)), lanes)
                            for w in range(registers):
                                new.append(code.plus_product(sums[k * registers + w], value, x[w]))
                        return new

                    ends = [code.add(target, t) for target in targets]
                    _, sums = code.loop(begin, end, 1, of_strip, first_sums(ends, registers))
                    for k in range(height):
                        for w in range(registers):
                            parts = [sums[(k * code.parts + p) * registers + w] for p in range(code.parts)]
                            code.store(code.joined(parts), code.add(ends[k], REGISTER * w))
                    return ()

                return of_registers

            t, registers = _constant(0), _at_a_time(n_values, code.parts)
            while registers:
                until = width
                if registers == 3:  # four are done as two and two: a single one would wait for its own sums
                    last = builder.urem(width, _constant(3 * REGISTER))
                    is_four = builder.and_(
                        builder.icmp_signed("==", last, _constant(REGISTER)),
                        builder.icmp_signed(">", width, _constant(REGISTER)),
                    )
                    until = builder.select(is_four, code.add(width, -4 * REGISTER), width)
                t, _ = code.loop(t, until, registers * REGISTER, of_part(registers))
                registers = 2 if registers == 3 else registers // 2
            return ()

        code.loop(_constant(0), count, 1, of_group)

    return emit


def _groups_of_vector(height: int) -> Callable[..., None]:
    """Apply the groups of one height to one vector.

    The arguments are the values' array (for its dtype), the addresses of pointers, rows, columns and values, the
    number of groups, the addresses of source and result, and whether sums are added to what is in the result.
    """

    def emit(
        code: _Emitter,
        pointers: ir.Value,
        rows: ir.Value,
        columns: ir.Value,
        values: ir.Value,
        count: ir.Value,
        source: ir.Value,
        result: ir.Value,
        adds: ir.Value,
    ) -> None:
        builder, lanes, number = code.builder, height * code.parts, code.size * code.parts

        def of_strip(n: ir.Value, sums: Sequence[ir.Value]) -> list[ir.Value]:
            place = code.index(code.add(columns, code.multiply(n, 4)))
            at = code.add(source, code.multiply(place, number))
            strip = code.load(code.add(values, code.multiply(n, number * height)), lanes)
            x = [code.spread(code.load(code.add(at, code.size * p)), lanes) for p in range(code.parts)]
            return [code.plus_product(total, strip, x[p]) for p, total in enumerate(sums)]

        def of_strips(n: ir.Value, sums: list[ir.Value]) -> Sequence[ir.Value]:
            new = []
            for u in range(_UNROLLED):
                new += of_strip(code.add(n, u), sums[u * code.parts : (u + 1) * code.parts])
            return new

        def of_group(g: ir.Value, _: list[ir.Value]) -> Sequence[ir.Value]:
            at = code.add(pointers, code.multiply(g, 8))
            begin, end = code.word(at), code.word(code.add(at, 8))
            zeros = [code.zeros(lanes)] * (_UNROLLED * code.parts)
            n, sums = code.loop(begin, end, _UNROLLED, of_strips, zeros)
            while len(sums) > code.parts:
                half = len(sums) // 2
                sums = [builder.fadd(sums[i], sums[i + half], flags=_FAST) for i in range(half)]
            _, sums = code.loop(n, end, 1, of_strip, sums)
            total = code.joined(sums)
            own_rows = code.add(rows, code.multiply(g, 4 * height))
            for k in range(height):
                place = code.index(code.add(own_rows, 4 * k))
                target = code.add(result, code.multiply(place, number))
                for p in range(code.parts):
                    value = builder.extract_element(total, ir.Constant(_INDEX, k * code.parts + p))
                    at = code.add(target, code.size * p)
                    before = builder.select(is_added, code.load(at), ir.Constant(code.scalar, 0.0))
                    code.store(builder.fadd(before, value, flags=_FAST), at)
            return ()

        is_added = builder.icmp_signed("!=", adds, _constant(0))
        code.loop(_constant(0), count, 1, of_group)

    return emit


def _emit_copy(
    code: _Emitter,
    source: ir.Value,
    source_step: ir.Value,
    result: ir.Value,
    result_step: ir.Value,
    count: ir.Value,
    width: ir.Value,
) -> None:
    lanes = REGISTER // code.size

    def of_row(i: ir.Value, _: list[ir.Value]) -> Sequence[ir.Value]:
        begin = code.add(source, code.builder.mul(i, source_step))
        end = code.add(result, code.builder.mul(i, result_step))

        def of_register(t: ir.Value, _: list[ir.Value]) -> Sequence[ir.Value]:
            here = code.add(begin, t)
            code.store(code.load(here, lanes), code.add(end, t))
            code.prefetch(code.add(here, width))
            return ()

        def of_number(t: ir.Value, _: list[ir.Value]) -> Sequence[ir.Value]:
            code.store(code.load(code.add(begin, t)), code.add(end, t))
            return ()

        t, _ = code.loop(_constant(0), width, REGISTER, of_register)
        code.loop(t, width, code.size, of_number)
        return ()

    code.loop(_constant(0), count, 1, of_row)


def _emit_transpose(
    code: _Emitter,
    source: ir.Value,
    source_step: ir.Value,
    result: ir.Value,
    result_step: ir.Value,
    n_rows: ir.Value,
    n_columns: ir.Value,
    along_rows: bool,
) -> None:
    number, side = code.size * code.parts, REGISTER // (code.size * code.parts)
    builder = code.builder

    def turned(lines: list[ir.Value]) -> list[ir.Value]:
        """Off-diagonal squares of size 1, 2, 4, … change places."""
        size = 1
        while size < side:
            first = [place if not place & size else side + place - size for place in range(side)]
            second = [place + size if not place & size else side + place for place in range(side)]
            masks = [[code.parts * i + p for i in places for p in range(code.parts)] for places in (first, second)]
            for i in range(side):
                if not i & size:
                    pair = lines[i], lines[i + size]
                    lines[i], lines[i + size] = (code.shuffle(*pair, mask) for mask in masks)
            size *= 2
        return lines

    def at(address: ir.Value, step: ir.Value, i: ir.Value, j: ir.Value) -> ir.Value:
        return code.add(code.add(address, builder.mul(i, step)), code.multiply(j, number))

    def of_square(i: ir.Value, j: ir.Value) -> None:
        lines = [code.load(at(source, source_step, code.add(i, k), j), REGISTER // code.size) for k in range(side)]
        for k, line in enumerate(turned(lines)):
            code.store(line, at(result, result_step, code.add(j, k), i))

    def of_number(i: ir.Value, j: ir.Value) -> None:
        value = code.load(at(source, source_step, i, j), code.parts)
        code.store(value, at(result, result_step, j, i))

    def over(begin: ir.Value, end: ir.Value, step: int, body: Callable[[ir.Value], Any]) -> ir.Value:
        def run(n: ir.Value, _: list[ir.Value]) -> Sequence[ir.Value]:
            body(n)
            return ()

        return code.loop(begin, end, step, run)[0]

    def all_of(outer: ir.Value, inner: ir.Value, square: Callable[..., None], single: Callable[..., None]) -> None:
        """Squares, then the numbers that are left of a stripe of them, then those of the last lines."""
        zero = _constant(0)

        def of_stripe(a: ir.Value) -> None:
            b = over(zero, inner, side, lambda b: square(a, b))
            over(a, code.add(a, side), 1, lambda a: over(b, inner, 1, lambda b: single(a, b)))

        a = over(zero, outer, side, of_stripe)
        over(a, outer, 1, lambda a: over(zero, inner, 1, lambda b: single(a, b)))

    if along_rows:
        all_of(n_rows, n_columns, of_square, of_number)
    else:
        all_of(n_columns, n_rows, lambda j, i: of_square(i, j), lambda j, i: of_number(i, j))


groups, vector_groups = map(_of_height, (_groups, _groups_of_vector))
# Arguments: an array (for its dtype), address and step of source and result, the number of rows and their bytes.
copy = _function(_emit_copy)
# The same with the number of the source's rows and of its columns, which become those of the result.
# One goes along the source's rows, the other along the result's: the long rows, which are far apart in memory.
transpose_into_tile = _function(partial(_emit_transpose, along_rows=True))
transpose_from_tile = _function(partial(_emit_transpose, along_rows=False))
