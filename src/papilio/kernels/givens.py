"""Rotations of two coordinates at a time: which pair to rotate next, by which angle, and what that changes.

A rotation of the pair (i, j) is a 2×2 unitary matrix G, embedded in an identity. The working matrix W follows it:

- ``EIGEN``        W Hermitian, W ← GᴴWG. G diagonalises the block of the pair; the gain is |w_ij|², half of what
                   the off-diagonal squares lose (Jacobi).
- ``CORRELATION``  the same with the gain |w_ij|²/(w_ii w_jj), for covariances (treelets, sparse matrix transform).
- ``POLAR``        W any square matrix, W ← GᴴW. G is the unitary polar factor of the block Z of the pair; the gain
                   is that of Re tr W, ‖Z‖_* − Re tr Z.
- ``SINGULAR``     W with no more rows than columns, W ← GᴴWH. G and H are singular vectors of the block; the gain
                   is |w_ij|² + |w_ji|² (Kogbetliantz). A column beyond the rows is rotated on its own.

Pairs are chosen greedily, by the largest gain. In layers of more than one, the pairs of a layer are disjoint, and
W changes at the end of the layer.
"""

import numpy as np

from ..typing import Array
from .cache import kernel
from .pursuit import inner

EIGEN, CORRELATION, POLAR, SINGULAR = range(4)

compiled = kernel(nogil=True, fastmath={"contract", "nsz"})

_TINY = 1e-300


# -- turns ---------------------------------------------------------------------------------------------


@compiled
def rotate_rows(W: Array, i: int, j: int, G: Array) -> None:
    """W ← GᴴW, where G acts on rows i and j."""
    a, b, c, d = np.conj(G[0, 0]), np.conj(G[1, 0]), np.conj(G[0, 1]), np.conj(G[1, 1])
    x, y = W[i], W[j]
    for k in range(W.shape[1]):
        u, v = x[k], y[k]
        x[k] = a * u + b * v
        y[k] = c * u + d * v


@compiled
def rotate_columns(W: Array, i: int, j: int, G: Array) -> None:
    """W ← WG, where G acts on columns i and j."""
    for k in range(W.shape[0]):
        u, v = W[k, i], W[k, j]
        W[k, i] = u * G[0, 0] + v * G[1, 0]
        W[k, j] = u * G[0, 1] + v * G[1, 1]


@compiled
def rotate_both(W: Array, pairs: Array, blocks: Array) -> None:
    """W ← GᴴWG for a Hermitian W, where G is a layer of disjoint rotations.

    Columns are rotated row by row, which stay in the cache meanwhile.
    """
    for n in range(len(pairs)):
        rotate_rows(W, pairs[n, 0], pairs[n, 1], blocks[n])
    _rotate_all_rows(W, pairs, blocks)


@compiled
def _rotate_all_rows(W: Array, pairs: Array, blocks: Array) -> None:
    """W ← WG, where G is a layer of rotations."""
    for k in range(0, W.shape[0] - 3, 4):
        w, x, y, z = W[k], W[k + 1], W[k + 2], W[k + 3]
        for n in range(len(pairs)):
            i, j = pairs[n, 0], pairs[n, 1]
            a, b, c, d = blocks[n, 0, 0], blocks[n, 1, 0], blocks[n, 0, 1], blocks[n, 1, 1]
            w[i], w[j] = w[i] * a + w[j] * b, w[i] * c + w[j] * d
            x[i], x[j] = x[i] * a + x[j] * b, x[i] * c + x[j] * d
            y[i], y[j] = y[i] * a + y[j] * b, y[i] * c + y[j] * d
            z[i], z[j] = z[i] * a + z[j] * b, z[i] * c + z[j] * d
    for k in range(W.shape[0] - W.shape[0] % 4, W.shape[0]):
        rotate_two(W[k], W[k], pairs, blocks)


@compiled
def rotate_two(x: Array, y: Array, pairs: Array, blocks: Array) -> None:
    """The same for two rows, or for one, which is then both."""
    for n in range(len(pairs)):
        i, j = pairs[n, 0], pairs[n, 1]
        a, b, c, d = blocks[n, 0, 0], blocks[n, 1, 0], blocks[n, 0, 1], blocks[n, 1, 1]
        u, v, p, q = x[i], x[j], y[i], y[j]
        x[i], x[j] = u * a + v * b, u * c + v * d
        y[i], y[j] = p * a + q * b, p * c + q * d


