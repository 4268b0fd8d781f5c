"""What more effort buys in learning fast dictionaries: docs/figures/effort.csv and the figure drawn from it.

python docs/figures/effort.py --measure   # some minutes: learns the dictionaries
python docs/figures/effort.py             # draws them
"""

import csv
import sys
from statistics import mean
from time import process_time

import matplotlib
import numpy as np
from common import BLUE, GREEN, HERE, ORANGE, SOFT, STYLE, save
from matplotlib.figure import Figure

import papilio as pp
from papilio.metrics import rmse

TABLE = HERE / "effort.csv"
EFFORTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
POINTS = {"RAND, Q = 3": ("rand", 3), "RAND, Q = 6": ("rand", 6), "FACT, Q = 6": ("fact", 6)}  # p = 2, P = 512
LOOKS = dict(zip(POINTS, ((BLUE, "s"), (ORANGE, "^"), (GREEN, "o")), strict=True))
SEEDS = (0, 1)


def measured() -> list[dict[str, str]]:
    """The error after each effort, relative to that with none, and the seconds of processor time."""
    rows = []
    for seed in SEEDS:
        for name, (kind, Q) in POINTS.items():
            X = getattr(pp.datasets, kind)(random_state=seed).signals
            start = pp.dictionary.ksvd(X, 32, 5, random_state=seed).dictionary
            for effort in EFFORTS:
                begin = process_time()
                learned = pp.dictionary.fast_dictionary(
                    X, pp.Schedule.paper(32, Q, 2, 512), 5, init=start, effort=effort, random_state=seed
                )
                seconds, error = process_time() - begin, rmse(X, learned.dictionary, learned.codes)
                rows.append(
                    {
                        "data": name,
                        "seed": str(seed),
                        "effort": f"{effort:g}",
                        "rmse": f"{error:.5f}",
                        "seconds": f"{seconds:.2f}",
                    }
                )
    return rows


def effort() -> Figure:
    """The error against the effort, relative to the hierarchy alone."""
    with TABLE.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    figure = Figure(figsize=(6.2, 3.9), layout="constrained")
    ax = figure.subplots()
    places = np.arange(len(EFFORTS))
    for name, (colour, marker) in LOOKS.items():
        errors = [
            mean(float(row["rmse"]) for row in rows if row["data"] == name and float(row["effort"]) == each)
            for each in EFFORTS
        ]
        ax.plot(places, np.divide(errors, errors[0]), color=colour, marker=marker, label=name)
    ax.axvline(EFFORTS.index(1.0), color=SOFT, linewidth=0.8, linestyle=":")
    ax.set_xticks(places, [f"{each:g}" for each in EFFORTS])
    ax.set(xlabel="effort (1 is the default)", ylabel="error, relative to no refinement", ylim=(0, 1.05))
    ax.legend(frameon=False, loc="lower left")
    return figure


if __name__ == "__main__":
    if "--measure" in sys.argv:
        found = measured()
        with TABLE.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, found[0])
            writer.writeheader()
            writer.writerows(found)
    with matplotlib.rc_context(STYLE):
        save(effort(), "effort")
