"""The fast transforms against independent implementations, and their structure against the literature."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import pywt
import scipy.fft
import scipy.linalg
import scipy.sparse as sp

import papilio as pp
from papilio import SparseProduct
from papilio.transforms import dct, dft, haar, hadamard, hartley, wavelet

from .helpers import as_array

SIZES = [2**k for k in (1, 2, 3, 4, 5, 6, 7, 8, 10)]
TRANSFORMS = [dft, hartley, dct, hadamard, haar, wavelet]
# 211 and 1,009 are large primes; 1,266 is 6 · 211.
OTHER_SIZES = [3, 5, 6, 9, 12, 15, 30, 49, 97, 211, 360, 1001, 1009, 1266]
FILTERS = ["haar", "db2", "db4", "sym8", "coif2"]
FILTERS_AND_SIZES = [(name, n) for name in FILTERS for n in SIZES if n >= pywt.Wavelet(name).dec_len]


def assert_close(actual: Any, expected: Any, tolerance: float = 1e-12) -> None:
    assert actual.shape == expected.shape
    assert np.abs(actual - expected).max() <= tolerance * np.abs(expected).max()


def assert_same_matrix(actual: sp.csr_array, expected: Any) -> None:
    assert_close(as_array(actual), np.asarray(expected), 1e-15)


def signals(n: int, dtype: Any = np.float64) -> Any:
    rng = np.random.default_rng(n)
    real, imaginary = rng.standard_normal((2, n, 3))
    return real + 1j * imaginary if dtype == np.complex128 else real


def pywt_analysis(x: Any, name: str, level: int | None) -> list[Any]:
    return pywt.wavedec(x, name, mode="periodization", level=level, axis=0)


def entries_per_row(factor: Any) -> set[int]:
    return set(np.count_nonzero(as_array(factor), axis=1).tolist())


# -- what they compute ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, *SIZES])
def test_hadamard_is_scipys_matrix_exactly(n: int) -> None:
    transform = hadamard(n)
    assert transform.dtype == np.float64
    np.testing.assert_array_equal(transform.toarray(), scipy.linalg.hadamard(n))


@pytest.mark.parametrize("n", [1, *SIZES, *OTHER_SIZES])
def test_dft_is_scipys_fft_and_its_adjoint_n_times_the_inverse(n: int) -> None:
    transform = dft(n)
    assert transform.dtype == np.complex128
    assert_close(transform.toarray(), scipy.fft.fft(np.eye(n), axis=0))
    x = signals(n, np.complex128)
    assert_close(transform @ x, scipy.fft.fft(x, axis=0))
    assert_close(transform.H @ x, n * scipy.fft.ifft(x, axis=0))


@pytest.mark.parametrize("n", [1, *SIZES, *OTHER_SIZES])
def test_hartley_is_the_difference_of_the_parts_of_scipys_fft_and_n_times_its_own_inverse(n: int) -> None:
    transform = hartley(n)
    assert transform.dtype == np.float64
    spectra = scipy.fft.fft(np.eye(n), axis=0)
    assert_close(transform.toarray(), spectra.real - spectra.imag)
    x = signals(n)
    assert_close(transform.T @ x, transform @ x)
    assert_close(transform @ (transform @ x), n * x)


@pytest.mark.parametrize("n", [1, *SIZES, *OTHER_SIZES])
def test_dct_is_scipys_orthonormal_dct_and_its_adjoint_the_inverse(n: int) -> None:
    transform = dct(n)
    assert transform.dtype == np.float64
    assert_close(transform.toarray(), scipy.fft.dct(np.eye(n), type=2, norm="ortho", axis=0))
    x = signals(n)
    assert_close(transform.H @ x, scipy.fft.idct(x, type=2, norm="ortho", axis=0))


@pytest.mark.parametrize("n", SIZES)
def test_every_factor_of_the_dct_is_orthogonal(n: int) -> None:
    for factor in dct(n).factors:
        assert_close(as_array(factor @ factor.T), np.eye(n), 1e-15)


@pytest.mark.parametrize("n", SIZES)
def test_haar_is_pywavelets_haar_transform_with_all_levels(n: int) -> None:
    x = signals(n)
    coefficients = pywt_analysis(x, "haar", None)
    assert len(coefficients) == n.bit_length()
    assert_close(haar(n) @ x, np.concatenate(coefficients))
    assert haar(n) == wavelet(n, "haar")


@pytest.mark.parametrize(("name", "n"), FILTERS_AND_SIZES)
def test_wavelet_is_wavedec_and_its_adjoint_waverec_at_every_level(name: str, n: int) -> None:
    x = signals(n)
    for level in [None, *range(pywt.dwt_max_level(n, name) + 1)]:
        transform = wavelet(n, name, level)
        coefficients = pywt_analysis(x, name, level)
        assert_close(transform @ x, np.concatenate(coefficients))
        # The coefficients of another signal: waverec of the first one's would only show the inverse.
        others = pywt_analysis(x[::-1] ** 2, name, level)
        synthesis = pywt.waverec(others, name, mode="periodization", axis=0)
        assert_close(transform.H @ np.concatenate(others), synthesis)


@pytest.mark.parametrize("name", [*FILTERS, "bior2.2", "bior4.4", "bior3.1", "rbio3.1"])
@pytest.mark.parametrize(("n", "mode"), [(64, "periodization"), (48, "periodization"), (64, "zero"), (37, "zero")])
def test_analysis_and_synthesis_are_those_of_pywavelets(name: str, n: int, mode: str) -> None:
    x = signals(n)
    for level in range(min(pywt.dwt_max_level(n, name), 4) + 1):
        analysis, synthesis = (wavelet(n, name, level, mode=mode, inverse=each) for each in (False, True))
        coefficients = pywt.wavedec(x, name, mode, level, axis=0)
        assert_close(analysis @ x, np.concatenate(coefficients))
        others = [signals(len(each) + 1)[1:] for each in coefficients]
        # For an odd length, waverec returns one value more.
        assert_close(synthesis @ np.concatenate(others), pywt.waverec(others, name, mode, axis=0)[:n])
        assert_close(synthesis @ (analysis @ x), x, 1e-10)  # PyWavelets rounds its taps.


@pytest.mark.parametrize(("name", "n"), [("db2", 2), ("db4", 4), ("sym8", 8), ("sym8", 64), ("coif2", 16)])
def test_wavelet_taps_wrap_around_short_signals_as_in_pywavelets(name: str, n: int) -> None:
    x = signals(n)
    deepest = n.bit_length() - 1
    with pytest.warns(UserWarning, match="too high"):
        coefficients = pywt_analysis(x, name, deepest)
    assert_close(wavelet(n, name, deepest) @ x, np.concatenate(coefficients))


@pytest.mark.parametrize("n", [1, *SIZES])
@pytest.mark.parametrize("make", [dct, haar, wavelet])
def test_the_adjoint_of_an_orthonormal_transform_is_its_inverse(
    make: Callable[[int], SparseProduct], n: int
) -> None:
    assert_close((make(n).H @ make(n)).toarray(), np.eye(n))


@pytest.mark.parametrize("make", TRANSFORMS)
def test_size_1_is_the_identity(make: Callable[[int], SparseProduct]) -> None:
    assert make(1).toarray() == [[1.0]]
    assert make(1).nnz == 1


# -- how they are built --------------------------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES)
def test_hadamard_has_log_n_factors_of_2n_entries_that_are_kronecker_products(n: int) -> None:
    depth = n.bit_length() - 1
    transform = hadamard(n)
    assert len(transform.factors) == depth
    assert transform.nnz == 2 * n * depth
    for k, factor in enumerate(transform.factors):
        two_by_two = sp.kron(sp.eye_array(2**k), [[1, 1], [1, -1]])
        expected = sp.kron(two_by_two, sp.eye_array(n // 2 ** (k + 1)))
        assert np.count_nonzero(as_array(factor)) == 2 * n
        assert np.count_nonzero(as_array(factor) - expected.toarray()) == 0


@pytest.mark.parametrize("n", SIZES)
def test_dft_has_log_n_stages_of_2n_entries_and_a_permutation(n: int) -> None:
    depth = n.bit_length() - 1
    transform = dft(n)
    assert all(entries_per_row(stage) == {2} for stage in transform.factors[:depth])
    assert all(entries_per_row(rest) == {1} for rest in transform.factors[depth:])
    assert transform.nnz == 2 * n * depth + (n if n > 2 else 0)


@pytest.mark.parametrize("n", SIZES[1:])
def test_hartley_has_radix_4_stages_of_butterflies_and_rows_of_three_or_four_entries(n: int) -> None:
    transform = hartley(n)
    depth = n.bit_length() - 1
    assert transform.nnz <= 2.75 * n * depth
    assert len(transform.factors) == depth + (depth > 2)  # no digits to reverse for 4 = 4¹
    for i in range(0, depth - 1, 2):
        butterfly, sums = transform.factors[i : i + 2]
        size = n >> i
        expected = np.kron(np.eye(n // size), np.kron([[1, 1], [1, -1]], np.eye(size // 2)))
        np.testing.assert_array_equal(butterfly.toarray(), expected)
        assert entries_per_row(sums) <= {1, 2, 3, 4}
        assert sums.nnz <= 3.5 * n


def test_dft_of_size_8_is_three_butterfly_stages_times_the_bit_reversal() -> None:
    *stages, permutation = dft(8).factors
    assert len(stages) == 3
    for stage, half in zip(stages, [4, 2, 1], strict=True):
        twiddles = np.diag([np.exp(-2j * np.pi * j / (2 * half)) for j in range(half)])
        block = np.block([[np.eye(half), twiddles], [np.eye(half), -twiddles]])
        assert_same_matrix(stage, np.kron(np.eye(4 // half), block))
        assert entries_per_row(stage) == {2}
    assert_same_matrix(permutation, np.eye(8)[[0, 4, 2, 6, 1, 5, 3, 7]])


@pytest.mark.parametrize("n", SIZES)
def test_dct_has_at_most_4_n_log_n_entries_at_most_two_in_a_row(n: int) -> None:
    depth = n.bit_length() - 1
    transform = dct(n)
    assert transform.nnz <= 4 * n * depth
    assert len(transform.factors) == 2 * depth - 1
    assert all(entries_per_row(right) == {2} for right in transform.factors[depth - 1 :])
    assert all(entries_per_row(left) <= {1, 2} for left in transform.factors[: depth - 1])


# -- bad input -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", TRANSFORMS)
@pytest.mark.parametrize(
    ("n", "error"), [(0, ValueError), (-4, ValueError), (2.5, TypeError), ("8", TypeError), (True, TypeError)]
)
def test_a_size_that_is_no_positive_integer_is_refused(
    make: Callable[[Any], SparseProduct], n: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"^n must be .*, got"):
        make(n)


@pytest.mark.parametrize("make", [hadamard, haar])
@pytest.mark.parametrize("n", [3, 12])
def test_a_size_that_is_no_power_of_two_is_refused(make: Callable[[Any], SparseProduct], n: int) -> None:
    with pytest.raises(ValueError, match=r"^n must be a power of two, got"):
        make(n)


@pytest.mark.parametrize("name", ["db0", "nonsense", "gaus1", "morl", "", None, 4, np.ones(2)])
def test_a_name_that_is_no_discrete_wavelet_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match=r"^name must be a discrete wavelet .*, got"):
        wavelet(16, name)


@pytest.mark.parametrize(
    ("level", "error"), [(5, ValueError), (-1, ValueError), (1.0, TypeError), (True, TypeError)]
)
def test_a_level_outside_0_to_log_n_is_refused(level: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^level must be .* at least 0 and at most 4, got"):
        wavelet(16, level=level)


@pytest.mark.parametrize(("n", "most"), [(12, 2), (15, 0)])
def test_on_the_circle_the_size_must_be_halved_at_each_level(n: int, most: int) -> None:
    with pytest.raises(ValueError, match=rf"^level must be .* at most {most}, got"):
        wavelet(n, "haar", most + 1)
    assert wavelet(n, "haar") == wavelet(n, "haar", most)
    assert wavelet(n, "haar", mode="zero").shape[1] == n


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^mode must be one of 'periodization', 'zero', got 'symmetric'"):
        wavelet(16, mode="symmetric")


def test_db4_needs_no_pywavelets_so_that_factorize_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [wavelet(n) for n in SIZES]
    monkeypatch.setitem(sys.modules, "pywt", None)
    assert [wavelet(n) for n in SIZES] == expected
    matrix = np.random.default_rng(0).standard_normal((32, 32))
    assert pp.factorize(matrix, complexity=0.5, method="transform").error < 1
    with pytest.raises(ImportError, match="pip install PyWavelets"):
        wavelet(16, "sym8")
