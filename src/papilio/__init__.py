"""papilio: dictionaries and matrices as products of sparse factors, so that they run as fast transforms.

Names are loaded when they are first used, so that ``import papilio`` stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "1.0.0"

if TYPE_CHECKING:
    from . import coding as coding
    from . import constraints as constraints
    from . import convolution as convolution
    from . import datasets as datasets
    from . import dictionary as dictionary
    from . import images as images
    from . import metrics as metrics
    from . import nonnegative as nonnegative
    from . import operators as operators
    from . import plot as plot
    from . import results as results
    from . import rotations as rotations
    from . import testing as testing
    from . import transforms as transforms
    from .coding import lasso as lasso
    from .coding import omp as omp
    from .dictionary.fast import FastDictionaryLearning as FastDictionaryLearning
    from .dictionary.ksvd import KSVD as KSVD
    from .dictionary.ksvd import SparseKSVD as SparseKSVD
    from .dictionary.online import OnlineDictionaryLearning as OnlineDictionaryLearning
    from .dictionary.orthogonal import OrthogonalDictionaryLearning as OrthogonalDictionaryLearning
    from .operators import SparseProduct as SparseProduct
    from .operators.storage import load as load
    from .results import Factorization as Factorization
    from .results import Tradeoff as Tradeoff
    from .runtime.threads import get_num_threads as get_num_threads
    from .runtime.threads import set_num_threads as set_num_threads
    from .search.factorize import factorize as factorize
    from .search.methods.butterfly import butterfly as butterfly
    from .search.tradeoff import tradeoff as tradeoff
    from .solvers.hierarchical import hierarchical as hierarchical
    from .solvers.moments import Moments as Moments
    from .solvers.palm import palm as palm
    from .solvers.schedule import Schedule as Schedule

_MODULES = (
    *("coding", "constraints", "convolution", "datasets", "dictionary", "images", "metrics", "nonnegative"),
    *("operators", "plot", "results", "rotations", "testing", "transforms"),
)
_NAMES = {
    "coding": ("lasso", "omp"),
    "dictionary.fast": ("FastDictionaryLearning",),
    "dictionary.ksvd": ("KSVD", "SparseKSVD"),
    "dictionary.online": ("OnlineDictionaryLearning",),
    "dictionary.orthogonal": ("OrthogonalDictionaryLearning",),
    "operators": ("SparseProduct",),
    "operators.storage": ("load",),
    "results": ("Factorization", "Tradeoff"),
    "runtime.threads": ("get_num_threads", "set_num_threads"),
    "search.factorize": ("factorize",),
    "search.methods.butterfly": ("butterfly",),
    "search.tradeoff": ("tradeoff",),
    "solvers.hierarchical": ("hierarchical",),
    "solvers.moments": ("Moments",),
    "solvers.palm": ("palm",),
    "solvers.schedule": ("Schedule",),
}
_HOME = {name: home for home, names in _NAMES.items() for name in names}
__all__ = ["__version__", *_MODULES, *_HOME]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name in _HOME:
        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
