"""A scikit-learn regressor around a learned prior: `MetaRegressor(prior).fit(X, y).predict(X, return_std=True)`.

Fitting conditions the prior on the few points of one new task; nothing is meta-learned here. The number of features is
the prior's. scikit-learn is needed by this module alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from scoreprior.learners._base import Prior
from scoreprior.predictive import Predictive

try:
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(
        "scoreprior.sklearn needs scikit-learn 1.6 or later; install it with: pip install 'scikit-learn>=1.6'"
    ) from error


class MetaRegressor(RegressorMixin, BaseEstimator):
    """A prior as a regressor for one task.

    Args:
        prior: a fitted prior; its number of inputs is the number of features that X must have.
        random_state: int, NumPy `RandomState` or None, for methods whose inference is random.
    """

    def __init__(self, prior: Prior, random_state: Any = 0):
        self.prior = prior
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> MetaRegressor:
        """Condition the prior on X (m, d) and y (m,), in original units."""
        if not isinstance(self.prior, Prior):
            raise TypeError(
                f"MetaRegressor needs a fitted prior, not a {type(self.prior).__name__}: "
                'scoreprior.learner("pooled-gp").fit(tasks, key) or scoreprior.load_prior(path) gives one.'
            )
        X, y = validate_data(self, self._encoded(X), y, dtype=np.float64, y_numeric=True)
        if self.n_features_in_ != self.prior.dim:
            raise ValueError(f"X has {self.n_features_in_} features, but the prior was learned with {self.prior.dim}.")
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        self.posterior_ = self.prior.condition(X, y, seed)
        return self

    def predict(
        self, X: Any, return_std: bool = False
    ) -> Float[np.ndarray, " q"] | tuple[Float[np.ndarray, " q"], Float[np.ndarray, " q"]]:
        """Predictive mean at X (q, d), and with `return_std` its standard deviation, observation noise included."""
        predictive = self.predict_distribution(X)
        return (predictive.mean, predictive.std) if return_std else predictive.mean

    def predict_distribution(self, X: Any) -> Predictive:
        """The whole predictive distribution of y at X (q, d)."""
        check_is_fitted(self)
        return self.posterior_.predict(validate_data(self, self._encoded(X), dtype=np.float64, reset=False))

    def _encoded(self, X: Any) -> Any:
        """A data frame with dates or categories as the inputs of the prior; anything else as it is."""
        encoding = self.prior.encoding
        if encoding is None or set(encoding.kinds) == {"number"} or not hasattr(X, "columns"):
            return X
        if encoding.counts_from_tasks:
            raise ValueError("This prior counts time from a task's first date: use prior.encode(frame, start=...).")
        return self.prior.encode(X)
