"""Known fast transforms: Hadamard, Fourier, Hartley and cosine transforms.

Sizes are any, or powers of two for Hadamard. ``T @ x`` is the analysis (the transform), ``T.H`` the synthesis.
Factors that equal the identity are left out, unless no other is left.
"""

from collections.abc import Callable, Iterable, Sequence
from math import isqrt

import numpy as np
import scipy.sparse as sp

from ..operators import SparseProduct
from ..typing import Array, DTypeLike
from ..validation import as_integer, as_power_of_two

_SQRT_HALF = np.sqrt(0.5)
_LONGEST = 2**31 - 1
_LARGE_PRIME = 200  # stages of larger primes have fewer than half as many entries as convolutions


def hadamard(n: int) -> SparseProduct:
    """The Hadamard matrix in Sylvester's order, with entries ±1: ``scipy.linalg.hadamard(n)``.

    H_n = S₁S₂…S_L with L = log₂ n, S_k = I_{2^(k−1)} ⊗ H₂ ⊗ I_{n/2^k} and H₂ = [[1, 1], [1, −1]].

    Parameters
    ----------
    n : int
        Rows and columns: a power of two.

    Returns
    -------
    SparseProduct
        log₂ n factors of 2n entries each, float64. ``T.H @ T`` is n times the identity.

    Examples
    --------
    >>> from papilio.transforms import hadamard
    >>> hadamard(4) @ [1, 0, 0, 2]
    array([ 3., -1., -1.,  3.])
    """
    n, depth = as_power_of_two("n", n)
    return _product(n, (_repeated(_butterfly(sp.eye_array(2**k)), n >> (k + 1)) for k in reversed(range(depth))))


def dft(n: int) -> SparseProduct:
    """The discrete Fourier transform, unnormalised: ``scipy.fft.fft``.

    X_k = Σ_j x_j exp(−2πi jk/n), by Cooley and Tukey's decimation in time: F_n = S₁S₂…S_L P. For n = 2^L, P is the
    bit reversal, S_k = I_{n/2h} ⊗ [[I, D], [I, −D]], h = n/2^k and D = diag(exp(−πi j/h)), j < h. Otherwise there
    is one stage per prime factor of n, in ascending order, and P reverses the digits. The stage of a large prime p
    is a convolution with a chirp (Bluestein): 2jk = j² + k² − (k − j)² gives F_p = C T C with
    C = diag(exp(−πi j²/p)) and the Toeplitz matrix T of exp(πi (k − j)²/p), itself a fast product.

    Parameters
    ----------
    n : int
        Rows and columns: any size.

    Returns
    -------
    SparseProduct
        One stage of p·n entries per prime factor p of n and, if there are several, the permutation, complex128.
        From some p = 200 on, stages are convolutions of some 7·n·log₂ p entries. ``T.H @ T`` is n times
        the identity.

    Examples
    --------
    >>> from papilio.transforms import dft
    >>> len(dft(8).factors), dft(8).nnz
    (4, 56)
    """
    n = as_integer("n", n, 1, _LONGEST)
    return _decimated(n, prime_factors(n), _fourier_stage, np.complex128)


def hartley(n: int) -> SparseProduct:
    """The discrete Hartley transform, unnormalised: the real part of ``scipy.fft.fft`` minus the imaginary part.

    X_k = Σ_j x_j (cos(2π jk/n) + sin(2π jk/n)), by decimation in time as in `dft`, with radix 4 where possible.
    For real signals it replaces the complex Fourier transform: a circular convolution couples X_k with X_{−k}
    only.

    Parameters
    ----------
    n : int
        Rows and columns: any size.

    Returns
    -------
    SparseProduct
        Two factors for each factor 4 of n, with at most 5.5n entries together, then one with at most (2p − 1)·n
        entries for each other prime factor p (from some p = 200 on, convolutions as in `dft`, of some
        24·n·log₂ p entries) and, if there are several stages, the permutation, float64. Powers
        of two have less than 2.75·n·log₂ n entries in all. The transform is symmetric, and ``T @ T`` is n times
        the identity.

    Notes
    -----
    Let m = n/p, and let Y_j be the transform, of size m, of the signal x_j, x_{j+p}, x_{j+2p}, …. With
    θ = 2πjk/n, X_k = Σ_j cos θ · Y_j(k mod m) + sin θ · Y_j(−k mod m), j < p: a row has two entries per j, and one
    for j = 0. For p = 4, the terms of j = 0 and 2 and those of j = 1 and 3 are added first, for k < m and for
    k + m; their sums and differences are X_k to X_{k+3m}.

    Examples
    --------
    >>> from papilio.transforms import hartley
    >>> (hartley(4) @ [1, 2, 0, 0]).round(12)
    array([ 3.,  3., -1., -1.])
    """
    n = as_integer("n", n, 1, _LONGEST)
    primes = prime_factors(n)
    fours, odd_two = divmod(primes.count(2), 2)
    return _decimated(n, [4] * fours + [2] * odd_two + [p for p in primes if p > 2], _hartley_stage, np.float64)


