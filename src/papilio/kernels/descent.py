"""One iteration of PALM on small matrices, compiled: what `papilio.solvers.descent` does, without its overhead."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from ..typing import Array
from .cache import kernel
from .select import keep_largest, keep_largest_of_lines, keep_largest_with_columns

FIXED, ENTRIES, ROWS, COLUMNS, BLOCKS, ENTRIES_IN_COLUMNS, BLOCKS_IN_COLUMNS = range(7)
MARGIN = 1.001  # the step is 1/c with c > the Lipschitz modulus, by this factor

# Sums may be reordered here, so that they run on vector units: the general code does not reproduce an iteration to
# the last bit, but the kernel itself does. For that, no loop may both sum up and write: whether such a loop runs
# on vector units, and with it the order of its sum, depends on how near to each other its arrays happen to lie.
compiled = kernel(nogil=True, fastmath={"contract", "nsz", "reassoc"})
# A kernel from the cache may find another copy of a function that it calls, compiled to another order of sums.
inlined = kernel(nogil=True, fastmath={"contract", "nsz", "reassoc"}, forceinline=True)
# Functions of named tuples have no cache of their own: numba could not read it once such a class has another name.
internal = njit(nogil=True, fastmath={"contract", "nsz", "reassoc"})
# What is called at one place is made a part of its caller: a function by itself is compiled again with each of the
# functions around it.
once = njit(nogil=True, fastmath={"contract", "nsz", "reassoc"}, inline="always")


class Problem(NamedTuple):
    """What stays the same from one iteration to the next."""

    target: Array  # X
    sizes: Array  # d₀, …, d_M: block S_j, counted from 0, is d_j × d_{j+1}
    begins: Array  # where each block begins in a flat array of all blocks, row by row
    kinds: Array  # of the set of each block: FIXED, ENTRIES, ROWS, COLUMNS, BLOCKS, …
    counts: Array  # of entries that each set allows, in all or per line; of blocks of its grid for BLOCKS
    groups: Array  # of the rows (0) and columns (1) of each block, for BLOCKS: side × block × line
    rightwards: bool  # whether the first block is updated first
    probe: Array  # a vector with no structure, to start power iteration from
    slack: float  # relative to the largest entry; entries nearer to each other are ties
    rounding: float  # relative error of a product
    tol: float  # relative error of squared spectral norms


class State(NamedTuple):
    """What an iteration starts from, and writes its result to."""

    blocks: Array  # S₁, …, S_M, flat
    before: Array  # the blocks one iteration ago
    members: Array  # whether each block lies in its set
    guesses: Array  # of the threshold of each projection
    starts: Array  # singular vectors of the products left and right of each block


class Chain(NamedTuple):
    """The blocks with their products: ``prefixes[j]`` is S₁…S_j and ``suffixes[j]`` is S_{j+1}…S_M, flat."""

    blocks: Array
    begins: Array
    sizes: Array
    prefixes: Array
    suffixes: Array


@compiled
def multiply(left: Array, right: Array, result: Array) -> None:
    """result = left @ right; zeros on the left cost nothing."""
    for i in range(left.shape[0]):
        result[i] = 0
        for k in range(left.shape[1]):
            value = left[i, k]
            if value != 0:
                for j in range(right.shape[1]):
                    result[i, j] += value * right[k, j]


@inlined
def norm_squared(matrix: Array, probe: Array, push: float, start: Array, tol: float) -> float:
    """‖matrix‖₂² by power iteration on matrixᴴ·matrix: see `papilio.linalg.largest_eigenvalue`.

    ``start`` is the singular vector of the last time (zero at first) and becomes that of this time; ``push`` says
    how much of ``probe`` is mixed in.
    """
    size = matrix.shape[1]
    vector = np.empty(size, matrix.dtype)
    following = np.empty(size, matrix.dtype)
    estimate, increment, missing, length = 0.0, np.inf, 0.0, 0.0
    for k in range(size):
        vector[k] = start[k] + push * probe[k]
    for k in range(size):
        length += (np.conj(vector[k]) * vector[k]).real
    for iteration in range(1000):
        shrink = 1 / np.sqrt(length)
        previous = estimate
        estimate, length = 0.0, 0.0
        for k in range(size):
            vector[k] *= shrink
            following[k] = 0
        for i in range(matrix.shape[0]):
            along = 0 * vector[0]
            for k in range(size):
                along += matrix[i, k] * vector[k]
            estimate += (np.conj(along) * along).real
            for k in range(size):
                following[k] += np.conj(matrix[i, k]) * along
        for k in range(size):
            length += (np.conj(following[k]) * following[k]).real
        if length == 0.0:
            return 0.0
        if iteration > 0:
            last, increment = increment, estimate - previous
            ratio = increment / last
            if increment <= 1e-15 * estimate:
                break
            if 0.0 < ratio < 1.0:
                missing = increment * ratio / (1.0 - ratio)
                if max(increment, missing) <= tol * estimate:
                    break
        for k in range(size):
            vector[k] = following[k]
    for k in range(size):
        start[k] = vector[k]
    return estimate + min(missing, tol * estimate)


@once
def _in_range(square: float, rounding: float) -> bool:
    """Whether a sum of squares is far from where squares of the blocks' own precision lose digits."""
    least = 1e-200 if rounding < 1e-10 else 1e-25
    return least < square < 1 / least


