"""Dictionary learners, non-negative chains, treelets and covariances as scikit-learn estimators."""

from .covariance import SparseMatrixTransform as SparseMatrixTransform
from .encoder import LearnedEncoder as LearnedEncoder
from .fast import FastDictionaryLearning as FastDictionaryLearning
from .ksvd import KSVD as KSVD
from .ksvd import SparseKSVD as SparseKSVD
from .multilayer import MultilayerNMF as MultilayerNMF
from .online import OnlineDictionaryLearning as OnlineDictionaryLearning
from .orthogonal import OrthogonalDictionaryLearning as OrthogonalDictionaryLearning
from .treelets import Treelets as Treelets
