"""SparseProducts for other programs: .mat files of FAµST, and objects of pyfaust and PyLops.

The packages are replaced by stand-ins, and used where they are installed.
"""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import papilio as pp
from papilio import SparseProduct

from .helpers import DTYPES, as_array, gaussian

SPARSE = np.array([[0, 2.5, 0, -1], [3, 0, 0, 0], [0, 0.5, 1, 0]])


def operator(dtype: Any, scale: float = 1.0) -> SparseProduct:
    """3×4×2: a sparse factor and a dense one."""
    turn = 1 + 2j if np.dtype(dtype).kind == "c" else 1
    return SparseProduct([(turn * SPARSE).astype(dtype), gaussian((4, 2), dtype)], scale)


# -- .mat files of FAµST -------------------------------------------------------------------------------


def cells(*factors: Any) -> Any:
    """A 1×M object array, which SciPy writes as a cell array."""
    made = np.empty((1, len(factors)), dtype=object)
    for i, factor in enumerate(factors):
        made[0, i] = factor
    return made


def write(path: Path, *factors: Any, **options: Any) -> Path:
    scipy.io.savemat(path, {"faust_factors": cells(*factors), "note": "words", "M": np.eye(2)}, **options)
    return path


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["f.mat", "without suffix", "f.npz"])
def test_mat_files_of_faust_are_read_whatever_their_name(tmp_path: Path, packed: bool, name: str) -> None:
    dense = gaussian((4, 2))
    path = write(tmp_path / "f.mat", sp.csc_matrix(SPARSE), dense, do_compression=packed).rename(tmp_path / name)
    assert pp.load(path) == SparseProduct([SPARSE, dense])


@pytest.mark.parametrize("form", [np.asarray, sp.csc_matrix])
@pytest.mark.parametrize("dtype", [*DTYPES, np.int16, np.uint8])
def test_factors_in_mat_files_are_read_in_their_dtype(tmp_path: Path, form: Any, dtype: Any) -> None:
    matrix = (SPARSE * (1 + 2j)).astype(dtype) if np.dtype(dtype).kind == "c" else SPARSE.astype(dtype)
    op = pp.load(write(tmp_path / "f.mat", form(matrix)))
    assert op == SparseProduct([matrix])
    assert op.dtype == (dtype if np.dtype(dtype).kind in "fc" else np.float64)


def stored_factors(path: Path) -> list[Any]:
    return [as_array(factor) for factor in scipy.io.loadmat(path)["faust_factors"][0]]


@pytest.mark.filterwarnings("ignore:The default value for `spmatrix`:DeprecationWarning")  # SciPy's reader warns.
@pytest.mark.parametrize("factors", [[SPARSE], [SPARSE, gaussian((4, 2))], [[[2.0]]], [np.zeros((2, 3))]])
def test_mat_files_hold_a_cell_array_of_the_factors(tmp_path: Path, factors: Any, dtype: Any) -> None:
    op = SparseProduct([np.asarray(factor).astype(dtype) for factor in factors])
    op.save(tmp_path / "F.MAT")
    stored = stored_factors(tmp_path / "F.MAT")
    assert len(stored) == len(op.factors)
    for written, factor in zip(stored, op.factors, strict=True):
        assert written.dtype == dtype
        np.testing.assert_array_equal(written, as_array(factor))
    assert pp.load(tmp_path / "F.MAT") == op


def test_the_command_line_reads_mat_files_of_faust_as_operators(papilio: Any) -> None:
    from papilio.cli import inputs

    write(Path("f.mat"), SPARSE, gaussian((4, 2)))
    assert inputs.read("f.mat") == SparseProduct([SPARSE, gaussian((4, 2))])
    np.testing.assert_array_equal(inputs.read("f.mat:M"), np.eye(2))
    code, out, err = papilio("info", "f.mat")
    assert (code, err) == (0, "")
    assert "3×2" in out


