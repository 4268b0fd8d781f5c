"""The axis of errors: logarithmic where they span orders of magnitude, with exact results at its bottom."""

from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any

import numpy as np

from ..typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ORDERS = 100.0  # the ratio of errors from which the axis is logarithmic
_GAP, _MARGIN = 0.2, 0.07  # below the lowest error and around all, relative to their range
_LEAST_RANGE = 10.0  # the ratio of errors that counts as their range, where it is smaller
_MOST_TICKS, _MOST_DECADES = 8, 4  # decades with a label; decades with ticks between them


class ErrorAxis:
    """Where errors are drawn, beside each other.

    Errors of rounding, below ``exact``, say no more than that a result is exact. On a logarithmic axis down to
    1e-16, all others would look the same. They are drawn at the bottom, below a line, under the label "exact".

    Parameters
    ----------
    errors : array
        All errors to be drawn.
    exact : float
        Errors below are those of rounding.
    always_log : bool, default=False
        Whether the axis is logarithmic even if the errors are of one order of magnitude.
    """

    def __init__(self, errors: Any, exact: float, always_log: bool = False) -> None:
        errors = np.asarray(errors, dtype=np.float64)
        errors = errors[np.isfinite(errors)]
        self._exact, self._has_exact = exact, bool((errors < exact).any())
        rest = errors[errors >= exact]
        self._lowest, self._highest = (float(rest.min()), float(rest.max())) if len(rest) else (1.0, 1.0)
        self.is_log = bool(len(rest)) and (always_log or self._highest > _ORDERS * self._lowest)
        self._range = max(self._highest / self._lowest, _LEAST_RANGE)
        self._bottom = max(self._lowest / self._range**_GAP, 1e-300)

    def heights(self, errors: Any) -> Array:
        """Where ``errors`` are drawn."""
        given = np.asarray(errors, dtype=np.float64)
        return np.where(given < self._exact, self._bottom, given) if self.is_log else given

    def apply(self, ax: "Axes") -> None:
        """Set the scale, the limits and the ticks of a vertical axis."""
        from matplotlib.ticker import FixedLocator, FuncFormatter

        if not self.is_log:
            ax.set_ylim(0, 1.1 * self._highest)
            if self._has_exact:
                ax.yaxis.set_major_formatter(lambda value, _: "exact" if value == 0 else f"{value:g}")
            return
        ax.set_yscale("log")
        if not self._has_exact:
            ax.margins(y=_MARGIN)
            plain_log(ax)
            return
        margin = self._range**_MARGIN
        ax.set_ylim(self._bottom / margin, self._highest * margin)
        edge = self._lowest / self._range ** (_GAP / 2)
        ax.axhline(edge, color="0.55", linewidth=0.8, zorder=1)
        decades = range(ceil(log10(edge)), floor(log10(self._highest * margin)) + 1)
        step = -(-len(decades) // _MOST_TICKS)
        ticks = [10.0**k for k in decades if k % step == 0]
        between = [m * 10.0**k for k in [decades.start - 1, *decades] for m in range(2, 10)]
        few = [tick for tick in between if edge < tick < self._highest * margin and len(decades) <= _MOST_DECADES]
        ax.yaxis.set_major_locator(FixedLocator([self._bottom, *ticks]))
        ax.yaxis.set_minor_locator(FixedLocator(few))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: "exact" if value < edge else _power(value)))
        ax.yaxis.set_minor_formatter("")


def plain_log(ax: "Axes") -> None:
    """Label a vertical logarithmic axis with 0.4 rather than 4 × 10⁻¹, except for very small and large numbers."""
    from matplotlib.ticker import LogFormatterMathtext

    class Plain(LogFormatterMathtext):
        def __call__(self, x: float, pos: Any = None) -> str:
            label: str = super().__call__(x, pos)
            return f"{x:g}" if label and 1e-3 <= x < 1e4 else label

    ax.yaxis.set_major_formatter(Plain())
    ax.yaxis.set_minor_formatter(Plain(labelOnlyBase=False, minor_thresholds=(2, 0.5)))


def _power(value: float) -> str:
    return f"{value:g}" if 1e-3 <= value < 1e4 else f"$10^{{{round(log10(value))}}}$"
