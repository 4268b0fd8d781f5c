"""A MEG gain matrix made fast: error against complexity, and localisation of two sources."""

import multiprocessing
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.resources import as_file, files
from importlib.util import find_spec
from math import ceil, isnan
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple, TypeVar
from zipfile import ZipFile

import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from papilio import SparseProduct, factorize, omp
from papilio.coding import Atoms, omp_codes
from papilio.linalg import column_norms, frobenius
from papilio.typing import Array

from .harness import (
    Claim,
    Ledger,
    OnProgress,
    Preset,
    Row,
    Rows,
    claims_table,
    made_by,
    markdown_table,
    new_figure,
    read_meta,
    read_table,
    rounded,
    run_trials,
    save,
    verdict,
    write_text,
)

TITLE = "A MEG gain matrix: error against complexity, and localisation of two sources"

SETTINGS = {
    # Without the package tvb-data (the extra "meg"), the matrix is a simulated one of this size.
    "origin": "tvb-data",
    "n_sensors": 248,
    "n_sources": 16384,
    # How many times fewer entries than the dense matrix has, and for which of these sources are located.
    "ratios": [6, 8, 12, 16, 25],
    "located": [6, 8, 16, 25],
    # Distances between two sources, in centimetres; 500 draws for each.
    "ranges": [[1, 5], [5, 8], [8, 100]],
    "draws": 500,
    # Signals that are coded one at a time, and how often times are taken, of which the shortest counts.
    "one_by_one": 100,
    "timing_rounds": 3,
    # pyfaust, where it is installed: for which ratios, and seconds after which it is stopped.
    "peer_ratios": [25],
    "peer_seconds": 1200.0,
    "seed": 0,
}

PRESETS = {
    "paper": Preset("248 sensors and 16,384 sources; most of the time is pyfaust's, where it is installed", 15),
    "small": Preset(
        "the same without pyfaust and with 100 draws",
        4,
        {
            "draws": 100,
            "peer_ratios": [],
        },
    ),
    "tiny": Preset(
        "a simulated matrix of 12 sensors and 300 sources",
        0.3,
        {
            "origin": "simulated",
            "n_sensors": 12,
            "n_sources": 300,
            "ratios": [3],
            "located": [3],
            "draws": 10,
            "one_by_one": 5,
            "timing_rounds": 1,
            "peer_ratios": [],
        },
    ),
}
SAMPLE: dict[str, Any] = {"peer_ratios": []}
MEASURED: tuple[str, ...] = ()


# -- a simulated gain matrix -----------------------------------------------------------------------------------

_PERMEABILITY_OVER_4_PI = 1e-7
_CORTEX, _FOLDS, _DEPTH, _PITCH = 0.075, 40, 0.008, 14.0  # mean radius, waves, their depth, and waves per 2π
_HELMET, _BASELINE = 0.11, 0.05  # radius of the inner coils, and the distance of the outer ones from them
_LOWEST_SOURCE, _LOWEST_SENSOR = -0.5, -0.3  # height over the radius


def dipole_field(places: Array, moments: Array, points: Array) -> Array:
    """The magnetic field at ``points`` (p, 3) outside of a conducting sphere around the origin, in tesla.

    For a dipole with moment Q at r₀, and a = r − r₀,

        B(r) = μ₀/(4πF²)·(F·Q×r₀ − (Q×r₀·r)·∇F),  F = |a|(|r||a| + |r|² − r₀·r).

    Parameters
    ----------
    places, moments : (n, 3) array
        The dipoles, inside of the sphere, in metres and ampere metres.
    points : (p, 3) array

    Returns
    -------
    (p, n, 3) array
    """
    r, r0 = points[:, None, :], places[None, :, :]
    a = r - r0
    a_size, r_size = np.linalg.norm(a, axis=2)[..., None], np.linalg.norm(r, axis=2)[..., None]
    along = (a * r).sum(axis=2)[..., None]
    F = a_size * (r_size * a_size + r_size**2 - (r0 * r).sum(axis=2)[..., None])
    gradient = (a_size**2 / r_size + along / a_size + 2 * a_size + 2 * r_size) * r
    gradient = gradient - (a_size + 2 * r_size + along / a_size) * r0
    turned = np.cross(moments, places)[None, :, :]
    return _PERMEABILITY_OVER_4_PI * (F * turned - (turned * r).sum(axis=2)[..., None] * gradient) / F**2


