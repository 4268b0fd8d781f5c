"""Learning dictionaries: functions on arrays whose columns are signals, and estimators for scikit-learn."""

from .base import LearnedDictionary
from .fast import FastDictionaryLearning, fast_dictionary
from .ksvd import KSVD, SparseKSVD, ksvd, sparse_ksvd
from .online import OnlineDictionaryLearning, online_dictionary
from .orthogonal import OrthogonalDictionaryLearning, orthogonal_dictionary
from .tradeoff import dictionary_tradeoff

__all__ = [
    "KSVD",
    "FastDictionaryLearning",
    "LearnedDictionary",
    "OnlineDictionaryLearning",
    "OrthogonalDictionaryLearning",
    "SparseKSVD",
    "dictionary_tradeoff",
    "fast_dictionary",
    "ksvd",
    "online_dictionary",
    "orthogonal_dictionary",
    "sparse_ksvd",
]
