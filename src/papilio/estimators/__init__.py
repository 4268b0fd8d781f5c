"""Dictionary learners as scikit-learn estimators."""

from .fast import FastDictionaryLearning as FastDictionaryLearning
from .ksvd import KSVD as KSVD
from .ksvd import SparseKSVD as SparseKSVD
from .online import OnlineDictionaryLearning as OnlineDictionaryLearning
from .orthogonal import OrthogonalDictionaryLearning as OrthogonalDictionaryLearning