def folded_surface(count: int, seed: int) -> tuple[Array, Array]:
    """Points (count, 3) on a sphere with folds, without its lowest part, and the unit normals there.

    The radius is a sum of waves, R(u) = R₀ + c·Σ sin(wᵢ·u + φᵢ), of the direction u, and the normal is along
    u − ∇R/R with the gradient on the sphere.
    """
    random = np.random.default_rng(seed)
    directions = _cap(count, _LOWEST_SOURCE)
    waves = random.standard_normal((_FOLDS, 3))
    waves *= _PITCH / np.linalg.norm(waves, axis=1)[:, None]
    phases = directions @ waves.T + random.uniform(0, 2 * np.pi, _FOLDS)
    depth = _DEPTH * np.sqrt(2 / _FOLDS)
    radii = _CORTEX + depth * np.sin(phases).sum(axis=1)
    gradients = depth * np.cos(phases) @ waves
    gradients -= (gradients * directions).sum(axis=1)[:, None] * directions
    normals = directions - gradients / radii[:, None]
    return radii[:, None] * directions, normals / np.linalg.norm(normals, axis=1)[:, None]


def simulated_gain(n_sensors: int, n_sources: int, seed: int = 0) -> tuple[Array, Array]:
    """The gain matrix (n_sensors, n_sources) of sources normal to a folded surface, and their places.

    A sensor is a radial gradiometer: the radial field near the head, less that at an outer coil.
    """
    places, normals = folded_surface(n_sources, seed)
    outwards = _cap(n_sensors, _LOWEST_SENSOR)
    inner, outer = (
        np.einsum("pnd,pd->pn", dipole_field(places, normals, radius * outwards), outwards)
        for radius in (_HELMET, _HELMET + _BASELINE)
    )
    return inner - outer, places


def _cap(count: int, lowest: float) -> Array:
    """Directions spread evenly over the sphere above a height, along a spiral of golden angles."""
    heights = 1 - (1 - lowest) * (np.arange(count) + 0.5) / count
    angles = np.pi * (3 - np.sqrt(5)) * np.arange(count)
    radii = np.sqrt(1 - heights**2)
    return np.column_stack([radii * np.cos(angles), radii * np.sin(angles), heights])


# -- the gain matrix -------------------------------------------------------------------------------------------

TVB, SIMULATED = "tvb-data", "simulated"
_MATRIX = "projectionMatrix/projection_meg_276_surface_16k.npy"
_SURFACE = "surfaceData/cortex_16384.zip"


class Gain(NamedTuple):
    """Sensors by sources, with unit columns; where the sources are, in centimetres; and whose matrix it is."""

    matrix: Array
    places: Array
    origin: str


def load_gain(origin: str, n_sensors: int, n_sources: int) -> Gain:
    """The gain matrix of tvb-data if ``origin`` says so and the package is installed, else a simulated one."""
    if origin == TVB and find_spec("tvb_data") is not None:
        matrix, places = _of_tvb_data()
        origin = TVB
    else:
        matrix, places = simulated_gain(n_sensors, n_sources)
        places, origin = 100 * places, SIMULATED
    return Gain(np.ascontiguousarray(matrix / column_norms(matrix)), places, origin)


def _of_tvb_data() -> tuple[Array, Array]:
    """The matrix without the sensors that it has no numbers for, and the vertices of the cortex."""
    folder = files("tvb_data")
    with as_file(folder.joinpath(_MATRIX)) as path:
        matrix = np.load(path, allow_pickle=False)
    with (
        as_file(folder.joinpath(_SURFACE)) as path,
        ZipFile(path) as archive,
        archive.open("vertices.txt") as file,
    ):
        millimetres = np.loadtxt(file)
    return matrix[~np.isnan(matrix).any(axis=1)], millimetres / 10


# -- localisation ----------------------------------------------------------------------------------------------


