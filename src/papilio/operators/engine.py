"""How a product is applied: its factors packed for the kernels or left to BLAS, once per operator and direction.

Three entry points: `Packed` packs, its methods ``vector`` and ``block`` apply, and its ``cost`` is what the model
of `papilio.operators.cost` says of both. Time and memory grow with entries × vectors at every size, by these
rules:

- A factor goes to BLAS as a dense matrix where the model says that this is faster. The others run in one kernel.
- The kernel takes groups of four, two or one rows with a common set of columns.
- Between factors, vectors are in slots. A row that only passes a column on keeps its slot and costs nothing. A
  group whose columns nothing else reads writes into their slots. Any other row gets a free one.
- A tile of vectors, as wide as lets it stay in cache, goes through all factors. Each thread takes tiles of its
  own; where there are too few vectors for that, all threads work on one tile, with a part of the rows each.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, reduce
from itertools import groupby
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ..kernels.multiply import (
    ADDS,
    ALIGNMENT,
    FIELDS,
    JOB_BYTES,
    READS_INPUT,
    WRITES_OUTPUT,
    apply_alone,
    apply_shared,
    apply_vector,
)
from ..kernels.packing import fill_groups, group_alike, group_neighbours
from ..kernels.simd import HEIGHTS, REGISTER, TILE
from ..runtime.threads import get_num_threads, one_blas_thread, workspace
from ..typing import Array
from .cost import Rates, cost_of, is_near, plan, rates
from .factors import Factor, Link, frozen, scaled, to_dense

# The price of a strip by its height, in blocks of vectors: with the widest registers and real numbers, reading the
# vectors takes longest, else multiplying them does.
_WHERE_READING_DECIDES = (1.0, 1.1, 1.5)
_WHERE_MULTIPLYING_DECIDES = (1.0, 1.6, 3.0)

_NEAR_BYTES = 1 << 15  # Columns of a tile that are read at a time: they fit into the first-level cache.
_TILE_BYTES = 1 << 21  # A whole tile: it stays in the second-level cache.
_MANY_STRIPS = 8  # Strips of a group of four rows.
_FEW_READS = 1.5  # strips per row of the vectors up to which the first factor reads them where they are

_LINE = 64  # bytes that go to and from memory together: no two threads should write into the same
_THREAD_WORK = 2_000_000  # multiplications from which a second thread pays for BLAS
_SHARED_BYTES = 2_000_000  # multiplications, times the bytes of a number: the same for the kernel, if it is awake
_LONG_BYTES = 80_000_000  # the same if it has to be woken
_SHARED_VECTOR_BYTES = 1_000_000  # The same for one vector, in bytes of the values.
_PARTS = 4  # Parts of a product for each thread; with more, threads wait less for the last one.


# -- packing -------------------------------------------------------------------------------------------


class Groups(NamedTuple):
    """Groups of rows of one height, as `papilio.kernels.simd` reads them; all arrays have one dimension."""

    height: int
    rows: Array  # The rows of group g begin at g · height.
    pointers: Array  # group g has the strips from pointers[g] to pointers[g + 1]
    columns: Array  # Columns of the strips.
    places: Array  # Places of the values of strips among the factor's; -1 for zeros that fill up a group.


class PackedFactor:
    """One factor, or two that were joined, as the kernels and BLAS read it; each form is made when it is needed.

    ``passed`` are the rows and columns of ones that are alone in their row, unless nothing ``passes``; these rows
    are in no group. BLAS may apply what ``has_matrix``: all but two that were joined. ``joined`` keeps what became
    of the attempts to join this factor with a later one: neighbours meet again in each product that has both.
    """

    has_matrix = True

    def __init__(self, factor: Factor, passes: bool = True) -> None:
        self.factor = factor
        self.shape, self.dtype, self._passes = factor.shape, factor.dtype, passes
        self._one = 1.0  # the entry of the rows that are passed on
        self.joined: WeakKeyDictionary[PackedFactor, PackedFactor | None] = WeakKeyDictionary()

    def with_values(self, factor: Factor, scale: float) -> "PackedFactor":
        """The same structure with the entries of ``factor``, and ``scale`` for the rows that are passed on."""
        packed = PackedFactor(factor, self._passes)
        packed._one, packed.structure = scale, self.structure
        return packed

    @property
    def values(self) -> Array:
        """Its entries, then one for rows that are passed on, and a zero for what fills up groups; not kept."""
        return np.append(self._entries(), [self._one, 0]).astype(self.dtype, copy=False)

    def _entries(self) -> Array:
        """The entries row by row."""
        return self.factor.ravel() if isinstance(self.factor, np.ndarray) else self.factor.data

    @cached_property
    def matrix(self) -> Array:
        return to_dense(self.factor)

    @cached_property
    def structure(self) -> tuple[list[Groups], Array]:
        """Its groups, and what is passed on."""
        if isinstance(self.factor, np.ndarray):
            return _dense_groups(self.shape), np.empty((2, 0), np.int32)
        pointers, indices = self.factor.indptr.astype(np.int64), self.factor.indices.astype(np.int32)
        is_passed = np.zeros(self.shape[0], dtype=bool)
        if self._passes:
            single = np.flatnonzero(np.diff(pointers) == 1)
            is_passed[single[self.factor.data[pointers[single]] == 1]] = True
        rows = np.flatnonzero(is_passed).astype(np.int32)
        reading_decides = REGISTER == 64 and self.dtype.kind != "c"
        prices = _WHERE_READING_DECIDES if reading_decides else _WHERE_MULTIPLYING_DECIDES
        return _sparse_groups(pointers, indices, is_passed, prices), np.stack([rows, indices[pointers[rows]]])

    @property
    def groups(self) -> list[Groups]:
        return self.structure[0]

    @property
    def passed(self) -> Array:
        return self.structure[1]

    def all_groups(self) -> list[Groups]:
        """Its groups, with those of the rows that are passed on."""
        if not self.passed.size:
            return self.groups
        rows, columns = self.passed
        the_one = np.full(rows.size, -2, np.int32)
        return [*self.groups, Groups(1, rows, np.arange(rows.size + 1), columns, the_one)]

    @property
    def is_full(self) -> bool:
        return isinstance(self.factor, np.ndarray)

    @cached_property
    def n_strips(self) -> dict[int, int]:
        """The number of strips of each height, with those that are passed on."""
        if self.is_full:
            n_rows, n_columns = self.shape
            return {4: n_rows // 4 * n_columns, 2: n_rows % 4 // 2 * n_columns, 1: n_rows % 2 * n_columns}
        counts = {each.height: each.columns.size for each in self.groups}
        if self.passed.size:
            counts[1] = counts.get(1, 0) + self.passed.shape[1]
        return counts

    @cached_property
    def is_paired(self) -> bool:
        """Whether it is a butterfly: pairs of rows that have their entries in the same two columns.

        Rows that are passed on must stay where they are.
        """
        if self.is_full or self.shape[0] != self.shape[1] or [each.height for each in self.groups] != [2]:
            return False
        if not np.array_equal(*self.passed):
            return False
        (pairs,) = self.groups
        return bool((np.diff(pairs.pointers) == 2).all()) and np.array_equal(pairs.columns, pairs.rows)


def _sparse_groups(
    pointers: Array, indices: Array, left_out: Array, prices: tuple[float, float, float]
) -> list[Groups]:
    """The groups of a sparse matrix, the tallest first, without the rows that are ``left_out``.

    Rows with the same support form groups, wherever they stand. Of the others, neighbours do so where filling up
    with zeros pays: for a kernel, a strip of two entries costs little more than a single one.
    """
    n_rows = pointers.size - 1
    table = np.full(1 << (2 * n_rows).bit_length(), -1, np.int32)
    links = np.full((n_rows, 2), -1, np.int32)
    by_height = [np.empty(n_rows + height, np.int32) for height in HEIGHTS]
    counts = np.array(group_alike(pointers, indices, left_out, table, links, *by_height))
    if pointers[-1] >= n_rows and counts[2] >= 4:
        group_neighbours(pointers, indices, prices, *by_height, counts)
    found = []
    for height, all_rows, count in zip(HEIGHTS, by_height, counts.tolist(), strict=True):
        if count:
            rows = all_rows[: height * count].copy()
            most = int((pointers[rows + 1] - pointers[rows]).sum())
            starts, columns = np.zeros(count + 1, np.int64), np.empty(most, np.int32)
            places = np.empty(most * height, np.int32)
            fill_groups(pointers, indices, rows, height, starts, columns, places)
            end = int(starts[-1])
            found.append(Groups(height, rows, starts, columns[:end].copy(), places[: end * height].copy()))
    return found


def _dense_groups(shape: tuple[int, int]) -> list[Groups]:
    """The groups of a matrix without zeros."""
    n_rows, n_columns = shape
    columns, found, begin = np.arange(n_columns, dtype=np.int32), [], 0
    for height in HEIGHTS:
        count = (n_rows - begin) // height
        rows = np.arange(begin, begin + count * height, dtype=np.int32)
        if count:
            places = rows.reshape(count, 1, height) * n_columns + columns[:, None]
            starts = n_columns * np.arange(count + 1)
            found.append(Groups(height, rows, starts, np.tile(columns, count), places.ravel()))
        begin += count * height
    return found


def join_neighbours(packed: Sequence[PackedFactor]) -> list[PackedFactor]:
    """Neighbouring butterflies joined wherever their pairs form squares: both take one pass over memory."""
    joined = [packed[0]]
    for later in packed[1:]:
        earlier = joined[-1]
        squares = None
        if earlier.is_paired and later.is_paired:
            if later not in earlier.joined:
                earlier.joined[later] = _join(earlier, later)
            squares = earlier.joined[later]
        if squares is None:
            joined.append(later)
        else:
            joined[-1] = squares
    return joined


def _join(earlier: PackedFactor, later: PackedFactor) -> "JoinedFactor | None":
    """later @ earlier, if the pairs of both form squares, else None."""
    if not np.array_equal(earlier.passed, later.passed):
        return None
    earlier_pairs, later_pairs = (each.groups[0].rows.reshape(-1, 2) for each in (earlier, later))
    in_earlier, in_later = np.zeros((2, later.shape[0]), np.int32)  # Positions of the rows.
    in_earlier[earlier_pairs], in_later[later_pairs] = (
        np.arange(pairs.size, dtype=np.int32).reshape(pairs.shape) for pairs in (earlier_pairs, later_pairs)
    )

    # The pair (i, j) of a square is a later pair whose rows both are the upper rows of earlier pairs.
    ij = np.flatnonzero((in_earlier[later_pairs] % 2 == 0).all(axis=1)).astype(np.int32)
    i, j = later_pairs[ij].T
    ik, jm = in_earlier[i] // 2, in_earlier[j] // 2
    k, m = earlier_pairs[ik, 1], earlier_pairs[jm, 1]
    km = in_later[k] // 2
    if 4 * ij.size != earlier_pairs.size or (later_pairs[km] != np.stack([k, m], axis=1)).any():
        return None
    return JoinedFactor(earlier, later, np.stack([i, j, k, m], axis=1).ravel(), (ik, jm, ij, km))


class JoinedFactor(PackedFactor):
    """Two butterflies, ``later @ earlier``, as groups of four rows.

    A square has the rows (i, j, k, m): (i, k) and (j, m) are pairs of the earlier factor, (i, j) and (k, m) of the
    later one. ``pairs`` says which pair each of these is in its factor.
    """

    has_matrix = is_full = False

    def __init__(
        self, earlier: PackedFactor, later: PackedFactor, squares: Array, pairs: tuple[Array, Array, Array, Array]
    ) -> None:
        self.shape, self.dtype, self._one, self.joined = later.shape, later.dtype, later._one, WeakKeyDictionary()
        self._parts, self._squares, self._pairs = (earlier, later), squares, pairs

    @property
    def structure(self) -> tuple[list[Groups], Array]:
        """Its groups, which are not kept, and what both factors pass on."""
        starts, places = (
            4 * np.arange(self._squares.size // 4 + 1),
            np.arange(4 * self._squares.size, dtype=np.int32),
        )
        return [Groups(4, self._squares, starts, self._squares, places)], self._parts[1].passed

    def _entries(self) -> Array:
        ik, jm, ij, km = self._pairs
        # Strips are columns: the blocks of a product are those of the transposed factors in reverse order.
        earlier, later = (each.values[each.groups[0].places].reshape(-1, 2, 2) for each in self._parts)
        first, second = np.zeros((2, ij.size, 4, 4), dtype=self.dtype)  # Both factors on the rows i, j, k, m.
        first[:, 0::2, 0::2] = earlier[ik]
        first[:, 1::2, 1::2] = earlier[jm]
        second[:, :2, :2] = later[ij]
        second[:, 2:, 2:] = later[km]
        return (first @ second).ravel()


# -- programs ------------------------------------------------------------------------------------------


class Program(NamedTuple):
    """What the kernels read, for factors in the order of application: see `papilio.kernels.multiply`."""

    steps: Array
    indices: Array
    values: Array
    template: Array  # the fields of a job that are the same at each call, those of tiles apart
    n_slots: int
    copies_in: bool  # the vectors are copied into slots first
    copies_out: bool  # results are sums of several steps, which stay in the tile until they are whole


def _program(factors: Sequence[PackedFactor], widths: Sequence[int], copies_in: bool) -> Program:
    """The program that reads so many columns of each factor at a time."""
    steps: list[list[int]] = []
    pointers: list[Array] = []
    indices: list[Array] = []
    places_of: list[list[Array]] = [[] for _ in factors]  # Places of the values in those of each factor.
    ends = [0, 0, 0]  # Ends of pointers, indices and values.
    n_in, last = factors[0].shape[1], len(factors) - 1
    slots, n_slots = np.arange(n_in, dtype=np.int32), n_in if copies_in else 0
    for f, (factor, width) in enumerate(zip(factors, widths, strict=True)):
        reads_input = f == 0 and not copies_in
        flags = READS_INPUT * reads_input | WRITES_OUTPUT * (f == last)
        if f == last:
            lines = [Lines(each, slots[each.columns], each.rows) for each in factor.all_groups()]
        else:
            lines, slots, n_slots = _placed(factor, slots, n_slots, reads_input, width >= factor.shape[1])
        for groups, sources, targets in lines:
            for i, (own_pointers, strips) in enumerate(_chunks(groups, width, factor.shape[1])):
                read, places = sources, groups.places
                if strips is not None:
                    read, places = sources[strips], places.reshape(-1, groups.height)[strips].ravel()
                begins = ends[0], ends[1], ends[1] + targets.size, ends[2]
                steps.append([groups.height, own_pointers.size - 1, flags | ADDS * (i > 0), *begins])
                pointers.append(own_pointers)
                indices += [targets, read]
                places_of[f].append(places)
                sizes = own_pointers.size, targets.size + read.size, places.size
                ends = [end + size for end, size in zip(ends, sizes, strict=True)]
    for step in steps:
        step[3] += 1 + FIELDS * len(steps)
    program = np.concatenate([[len(steps)], *steps, *pointers]).astype(np.int64, copy=False)
    joined = np.concatenate(indices).astype(np.int32, copy=False)
    template = np.array([program.ctypes.data, joined.ctypes.data, n_slots, n_in, factors[-1].shape[0]])
    copies_out = widths[-1] < factors[-1].shape[1]
    pointers.clear()  # before the values take memory, too
    indices.clear()
    values, begin = np.empty(ends[2], factors[0].dtype), 0
    for factor, parts in zip(factors, places_of, strict=True):
        own = factor.values
        for places in parts:
            np.take(own, places, mode="wrap", out=values[begin : begin + places.size])
            begin += places.size
    return Program(program, joined, values, template, n_slots, copies_in, copies_out)


class Lines(NamedTuple):
    """Groups, and where in memory they read their columns and write their rows."""

    groups: Groups
    sources: Array
    targets: Array


def _placed(
    factor: PackedFactor, slots: Array, n_slots: int, reads_input: bool, is_whole: bool
) -> tuple[list[Lines], Array, int]:
    """The lines of a factor that is not the last, the slots of its rows, and the number of all slots.

    A row that is passed on keeps the slot of its column. Where all columns are read at a time, ``is_whole``, a
    group may write into the slots of its columns.
    """
    groups = factor.all_groups() if reads_input else [_sorted(each, slots) for each in factor.groups]
    passed = factor.passed[:, :0] if reads_input else factor.passed
    new = np.empty(factor.shape[0], np.int32)
    new[passed[0]] = slots[passed[1]]
    reads, n_taken, lines = np.zeros(n_slots + factor.shape[0], np.int64), 0, []
    if not reads_input:
        for columns in (passed[1], *(each.columns for each in groups)):
            reads += np.bincount(slots[columns], minlength=reads.size)
    free = np.flatnonzero(reads == 0).astype(np.int32)
    for each in groups:
        height, begins, sources = each.height, each.pointers[:-1], slots[each.columns]
        is_alone = np.diff(each.pointers) >= (height if is_whole and not reads_input else np.inf)
        if is_alone.any():  # No other rows read these slots.
            others = np.append(0, np.cumsum(reads[sources] != 1))
            is_alone &= others[begins] == others[each.pointers[1:]]
        targets, n_new = np.empty((begins.size, height), np.int32), height * int((~is_alone).sum())
        targets[is_alone] = sources[begins[is_alone][:, None] + np.arange(height)]
        targets[~is_alone] = free[n_taken : n_taken + n_new].reshape(-1, height)
        n_taken += n_new
        new[each.rows] = targets.ravel()
        lines.append(Lines(each, sources, targets.ravel()))
    return lines, new, max(n_slots, int(free[n_taken - 1]) + 1 if n_taken else 0)


def _sorted(groups: Groups, slots: Array) -> Groups:
    """Groups in the order of the slots that they read first, so that memory is read in order."""
    if not groups.columns.size:
        return groups
    begins, lengths, height = groups.pointers[:-1], np.diff(groups.pointers), groups.height
    first = slots[groups.columns[begins.clip(max=groups.columns.size - 1)]]
    if (first[1:] >= first[:-1]).all():
        return groups
    order = np.argsort(first, kind="stable")
    pointers = np.append(0, np.cumsum(lengths[order]))
    strips = np.repeat(begins[order] - pointers[:-1], lengths[order]) + np.arange(pointers[-1])
    rows, places = groups.rows.reshape(-1, height)[order], groups.places.reshape(-1, height)[strips]
    return Groups(height, rows.ravel(), pointers, groups.columns[strips], places.ravel())


def _chunks(groups: Groups, width: int, n_columns: int) -> list[tuple[Array, Array | None]]:
    """The pointers and strips of groups for ``width`` columns at a time; None for all strips.

    The vectors that a chunk reads stay in the first cache until all groups have read them.
    """
    if n_columns <= width:
        return [(groups.pointers, None)]
    n_groups = groups.pointers.size - 1
    owner = np.repeat(np.arange(n_groups), np.diff(groups.pointers))
    chunk = groups.columns // width
    order = np.argsort(chunk, kind="stable")
    n_chunks = int(chunk.max(initial=0)) + 1
    counts = np.bincount(chunk * n_groups + owner, minlength=n_chunks * n_groups)
    found: list[tuple[Array, Array | None]] = []
    begin = 0
    for own in counts.reshape(n_chunks, -1):
        pointers = np.concatenate([[0], np.cumsum(own)])
        found.append((pointers, order[begin : begin + pointers[-1]]))
        begin += pointers[-1]
    return found


# -- applying ------------------------------------------------------------------------------------------


class Fused:
    """Packed factors, in the order of application, in one kernel."""

    def __init__(self, factors: Sequence[PackedFactor], dtype: np.dtype[Any]) -> None:
        self._factors, self._dtype = factors, dtype
        self._n_in, self._n_out = factors[0].shape[1], factors[-1].shape[0]
        self._widths = [factor.shape[1] for factor in factors]
        self._work = sum(height * n for factor in factors for height, n in factor.n_strips.items())
        self._is_long_for_vectors = self._work * dtype.itemsize >= _SHARED_VECTOR_BYTES

    @cached_property
    def _for_vectors(self) -> Program:
        return _program(self._factors, self._widths, copies_in=False)

    @cached_property
    def _for_blocks(self) -> "_Tiles":
        program = self._program_for_blocks()
        in_at = 0 if program.copies_in else program.n_slots
        # The input has been read before the output is written, unless one factor does both.
        out_at = program.n_slots + (self._n_in if len(self._factors) == 1 else 0)
        n_lines = max(in_at + self._n_in, out_at + self._n_out)
        row = _widest_tile(self._factors)
        while row > REGISTER and row * n_lines > _TILE_BYTES:
            row = max(row // 2 // REGISTER, 1) * REGISTER
        is_direct = program.n_slots == 0 and not program.copies_out
        if is_direct:
            row = REGISTER  # For the last vectors if they do not fill a register.
        template = np.array([*program.template, row, in_at, out_at, program.copies_in, program.copies_out])
        return _Tiles(program, template, row, row * n_lines, is_direct)

    def _program_for_blocks(self) -> Program:
        widest = _widest_tile(self._factors)
        widths = [_NEAR_BYTES // widest if is_near(factor) else factor.shape[1] for factor in self._factors]
        n_reads = sum(self._factors[0].n_strips.values())
        # A sparse factor by itself reads neighbours, or what no cache would keep.
        copies_in = n_reads > _FEW_READS * self._n_in and (len(self._factors) > 1 or widths[0] < self._n_in)
        if not copies_in and all(width >= own for width, own in zip(widths, self._widths, strict=True)):
            return self._for_vectors
        return _program(self._factors, widths, copies_in)

    def vector(self, x: Array) -> Array:
        if not x.flags.carray:
            x = writeable(np.ascontiguousarray(x))
        y, program = np.empty(self._n_out, self._dtype), self._for_vectors
        if self._is_long_for_vectors and (threads := get_num_threads()) > 1:
            room = workspace(JOB_BYTES + program.n_slots * self._dtype.itemsize + ALIGNMENT)
            per_step = _PARTS * threads
            job = program.template, program.values, x[:, None], y[:, None], room, 0, 0, 1, 0, per_step
            if apply_shared(job, (int(program.steps[0]) * per_step, threads, 0), False):
                return y
        apply_vector(program.template, program.values, x, y)
        return y

    @property
    def values(self) -> Array:
        """The values for blocks, in the order of the kernel."""
        return self._for_blocks.program.values

    def block(self, X: Array, values: Array | None = None, out: Array | None = None) -> Array:
        """The product with a block.

        It may have other ``values``, in the order of the kernel and of the dtype of X, and may be written into
        ``out``; both blocks are row-major then.
        """
        if values is None:
            values = self._for_blocks.program.values
        flags, count, dtype = X.flags, X.shape[1], values.dtype
        by_rows = flags.c_contiguous or not flags.f_contiguous
        source = X if by_rows else X.T
        if not source.flags.c_contiguous:
            source = source.copy()
        Y = np.empty((self._n_out, count) if by_rows else (count, self._n_out), dtype) if out is None else out
        if count:
            self._run(values, writeable(source), Y, by_rows, count)
        return Y if by_rows else Y.T

    def _run(self, values: Array, X: Array, Y: Array, by_rows: bool, count: int) -> None:
        item, tiles = values.itemsize, self._for_blocks
        per_tile = tiles.row // item
        if tiles.is_direct and by_rows:  # the longer the rows, the better
            per_tile = max(count * item // REGISTER, 1) * REGISTER // item
        n_bytes = self._work * count * item
        if n_bytes >= _SHARED_BYTES and (threads := get_num_threads()) > 1:
            lines, n_rooms, per_step, per_part = -(-count * item // _LINE), 1, 0, 0
            if lines < threads or tiles.is_direct:
                per_step = _PARTS * threads
                n_parts = (int(tiles.program.steps[0]) + 2) * -(-count // per_tile) * per_step
            else:
                # Equal parts of whole lines of memory; each of several tiles, if there are enough.
                n_parts = threads * min(max(lines * _LINE // (2 * tiles.row * threads), 1), _PARTS)
                n_rooms, per_part = threads, -(-lines // n_parts) * _LINE // item
                per_tile = min(per_tile, per_part)
            room = workspace(JOB_BYTES + n_rooms * tiles.n_bytes + ALIGNMENT)
            job = tiles.template, values, X, Y, room, int(by_rows), count, per_tile, per_part, per_step
            if apply_shared(job, (n_parts, threads, tiles.n_bytes), n_bytes >= _LONG_BYTES):
                return
        room = workspace(JOB_BYTES + tiles.n_bytes + ALIGNMENT)
        apply_alone(tiles.template, values, X, Y, room, int(by_rows), count, per_tile, count, 0)


class _Tiles(NamedTuple):
    """How a program is applied to a block; the template has the addresses of its arrays."""

    program: Program
    template: Array  # the fields of a job that are the same at each call
    row: int  # bytes of one row of a tile
    n_bytes: int  # Bytes of a tile, with copies of input and output.
    is_direct: bool  # Input and output are read and written in place.


def _widest_tile(factors: Sequence[PackedFactor]) -> int:
    """The bytes of one row of a tile at the most.

    With sixteen registers, groups of four take three of each row at a time: where they have many strips, tiles
    have a multiple of that.
    """
    groups = [each for factor in factors for each in factor.groups]
    n_fours = sum(each.pointers.size - 1 for each in groups if each.height == HEIGHTS[0])
    in_fours = sum(each.columns.size for each in groups if each.height == HEIGHTS[0])
    is_mostly_fours = in_fours > sum(each.columns.size for each in groups) / 2
    return TILE * 3 // 4 if REGISTER < 64 and is_mostly_fours and in_fours >= _MANY_STRIPS * n_fours else TILE


class _Writeable:
    """Memory that NumPy takes for writeable."""

    def __init__(self, array: Array) -> None:
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}
        self._array = array


def writeable(array: Array) -> Array:
    """The same array for a kernel that does not write into it, but would be compiled again for a read-only one."""
    return array if array.flags.writeable else np.asarray(_Writeable(array))


class Dense:
    """One matrix, by BLAS and its own threads, unless papilio is to use one."""

    def __init__(self, matrix: Array) -> None:
        self._matrix = matrix

    def vector(self, x: Array) -> Array:
        if self._matrix.size >= _THREAD_WORK and get_num_threads() == 1:
            with one_blas_thread:
                return self._matrix @ x
        return self._matrix @ x

    def block(self, X: Array) -> Array:
        if self._matrix.size * X.shape[1] >= _THREAD_WORK and get_num_threads() == 1:
            with one_blas_thread:
                return self._product(X)
        return self._product(X)

    def _product(self, X: Array) -> Array:
        if X.flags.c_contiguous:
            return self._matrix @ X
        if X.flags.f_contiguous:
            return (X.T @ self._matrix.T).T
        return self._matrix @ np.ascontiguousarray(X)  # BLAS needs this layout.


class Packed:
    """scale · S₁…S_M; ``vector(x)`` and ``block(X)`` are its products with arrays of its own dtype."""

    def __init__(self, links: Sequence[Link], scale: float) -> None:
        packed = [link.packed() for link in reversed(links)]  # They are in the order of application.
        self.dtype = packed[0].dtype
        if scale != 1.0:
            # The leftmost factor comes last, where nothing is passed on: its ones become the scale.
            packed[-1] = packed[-1].with_values(scaled(links[0].factor, scale), scale)
        self.units = join_neighbours(packed)
        plans = [plan(self.units, rates(self.dtype, block)) for block in (False, True)]
        self.vector_plan, self.block_plan = (each.by_blas for each in plans)
        self.for_vectors = self.for_blocks = self._segments(self.vector_plan)
        if self.block_plan != self.vector_plan:
            self.for_blocks = self._segments(self.block_plan)
        self.vector = _one_after_the_other([segment.vector for segment in self.for_vectors])
        self._block = _one_after_the_other([segment.block for segment in self.for_blocks])

    def _segments(self, by_blas: Sequence[bool]) -> list[Dense | Fused]:
        """Each dense unit on its own, the others between them together."""
        segments: list[Dense | Fused] = []
        for is_dense, group in groupby(zip(by_blas, self.units, strict=True), key=lambda pair: pair[0]):
            units = [unit for _, unit in group]
            segments += [Dense(unit.matrix) for unit in units] if is_dense else [Fused(units, self.dtype)]
        return segments

    def block(self, X: Array) -> Array:
        """scale · S₁…S_M X, row-major for row-major X and column-major for column-major X."""
        return self.vector(X[:, 0])[:, None] if X.shape[1] == 1 else self._block(X)

    def cost(self, rate: Rates, block: bool) -> float:
        """The modelled time, with these figures."""
        return cost_of(self.units, self.block_plan if block else self.vector_plan, rate)


def _one_after_the_other(calls: Sequence[Callable[[Array], Array]]) -> Callable[[Array], Array]:
    """The first of these, then the next with its result, and so on; the only one as it is, to save a call."""
    return calls[0] if len(calls) == 1 else lambda x: reduce(lambda y, call: call(y), calls, x)


def modelled_times(packed: Sequence[PackedFactor], dtype: np.dtype[Any]) -> tuple[float, float]:
    """What a product of packed factors, from left to right, takes for one vector, and per vector of a block."""
    units = join_neighbours(list(reversed(packed)))
    return plan(units, rates(dtype, False)).cost, plan(units, rates(dtype, True)).cost


# -- faster chains -------------------------------------------------------------------------------------

_LEAST_GAIN = 0.02  # Relative to both times; smaller gains do not justify the rounding errors of a merger.
_SMALL_PRODUCT = 100_000  # entries: products of so many are always tried
_LARGE_PRODUCT = 16  # times the entries of its factors: a product of more cannot pay, as BLAS gains less per entry
_FILLED = 3  # times the work of its parts: a product that takes so much is not extended, as it only fills up


def merged(links: Sequence[Link]) -> list[Link]:
    """Factors of which none is slower to apply, by the model, for one vector or for a block; equal up to rounding.

    Of all runs of neighbours, the one whose product saves most is merged, as long as any saves anything.
    """
    search = _Search(links)
    spans = [(i, i + 1) for i in range(len(links))]
    times = search.times(spans)
    while True:
        options = []
        for trial in search.mergers(spans):
            new = search.times(trial)
            gain = sum(1 - after / before for after, before in zip(new, times, strict=True))
            if gain > _LEAST_GAIN and all(after <= before for after, before in zip(new, times, strict=True)):
                options.append((gain, trial, new))
        if not options:
            return [search.link(span) for span in spans]
        _, spans, times = max(options)


Span = tuple[int, int]  # the factors from the first to before the second, multiplied out


class _Search:
    """The products of runs of neighbours, each made once."""

    def __init__(self, links: Sequence[Link]) -> None:
        self._dtype = links[0].factor.dtype
        self._products: dict[Span, Link | None] = {(i, i + 1): link for i, link in enumerate(links)}

    def link(self, span: Span) -> Link:
        product = self._products[span]
        assert product is not None
        return product

    def times(self, spans: Sequence[Span]) -> tuple[float, float]:
        return modelled_times([self.link(span).packed() for span in spans], self._dtype)

    def mergers(self, spans: list[Span]) -> list[list[Span]]:
        """``spans`` with one run of neighbours merged, in every way that may pay."""
        trials = []
        for begin in range(len(spans)):
            for end in range(begin + 2, len(spans) + 1):
                whole = spans[begin][0], spans[end - 1][1]
                if not self._multiply((whole[0], spans[end - 2][1]), spans[end - 1], whole):
                    break
                trials.append([*spans[:begin], whole, *spans[end:]])
                if self._work(whole) > _FILLED * sum(map(self._work, spans[begin:end])):
                    break
        return trials

    def _multiply(self, left: Span, right: Span, whole: Span) -> bool:
        """Whether ``whole`` is known; not so if it is far too large."""
        if whole not in self._products:
            parts = self.link(left).factor, self.link(right).factor
            self._products[whole] = Link(frozen(parts[0] @ parts[1])) if _is_small(*parts) else None
        return self._products[whole] is not None

    def _work(self, span: Span) -> float:
        """The least time of a factor within a product, for vectors and blocks together, in units of one entry."""
        unit = self.link(span).packed()
        each = (rates(self._dtype, block) for block in (False, True))
        return sum(min(rate.kernel(unit), rate.blas(unit.shape) - rate.call) / rate.one for rate in each)


def _is_small(left: Factor, right: Factor) -> bool:
    """Whether a product may pay, by what is known before it is made."""
    most = left.shape[0] * right.shape[1]
    if not (isinstance(left, np.ndarray) or isinstance(right, np.ndarray)):
        most = min(most, int(np.bincount(left.indices, minlength=left.shape[1]) @ np.diff(right.indptr)))
    return most <= max(_SMALL_PRODUCT, _LARGE_PRODUCT * (left.size + right.size))