# -- stand-ins for the packages ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("package", "call"), [("pylops", lambda op: op.to_pylops()), ("pyfaust", lambda op: op.to_faust())]
)
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, package: str, call: Any) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"pip install {package}"):
        call(operator(np.float64))


class StandIn:
    """What `from_faust` needs of a Faust, and what `to_faust` makes."""

    def __init__(self, factors: list[Any]) -> None:
        self._factors = factors

    def numfactors(self) -> int:
        return len(self._factors)

    def factors(self, i: int) -> Any:
        return self._factors[i]


def test_factors_and_scale_go_there_and_back(monkeypatch: pytest.MonkeyPatch, dtype: Any) -> None:
    monkeypatch.setitem(sys.modules, "pyfaust", SimpleNamespace(Faust=StandIn))  # type: ignore[arg-type]
    faust = operator(dtype).to_faust()
    assert isinstance(faust.factors(0), sp.csr_matrix)
    assert isinstance(faust.factors(1), np.ndarray)
    there = np.result_type(dtype, np.complex128) if np.dtype(dtype).kind == "c" else dtype
    assert pp.operators.from_faust(faust) == operator(dtype).astype(there)
    scaled = pp.operators.from_faust(operator(dtype, -0.5).to_faust())
    assert scaled == SparseProduct([-0.5 * operator(dtype).factors[0], operator(dtype).factors[1]]).astype(there)
    with pytest.raises(ValueError, match="scale"):
        SparseProduct([[[1e300]], [[1e300]]], 1e300).to_faust()


# -- the packages --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_pylops_dot_test_and_dimensions(dtype: Any) -> None:
    pylops = pytest.importorskip("pylops", reason="PyLops is not installed")
    from pylops.utils import dottest

    op = pp.transforms.random_product((12, 8), 2, complexity=0.6, dtype=dtype, random_state=0)
    there = op.to_pylops(dims=(2, 4), dimsd=(3, 4))
    assert isinstance(there, pylops.LinearOperator)
    assert (there.dims, there.dimsd, there.dtype) == ((2, 4), (3, 4), dtype)
    complexflag = 3 if op.dtype.kind == "c" else 0
    assert dottest(there, 12, 8, complexflag=complexflag, rtol=1e-4 if np.finfo(dtype).bits == 32 else 1e-10)
    x = gaussian((2, 4), dtype)
    np.testing.assert_allclose(there @ x, (op @ x.ravel()).reshape(3, 4), rtol=1e-6)
    np.testing.assert_allclose((there.H * there).todense(), (op.H @ op).toarray(), atol=1e-5)


def test_pylops_solvers_take_it() -> None:
    pylops = pytest.importorskip("pylops", reason="PyLops is not installed")
    op = pp.transforms.random_butterfly(16, random_state=1) + 4 * SparseProduct([np.eye(16)])
    x = gaussian((16,))
    blurred = op.to_pylops() * pylops.Identity(16)
    np.testing.assert_allclose(blurred / (op @ x), x, atol=1e-6)


def _child(code: str, *words: str) -> str:
    """What a new process prints; pyfaust brings its own OpenMP, which does not always live with numba's."""
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", code, *words], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


def _require_pyfaust() -> None:
    from importlib.util import find_spec

    if find_spec("pyfaust") is None:
        pytest.skip("pyfaust is not installed")