@once
def select_blocks(
    kind: int, groups: Array, count: int, slack: float, guess: float, worth: Array, keep: Array
) -> float:
    """Which entries `papilio.constraints.SparseBlocks` keeps, for the ``groups`` of rows and of columns."""
    rows, columns = groups[0], groups[1]
    height, width = worth.shape
    n_rows, n_columns = 0, 0
    for i in range(height):
        n_rows = max(n_rows, rows[i] + 1)
    for j in range(width):
        n_columns = max(n_columns, columns[j] + 1)
    by_rows = np.zeros((n_rows, width), worth.dtype)
    norms = np.zeros((n_rows, n_columns), worth.dtype)
    kept = np.empty(norms.shape, dtype=np.bool_)
    for i in range(height):
        for j in range(width):
            by_rows[rows[i], j] += worth[i, j] * worth[i, j]
    for i in range(norms.shape[0]):
        for j in range(width):
            norms[i, columns[j]] += by_rows[i, j]
    for i in range(norms.shape[0]):
        for j in range(norms.shape[1]):
            norms[i, j] = np.sqrt(norms[i, j])
    if kind == BLOCKS:
        guess = keep_largest(norms.ravel(), count, slack, guess, kept.ravel())
    else:
        guess = keep_largest_with_columns(norms, count, slack, guess, kept)
    for i in range(height):
        for j in range(width):
            keep[i, j] = kept[rows[i], columns[j]]
    return guess


@once
def select(kind: int, count: int, groups: Array, slack: float, guess: float, worth: Array, keep: Array) -> float:
    """Which entries the projection keeps (`papilio.constraints`); a guess for the next time."""
    if kind == ENTRIES:
        return keep_largest(worth.ravel(), count, slack, guess, keep.ravel())
    if kind == ENTRIES_IN_COLUMNS:
        return keep_largest_with_columns(worth, count, slack, guess, keep)
    if kind in (BLOCKS, BLOCKS_IN_COLUMNS):
        return select_blocks(kind, groups, count, slack, guess, worth, keep)
    if kind == ROWS:
        keep_largest_of_lines(worth, count, slack, keep)
    else:
        lines = np.empty((worth.shape[1], worth.shape[0]), worth.dtype)
        kept = np.empty(lines.shape, dtype=np.bool_)
        for i in range(worth.shape[0]):
            for j in range(worth.shape[1]):
                lines[j, i] = worth[i, j]
        keep_largest_of_lines(lines, count, slack, kept)
        for i in range(worth.shape[0]):
            for j in range(worth.shape[1]):
                keep[i, j] = kept[j, i]
    return 0.0


@compiled
def selected(kind: int, count: int, groups: Array, slack: float, guess: float, worth: Array, keep: Array) -> float:
    """`select` for callers outside of kernels, with a cache of its own."""
    return select(kind, count, groups, slack, guess, worth, keep)