@compiled
def rotate_block(X: Array, pairs: Array, blocks: Array, inverse: bool) -> None:
    """X ← UX in place, or UᴴX, where U = G₁G₂…G_g."""
    count = len(pairs)
    turned = np.empty((2, 2), blocks.dtype)
    for n in range(count):
        r = n if inverse else count - 1 - n
        if inverse:
            rotate_rows(X, pairs[r, 0], pairs[r, 1], blocks[r])
        else:
            _adjoint(blocks[r], turned)
            rotate_rows(X, pairs[r, 0], pairs[r, 1], turned)


@compiled
def rotate_hermitian(W: Array, pairs: Array, blocks: Array, starts: Array) -> None:
    """W ← UWUᴴ in place, where U = G₁G₂…G_g and W is Hermitian; layer n begins at ``starts[n]``."""
    turned = np.empty_like(blocks)
    for n in range(len(pairs)):
        _adjoint(blocks[n], turned[n])
    for n in range(len(starts) - 2, -1, -1):
        part = slice(starts[n], starts[n + 1])
        rotate_both(W, pairs[part], turned[part])


@compiled
def _adjoint(G: Array, out: Array) -> None:
    out[0, 0], out[0, 1] = np.conj(G[0, 0]), np.conj(G[1, 0])
    out[1, 0], out[1, 1] = np.conj(G[0, 1]), np.conj(G[1, 1])


@compiled
def multiply(A: Array, B: Array, out: Array) -> None:
    a, b, c, d = A[0, 0], A[0, 1], A[1, 0], A[1, 1]
    u, v, w, x = B[0, 0], B[0, 1], B[1, 0], B[1, 1]
    out[0, 0], out[0, 1] = a * u + b * w, a * v + b * x
    out[1, 0], out[1, 1] = c * u + d * w, c * v + d * x


# -- angles --------------------------------------------------------------------------------------------


@compiled
def diagonalise(p: float, z: complex, q: float, G: Array) -> None:
    """G with GᴴZG diagonal for the Hermitian block Z = [[p, z], [z̄, q]], by the smaller of the two angles."""
    size = abs(z)
    if size <= _TINY:
        G[0, 0], G[0, 1], G[1, 0], G[1, 1] = 1, 0, 0, 1
        return
    ratio = (q - p) / (2 * size)
    t = (1.0 if ratio >= 0 else -1.0) / (abs(ratio) + np.sqrt(1 + ratio * ratio))
    c = 1 / np.sqrt(1 + t * t)
    s = t * c
    phase = z / size
    G[0, 0], G[0, 1] = c, s * phase
    G[1, 0], G[1, 1] = -s * np.conj(phase), c


@compiled
def diagonalise_all(diagonals: Array, values: Array, blocks: Array) -> None:
    """The same for the blocks of many pairs, ``diagonals`` being (n, 2)."""
    for n in range(len(values)):
        diagonalise(diagonals[n, 0], values[n], diagonals[n, 1], blocks[n])


@compiled
def nuclear_norm(a: complex, b: complex, c: complex, d: complex) -> float:
    """‖Z‖_* of Z = [[a, b], [c, d]]: the root of ‖Z‖² + 2|det Z|."""
    return np.sqrt(abs(a) ** 2 + abs(b) ** 2 + abs(c) ** 2 + abs(d) ** 2 + 2 * abs(a * d - b * c))


