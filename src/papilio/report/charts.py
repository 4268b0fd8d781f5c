"""Diagrams as inline SVG: text is text, and colours are those of the page, so that they suit light and dark."""

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10
from typing import NamedTuple

import numpy as np

from ..typing import Array

COLOURS = 6  # that the style sheet has, as the classes c1, c2, …
_WIDTH, _HEIGHT = 720, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 14, 12, 46
_DECADES = 1.7  # fewer are marked with 1, 2, 5, 10, …, more with powers of ten
_FLOOR = 1e-17  # errors of exactly zero are drawn here
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# Around the origin, about ten pixels wide: series differ without their colours, too.
_MARKERS = (
    "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0z",
    "M-4,-4h8v8h-8z",
    "M0,-5.2l5,8.6h-10z",
    "M0,-6l6,6l-6,6l-6,-6z",
    "M0,5.2l5,-8.6h-10z",
    "M-1.6,-5h3.2v3.4h3.4v3.2h-3.4v3.4h-3.2v-3.4h-3.4v-3.2h3.4z",
)
_DASHES = ("", "7 4", "2 3", "9 3 2 3", "12 4", "4 2")


class Curve(NamedTuple):
    """A series of a diagram: pieces of (n, 2) points, as ``line``, ``steps``, ``points``, ``mark`` or ``level``.

    A mark is a larger point; a level is one line over the whole width, at the height of its first point.
    """

    name: str
    pieces: Sequence[Array]
    kind: str
    colour: int


class Axis(NamedTuple):
    """From data to pixels, with ticks."""

    low: float
    high: float
    log: bool
    begin: float
    end: float

    def __call__(self, values: Array) -> Array:
        low, high = (log10(self.low), log10(self.high)) if self.log else (self.low, self.high)
        values = np.log10(np.maximum(values, _FLOOR)) if self.log else values
        return self.begin + (self.end - self.begin) * (values - low) / (high - low)

    def ticks(self) -> list[tuple[float, str]]:
        if not self.log:
            return [(tick, f"{tick:.10g}") for tick in _nice_ticks(self.low, self.high)]
        first, last = ceil(log10(self.low) - 1e-9), floor(log10(self.high) + 1e-9)
        if log10(self.high / self.low) < _DECADES:
            ticks = [digit * 10.0**power for power in range(first - 1, last + 1) for digit in (1, 2, 5)]
            ticks = [tick for tick in ticks if self.low <= tick <= self.high]
            ticks = ticks if len(ticks) > 2 else _nice_ticks(self.low, self.high)
            return [(tick, f"{tick:.10g}") for tick in ticks]
        powers = range(first, last + 1, max(ceil((last - first + 1) / 7), 1))
        return [(10.0**power, _power(power)) for power in powers]


def chart(curves: Sequence[Curve], x_label: str, y_label: str, title: str, log: bool) -> str:
    """A diagram with its legend, as a fragment of HTML; ``title`` says in words what it shows.

    What is not finite is left out; nothing is drawn where nothing is left.
    """
    curves = _finite(curves)
    if all(curve.kind == "level" for curve in curves):
        return ""
    every = np.concatenate([piece for curve in curves for piece in curve.pieces if curve.kind != "level"])
    heights = np.concatenate([piece[:, 1] for curve in curves for piece in curve.pieces])
    x = Axis(0.0, float(every[:, 0].max()) * 1.03 or 1.0, False, _LEFT, _WIDTH - _RIGHT)
    y = _vertical(heights, log)
    drawn = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}" class="chart">',
        *(_x_tick(x, *tick) for tick in x.ticks()),
        *(_y_tick(y, *tick) for tick in y.ticks()),
        f'<path class="axis" d="M{_LEFT},{_TOP}V{_HEIGHT - _BOTTOM}H{_WIDTH - _RIGHT}"/>',
        f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2:g}" y="{_HEIGHT - 8}" class="middle">{escape(x_label)}</text>',
        f'<text transform="translate(14,{(_TOP + _HEIGHT - _BOTTOM) / 2:g}) rotate(-90)" class="middle">'
        f"{escape(y_label)}</text>",
        *(_drawn(curve, x, y) for curve in curves),
        "</svg>",
    ]
    return "".join(drawn) + _legend(curves)