THERE_AND_BACK = """
import sys
import numpy as np, pyfaust, scipy.sparse as sp
import papilio as pp
for kind in (np.float32, np.float64, np.complex128):
    rng = np.random.default_rng(0)
    turn = 1 + 2j if np.dtype(kind).kind == "c" else 1
    sparse = (turn * np.where(rng.random((6, 8)) < 0.4, rng.standard_normal((6, 8)), 0)).astype(kind)
    dense = (turn * rng.standard_normal((8, 3))).astype(kind)
    for scale in (1.0, -0.5):
        op = pp.SparseProduct([sparse, dense], scale)
        faust = op.to_faust()
        assert faust.shape == op.shape and faust.dtype == kind, (faust.dtype, kind)
        assert faust.nnz_sum() == op.nnz
        tolerance = 1e-5 if kind == np.float32 else 1e-12
        np.testing.assert_allclose(faust.toarray(), op.toarray(), rtol=tolerance, atol=tolerance)
        back = pp.operators.from_faust(faust)
        assert back == pp.SparseProduct([scale * sparse, dense]), kind
        for turned in (faust.T, faust.conj(), faust.H, faust[1:4], faust[:, [2, 0]]):
            there = pp.operators.from_faust(turned).toarray()
            np.testing.assert_allclose(there, turned.toarray(), rtol=tolerance, atol=tolerance)
single = pp.SparseProduct([np.array([[1 + 1j]], np.complex64)])
assert single.to_faust().dtype == np.complex128
for make in (lambda: pyfaust.wht(16), lambda: pyfaust.dft(16), lambda: pyfaust.rand(7, 9, field="complex")):
    faust = make()
    op = pp.operators.from_faust(faust)
    np.testing.assert_allclose(op.toarray(), faust.toarray(), atol=1e-12)
    assert abs(op.norm(1) - faust.norm(1)) <= 1e-9 * op.norm(1)
    assert abs(op.norm(np.inf) - faust.norm(np.inf)) <= 1e-9 * op.norm(np.inf)
    faust.save(sys.argv[1])
    assert pp.load(sys.argv[1]) == op, "their file"
    op.save(sys.argv[1])
    again = pyfaust.Faust.load_native(sys.argv[1])  # the other reader of 3.41 fails with SciPy 1.17
    np.testing.assert_allclose(again.toarray(), faust.toarray(), atol=1e-12)
    assert pp.operators.from_faust(again) == op
print("done")
"""


@pytest.mark.slow
def test_pyfaust_and_papilio_exchange_operators_and_files(tmp_path: Path) -> None:
    _require_pyfaust()
    assert _child(THERE_AND_BACK, str(tmp_path / "F.mat")).strip() == "done"


def test_from_faust_refuses_other_objects() -> None:
    for value in (3, np.eye(2), operator(np.float64), None):
        with pytest.raises(TypeError, match=r"^faust must be a Faust of pyfaust, got"):
            pp.operators.from_faust(value)


def index_out_of_range() -> Any:
    matrix = sp.csc_array(np.eye(2))
    matrix.indices[1] = 7
    return matrix


WRONG_CELLS = {
    "no factors": ([], "at least one matrix"),
    "text": ([SPARSE, "words"], r"factors\[1\]"),
    "a cell array in a cell": ([cells(SPARSE, SPARSE.T)], r"factors\[0\]"),
    "a struct": ([{"field": SPARSE}], r"factors\[0\]"),
    "no entries": ([np.ones((0, 1))], r"factors\[0\]"),
    "three dimensions": ([np.ones((2, 2, 2))], r"factors\[0\]"),
    "NaN": ([[[np.nan]]], r"factors\[0\]"),
    "factors that do not chain": ([SPARSE, SPARSE], "chain"),
    "an index out of range": ([index_out_of_range()], r"factors\[0\]"),
}


@pytest.mark.parametrize("case", WRONG_CELLS)
def test_cells_that_are_no_factors_are_refused_by_file_and_factor(tmp_path: Path, case: str) -> None:
    factors, message = WRONG_CELLS[case]
    with pytest.raises(ValueError, match=rf"odd\.mat' does not hold a product of factors: .*{message}"):
        pp.load(write(tmp_path / "odd.mat", *factors))


@pytest.mark.parametrize("name", ["op.npy", "op.csv", "op.TXT", "op.mtx", "op.h5", "op.pkl"])
def test_names_of_other_formats_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=rf"^path must end in \.npz.*\{Path(name).suffix.lower()} promises"):
        SparseProduct([SPARSE]).save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []
