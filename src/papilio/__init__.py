"""papilio: dictionaries and matrices as products of sparse factors, so that they run as fast transforms.

Names are loaded when they are first used, so that ``import papilio`` stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import constraints as constraints
    from . import datasets as datasets
    from . import graphs as graphs
    from . import images as images
    from . import metrics as metrics
    from . import plot as plot
    from . import results as results
    from . import transforms as transforms
    from .chains.convolution import ConvolutionFit as ConvolutionFit
    from .chains.convolution import convolution_chain as convolution_chain
    from .chains.dictionary import ConvolutionalDictionary as ConvolutionalDictionary
    from .chains.dictionary import convolutional_dictionary as convolutional_dictionary
    from .chains.nonnegative import NonnegativeChain as NonnegativeChain
    from .chains.nonnegative import nonnegative_chain as nonnegative_chain
    from .chains.operator import ConvolutionChain as ConvolutionChain
    from .coding import lasso as lasso
    from .coding import omp as omp
    from .constraints.places import kernel_supports as kernel_supports
    from .dictionary.fast import fast_dictionary as fast_dictionary
    from .dictionary.ksvd import ksvd as ksvd
    from .dictionary.learner import LearnedDictionary as LearnedDictionary
    from .dictionary.online import online_dictionary as online_dictionary
    from .dictionary.orthogonal import orthogonal_dictionary as orthogonal_dictionary
    from .dictionary.sparse_ksvd import sparse_ksvd as sparse_ksvd
    from .dictionary.tradeoff import dictionary_tradeoff as dictionary_tradeoff
    from .estimators import KSVD as KSVD
    from .estimators import FastDictionaryLearning as FastDictionaryLearning
    from .estimators import LearnedEncoder as LearnedEncoder
    from .estimators import MultilayerNMF as MultilayerNMF
    from .estimators import OnlineDictionaryLearning as OnlineDictionaryLearning
    from .estimators import OrthogonalDictionaryLearning as OrthogonalDictionaryLearning
    from .estimators import SparseKSVD as SparseKSVD
    from .estimators import SparseMatrixTransform as SparseMatrixTransform
    from .estimators import Treelets as Treelets
    from .operators import SparseProduct as SparseProduct
    from .operators.algebra import block_diag as block_diag
    from .operators.algebra import hstack as hstack
    from .operators.algebra import kron as kron
    from .operators.algebra import vstack as vstack
    from .operators.files import from_faust as from_faust
    from .operators.files import load as load
    from .results import Factorization as Factorization
    from .results import History as History
    from .results import Status as Status
    from .results import Tradeoff as Tradeoff
    from .rotations.eigenbasis import Eigenbasis as Eigenbasis
    from .rotations.eigenbasis import fast_eigenbasis as fast_eigenbasis
    from .rotations.svd import SingularBases as SingularBases
    from .rotations.svd import fast_svd as fast_svd
    from .runtime.threads import get_num_threads as get_num_threads
    from .runtime.threads import set_num_threads as set_num_threads
    from .search.butterfly import butterfly as butterfly
    from .search.factorize import factorize as factorize
    from .search.tradeoff import tradeoff as tradeoff
    from .solvers.hierarchical import hierarchical as hierarchical
    from .solvers.moments import Moments as Moments
    from .solvers.palm import palm as palm
    from .solvers.schedule import Schedule as Schedule

_MODULES = ("constraints", "datasets", "graphs", "images", "metrics", "plot", "results", "transforms")
_NAMES = {
    "chains.convolution": ("ConvolutionFit", "convolution_chain"),
    "chains.dictionary": ("ConvolutionalDictionary", "convolutional_dictionary"),
    "chains.operator": ("ConvolutionChain",),
    "constraints.places": ("kernel_supports",),
    "coding": ("lasso", "omp"),
    "chains.nonnegative": ("NonnegativeChain", "nonnegative_chain"),
    "dictionary.fast": ("fast_dictionary",),
    "dictionary.ksvd": ("ksvd",),
    "dictionary.learner": ("LearnedDictionary",),
    "dictionary.online": ("online_dictionary",),
    "dictionary.orthogonal": ("orthogonal_dictionary",),
    "dictionary.sparse_ksvd": ("sparse_ksvd",),
    "dictionary.tradeoff": ("dictionary_tradeoff",),
    "estimators": (
        *("FastDictionaryLearning", "KSVD", "LearnedEncoder", "MultilayerNMF", "OnlineDictionaryLearning"),
        *("OrthogonalDictionaryLearning", "SparseKSVD", "SparseMatrixTransform", "Treelets"),
    ),
    "operators": ("SparseProduct",),
    "operators.algebra": ("block_diag", "hstack", "kron", "vstack"),
    "operators.files": ("from_faust", "load"),
    "results": ("Factorization", "History", "Status", "Tradeoff"),
    "rotations.eigenbasis": ("Eigenbasis", "fast_eigenbasis"),
    "rotations.svd": ("SingularBases", "fast_svd"),
    "runtime.threads": ("get_num_threads", "set_num_threads"),
    "search.butterfly": ("butterfly",),
    "search.factorize": ("factorize",),
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