def spans_decades(values: Array) -> bool:
    """Whether errors differ so much that only a logarithmic axis shows them all."""
    values = values[np.isfinite(values)]
    return bool((values > 0).any() and values.max() > 50 * max(values.min(), _FLOOR))


def _finite(curves: Sequence[Curve]) -> list[Curve]:
    cleaned = []
    for curve in curves:
        pieces = [piece[np.isfinite(piece).all(axis=1)] for piece in curve.pieces if len(piece)]
        pieces = [piece for piece in pieces if len(piece)]
        cleaned += [curve._replace(pieces=pieces)] if pieces else []
    return cleaned


def _vertical(values: Array, log: bool) -> Axis:
    high = float(values.max()) or 1.0
    if not log:
        return Axis(0.0, 1.06 * high, False, _HEIGHT - _BOTTOM, _TOP)
    low, high = (max(value, _FLOOR) for value in (float(values.min()), high))
    room = 1.15 if high < low * 10.0**_DECADES else 1.6
    return Axis(low / room, high * room, True, _HEIGHT - _BOTTOM, _TOP)


def _x_tick(x: Axis, value: float, label: str) -> str:
    at = float(x(np.array(value)))
    bottom = _HEIGHT - _BOTTOM
    mark = f'<path class="tick" d="M{at:.1f},{bottom}v5"/>'
    return f'{mark}<text x="{at:.1f}" y="{bottom + 19}" class="middle">{label}</text>'


def _y_tick(y: Axis, value: float, label: str) -> str:
    at = float(y(np.array(value)))
    grid = f'<path class="grid" d="M{_LEFT},{at:.1f}H{_WIDTH - _RIGHT}"/>'
    return f'{grid}<text x="{_LEFT - 8}" y="{at + 4:.1f}" class="end">{label}</text>'


def _drawn(curve: Curve, x: Axis, y: Axis) -> str:
    style = _style(curve)
    if curve.kind == "level":
        at = float(y(curve.pieces[0][0, 1:])[0])
        return f'<path {style} d="M{_LEFT},{at:.1f}H{_WIDTH - _RIGHT}"/>'
    pixels = [np.column_stack([x(piece[:, 0]), y(piece[:, 1])]) for piece in curve.pieces]
    if curve.kind in ("points", "mark"):
        marker, size = _MARKERS[curve.colour % len(_MARKERS)], 1.5 if curve.kind == "mark" else 1
        return "".join(
            f'<path {style} transform="translate({a:.1f},{b:.1f}) scale({size})" d="{marker}"/>'
            for part in pixels
            for a, b in part
        )
    if curve.kind == "steps":
        pixels = [
            np.repeat(part, 2, axis=0)[1:] * [1, 0] + np.repeat(part, 2, axis=0)[:-1] * [0, 1] for part in pixels
        ]
    d = "".join("M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in part) for part in pixels)
    # A piece of one point has no length: round caps show it all the same.
    dash = f' stroke-dasharray="{_DASHES[curve.colour % len(_DASHES)]}"' if curve.kind == "line" else ""
    return f'<path {style}{dash} d="{d}"/>'


def _style(curve: Curve) -> str:
    kind = "points" if curve.kind == "mark" else curve.kind
    return f'class="{kind} c{curve.colour + 1}"'


def _legend(curves: Sequence[Curve]) -> str:
    named = [curve for curve in curves if curve.name]
    if not named:
        return ""
    return (
        '<ul class="legend">'
        + "".join(f"<li>{_swatch(curve)}{escape(curve.name)}</li>" for curve in named)
        + "</ul>"
    )


def _swatch(curve: Curve) -> str:
    style = _style(curve)
    if curve.kind in ("points", "mark"):
        inside = f'<path {style} transform="translate(14,7)" d="{_MARKERS[curve.colour % len(_MARKERS)]}"/>'
    else:
        dash = f' stroke-dasharray="{_DASHES[curve.colour % len(_DASHES)]}"' if curve.kind == "line" else ""
        inside = f'<path {style}{dash} d="M1,7H27"/>'
    return f'<svg viewBox="0 0 28 14" width="28" height="14" aria-hidden="true">{inside}</svg>'


def _nice_ticks(low: float, high: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, about six of them."""
    rough = (high - low) / 6
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [step * i for i in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def _power(power: int) -> str:
    return f"{10.0**power:g}" if -3 <= power <= 3 else f"10{str(power).translate(_SUPERSCRIPTS)}"
