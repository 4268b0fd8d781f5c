"""Sparse codes of many signals at once."""

from typing import TYPE_CHECKING, Any

from .atoms import Atoms as Atoms
from .atoms import as_signals as as_signals
from .basis_pursuit import as_alpha as as_alpha
from .basis_pursuit import lasso
from .basis_pursuit import lasso_codes as lasso_codes
from .matching_pursuit import omp
from .matching_pursuit import omp_codes as omp_codes

if TYPE_CHECKING:
    from .encoder import LearnedEncoder

__all__ = ["LearnedEncoder", "lasso", "omp"]


def __getattr__(name: str) -> Any:
    if name == "LearnedEncoder":  # loads scikit-learn, which `omp` does not need
        from .encoder import LearnedEncoder

        return LearnedEncoder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
