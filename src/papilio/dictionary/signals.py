"""The signals of a learner: held in memory, or passed over where they are.

A learner sees them in two ways: ``start``, all signals or a random sample of them in memory, to start from; and
`summary`, sums over all signals with new codes.
"""

from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import scipy.sparse as sp

from ..coding import Coder
from ..linalg import frobenius
from ..operators import SparseProduct
from ..results import History
from ..runtime.checkpoint import Checkpoint, random_from_arrays, random_to_arrays
from ..samples import Samples, passed_over
from ..solvers.palm import Run
from ..typing import Array
from .atoms import Learned, in_range, relative, residuals_of, scaled, unit_for
from .statistics import Summary, Task, from_arrays, merged, summarised, summary_of, to_arrays

_SAMPLE, _SAMPLE_PER_ATOM = 50_000, 200  # signals that are enough to start from


def enough(n_components: int) -> int:
    """So many signals, drawn at random, that more would not change a start much."""
    return max(_SAMPLE, _SAMPLE_PER_ATOM * n_components)


class Held:
    """Signals in memory, divided by a power of two where their squares might leave the number range."""

    n_passes = 0  # over all signals after a start from a sample: that is all of them
    latest: Summary | None = None

    def __init__(self, rows: Array, n_nonzero_coefs: int) -> None:
        self.rows, self.unit = in_range(rows)
        self.n_nonzero_coefs = n_nonzero_coefs
        self.codes: sp.csc_array | None = None  # in what was learned

    @property
    def start(self) -> "Held":
        """What to start from."""
        return self

    def part(self, rows: Array) -> "Held":
        """Some of the signals."""
        part = copy(self)
        part.rows = rows
        return part

    def summary(self, dictionary: SparseProduct | Array, n_worst: int = 0) -> Summary:
        """Sums over all signals with new codes in a dictionary (d, a)."""
        atoms, self.codes = self._coded(dictionary)
        return summary_of(self.rows, atoms, self.codes, n_worst)

    def error(self, dictionary: SparseProduct | Array) -> float:
        """The relative error of new codes in a dictionary (d, a)."""
        return relative(residuals_of(self.rows, *self._coded(dictionary)), frobenius(self.rows))

    def _coded(self, dictionary: SparseProduct | Array) -> tuple[Array, sp.csc_array]:
        """The atoms, one a row, and the codes."""
        dictionary = dictionary.astype(self.rows.dtype)
        dense = dictionary.toarray() if isinstance(dictionary, SparseProduct) else dictionary
        return np.ascontiguousarray(dense.T), Coder(dictionary).code(self.rows.T, self.n_nonzero_coefs)


class Streamed:
    """Signals that are passed over, part by part, and a sample of them in memory."""

    n_passes = 4

    def __init__(
        self,
        samples: Samples,
        n_nonzero_coefs: int,
        n_components: int,
        random: Any,
        run: Run,
        checkpoint: Checkpoint,
    ) -> None:
        self.n_nonzero_coefs = n_nonzero_coefs
        self._samples = samples
        self._run = run
        self._checkpoint = checkpoint
        self._passes = 0
        self.latest: Summary | None = None  # of all signals in what was learned
        saved = checkpoint.saved()
        self.seed = int(saved["sample_seed"]) if "sample_seed" in saved else random.randint(2**31 - 1)
        self._kept = _groups_from(saved)
        drawn = _drawn(len(samples), enough(n_components), self.seed)
        scan = passed_over(samples, _scanned, drawn, _scans_merged, tick=self._scan_tick)
        self.unit = unit_for(scan.largest)
        self.contents = scan.contents
        self.start = Held(scaled(scan.rows, self.unit), n_nonzero_coefs)

    def summary(self, dictionary: SparseProduct | Array, n_worst: int = 0) -> Summary:
        """Sums over all signals with new codes in a dictionary (d, a)."""
        self._passes += 1
        kept, self._kept = self._kept, {}
        phase = f"pass {self._passes}"

        def tick(done: int, total: int) -> bool:
            self._checkpoint.extend(lambda: _groups_to(kept))
            return self._run.tick(phase, done, total)

        task = Task(dictionary, self.n_nonzero_coefs, n_worst, self.unit)
        return passed_over(self._samples, summarised, task, merged, tick=tick, kept=kept)

    def _scan_tick(self, done: int, total: int) -> bool:
        self._run.tick("scan", done, total)
        return False  # there would be nothing to return