def dct(n: int) -> SparseProduct:
    """The orthonormal cosine transform of type 2: ``scipy.fft.dct(x, type=2, norm="ortho")``.

    X_k = c_k √(2/n) Σ_j x_j cos(πk(2j+1)/(2n)) with c_0 = √½ and c_k = 1 for k > 0.

    Parameters
    ----------
    n : int
        Rows and columns: any size.

    Returns
    -------
    SparseProduct
        For n = 2^K, T = L₁L₂…L_{K−1} R_K…R₂R₁, at most 4n log₂ n entries in all, float64. Every factor is
        orthogonal, so that rounding errors are not amplified. Other sizes have 2n entries more than `hartley`.

    Notes
    -----
    Powers of two: with √2 s_j = x_j + x_{n−1−j} and √2 d_j = x_j − x_{n−1−j}, j < n/2, the transform of size n
    (type 2) is that of s at the even outputs and the type-4 transform of d at the odd ones. A type-4 transform of
    size m comes from two type-2 transforms of size h = m/2: with θ_j = π(2j+1)/(4m) and j < h they are

    - U of u_j = x_j cos θ_j + x_{m−1−j} sin θ_j and
    - W of w_j = (−1)^j (x_j sin θ_j − x_{m−1−j} cos θ_j);

    X_0 = U_0, X_{m−1} = W_0 and, for 0 < l < h, √2 X_{2l} = U_l − W_{h−l} and √2 X_{2l−1} = U_l + W_{h−l}.
    R_k does what comes before the smaller transforms, L_k what comes after, for all blocks of level k.

    Other sizes: with the Hartley transform H of x₀, x₂, …, x₃, x₁ and θ_k = πk/(2n),
    X_k = c_k √(2/n) ((cos θ_k − sin θ_k) H_k + (cos θ_k + sin θ_k) H_{−k})/2.

    Examples
    --------
    >>> from papilio.transforms import dct
    >>> (dct(4) @ [1, 1, 1, 1]).round(12) + 0.0
    array([2., 0., 0., 0.])
    """
    n = as_integer("n", n, 1, _LONGEST)
    if n & (n - 1):
        return _cosine_from_hartley(n)
    depth = n.bit_length() - 1
    before: list[sp.csr_array] = []
    after: list[sp.csr_array] = []
    is_type4 = np.array([False])
    for level in range(depth):
        size = n >> level
        before.insert(0, _side_by_side(is_type4, _before_type2(size), _before_type4(size)))
        after.append(_side_by_side(is_type4, _after_type2(size), _after_type4(size)))
        # Type 2 splits into types 2 and 4, type 4 into types 2 and 2.
        is_type4 = np.stack((np.zeros_like(is_type4), ~is_type4), axis=1).ravel()
    return _product(n, [*after, *before])


def _product(n: int, factors: Iterable[sp.csr_array], dtype: DTypeLike = np.float64) -> SparseProduct:
    identity = sp.eye_array(n, dtype=dtype, format="csr")
    others = [each for each in factors if each.shape != identity.shape or (each - identity).count_nonzero()]
    return SparseProduct(others or [identity])


def _from_rows(columns: Array, values: Array) -> sp.csr_array:
    """The square matrix with ``values[i]`` at ``columns[i]`` in row i; values at the same place add up."""
    n, per_row = columns.shape
    row_starts = np.arange(0, columns.size + 1, per_row)
    return sp.csr_array((values.ravel(), columns.ravel(), row_starts), shape=(n, n))


def _repeated(block: sp.csr_array, count: int) -> sp.csr_array:
    """I ⊗ block, with ``count`` blocks."""
    return sp.kron(sp.eye_array(count), block, format="csr")


