"""papilio: dictionaries and matrices as products of sparse factors, so that they run as fast transforms.

Names are loaded when they are first used, so that ``import papilio`` stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import constraints as constraints
    from . import datasets as datasets
    from . import images as images
    from . import metrics as metrics
    from . import plot as plot
    from . import transforms as transforms
    from .coding import omp as omp
    from .dial import tradeoff as tradeoff
    from .dictionary.fast import fast_dictionary as fast_dictionary
    from .dictionary.ksvd import ksvd as ksvd
    from .dictionary.online import online_dictionary as online_dictionary
    from .dictionary.sparse_ksvd import sparse_ksvd as sparse_ksvd
    from .estimators import KSVD as KSVD
    from .estimators import FastDictionaryLearning as FastDictionaryLearning
    from .estimators import OnlineDictionaryLearning as OnlineDictionaryLearning
    from .estimators import SparseKSVD as SparseKSVD
    from .kernels.threads import get_num_threads as get_num_threads
    from .kernels.threads import set_num_threads as set_num_threads
    from .moments import Moments as Moments
    from .operators import SparseProduct as SparseProduct
    from .results import Factorization as Factorization
    from .results import History as History
    from .results import Point as Point
    from .results import Road as Road
    from .results import Status as Status
    from .results import Step as Step
    from .results import Tradeoff as Tradeoff
    from .solvers.butterfly import butterfly as butterfly
    from .solvers.factorize import factorize as factorize
    from .solvers.hierarchical import hierarchical as hierarchical
    from .solvers.palm import palm as palm
    from .solvers.schedule import Schedule as Schedule
    from .storage import load as load

_MODULES = ("constraints", "datasets", "images", "metrics", "plot", "transforms")
_HOME = {
    "Factorization": "results",
    "FastDictionaryLearning": "estimators",
    "History": "results",
    "KSVD": "estimators",
    "Moments": "moments",
    "OnlineDictionaryLearning": "estimators",
    "Point": "results",
    "Schedule": "solvers.schedule",
    "SparseKSVD": "estimators",
    "SparseProduct": "operators",
    "Road": "results",
    "Status": "results",
    "Step": "results",
    "Tradeoff": "results",
    "butterfly": "solvers.butterfly",
    "factorize": "solvers.factorize",
    "fast_dictionary": "dictionary.fast",
    "get_num_threads": "kernels.threads",
    "hierarchical": "solvers.hierarchical",
    "ksvd": "dictionary.ksvd",
    "load": "storage",
    "omp": "coding",
    "online_dictionary": "dictionary.online",
    "palm": "solvers.palm",
    "set_num_threads": "kernels.threads",
    "sparse_ksvd": "dictionary.sparse_ksvd",
    "tradeoff": "dial",
}
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