Data = Held | Streamed


def as_learned(data: Held, dictionary: Any, run: Run) -> Learned:
    """The result of a learner, with the codes of the signals as they were given."""
    codes = data.codes
    if codes is None:
        codes = Coder(dictionary).code(data.rows.T, data.n_nonzero_coefs)
    return Learned(dictionary, codes * data.unit, run.history)


def opened(
    samples: Samples,
    n_nonzero_coefs: int,
    n_components: int,
    random: Any,
    run: Run,
    checkpoint: Checkpoint,
    *,
    can_hold: bool = False,
) -> Data:
    """The signals of a run: held in memory with ``can_hold``, or where a sample would hold all of them."""
    data: Data
    if len(samples) <= enough(n_components) or can_hold:
        data = Held(samples.load(), n_nonzero_coefs)
        start, contents = "all samples", crc32(data.rows.data) if checkpoint.is_kept else 0
    else:
        data = Streamed(samples, n_nonzero_coefs, n_components, random, run, checkpoint)
        start, contents = "some samples", data.contents
    checkpoint.require(samples=samples.shape, dtype=samples.dtype, start=start, contents=f"{contents:08x}")
    if saved := checkpoint.saved():
        random_from_arrays(random, saved)
        run.resume(History.from_arrays(saved))
    seed = {"sample_seed": np.array(data.seed)} if isinstance(data, Streamed) else {}
    checkpoint.always(lambda: {**seed, **random_to_arrays(random), **run.history.to_arrays()}, lambda: run.stopped)
    return data


def _drawn(count: int, wanted: int, seed: int) -> Array:
    """The numbers of the samples that are drawn, in order."""
    from sklearn.utils.random import sample_without_replacement  # needs no permutation of a billion

    return np.sort(sample_without_replacement(count, min(wanted, count), random_state=seed))


class _Scan(NamedTuple):
    """A first look at samples: the largest magnitude, a checksum, and those that were drawn."""

    largest: float
    contents: int
    rows: Array


def _scanned(blocks: Any, drawn: Array) -> _Scan:
    largest, contents, rows = 0.0, 0, []
    for start, block in blocks:
        largest = max(largest, float(np.abs(block).max(initial=0)))
        contents = crc32(block, contents)
        first, last = np.searchsorted(drawn, [start, start + len(block)])
        rows.append(block[drawn[first:last] - start])
    return _Scan(largest, contents, np.concatenate(rows) if rows else np.zeros((0, 0)))


def _scans_merged(scans: Sequence[_Scan]) -> _Scan:
    largest = max(scan.largest for scan in scans)
    contents = crc32(np.array([scan.contents for scan in scans]).data)
    pieces = [scan.rows for scan in scans if len(scan.rows)]
    return _Scan(largest, contents, np.concatenate(pieces) if pieces else scans[0].rows)


def _groups_to(kept: dict[int, Summary]) -> dict[str, Any]:
    """The groups of an unfinished pass, for a file."""
    arrays: dict[str, Any] = {"groups": np.array(sorted(kept), dtype=np.int64)}
    for i, summary in kept.items():
        arrays |= to_arrays(f"group_{i}", summary)
    return arrays


def _groups_from(arrays: dict[str, Array]) -> dict[int, Summary]:
    numbers = arrays["groups"].tolist() if "groups" in arrays else []
    return {i: from_arrays(f"group_{i}", arrays) for i in numbers}
