"""Online dictionary learning as an estimator."""

from dataclasses import dataclass
from functools import partial

from ..dictionary.atoms import first_atoms
from ..dictionary.full_passes import Outcome, learn_dense
from ..dictionary.online import OnlineLimits, OnlineState, online_phase
from ..samples import Samples
from ..typing import Array
from ..validation import as_flag, as_random
from .streams import StreamEstimator


@dataclass(eq=False, repr=False, kw_only=True)
class OnlineDictionaryLearning(StreamEstimator):
    """A dense dictionary from mini-batches: `papilio.online_dictionary`.

    Parameters
    ----------
    n_components : int, optional
        The number of atoms; as many as features by default.
    n_nonzero_coefs : int, optional
        Atoms per sample, in learning and in `transform`; a tenth of the features by default, at least one.
    batch_size : int, optional
        Samples per mini-batch; by default 512, or two per atom if that is more, and at most a quarter of
        all samples.
    memory : int, optional
        The largest number of mini-batches that count, older ones less; for data that drift. By default a share of
        the batches so far.
    max_iter : int
        The largest number of passes over the data.
    tol : float
        Stop when the mean error of a pass has not fallen by this share within ten passes; 0 never stops early.
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
    components_ : (n_components, n_features) array
        The atoms, one per row.
    operator_ : SparseProduct
        The dictionary, (n_features, n_components): one dense factor.
    history_ : History
        Relative error, phase and seconds of each iteration.
    status_ : Status
        Why learning ended.
    n_iter_ : int
        The number of steps in ``history_``.

    Examples
    --------
    >>> import papilio as pp
    >>> X = pp.datasets.rand(random_state=0).signals.T
    >>> model = pp.OnlineDictionaryLearning(n_nonzero_coefs=5, random_state=0).fit(X)
    >>> model.components_.shape
    (32, 32)
    """

    max_iter: int = 30
    batch_size: int | None = None
    memory: int | None = None

    def _limits(self) -> OnlineLimits:
        """The limits after checks; a fast dictionary that starts from this estimator uses them too."""
        return OnlineLimits(self.batch_size, self.memory, self.max_iter, self.tol).checked()

    def _learn(self, samples: Samples, n_components: int, n_nonzero_coefs: int) -> Outcome:
        start, sizes = partial(online_phase, limits=self._limits()), (n_components, n_nonzero_coefs)
        positive = as_flag("positive", self.positive)
        with self._session() as session:
            outcome = self._store(session, learn_dense(session, samples, *sizes, start, positive))
        self._state = self._state_from(outcome.dictionary.T.copy())
        self._state.remember(outcome.statistics, outcome.signals.unit)
        return outcome

    def _begin(self, rows: Array) -> None:
        n_components = self._sizes(rows.shape[1])[0]
        self._state = self._state_from(first_atoms(rows, n_components, None, as_random(self.random_state)))
        self._add(rows)

    def _add(self, rows: Array) -> None:
        error = self._state.learn(rows)
        self._store_batch(self._state.atoms.T.copy(), error)

    def _state_from(self, atoms: Array) -> OnlineState:
        n_nonzero_coefs, positive = self._sizes(atoms.shape[1])[1], as_flag("positive", self.positive)
        return OnlineState(atoms, n_nonzero_coefs, memory=self._limits().memory, positive=positive)