# -- Fourier and Hartley transforms --------------------------------------------------------------------


def _decimated(
    n: int, radices: Sequence[int], stage: Callable[[int, int], list[sp.csr_array]], dtype: DTypeLike
) -> SparseProduct:
    """Decimation in time: ``stage(size, p)`` makes a transform out of p interleaved ones of size/p."""
    factors, size = [], n
    for p in radices:
        factors += [_repeated(factor, n // size) for factor in stage(size, p)]
        size //= p
    digits_reversed = np.arange(n).reshape([*reversed(radices), 1]).T.reshape(n, 1)
    return _product(n, [*factors, _from_rows(digits_reversed, np.ones((n, 1)))], dtype)


def prime_factors(n: int) -> list[int]:
    """The prime factors of n in ascending order; none for 1."""
    for p in range(2, isqrt(n) + 1):
        if n % p == 0:
            return [p, *prime_factors(n // p)]
    return [n] if n > 1 else []


def _fourier_stage(size: int, p: int) -> list[sp.csr_array]:
    if p > _LARGE_PRIME:
        m = size // p
        turns = sp.diags_array(_roots(np.outer(np.arange(p), np.arange(m)).ravel(), size))
        *others, last = (sp.kron(factor, sp.eye_array(m), "csr") for factor in _chirp_transform(p))
        return [*others, last @ turns]
    rows, parts = np.arange(size)[:, np.newaxis], np.arange(p)
    cos, sin = _unit_circle(rows * parts, size)
    return [_from_rows(parts * (size // p) + rows % (size // p), cos - 1j * sin)]


def _hartley_stage(size: int, p: int) -> list[sp.csr_array]:
    if p > _LARGE_PRIME:
        return _hartley_chirp_stage(size, p)
    rows, parts, m = np.arange(size)[:, np.newaxis], np.arange(p), size // p
    columns = np.hstack([parts * m + rows % m, parts * m + -rows % m])
    if p != 4:
        return [_without_zeros(_from_rows(columns, np.hstack(_unit_circle(rows * parts, size))))]
    cos, sin = _unit_circle(rows[:m] * parts, size)
    even, odd = np.array([1, 0, 1, 0]), np.array([0, 1, 0, 1])
    even_turned, odd_turned = np.array([1, 0, -1, 0]), np.array([0, 1, 0, -1])
    first = np.vstack(
        [
            np.hstack([even * cos, even * sin]),
            np.hstack([even_turned * cos, even_turned * sin]),
            np.hstack([odd * cos, odd * sin]),
            np.hstack([-odd_turned * sin, odd_turned * cos]),
        ]
    )
    return [_butterfly(sp.eye_array(2 * m)), _without_zeros(_from_rows(columns, first))]


def _chirp_transform(p: int) -> list[sp.csr_array]:
    """F_p as chirp · Toeplitz · chirp: 2jk = j² + k² − (k − j)²."""
    from .convolutions import toeplitz  # It is made of transforms of smooth sizes.

    chirp = _roots(np.arange(p) ** 2, 2 * p)
    convolution = toeplitz(chirp.conj(), chirp.conj())
    first, *between, last = map(sp.csr_array, convolution.factors)
    diagonal = sp.diags_array(chirp)
    return [convolution.scale * (diagonal @ first), *between, last @ diagonal]


def _hartley_chirp_stage(size: int, p: int) -> list[sp.csr_array]:
    """A stage for a large prime p in real numbers: Re F_p (U_j(k) + i W_j(k)), for each k.

    With the transforms Y_j and a = 2πjk/size, U_j(k) = cos a · Y_j(k) + sin a · Y_j(−k) and
    W_j(k) = cos a · Y_j(−k) − sin a · Y_j(k).
    """
    m = size // p
    first, *others = (sp.kron(factor, sp.eye_array(m), "csr") for factor in _chirp_transform(p))
    part, k = np.divmod(np.arange(size), m)
    cos, sin = (sp.diags_array(values) for values in _unit_circle(part * k, size))
    mirror = sp.eye_array(size, format="csr")[part * m + -k % m]
    start = sp.block_array([[cos + sin @ mirror], [cos @ mirror - sin]], format="csr")
    *between, last = (sp.block_array([[f.real, -f.imag], [f.imag, f.real]], format="csr") for f in others)
    real_part = sp.block_array([[first.real, -first.imag]], format="csr")
    return [_without_zeros(factor) for factor in (real_part, *between, last @ start)]


def _without_zeros(matrix: sp.csr_array) -> sp.csr_array:
    """The same matrix with entries at the same place added up, and those removed that are rounding."""
    matrix.sum_duplicates()
    matrix.data[np.abs(matrix.data) < 1e-15] = 0
    matrix.eliminate_zeros()
    return matrix


def _roots(steps: Array, size: int) -> Array:
    """exp(−2πi steps/size)."""
    cos, sin = _unit_circle(steps, size)
    return np.asarray(cos - 1j * sin)


def _unit_circle(steps: Array, size: int) -> tuple[Array, Array]:
    """Cosine and sine of 2π steps/size, exact at multiples of a quarter."""
    angles = 2 * np.pi * (steps % size) / size
    cos, sin = np.cos(angles), np.sin(angles)
    return np.where(4 * steps % (2 * size) == size, 0.0, cos), np.where(2 * steps % size == 0, 0.0, sin)


# -- Hadamard and cosine transforms --------------------------------------------------------------------


def _butterfly(block: sp.csr_array) -> sp.csr_array:
    """[[I, B], [I, −B]]."""
    identity = sp.eye_array(block.shape[0])
    return sp.block_array([[identity, block], [identity, -block]], format="csr")


def _side_by_side(is_type4: Array, type2: sp.csr_array, type4: sp.csr_array) -> sp.csr_array:
    """The block-diagonal matrix with one of the two blocks at each position."""
    here = is_type4.astype(np.float64)
    return sp.csr_array(sp.kron(sp.diags_array(1.0 - here), type2) + sp.kron(sp.diags_array(here), type4))


def _mirror(size: int) -> sp.csr_array:
    return sp.eye_array(size, format="csr")[::-1]


def _before_type2(size: int) -> sp.csr_array:
    """x to (s, d), in the notation of `dct`."""
    return _SQRT_HALF * _butterfly(_mirror(size // 2))


def _before_type4(size: int) -> sp.csr_array:
    """x to (u, w), in the notation of `dct`."""
    j = np.arange(size // 2)
    angle = np.pi * (2 * j + 1) / (4 * size)
    cos, sin = sp.diags_array(np.cos(angle)), sp.diags_array(np.sin(angle))
    sign, mirror = sp.diags_array(1.0 - 2.0 * (j % 2)), _mirror(size // 2)
    return sp.block_array([[cos, sin @ mirror], [sign @ sin, -sign @ cos @ mirror]], format="csr")


def _after_type2(size: int) -> sp.csr_array:
    """The permutation that moves the first half to the even and the second half to the odd positions."""
    interleaved = np.arange(size).reshape(2, -1).T.reshape(size, 1)
    return _from_rows(interleaved, np.ones((size, 1)))


def _after_type4(size: int) -> sp.csr_array:
    """(U, W) to X, in the notation of `dct`."""
    row = np.arange(size)
    # Row 2l or 2l−1 holds U_l, in column l, and W_{h−l}, in column 2h − l. The first row and the last have
    # one entry: there U_l is U_0, and the column of U_h is that of W_0.
    u_column = (row + 1) // 2
    single = (row == 0) | (row == size - 1)
    u_weight = np.where(single, 1.0, _SQRT_HALF)
    w_weight = np.where(single, 0.0, np.where(row % 2, _SQRT_HALF, -_SQRT_HALF))
    return _from_rows(np.stack((u_column, -u_column % size), axis=1), np.stack((u_weight, w_weight), axis=1))


def _cosine_from_hartley(n: int) -> SparseProduct:
    """The cosine transform of any size from the Hartley transform, as `dct` has it."""
    k = np.arange(n)
    angle = np.pi * k / (2 * n)
    norm = np.sqrt(np.where(k == 0, 1.0, 2.0) / n)
    weights = norm / 2 * np.array([np.cos(angle) - np.sin(angle), np.cos(angle) + np.sin(angle)])
    last_step = _without_zeros(_from_rows(np.stack([k, -k % n], axis=1), weights.T))
    order = np.concatenate([k[::2], k[1::2][::-1]])
    *stages, first_step = hartley(n).factors
    return SparseProduct([last_step, *stages, sp.csr_array(first_step) @ sp.eye_array(n, format="csr")[order]])
