"""Orthogonal dictionaries as an estimator."""

from dataclasses import dataclass, field

from ..dictionary.full_passes import Outcome
from ..dictionary.learner import as_sparsity
from ..dictionary.orthogonal import OrthogonalOptions, OrthogonalState, learn_orthogonal
from ..samples import Samples
from ..typing import Array
from ..validation import as_integer
from .streams import StreamEstimator


@dataclass(eq=False, repr=False, kw_only=True)
class OrthogonalDictionaryLearning(StreamEstimator):
    """An orthogonal dictionary that is a product of rotations: `papilio.orthogonal_dictionary`.

    Its atoms are orthonormal. So `transform` keeps the largest of the coefficients ``X @ components_.T``, and
    needs no pursuit. As a product of sparse factors it is a fast transform in both directions.

    Parameters
    ----------
    n_nonzero_coefs : int, optional
        Atoms per sample, in learning and in `transform`; a tenth of the features by default, at least one.
    n_rotations : int, optional
        The largest number of rotations.
    complexity : float, optional
        The largest relative complexity: entries of all factors over those of the dense dictionary. By default 0.5,
        or the least possible if that is more, if ``n_rotations`` is not given.
    max_iter : int
        The largest number of iterations.
    tol : float
        Stop when an iteration with all rotations lowers the error by less than this share; 0 never stops early.
    memory : int, optional
        The largest number of mini-batches that count in `partial_fit` and `fit_stream`, for data that drift; no
        limit by default.
    positive : bool
        Whether codes must not be negative, in learning and in `transform`; the atoms may have any sign.
    transform_algorithm : {"omp", "lasso"}
        How `transform` codes, and `score`: by `papilio.omp`, or by `papilio.lasso`, with an ℓ1 penalty.
    transform_alpha : float, optional
        The penalty of "lasso", as in scikit-learn; 1.0 by default.
    transform_sparse : bool
        Whether `transform` returns a csr_array.
    random_state : int, RandomState, Generator or None
        The source of the random numbers; None is NumPy's global state.
    callback : callable, optional
        Called with a `papilio.results.Step` after each iteration; a true result stops learning.
    checkpoint : path, optional
        A file in which `fit` saves its state after each phase and every half minute, and in the end its result.
        If the file exists, `fit` resumes from it, with the same result, and returns at once if the run was
        finished; data, parameters and the version of papilio must be the same. Delete it once the model is saved.
    verbose : int
        1 writes a line to the standard error for each phase, 2 for each iteration.

    Attributes
    ----------
    components_ : (n_features, n_features) array
        The atoms, one per row.
    operator_ : SparseProduct
        The dictionary as a fast transform: ``operator_.T @ x`` are all coefficients of x.
    history_ : History
        Relative error, phase and seconds of each iteration.
    status_ : Status
        Why learning ended.
    n_iter_ : int
        The number of steps in ``history_``.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> X = pp.datasets.rand(random_state=0).signals.T
    >>> model = pp.OrthogonalDictionaryLearning(n_nonzero_coefs=5, complexity=0.4, random_state=0).fit(X)
    >>> bool(np.allclose(model.components_ @ model.components_.T, np.eye(32)))
    True
    """

    n_components: None = field(init=False, default=None)  # a basis has as many atoms as features
    tol: float = 5e-4
    n_rotations: int | None = None
    complexity: float | None = None
    memory: int | None = None

    def _learn(self, samples: Samples, n_components: int, n_nonzero_coefs: int) -> Outcome:
        options = self._options(n_components)
        memory = None if self.memory is None else as_integer("memory", self.memory, 1)
        with self._session() as session:
            outcome = self._store(session, learn_orthogonal(session, samples, n_nonzero_coefs, options))
        self._state = OrthogonalState(self.operator_, n_nonzero_coefs, options, memory)
        self._state.remember(outcome.statistics, outcome.signals.unit)
        return outcome

    def _options(self, n_features: int) -> OrthogonalOptions:
        limits = self.n_rotations, self.complexity, self.max_iter, self.tol
        return OrthogonalOptions(*limits, self.positive).checked(n_features)

    def _sizes(self, n_features: int) -> tuple[int, int]:
        return n_features, as_sparsity(self.n_nonzero_coefs, n_features, n_features)

    def _begin(self, rows: Array) -> None:
        self.fit(rows)

    def _add(self, rows: Array) -> None:
        error = self._state.learn(rows)
        self._store_batch(self._state.operator, error)
