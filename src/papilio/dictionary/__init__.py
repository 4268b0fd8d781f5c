"""Learning dictionaries: functions on arrays whose columns are signals, and estimators for scikit-learn."""

from .complexities import dictionary_tradeoff
from .fast import FastDictionaryLearning, fast_dictionary
from .ksvd import KSVD, SparseKSVD, ksvd, sparse_ksvd
from .learner import LearnedDictionary
from .online import OnlineDictionaryLearning, online_dictionary
from .orthogonal import OrthogonalDictionaryLearning, orthogonal_dictionary

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
