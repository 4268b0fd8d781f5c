"""What the states of learners in a checkpoint must hold, so that no phase begins with anything else."""

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from ..linalg import column_norms
from ..operators import SparseProduct
from ..results import Status
from ..runtime.layout import Check, array, either, integer, mapping, real, text
from ..solvers.moments import Moments
from ..validation import DTYPES
from .learner import from_state
from .signals import Signals
from .statistics import Statistics

_STATUS = text(*Status)
_LONGEST_ATOM = 1.01  # a norm of one, and rounding


class Layouts(NamedTuple):
    """The layouts of a run whose dictionary has this size, on signals of this dtype.

    ``n_groups`` is the number of groups of parts in a pass, whose sums a state may hold.
    """

    n_features: int
    n_components: int
    dtype: np.dtype[Any]
    n_groups: int

    @classmethod
    def of(cls, signals: Signals, n_components: int) -> "Layouts":
        """Those of a run on these signals."""
        rows = signals.start.rows
        return cls(rows.shape[1], n_components, rows.dtype, signals.n_groups)

    @property
    def atoms(self) -> Check:
        """Atoms, one per row, of unit norm; zero if a base has none near them."""
        layout = array((self.n_components, self.n_features), [self.dtype])

        def check(name: str, value: Any) -> None:
            layout(name, value)
            if not (column_norms(value.T) < _LONGEST_ATOM).all():
                raise ValueError(f"{name} must have unit norms, got longer ones")

        return check

    @property
    def fading(self) -> Check:
        """An `OnlineState`, whose moments are zero before the first batch."""
        a, d, kinds = self.n_components, self.n_features, self._dtypes
        zero = real(0.0, 0.0)
        return mapping(
            {
                "atoms": self.atoms,
                "gram": either(zero, array((a, a), kinds)),
                "cross": either(zero, array((a, d), kinds)),
                "uses": array((a,), [np.float64]),
                "batches": integer(0),
                "unit": real(np.finfo(float).tiny, np.finfo(float).max),
            }
        )

    def refinement(self, n_rounds: int, n_factors: Collection[int]) -> Check:
        """A state of the refinement, or what it begins with."""
        dictionary = self.dictionary(n_factors)
        both = {"dictionary": dictionary, "first": dictionary}
        return either(
            self.entered(n_factors), mapping({"round": integer(0, n_rounds), "error": real(0.0), **both})
        )

    def dictionary(self, n_factors: Collection[int]) -> Check:
        """A dictionary by `to_state`, with one of these numbers of factors; 0 stands for a plain array."""

        def check(name: str, value: Any) -> None:
            found, shape = from_state(value), (self.n_features, self.n_components)
            count = len(found.factors) if isinstance(found, SparseProduct) else 0
            if count not in n_factors or (count == 0 and len(value) > 1):
                raise ValueError(f"{name} must have {' or '.join(map(str, n_factors))} factors, got {count}")
            if count == 0:
                array(shape, self._dtypes)(name, found)
            elif found.shape != shape or found.dtype not in self._dtypes:
                raise ValueError(f"{name} must be {shape} of {self.dtype}, got {found.shape} of {found.dtype}")

        return check

    def entered(self, n_factors: Collection[int]) -> Check:
        """What a phase gets from the one before it."""
        return mapping(
            {"dictionary": self.dictionary(n_factors), "status": _STATUS}, {"levels": integer(0)} | self._groups
        )

    def passes(self, n_passes: int, n_factors: Collection[int]) -> Check:
        """A state of the passes over all signals."""
        dictionary = self.dictionary(n_factors)
        both = {"dictionary": dictionary, "best": dictionary, "found": self._statistics}
        own = mapping({"pass": integer(0, n_passes), "status": _STATUS, **both}, self._groups)
        return either(self.entered(n_factors), own)

    def result(self, n_factors: Collection[int]) -> Check:
        """The result of a run."""
        dictionary = self.dictionary(n_factors)
        return mapping({"dictionary": dictionary, "statistics": self._statistics, "status": _STATUS})

    def hierarchy(self, n_levels: int) -> Check:
        """A state of the hierarchy, in which each level adds a factor."""
        given = mapping({"dictionary": self.dictionary([0])}, self._groups)
        first, later = either(given, self.entered([0])), self.entered(range(1, n_levels + 2))

        def check(name: str, value: Any) -> None:
            levels = value.get("levels")
            if levels is None:
                return first(name, value)
            later(name, value)
            integer(0, n_levels)(f"{name}/levels", levels)
            return self.dictionary([int(levels) + 1])(f"{name}/dictionary", value["dictionary"])

        return check

    @property
    def _dtypes(self) -> list[np.dtype[Any]]:
        """Those of sums and products, which may be wider than the signals, and real in complex runs."""
        return [dtype for dtype in DTYPES if self.dtype.kind == "c" or dtype.kind == "f"]

    @property
    def _groups(self) -> dict[str, Check]:
        sums = mapping({}, {str(i): self._statistics for i in range(self.n_groups)})
        return {"groups": sums} if self.n_groups else {}

    def _statistics(self, name: str, value: Any) -> None:
        """`Statistics` by ``_asdict``."""
        a, d, kinds = self.n_components, self.n_features, self._dtypes
        energy = real(0.0, np.finfo(float).max)
        worst = {"worst": array((None, d), kinds), "badness": array((None,), [np.float64])}
        sums = {"gram": array((a, a), kinds), "cross": array((a, d), kinds), "uses": array((a,), [np.float64])}
        mapping({**sums, "energy": energy, "residual": energy, **worst})(name, value)
        found = Statistics.from_state(value)
        if len(found.worst) != len(found.badness):
            raise ValueError(f"{name} must have one badness per signal, got {len(found.badness)}")
        Moments(found.cross.T, found.gram, found.energy)  # which makes checks of its own


def loop(counter: str, most: int, content: dict[str, Check], candidate: Check | None) -> Check:
    """A state of a loop of at most so many iterations that keeps the `Best` candidate, or only its error."""
    return mapping({counter: integer(0, most), **content, "best": _best(candidate)})


def _best(candidate: Check | None) -> Check:
    numbers = {"error": real(0.0), "stale": integer(0)}
    layout = mapping(numbers, None if candidate is None else {"candidate": candidate})

    def check(name: str, value: Any) -> None:
        layout(name, value)
        if candidate is not None and ("candidate" in value) != bool(np.isfinite(value["error"])):
            raise ValueError(f"{name} must hold a candidate if its error is known")

    return check
