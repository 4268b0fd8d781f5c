"""The estimators: scikit-learn's own checks, and what its users rely on beyond them."""

from sklearn.utils.estimator_checks import parametrize_with_checks

import papilio as pp

ESTIMATORS = [pp.KSVD, pp.SparseKSVD, pp.OnlineDictionaryLearning, pp.FastDictionaryLearning]


@parametrize_with_checks([make(max_iter=5) for make in ESTIMATORS])
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)