@compiled
def replace(
    old: Array,
    point: Array,
    kind: int,
    count: int,
    groups: Array,
    slack: float,
    guess: float,
    rounding: float,
    member: bool,
) -> float:
    """old ← the projection of ``point``, unless ``old`` is a nearer member.

    Returns a guess for the next selection; −1 for zero and extreme matrices, which general code takes care of.
    """
    worth = np.empty(point.shape, point.real.dtype)
    keep = np.empty(point.shape, dtype=np.bool_)
    values, sizes, kept, before = point.ravel(), worth.ravel(), keep.ravel(), old.ravel()
    whole = 0.0
    for i in range(values.size):
        sizes[i] = abs(values[i])
    for i in range(values.size):
        whole += sizes[i] * sizes[i]
    if not _in_range(whole, rounding):
        return -1.0
    guess = select(kind, count, groups, slack, guess, worth, keep)
    norm = 0.0
    for i in range(values.size):
        norm += kept[i] * (sizes[i] * sizes[i])
    shrink = point.real.dtype.type(1 / np.sqrt(norm))
    gain, change = 0.0, 0.0  # ⟨new − old, point⟩ and ‖new − old‖²
    for i in range(values.size):
        difference = (kept[i] * shrink) * values[i] - before[i]
        gain += (np.conj(values[i]) * difference).real
        change += (np.conj(difference) * difference).real
    if not member or gain >= -rounding * np.sqrt(change * whole):
        for i in range(values.size):
            before[i] = (kept[i] * shrink) * values[i]
    return guess


@internal
def _matrix(flat: Array, rows: int, columns: int) -> Array:
    """The rows × columns matrix that a flat array begins with."""
    return flat[: rows * columns].reshape(rows, columns)


@internal
def _block(chain: Chain, j: int) -> Array:
    return _matrix(chain.blocks[chain.begins[j] :], chain.sizes[j], chain.sizes[j + 1])


@internal
def _prefix(chain: Chain, j: int) -> Array:
    """The product of the first j blocks; unused for j = 0."""
    return _matrix(chain.prefixes[j], chain.sizes[0], chain.sizes[j])


@internal
def _suffix(chain: Chain, j: int) -> Array:
    """The product of all but the first j blocks; unused for j = M."""
    return _matrix(chain.suffixes[j], chain.sizes[j], chain.sizes[chain.sizes.size - 1])


@internal
def _assign(result: Array, source: Array) -> None:
    for i in range(result.shape[0]):
        for j in range(result.shape[1]):
            result[i, j] = source[i, j]


@internal
def _extend_prefix(chain: Chain, j: int) -> None:
    """Compute the prefix that ends with block j."""
    if j == 0:
        _assign(_prefix(chain, j + 1), _block(chain, j))
    else:
        np.dot(_prefix(chain, j), _block(chain, j), _prefix(chain, j + 1))


@internal
def _extend_suffix(chain: Chain, j: int) -> None:
    """Compute the suffix that begins with block j."""
    if j == chain.begins.size - 1:
        _assign(_suffix(chain, j), _block(chain, j))
    else:
        multiply(_block(chain, j), _suffix(chain, j + 1), _suffix(chain, j))


@once
def _whole(chain: Chain, cut: int, result: Array) -> None:
    """result = S₁…S_M, from the prefix and the suffix that meet at ``cut``."""
    if cut == 0:
        _assign(result, _suffix(chain, cut))
    elif cut == chain.begins.size:
        _assign(result, _prefix(chain, cut))
    else:
        np.dot(_prefix(chain, cut), _suffix(chain, cut), result)


@once
def _whole_with(chain: Chain, j: int, block: Array, result: Array) -> None:
    """result = S₁…S_M with ``block`` in the place of block j."""
    inner = block
    if j < chain.begins.size - 1:
        inner = np.empty((block.shape[0], result.shape[1]), block.dtype)
        multiply(block, _suffix(chain, j + 1), inner)
    if j > 0:
        np.dot(_prefix(chain, j), inner, result)
    else:
        _assign(result, inner)


@once
def _adjoint(matrix: Array) -> Array:
    return np.conj(matrix).T if np.iscomplexobj(matrix) else matrix.T


@once
def _modulus(problem: Problem, state: State, chain: Chain, j: int, push: float) -> float:
    """‖L‖₂²‖R‖₂² for the products L left and R right of block j: the Lipschitz modulus of its gradient."""
    modulus = 1.0
    for side in range(2):  # a loop, as `norm_squared` is compiled at each place where it is called
        if j > 0 if side == 0 else j < problem.kinds.size - 1:
            product = _prefix(chain, j) if side == 0 else _suffix(chain, j + 1)
            modulus *= norm_squared(product, problem.probe, push, state.starts[side, j], problem.tol)
    return modulus