@compiled
def polar(a: complex, b: complex, c: complex, d: complex, G: Array) -> None:
    """The unitary polar factor of Z = [[a, b], [c, d]]: (Z + e·adj(Z)ᴴ)/‖Z‖_*, where e = det Z/|det Z|.

    Of all unitary matrices it has the largest Re tr GᴴZ. For a singular Z, e = 1.
    """
    size = nuclear_norm(a, b, c, d)
    if size <= _TINY:
        G[0, 0], G[0, 1], G[1, 0], G[1, 1] = 1, 0, 0, 1
        return
    det = a * d - b * c
    e = det / abs(det) if abs(det) > _TINY else det * 0 + 1
    G[0, 0], G[0, 1] = (a + e * np.conj(d)) / size, (b - e * np.conj(c)) / size
    G[1, 0], G[1, 1] = (c - e * np.conj(b)) / size, (d + e * np.conj(a)) / size
    # Rounding, for a product of thousands: the first column is made a unit vector, and the second its complement.
    norm = np.sqrt(abs(G[0, 0]) ** 2 + abs(G[1, 0]) ** 2)
    u, v = G[0, 0] / norm, G[1, 0] / norm
    G[0, 0], G[1, 0] = u, v
    G[0, 1], G[1, 1] = -e * np.conj(v), e * np.conj(u)


@compiled
def _gain(kind: int, W: Array, i: int, j: int) -> float:
    """The gain of a rotation of the pair; at most 0 if there is none."""
    if kind == EIGEN:
        return abs(W[i, j]) ** 2
    if kind == CORRELATION:
        variances = W[i, i].real * W[j, j].real
        return abs(W[i, j]) ** 2 / variances if variances > _TINY else 0.0
    if kind == POLAR:
        return nuclear_norm(W[i, i], W[i, j], W[j, i], W[j, j]) - (W[i, i] + W[j, j]).real
    if i >= W.shape[0]:
        return abs(W[j, i]) ** 2
    if j >= W.shape[0]:
        return abs(W[i, j]) ** 2
    return abs(W[i, j]) ** 2 + abs(W[j, i]) ** 2


@compiled
def _turn(kind: int, W: Array, i: int, j: int, left: Array, right: Array) -> None:
    """Compute the rotation of a pair: ``left`` for rows, and ``right`` for columns where it differs."""
    if kind in (EIGEN, CORRELATION):
        diagonalise(W[i, i].real, W[i, j], W[j, j].real, left)
    elif kind == POLAR:
        polar(W[i, i], W[i, j], W[j, i], W[j, j], left)
    elif j >= W.shape[0]:
        a, b = W[i, i], W[i, j]
        size = np.sqrt(abs(a) ** 2 + abs(b) ** 2)
        left[0, 0], left[0, 1], left[1, 0], left[1, 1] = 1, 0, 0, 1
        right[0, 0], right[0, 1] = np.conj(a) / size, -b / size
        right[1, 0], right[1, 1] = np.conj(b) / size, a / size
    else:
        a, b, c, d = W[i, i], W[i, j], W[j, i], W[j, j]
        polar(a, b, c, d, left)
        # Z = QP with P Hermitian, and P = J diag Jᴴ: then Z = (QJ) diag Jᴴ.
        p = np.conj(left[0, 0]) * a + np.conj(left[1, 0]) * c
        z = np.conj(left[0, 0]) * b + np.conj(left[1, 0]) * d
        q = np.conj(left[0, 1]) * b + np.conj(left[1, 1]) * d
        diagonalise(p.real, z, q.real, right)
        multiply(left, right, left)


@compiled
def _rotate(kind: int, W: Array, pairs: Array, lefts: Array, rights: Array) -> None:
    """Apply a layer of rotations to W."""
    if kind in (EIGEN, CORRELATION):
        rotate_both(W, pairs, lefts)
        for i, j in pairs:
            W[i, j] = W[j, i] = 0
            W[i, i], W[j, j] = W[i, i].real, W[j, j].real
        return
    for n in range(len(pairs)):
        if pairs[n, 1] < W.shape[0]:
            rotate_rows(W, pairs[n, 0], pairs[n, 1], lefts[n])
    if kind == SINGULAR:
        _rotate_all_rows(W, pairs, rights)


# -- the greedy choice ---------------------------------------------------------------------------------


@compiled
def best_partner(kind: int, W: Array, i: int, is_out: Array) -> tuple[float, int]:
    """The partner of row i with the largest gain, among coordinates that are not ``is_out``, and this gain."""
    best, partner = 0.0, -1
    if not is_out[i]:
        for j in range(W.shape[1]):
            if j != i and not is_out[j]:
                gain = _gain(kind, W, i, j)
                if gain > best:
                    best, partner = gain, j
    return best, partner