class Draws(NamedTuple):
    """Pairs of sources (n, 2), and what the sensors measure of each pair, one per column."""

    pairs: Array
    signals: Array


def draw(gain: Gain, low: float, high: float, count: int, seed: Sequence[int]) -> Draws:
    """Pairs of sources with a distance from ``low`` to ``high`` centimetres, and normal amplitudes."""
    random = np.random.default_rng(seed)
    pairs: list[tuple[int, int]] = []
    while len(pairs) < count:
        first = int(random.integers(len(gain.places)))
        distances = np.linalg.norm(gain.places - gain.places[first], axis=1)
        others = np.flatnonzero((distances >= low) & (distances <= high))
        if others.size:
            pairs.append((first, int(random.choice(others))))
    chosen = np.array(pairs)
    amplitudes = random.standard_normal((count, 2))
    return Draws(chosen, np.einsum("msi,si->ms", gain.matrix[:, chosen], amplitudes))


def distances(matrix: Array | SparseProduct, gain: Gain, draws: Draws) -> Array:
    """The distance of each source (n, 2) from the one that was found for it, in the better of both orders.

    A source that was not found, because one atom explains the signal, counts with the distance of the other atom.
    """
    codes = omp(matrix, draws.signals, 2)
    found = np.array([_two_of(codes.indices[slice(*codes.indptr[i : i + 2])]) for i in range(len(draws.pairs))])
    true = gain.places[draws.pairs]
    orders = [np.linalg.norm(true - gain.places[order], axis=2) for order in (found, found[:, ::-1])]
    is_turned = orders[1].sum(axis=1) < orders[0].sum(axis=1)
    return np.where(is_turned[:, None], orders[1], orders[0])


def _two_of(indices: Array) -> tuple[int, int]:
    return int(indices[0]), int(indices[-1])


# -- other packages --------------------------------------------------------------------------------------------

_FACTORS, _PER_ROW, _DECAY = 4, 8, 0.8  # Parameters of "rectmat": number of factors, entries per row, and rho.
_ITERATIONS = 30  # Iterations of each split and each global step, also of "rectmat".


class Fit(NamedTuple):
    """Entries, error, seconds, and those of the processor.

    Without a result, the error is infinite, and the seconds are those of the wait.
    """

    entries: int
    error: float
    seconds: float
    cpu_seconds: float


def has_pyfaust() -> bool:
    """Whether pyfaust is installed."""
    return find_spec("pyfaust") is not None


def rectmat(shape: tuple[int, int], entries: int) -> tuple[int, float]:
    """The parameters k and P with which all factors have ``entries`` together: P·m²·ρ² + 2·s·m + k·n.

    k is the number of entries per column of the last factor. As few as possible, they leave the first factor with
    as many entries as it can hold.
    """
    m, n = shape
    others = (_FACTORS - 2) * _PER_ROW * m
    k = max(ceil((entries - others - m * m) / n), 1)
    return k, (entries - others - k * n) / (m * m * _DECAY ** (_FACTORS - 2))