@once
def _gradient(chain: Chain, j: int, residual: Array) -> Array:
    """Lᴴ(residual)Rᴴ."""
    if j > 0:
        left = _prefix(chain, j)
        through = np.empty((left.shape[1], residual.shape[1]), residual.dtype)
        np.dot(_adjoint(left), residual, through)
        residual = through
    if j < chain.begins.size - 1:
        right = _suffix(chain, j + 1)
        through = np.empty((residual.shape[0], right.shape[0]), residual.dtype)
        np.dot(residual, _adjoint(right), through)
        residual = through
    return residual


@once
def _update(
    problem: Problem, state: State, chain: Chain, j: int, goal: Array, inertia: float, push: float
) -> bool:
    """One projected gradient step of block j."""
    block = _block(chain, j)
    ahead = block
    product = np.empty(goal.shape, goal.dtype)
    if inertia > 0.0:
        before = _matrix(state.before[chain.begins[j] :], block.shape[0], block.shape[1])
        ahead = block + goal.real.dtype.type(inertia) * (block - before)
        _whole_with(chain, j, ahead, product)
    else:
        _whole(chain, j if problem.rightwards else j + 1, product)
    modulus = _modulus(problem, state, chain, j, push)
    if modulus == 0.0:
        return False
    point = ahead - _gradient(chain, j, product - goal) / goal.real.dtype.type(MARGIN * modulus)
    guess = replace(
        block,
        point,
        problem.kinds[j],
        problem.counts[j],
        problem.groups[:, j],
        problem.slack,
        state.guesses[j],
        problem.rounding,
        state.members[j] and inertia == 0.0,
    )
    state.guesses[j] = guess
    state.members[j] = True
    return guess >= 0.0


@once
def _fit_of(product: Array, goal: Array, fit: Array) -> bool:
    """fit = (Re⟨G, X̂⟩/‖X̂‖², ‖G − fit[0]·X̂‖); False where squares leave the number range."""
    along, size, misfit = 0.0, 0.0, 0.0
    for i in range(goal.shape[0]):
        for j in range(goal.shape[1]):
            along += (np.conj(product[i, j]) * goal[i, j]).real
            size += abs(product[i, j]) ** 2
    if not 1e-200 < size < 1e200:
        return False
    for i in range(goal.shape[0]):
        for j in range(goal.shape[1]):
            misfit += abs(goal[i, j] - along / size * product[i, j]) ** 2
    fit[0] = along / size
    fit[1] = np.sqrt(misfit)
    return bool(misfit < 1e200)


@compiled
def iterate(problem: Any, state: Any, scale: float, inertia: float, push: float, fit: Array) -> bool:
    """Update all blocks for the goal G = X/scale. False if general code must take over.

    ``problem`` and ``state`` are the fields of a `Problem` and a `State`, as plain tuples.
    Gradients are taken ``inertia`` times the last change ahead; ``push`` is that of `norm_squared`. ``fit``
    becomes (Re⟨G, X̂⟩/‖X̂‖², ‖G − fit[0]·X̂‖) with X̂ = S₁…S_M; the first is by how much the scale changes.
    """
    problem, state = Problem(*problem), State(*state)  # plain tuples come from Python faster than named ones
    rows, columns = problem.target.shape
    goal = problem.target / problem.target.real.dtype.type(scale)
    size = 0.0
    for i in range(rows):
        for j in range(columns):
            size += abs(goal[i, j]) ** 2
    if not _in_range(size, problem.rounding):
        return False
    count = problem.kinds.size
    longest = 0
    for j in range(count + 1):
        longest = max(longest, problem.sizes[j])
    prefixes = np.empty((count + 1, rows * longest), goal.dtype)
    suffixes = np.empty((count + 1, columns * longest), goal.dtype)
    chain = Chain(state.blocks, problem.begins, problem.sizes, prefixes, suffixes)
    for step in range(count):
        if problem.rightwards:
            _extend_suffix(chain, count - 1 - step)
        else:
            _extend_prefix(chain, step)
    for step in range(count):
        j = step if problem.rightwards else count - 1 - step
        if problem.kinds[j] != FIXED and not _update(problem, state, chain, j, goal, inertia, push):
            return False
        if problem.rightwards:
            _extend_prefix(chain, j)
        else:
            _extend_suffix(chain, j)
    return _fit_of(_prefix(chain, count) if problem.rightwards else _suffix(chain, 0), goal, fit)