@compiled
def find_partners(kind: int, W: Array, is_out: Array, gains: Array, partners: Array) -> None:
    """The best partner of each row."""
    for i in range(W.shape[0]):
        gains[i], partners[i] = best_partner(kind, W, i, is_out)


@compiled
def _update_partners(kind: int, W: Array, i: int, j: int, is_out: Array, gains: Array, partners: Array) -> None:
    """The same after the pair (i, j) was rotated: only pairs with one of the two have changed."""
    for k in range(W.shape[0]):
        if k in (i, j) or partners[k] in (i, j):
            gains[k], partners[k] = best_partner(kind, W, k, is_out)
            continue
        for other in (i, j):
            if not (is_out[other] or is_out[k]):
                gain = _gain(kind, W, k, other)
                if gain > gains[k]:
                    gains[k], partners[k] = gain, other


@compiled
def add_layer(
    kind: int,
    W: Array,
    is_out: Array,
    gains: Array,
    partners: Array,
    least: float,
    share: float,
    pairs: Array,
    lefts: Array,
    rights: Array,
) -> int:
    """A layer of disjoint pairs, by descending gain, with their rotations; W follows. Returned is their number.

    At most as many as there is room for in ``pairs``; each gains more than ``least`` and at least ``share`` of the
    mean of those before it. ``gains`` and ``partners`` are those of `find_partners`, and are kept up to date.
    """
    used = is_out.copy()
    count, total = 0, 0.0
    while count < len(pairs):
        i = np.argmax(gains)
        j = partners[i]
        if j < 0:
            break
        if used[i] or used[j]:  # The known gain of this row is an upper bound.
            gains[i], partners[i] = best_partner(kind, W, i, used)
            continue
        gain = gains[i]
        if gain <= least or (count and gain < share * total / count):
            break
        total += gain
        if j < i and j < W.shape[0]:
            i, j = j, i
        pairs[count, 0], pairs[count, 1] = i, j
        used[i] = used[j] = True
        _turn(kind, W, i, j, lefts[count], rights[count])
        count += 1
    _rotate(kind, W, pairs[:count], lefts[:count], rights[:count])
    if len(pairs) == 1 and count == 1:
        _update_partners(kind, W, pairs[0, 0], pairs[0, 1], is_out, gains, partners)
    elif count:
        find_partners(kind, W, is_out, gains, partners)
    return count


@compiled
def add_sequence(
    kind: int,
    W: Array,
    is_out: Array,
    gains: Array,
    partners: Array,
    least: float,
    pairs: Array,
    lefts: Array,
    rights: Array,
) -> int:
    """One rotation after the other, each as `add_layer` adds it; returned is their number."""
    for n in range(len(pairs)):
        one = slice(n, n + 1)
        if not add_layer(kind, W, is_out, gains, partners, least, 0.0, pairs[one], lefts[one], rights[one]):
            return n
    return len(pairs)


@compiled
def disjoint(rows: Array, columns: Array, gains: Array, n: int, least: float, share: float, chosen: Array) -> int:
    """The pairs of a layer, as in `add_layer`, among candidates by descending gain; of ``n`` coordinates.

    Returned is their number, and in ``chosen`` which they are, at most as many as it has room for.
    """
    used = np.zeros(n, np.bool_)
    count, total = 0, 0.0
    for c in range(len(rows)):
        i, j, gain = rows[c], columns[c], gains[c]
        if count == len(chosen) or gain <= least or (count and gain < share * total / count):
            break
        if used[i] or used[j]:
            continue
        total += gain
        used[i] = used[j] = True
        chosen[count] = c
        count += 1
    return count


# -- peaks ---------------------------------------------------------------------------------------------
#
# Rotations of two rows that make them sparse: by Σ|w|⁴, which neither the order nor the signs of lines change.
# Among orthogonal matrices, Σ|w|⁴ is largest for signed permutations. Rotating rows until a matrix is one
# therefore finds a product of rotations for it, up to that permutation (quartimax).