def factorize_by_pyfaust(matrix: Array, entries: int, limit: float) -> Fit:
    """A fit in a process of its own, which is ended after ``limit`` seconds."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(sender, matrix, entries), daemon=True)
    process.start()
    sender.close()
    try:
        started = receiver.poll(60.0) and receiver.recv()  # without the time that imports take
        begin = perf_counter()
        if started and receiver.poll(limit):
            return Fit(*receiver.recv())
        return Fit(entries, float("inf"), perf_counter() - begin, float("nan"))
    except EOFError:
        raise RuntimeError("pyfaust ended without a result") from None
    finally:
        process.terminate()
        process.join()


def _work(sender: Connection, matrix: Array, entries: int) -> None:
    import numpy as np
    from pyfaust.fact import hierarchical

    parameters = _transposed_rectmat(matrix.shape, entries)
    target = np.asfortranarray(matrix.T)
    sender.send(True)
    begin, cpu_begin = perf_counter(), process_time()
    product = hierarchical(target, parameters, backend=2020)
    seconds = perf_counter() - begin, process_time() - cpu_begin
    error = frobenius(target - product.toarray()) / frobenius(target)
    sender.send((int(product.nnz_sum()), float(error), *seconds))


def _transposed_rectmat(shape: tuple[int, int], entries: int) -> Any:
    """The sets and iterations of "rectmat", mirrored, for the transposed matrix.

    In each iteration pyfaust computes all of XᵀX̂ for its trace. For a wide X that takes half a minute, and almost
    all of the time; for the transposed one it is a small product. The problem is the same, and errors differ
    little.
    """
    from pyfaust.factparams import ConstraintInt, ParamsHierarchical, StoppingCriterion

    m, n = shape
    k, dense = rectmat(shape, entries)
    factors = [ConstraintInt("splin", n, m, k)] + [ConstraintInt("sp", m, m, _PER_ROW * m)] * (_FACTORS - 2)
    residuals = [ConstraintInt("sp", m, m, ceil(dense * m * m * _DECAY**i)) for i in range(_FACTORS - 1)]
    limit = StoppingCriterion(num_its=_ITERATIONS)
    return ParamsHierarchical(factors, residuals, limit, limit, is_update_way_R2L=False, is_fact_side_left=False)


# -- measuring -------------------------------------------------------------------------------------------------

DENSE, PAPILIO, SVD, PYFAUST = "dense", "papilio", "truncated SVD", "pyfaust"
QUANTILES = (5, 25, 50, 75, 95)  # percent: the whiskers, the box and its middle

KEYS = ("kind", "ratio")
Result = TypeVar("Result")


class Case(NamedTuple):
    """A matrix with ``ratio`` times fewer entries than the dense one has."""

    kind: str
    ratio: int


def columns_of(settings: dict[str, Any]) -> tuple[str, ...]:
    """The columns of table.csv: the quantiles of distances are those of each range."""
    places = [quantile_column(i, each) for i in range(len(settings["ranges"])) for each in QUANTILES]
    return (*KEYS, "matrix", "shape", "entries", "error", "method", *places)


def quantile_column(i: int, quantile: int) -> str:
    return f"range_{i + 1}_distance_{quantile}"


_SPEEDS = ("speedup_vector", "speedup_block", "omp_together", "dense_omp_together", "omp_one", "dense_omp_one")
TIMES = (*KEYS, "seconds", "cpu_seconds", *_SPEEDS)


def run(settings: dict[str, Any], folder: Path, jobs: int, progress: OnProgress) -> None:
    """Write table.csv with errors and quantiles of distances, and times.csv; both have a row for each case.

    ``seconds`` are those of the factorization, on one thread, and ``cpu_seconds`` those in which the processor
    worked on it. Those of ``omp`` are per signal: of all signals
    together, and of one at a time with a dictionary that was prepared before; the dense matrix is timed beside
    each product.
    """

    def expected(case: Case) -> list[tuple[str, ...]]:
        return [tuple(map(str, case))]

    cases = cases_of(settings)
    table = Ledger[Case](folder / "table.csv", columns_of(settings), KEYS, expected)
    times = Ledger[Case](folder / "times.csv", TIMES, KEYS, expected)

    @cache
    def known() -> tuple[Gain, list[Draws]]:
        """What all cases share, if any is left."""
        _warm_up()
        gain = load_gain(settings["origin"], settings["n_sensors"], settings["n_sources"])
        return gain, draws_of(settings, gain)

    def work(case: Case) -> tuple[Rows, Rows]:
        return measure(settings, *known(), case)

    # One after the other: times are taken.
    run_trials(cases, work, table, times, jobs=1, progress=progress)


def cases_of(settings: dict[str, Any]) -> list[Case]:
    """All cases, in the order of the tables."""
    peer_ratios = settings["peer_ratios"] if has_pyfaust() else []
    kinds = ((PAPILIO, settings["ratios"]), (SVD, settings["ratios"]), (PYFAUST, peer_ratios))
    return [Case(DENSE, 1), *(Case(kind, ratio) for kind, ratios in kinds for ratio in ratios)]


def draws_of(settings: dict[str, Any], gain: Gain) -> list[Draws]:
    """The same draws for all matrices, a set for each range of distances."""
    return [
        draw(gain, low, high, settings["draws"], (settings["seed"], i))
        for i, (low, high) in enumerate(settings["ranges"])
    ]


def measure(settings: dict[str, Any], gain: Gain, draws: list[Draws], case: Case) -> tuple[Rows, Rows]:
    """The row of a case in the table, and that with its times."""
    row: dict[str, Any] = {**case._asdict(), "matrix": gain.origin, "shape": "×".join(map(str, gain.matrix.shape))}
    times: dict[str, Any] = case._asdict()
    budget, seconds = gain.matrix.size // case.ratio, (0.0, 0.0)
    if case.kind == PAPILIO:
        fit, seconds = _timed(partial(factorize, gain.matrix, complexity=1 / case.ratio))
        row |= {"entries": fit.operator.nnz, "error": rounded(fit.error, 6), "method": fit.method}
        if case.ratio in settings["located"]:
            row |= _located(gain, draws, fit.operator)
            times |= {f"speedup_{name}": rounded(value, 4) for name, value in fit.speedup._asdict().items()}
            times |= _omp_seconds(settings, gain.matrix, fit.operator, draws)
    elif case.kind == SVD:
        (rank, error), seconds = _timed(partial(truncated_svd, gain.matrix, budget))
        row |= {"entries": rank * sum(gain.matrix.shape), "error": rounded(error, 6)}
    elif case.kind == PYFAUST:
        peer = factorize_by_pyfaust(gain.matrix, budget, settings["peer_seconds"])
        seconds = peer.seconds, peer.cpu_seconds
        row |= {"entries": peer.entries, "error": rounded(peer.error, 6)}
    else:
        row |= {"entries": gain.matrix.size, "error": 0.0} | _located(gain, draws, gain.matrix)
    times |= {name: rounded(value, 4) for name, value in zip(("seconds", "cpu_seconds"), seconds, strict=True)}
    return [row], [times]


def _timed(call: Callable[[], Result]) -> tuple[Result, tuple[float, float]]:
    """What ``call`` returns, its seconds, and those of the processor."""
    begin, cpu_begin = perf_counter(), process_time()
    result = call()
    return result, (perf_counter() - begin, process_time() - cpu_begin)


def truncated_svd(matrix: Array, budget: int) -> tuple[int, float]:
    """The largest rank that ``budget`` entries allow, and its relative error."""
    rank = budget // sum(matrix.shape)
    values = np.linalg.svd(matrix, compute_uv=False)
    return rank, frobenius(values[rank:]) / frobenius(values)


def _located(gain: Gain, draws: list[Draws], matrix: Array | SparseProduct) -> dict[str, float]:
    """Quantiles of the distances between sources and what is found for them, for each range."""
    found = {}
    for i, each in enumerate(draws):
        values = np.percentile(distances(matrix, gain, each), QUANTILES)
        for quantile, value in zip(QUANTILES, values, strict=True):
            found[quantile_column(i, quantile)] = rounded(float(value), 5)
    return found


def _omp_seconds(
    settings: dict[str, Any], dense: Array, product: SparseProduct, draws: list[Draws]
) -> dict[str, float]:
    """Seconds per signal, the best of some rounds, in which all take turns."""
    signals = np.hstack([each.signals for each in draws])
    few = signals[:, :: max(signals.shape[1] // settings["one_by_one"], 1)][:, : settings["one_by_one"]]
    ready, dense_ready = Atoms(product), Atoms(dense)
    calls: dict[str, tuple[Callable[[], Any], int]] = {
        "omp_together": (partial(omp, product, signals, 2), signals.shape[1]),
        "dense_omp_together": (partial(omp, dense, signals, 2), signals.shape[1]),
        "omp_one": (partial(_code_each, ready, few), few.shape[1]),
        "dense_omp_one": (partial(_code_each, dense_ready, few), few.shape[1]),
    }
    best = dict.fromkeys(calls, np.inf)
    for _ in range(settings["timing_rounds"]):
        for name, (call, count) in calls.items():
            begin = perf_counter()
            call()
            best[name] = min(best[name], (perf_counter() - begin) / count)
    return {name: rounded(value, 4) for name, value in best.items()}


def _code_each(atoms: Atoms, signals: Array) -> None:
    for i in range(signals.shape[1]):
        omp_codes(atoms, signals[:, i : i + 1], 2)


def _warm_up() -> None:
    """Compile the kernels, which must not count."""
    gain = load_gain(SIMULATED, 8, 128)
    fit = factorize(gain.matrix, complexity=0.25)
    for matrix in (gain.matrix, fit.operator):
        omp(matrix, gain.matrix[:, :40], 2)


# -- claims ----------------------------------------------------------------------------------------------------

PAGE = """\
# A MEG gain matrix

