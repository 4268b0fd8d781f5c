"""The paper's experiments, and our own: configuration → table → figure. Only the command line imports this.

Each folder holds ``config.toml`` (what is done), ``run.py`` (writes the tables) and ``plot.py`` (draws the figures
from the tables, and from nothing else); some have ``claims.py``, which compares the tables with the paper,
or with claims of our own.
"""

# The modules of each experiment that turn its tables into figures and pages, in this order.
PAGES = {
    "hadamard": ("plot", "claims"),
    "dft": ("plot",),
    "wavelet": ("plot",),
    "figure3": ("plot", "claims"),
    "denoising": ("plot", "claims"),
    "seconds": ("plot", "claims"),
    "large": ("plot", "claims"),
    "recovery": ("plot", "claims"),
    "phase": ("plot", "claims"),
    "meg": ("plot", "claims"),
}