@compiled
def _axis(x: Array, y: Array, T: Array, axis: Array) -> tuple[float, float]:
    """The rotation of rows x and y by which Σ|w|⁴ grows most, as an axis; what it gains; and how well they agree.

    With v = (|x|² − |y|², 2 Re xȳ, 2 Im xȳ) for each column, rotated rows have |x|⁴ + |y|⁴ = (|v|² + (a·v)²)/2,
    where a is a unit vector: the best one is the leading eigenvector of T = Σ v vᵀ. If λ/tr T = 1, its rotation
    leaves only one entry in each column.
    """
    T[:] = 0
    for k in range(len(x)):
        product = 2 * (x[k] * np.conj(y[k]))
        u, v, w = abs(x[k]) ** 2 - abs(y[k]) ** 2, product.real, product.imag
        T[0, 0] += u * u
        T[0, 1] += u * v
        T[0, 2] += u * w
        T[1, 1] += v * v
        T[1, 2] += v * w
        T[2, 2] += w * w
    now, total = T[0, 0], T[0, 0] + T[1, 1] + T[2, 2]
    vectors = np.eye(3)
    for _ in range(12):  # Jacobi's method; for real rows the third line is zero, and one rotation does it
        if max(abs(T[0, 1]), abs(T[0, 2]), abs(T[1, 2])) <= 1e-15 * total:
            break
        for p in range(2):
            for q in range(p + 1, 3):
                _eliminate(T, vectors, p, q)
    top = np.argmax(np.diag(T))
    sign = 1.0 if vectors[0, top] >= 0 else -1.0
    for k in range(3):
        axis[k] = sign * vectors[k, top]
    return (T[top, top] - now) / 2, T[top, top] / total if total > _TINY else 0.0


@compiled
def _eliminate(T: Array, vectors: Array, p: int, q: int) -> None:
    """A step of Jacobi's method for the upper triangle of a symmetric 3×3 matrix."""
    z = T[p, q]
    if abs(z) <= _TINY:
        return
    ratio = (T[q, q] - T[p, p]) / (2 * z)
    t = (1.0 if ratio >= 0 else -1.0) / (abs(ratio) + np.sqrt(1 + ratio * ratio))
    c = 1 / np.sqrt(1 + t * t)
    s, r = t * c, 3 - p - q
    T[p, p] -= t * z
    T[q, q] += t * z
    T[p, q] = 0
    i, j, k, m = min(p, r), max(p, r), min(q, r), max(q, r)
    x, y = T[i, j], T[k, m]
    T[i, j], T[k, m] = c * x - s * y, s * x + c * y
    for n in range(3):
        x, y = vectors[n, p], vectors[n, q]
        vectors[n, p], vectors[n, q] = c * x - s * y, s * x + c * y


@compiled
def peak_gains(W: Array, rows: Array, gains: Array, agreements: Array) -> None:
    """What the pairs of these rows with all others gain, and how well the two rows of each agree."""
    T, axis = np.empty((3, 3)), np.empty(3)
    is_done = np.zeros(W.shape[0], np.bool_)
    for i in rows:
        is_done[i] = True
        for j in range(W.shape[0]):
            if not is_done[j]:
                gain, agreement = _axis(W[i], W[j], T, axis)
                gains[i, j] = gains[j, i] = gain
                agreements[i, j] = agreements[j, i] = agreement


@compiled
def turn_to_peaks(W: Array, pairs: Array, units: Array, blocks: Array) -> None:
    """The rotations of disjoint pairs; W follows. ``units`` are 1 and −i, or 1 and 0 if W is real."""
    T, axis = np.empty((3, 3)), np.empty(3)
    for n in range(len(pairs)):
        i, j, G = pairs[n, 0], pairs[n, 1], blocks[n]
        _axis(W[i], W[j], T, axis)
        c = np.sqrt((1 + axis[0]) / 2)
        z = (axis[1] * units[0] + axis[2] * units[1]) / (2 * c)
        G[0, 0], G[0, 1], G[1, 0], G[1, 1] = c, -np.conj(z), z, c
        rotate_rows(W, i, j, G)


# -- likelihoods of held-out samples along a chain -----------------------------------------------------