{claims}

The matrix ({matrix}) is {shape}: sensors by sources on the cortex, with unit columns. All results are of one
run on one thread; {made_by}. Where other work ran beside it, the seconds of one core are those that count.
Without the package tvb-data the matrix is a simulated one, with other figures.

## Error against complexity

All entries of all factors count. pyfaust's `hierarchical` has its "rectmat" parameters with four factors, and
as many entries, for the transposed matrix, where it is many times faster; where it was stopped, the time is
that of the wait. Both times of a method include everything but imports and compilation.

{errors}

## Localisation

Two sources with normal amplitudes, {draws} draws for each range of distances between them. Matching pursuit
with two atoms looks for them, in the dense matrix or in a product. Medians, in centimetres, of the distances
between sources and what is found for them, in the better of both orders, with quartiles in brackets. The
signals always come from the dense matrix.

{distances}

## Time of matching pursuit

Per signal, with the product against the dense matrix, beside the speed-ups of the product itself, for one
vector and for a block. One at a time means with a dictionary that was made ready before.

{pursuit}
"""

_MOST_ERRORS = {25: 0.16}  # by how many times fewer entries
_OF_SVD = {6: 0.8, 12: 0.8}
_NOT_DECIDED = "not decided"  # the other method was stopped
_SECONDS, _TIMES_FASTER, _OMP_FASTER, _FARTHER = 60.0, 10.0, 3.0, 0.5

Tables = dict[Case, Row]  # rows of both tables together


def merged(table: list[Row], times: list[Row]) -> Tables:
    """The rows of both tables by their case."""
    found: Tables = {}
    for row in (*table, *times):
        found.setdefault(Case(row["kind"], int(row["ratio"])), {}).update(row)
    return found


def page(found: Tables, meta: dict[str, Any]) -> str:
    """The page, as markdown."""
    settings, dense = meta["settings"], found[Case(DENSE, 1)]
    claims = [*_errors(found), *_peer(found), *_localisation(found, settings), *_pursuit(found)]
    return PAGE.format(
        claims=claims_table(claims, "Claim"),
        shape=dense["shape"],
        matrix=dense["matrix"],
        draws=str(settings["draws"]),
        errors=_error_table(found),
        distances=_distance_table(found, settings),
        pursuit=_pursuit_table(found),
        made_by=made_by(meta),
    )


def _errors(found: Tables) -> list[Claim]:
    claims = []
    for ratio, most in _MOST_ERRORS.items():
        if (ours := found.get(Case(PAPILIO, ratio))) is not None:
            error, seconds = float(ours["error"]), float(ours["cpu_seconds"])
            claims.append(
                Claim(
                    f"{ratio} times fewer entries: an error of at most {most:g}, in less than {_SECONDS:g} s of "
                    "one core.",
                    verdict(error <= most and seconds < _SECONDS),
                    f"{error:.4f} in {seconds:.1f} s",
                )
            )
    for ratio, share in _OF_SVD.items():
        if (ours := found.get(Case(PAPILIO, ratio))) is not None:
            error, other = float(ours["error"]), float(found[Case(SVD, ratio)]["error"])
            claims.append(
                Claim(
                    f"{ratio} times fewer entries: an error of at most {share:g} times that of the truncated SVD.",
                    verdict(error <= share * other),
                    f"{error:.4f} against {other:.4f}, {error / other:.2f} times",
                )
            )
    return claims


def _peer(found: Tables) -> list[Claim]:
    claims = []
    for case, peer in found.items():
        if case.kind == PYFAUST and (ours := found.get(Case(PAPILIO, case.ratio))) is not None:
            text = f"{case.ratio} times fewer entries: an error below pyfaust's, {_TIMES_FASTER:g} times faster."
            if peer["error"] == "inf":
                claims.append(Claim(text, _NOT_DECIDED, f"no result after {_seconds(float(peer['seconds']))}"))
                continue
            faster = float(peer["cpu_seconds"]) / float(ours["cpu_seconds"])
            is_better = float(ours["error"]) < float(peer["error"]) and faster >= _TIMES_FASTER
            figures = f"{_error_of(ours)} against {_error_of(peer)}, {faster:.0f} times"
            claims.append(Claim(text, verdict(is_better), figures))
    return claims


def _localisation(found: Tables, settings: dict[str, Any]) -> list[Claim]:
    ratio, last = min(settings["located"]), len(settings["ranges"]) - 1
    ours, dense = (
        float(found[case][quantile_column(last, 50)]) for case in (Case(PAPILIO, ratio), Case(DENSE, 1))
    )
    return [
        Claim(
            f"Sources more than {settings['ranges'][last][0]:g} cm apart, {ratio} times fewer entries: the median "
            f"distance is at most {_FARTHER:g} cm above the dense matrix's.",
            verdict(ours <= dense + _FARTHER),
            f"{ours:.2f} cm against {dense:.2f} cm",
        )
    ]


def _pursuit(found: Tables) -> list[Claim]:
    timed = [case for case, row in found.items() if row.get("omp_together")]
    if not timed:
        return []
    case = max(timed, key=lambda case: case.ratio)
    together, one = _omp_gains(found[case])
    return [
        Claim(
            f"Matching pursuit is at least {_OMP_FASTER:g} times faster with {case.ratio} times fewer entries.",
            verdict(min(together, one) >= _OMP_FASTER),
            f"{together:.1f} times for all signals together, {one:.1f} times for one at a time",
        )
    ]


def _omp_gains(row: Row) -> tuple[float, float]:
    """How many times faster matching pursuit is: for all signals together, and one by one."""
    return (
        float(row["dense_omp_together"]) / float(row["omp_together"]),
        float(row["dense_omp_one"]) / float(row["omp_one"]),
    )


def _error_of(row: Row) -> str:
    return "no result" if row["error"] == "inf" else f"{float(row['error']):.4f}"


def _seconds_of(row: Row) -> str:
    return ("more than " if row["error"] == "inf" else "") + _seconds(float(row["seconds"]))


def _seconds(value: float) -> str:
    return "" if isnan(value) else f"{value:.{1 if value < 100 else 0}f} s"


def _error_table(found: Tables) -> str:
    rows = [
        (
            case.kind,
            str(case.ratio),
            f"{int(row['entries']):,}",
            _error_of(row),
            row["method"],
            _seconds_of(row),
            _seconds(float(row["cpu_seconds"])),
        )
        for case, row in found.items()
        if case.kind != DENSE
    ]
    return markdown_table(
        ("", "fewer entries", "entries", "error", "method", "time", "of one core"), rows, "lrrrl"
    )


def _distance_table(found: Tables, settings: dict[str, Any]) -> str:
    ranges = settings["ranges"]
    headings = ("matrix", *(f"{low:g} to {high:g} cm" for low, high in ranges[:-1]), f"above {ranges[-1][0]:g} cm")
    rows = [
        (
            "dense" if case.kind == DENSE else f"{case.ratio} times fewer",
            *(
                "{:.2f} ({:.2f}, {:.2f})".format(*(float(row[quantile_column(i, each)]) for each in (50, 25, 75)))
                for i in range(len(ranges))
            ),
        )
        for case, row in found.items()
        if row[quantile_column(0, 50)]
    ]
    return markdown_table(headings, rows, "l")


def _pursuit_table(found: Tables) -> str:
    rows = []
    for case, row in found.items():
        if row.get("omp_together"):
            together, one = _omp_gains(row)
            dense, ours = (
                [f"{1e3 * float(row[prefix + name]):.2f} ms" for name in ("omp_together", "omp_one")]
                for prefix in ("dense_", "")
            )
            rows.append(
                (
                    f"{case.ratio} times fewer",
                    f"{float(row['speedup_vector']):.1f}×",
                    f"{float(row['speedup_block']):.1f}×",
                    f"{ours[0]} against {dense[0]}, {together:.1f}×",
                    f"{ours[1]} against {dense[1]}, {one:.1f}×",
                )
            )
    return markdown_table(
        ("matrix", "one vector", "256 vectors", "all signals together", "one signal at a time"), rows, "l"
    )


# -- figures ---------------------------------------------------------------------------------------------------

_LOOKS: dict[str, dict[str, Any]] = {
    SVD: {"color": "#000000", "marker": "s", "linestyle": ":"},
    PYFAUST: {"color": "#E69F00", "marker": "^", "linestyle": "--"},
    PAPILIO: {"color": "#0072B2", "marker": "o", "linestyle": "-"},
}


def figure_of(rows: list[Row], settings: dict[str, Any]) -> Any:
    """A panel of errors, and one of boxes for each range of distances."""
    ranges = settings["ranges"]
    figure = new_figure(4.6 + 2.9 * len(ranges), 4.4)
    first, *others = figure.subplots(1, 1 + len(ranges), width_ratios=[1.5] + [1] * len(ranges))
    _draw_errors(first, rows)
    located = [row for row in rows if row[quantile_column(0, QUANTILES[0])]]
    for i, ax in enumerate(others):
        _draw_boxes(ax, located, i)
        low, high = ranges[i]
        is_last = i == len(ranges) - 1
        title = f"more than {low:g} cm apart" if is_last else f"{low:g} to {high:g} cm apart"
        ax.set_title(title, fontsize="medium")
        ax.sharey(others[0])
    others[0].set_ylabel("distance of the found source, cm")
    highest = max(float(row[quantile_column(i, QUANTILES[-1])]) for row in located for i in range(len(ranges)))
    others[0].set_ylim(-0.03 * highest, 1.05 * highest or 1.0)
    others[len(others) // 2].set_xlabel("how many times fewer entries than the dense matrix")
    return figure


def _draw_errors(ax: Any, rows: list[Row]) -> None:
    for kind, look in _LOOKS.items():
        points = [row for row in rows if row["kind"] == kind and row["error"] != "inf"]
        if points:
            ratios = [int(row["ratio"]) for row in points]
            ax.plot(ratios, [float(row["error"]) for row in points], label=kind, **look)
    ratios = sorted({int(row["ratio"]) for row in rows if row["kind"] != DENSE})
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.xaxis.set_major_locator(FixedLocator(ratios))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.grid(color="0.92", zorder=0)
    ax.set_xlabel("how many times fewer entries")
    ax.set_ylabel("relative error")
    ax.set_title(f"{rows[0]['shape']}, {rows[0]['matrix']}", fontsize="medium")
    ax.legend(frameon=False)


def _draw_boxes(ax: Any, rows: list[Row], i: int) -> None:
    """From the 5th to the 95th percent, with the quartiles and the median."""
    names = ("whislo", "q1", "med", "q3", "whishi")
    boxes = [
        dict(zip(names, (float(row[quantile_column(i, each)]) for each in QUANTILES), strict=True)) for row in rows
    ]
    labels = ["dense" if row["kind"] == DENSE else row["ratio"] for row in rows]
    drawn = ax.bxp(
        boxes, showfliers=False, widths=0.6, patch_artist=True, medianprops={"color": "#D55E00", "lw": 2}
    )
    for patch, row in zip(drawn["boxes"], rows, strict=True):
        patch.set_facecolor("0.85" if row["kind"] == DENSE else "#9ECAE1")
    ax.set_xticks(range(1, len(rows) + 1), labels)
    ax.grid(axis="y", color="0.92", zorder=0)


def write(folder: Path) -> list[Path]:
    """Draw figure.png and compare the tables in ``folder`` with the claims."""
    meta, table = read_meta(folder), read_table(folder / "table.csv")
    found = merged(table, read_table(folder / "times.csv"))
    return [
        save(figure_of(table, meta["settings"]), folder / "figure.png"),
        write_text(folder / "claims.md", page(found, meta)),
    ]