@compiled
def rotated_energies(X: Array, pairs: Array, blocks: Array, energies: Array) -> None:
    """X ← UᵀX in place for a real X; in ``energies``, the mean squares of the two rows after each rotation."""
    for r in range(len(pairs)):
        i, j = pairs[r]
        rotate_rows(X, i, j, blocks[r])
        for side in range(2):
            row = X[pairs[r, side]]
            total = 0.0
            for value in row:
                total += value * value
            energies[r, side] = total / len(row)


@compiled
def gaussian_path(
    values: Array,
    energies: Array,
    pairs: Array,
    inside: Array,
    outside: Array,
    shares: Array,
    target: float,
    logs: Array,
    forms: Array,
) -> None:
    """Held-out Gaussian likelihoods along a chain: Σ log f and Σ h/f, with f = (1 − a)λ + a·target, for shares a.

    The λ are ``values`` at first, and with rotation r two of them become ``inside[r]``; the h, ``energies`` and
    ``outside`` likewise. ``logs[a, r]`` and ``forms[a, r]`` are the sums for share a after r rotations.
    """
    for a in range(len(shares)):
        keep, add = 1 - shares[a], shares[a] * target
        now, held = keep * values + add, energies.copy()
        log, form = np.log(now).sum(), (held / now).sum()
        logs[a, 0], forms[a, 0] = log, form
        for r in range(len(pairs)):
            for side in range(2):
                i = pairs[r, side]
                after = keep * inside[r, side] + add
                log += np.log(after / now[i])
                form += outside[r, side] / after - held[i] / now[i]
                now[i], held[i] = after, outside[r, side]
            logs[a, r + 1], forms[a, r + 1] = log, form


# -- sweeps over a chain: each angle is optimised while all others are fixed ------------------------------


@compiled
def sweep_eigen(A: Array, B: Array, pairs: Array, blocks: Array, starts: Array, units: Array) -> None:
    """Optimise each rotation so that ‖A − B‖² falls; before the sweep, A = S and B = U diag(λ) Uᴴ.

    Both follow: when it is the turn of G_k, A = (G₁…G_{k−1})ᴴ S (G₁…G_{k−1}) and B = (G_k…G_g) diag(λ) (G_k…G_g)ᴴ.
    After the sweep A is UᴴSU. ``units`` are the phases of the off-diagonal entries by which a rotation is turned:
    1 for real numbers; 1 and i for complex ones, one after the other. Layer n begins at ``starts[n]``.

    Rows take part in the rotations of a layer when they are needed: those of a pair when it is its turn, for the
    pairs before it, and at the end of the layer for the others.
    """
    R = np.empty((2, 2), blocks.dtype)
    room = np.empty(A.shape[0] // 4, A.dtype)
    is_paired = np.empty(A.shape[0], np.bool_)
    for n in range(len(starts) - 1):
        part = slice(starts[n], starts[n + 1])
        places, new, old = pairs[part], blocks[part], blocks[part].copy()
        is_paired[:] = False
        for r in range(len(places)):
            i, j = places[r]
            is_paired[i] = is_paired[j] = True
            rotate_two(A[i], A[j], places[:r], new[:r])
            rotate_two(B[i], B[j], places[: r + 1], old[: r + 1])
            rotate_rows(B, i, j, old[r])
            _rotate_pair(A, places[r], old[r])
            for unit in units:
                _turn_towards(A, B, i, j, unit, R, room)
                _rotate_pair(A, places[r], R)
                multiply(new[r], R, new[r])
        for r in range(len(places)):
            i, j = places[r]
            rotate_two(A[i], A[j], places[r + 1 :], new[r + 1 :])
            rotate_two(B[i], B[j], places[r + 1 :], old[r + 1 :])
        for k in range(A.shape[0]):
            if not is_paired[k]:
                rotate_two(A[k], A[k], places, new)
                rotate_two(B[k], B[k], places, old)


@compiled
def _rotate_pair(A: Array, pair: Array, G: Array) -> None:
    """The rows of a pair in GᴴAG."""
    i, j = pair
    rotate_rows(A, i, j, G)
    for row in (i, j):
        u, v = A[row, i], A[row, j]
        A[row, i] = u * G[0, 0] + v * G[1, 0]
        A[row, j] = u * G[0, 1] + v * G[1, 1]


@compiled
def sweep_polar(W: Array, pairs: Array, blocks: Array) -> None:
    """Optimise each rotation so that Re tr UᴴM grows; W is MUᴴ before the sweep, and UᴴM after it.

    With G_k on neither side, W = (G₁…G_{k−1})ᴴ M (G_{k+1}…G_g)ᴴ; the best G_k is the polar factor of its block.
    """
    for r in range(len(pairs)):
        i, j, G = pairs[r, 0], pairs[r, 1], blocks[r]
        rotate_columns(W, i, j, G)
        polar(W[i, i], W[i, j], W[j, i], W[j, j], G)
        rotate_rows(W, i, j, G)


@compiled
def _turn_towards(A: Array, B: Array, i: int, j: int, unit: complex, R: Array, room: Array) -> None:
    """R = [[cos θ, −u sin θ], [ū sin θ, cos θ]] with the largest ⟨RᴴAR, B⟩, where u is the unit.

    As a function of θ that is p cos θ + q sin θ + v cos 2θ + w sin 2θ and a constant: the first two terms are the
    rows and columns of the pair outside of its block, the others the block.
    """
    x = inner(B[i], A[i], room) + inner(B[j], A[j], room)
    y = unit * inner(B[i], A[j], room) - np.conj(unit) * inner(B[j], A[i], room)
    for k in (i, j):  # Rows and columns outside of the block.
        x -= np.conj(B[i, k]) * A[i, k] + np.conj(B[j, k]) * A[j, k]
        y -= unit * np.conj(B[i, k]) * A[j, k] - np.conj(unit) * np.conj(B[j, k]) * A[i, k]
    h, g = (A[i, i] - A[j, j]).real / 2, (B[i, i] - B[j, j]).real / 2
    o, w = (np.conj(unit) * A[i, j]).real, (np.conj(unit) * B[i, j]).real
    theta = best_angle(2 * x.real, 2 * y.real, 2 * (h * g + o * w), 2 * (o * g - h * w))
    c, s = np.cos(theta), np.sin(theta)
    R[0, 0], R[0, 1], R[1, 0], R[1, 1] = c, -s * unit, s * np.conj(unit), c


@compiled
def best_angle(p: float, q: float, v: float, w: float) -> float:
    """The θ of largest f = p cos θ + q sin θ + v cos 2θ + w sin 2θ.

    There are at most two maxima, and both are climbed: from the best of sixteen angles, one of which is 0, and
    from the best of those far from it. So f(θ) ≥ f(0).
    """
    values = np.empty(16)
    for m in range(16):
        values[m] = _wave(p, q, v, w, m * np.pi / 8)
    first = int(np.argmax(values))
    second = (first + 4) % 16
    for m in range(first + 5, first + 13):
        if values[m % 16] > values[second]:
            second = m % 16
    one, other = _climb(p, q, v, w, first * np.pi / 8), _climb(p, q, v, w, second * np.pi / 8)
    return one if _wave(p, q, v, w, one) >= _wave(p, q, v, w, other) else other


@compiled
def _wave(p: float, q: float, v: float, w: float, theta: float) -> float:
    c, s = np.cos(theta), np.sin(theta)
    return p * c + q * s + v * (c * c - s * s) + w * 2 * c * s


@compiled
def _climb(p: float, q: float, v: float, w: float, theta: float) -> float:
    """A maximum near θ, by Newton's method; a step that does not go up is shortened."""
    top, most = _wave(p, q, v, w, theta), np.pi / 8
    for _ in range(16):
        c, s = np.cos(theta), np.sin(theta)
        cc, ss = c * c - s * s, 2 * c * s
        slope = q * c - p * s + 2 * (w * cc - v * ss)
        bend = abs(p * c + q * s + 4 * (v * cc + w * ss))
        step = slope / bend if bend * most > abs(slope) else (most if slope > 0 else -most)
        value = _wave(p, q, v, w, theta + step)
        if value > top:
            theta, top = theta + step, value
        elif abs(step) < 1e-9:
            break
        else:
            most = abs(step) / 4
    return theta
