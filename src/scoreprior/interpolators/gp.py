"""Gaussian-process interpolation: a draw is an exact joint sample of the posterior."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior._compilation import LEVEL_1_NO_FUSION
from scoreprior._types import KeyLike, as_key
from scoreprior.gp.config import ProcessConfig
from scoreprior.gp.fit import fit_process
from scoreprior.gp.kernels import Matern, ZeroMean
from scoreprior.gp.process import Conditioned, GaussianProcess
from scoreprior.interpolators._base import FittedInterpolator, folds, task_keys
from scoreprior.tasks import PaddedTasks

LENGTHSCALES = tuple(10.0 ** (-3 + 4 * i / 9) for i in range(10))
"""The paper's candidates: 10 log-spaced points in [0.001, 10]."""


@dataclass(frozen=True, kw_only=True)
class GPInterpolator:
    """One process fitted to all tasks together, conditioned on each.

    Args:
        process: what the process is made of and how it is fitted.
        mean_only: every draw is the posterior mean (the paper's "GP mean" ablation).
    """

    process: ProcessConfig = field(default_factory=lambda: ProcessConfig(scale_calibration=False))
    mean_only: bool = False

    def fit(self, tasks: PaddedTasks, key: KeyLike, *, progress: bool = False) -> FittedGP:
        """Fit the process and condition it on every task; takes seconds and shows no progress."""
        return condition_each(fit_process(tasks, self.process, as_key(key)), tasks, self.mean_only)

    def with_budget(self, share: float) -> GPInterpolator:
        """A share of the process's evaluations."""
        return replace(self, process=self.process.with_budget(share))


@dataclass(frozen=True, kw_only=True)
class MaternInterpolator:
    """The paper's interpolator of MARS-GP (Appx. A.4, Alg. 3): zero mean, unit variance, Matern-5/2 kernel.

    The lengthscale maximises the log likelihood of 4-fold cross-validation, averaged over tasks.

    Args:
        noise_std: observation noise, which the paper does not name; standardised units.
        lengthscales: candidates.
        mean_only: every draw is the posterior mean (the paper's "GP mean" ablation).
    """

    noise_std: float = 0.1
    lengthscales: tuple[float, ...] = LENGTHSCALES
    mean_only: bool = False

    def __post_init__(self) -> None:
        if not (self.noise_std > 0 and self.lengthscales and min(self.lengthscales) > 0):
            raise ValueError("noise_std and every candidate of lengthscales (at least one) must be positive.")

    def fit(self, tasks: PaddedTasks, key: KeyLike, *, progress: bool = False) -> FittedGP:
        """Choose the lengthscale and condition the process on every task; takes seconds and shows no progress."""
        noise_std, lengthscales = jnp.float32(self.noise_std), jnp.asarray(self.lengthscales, jnp.float32)
        scores = cross_validate(tasks, lengthscales, noise_std, task_keys(key, len(tasks.mask)))
        process = matern_process(lengthscales[jnp.argmax(scores)], noise_std)
        return condition_each(process, tasks, self.mean_only)

    def with_budget(self, share: float) -> MaternInterpolator:
        """Itself: nothing iterates."""
        return self


class FittedGP(FittedInterpolator):
    """One process, conditioned on every task."""

    states: Conditioned
    process: GaussianProcess
    mean_only: bool = eqx.field(static=True)

    @property
    def noise_std(self) -> Float[Array, ""]:
        """The process's."""
        return jnp.asarray(self.process.noise_std)

    def draw(self, state: Conditioned, x: Float[Array, "k d"], key: PRNGKeyArray) -> Float[Array, " k"]:
        """A joint sample of the noise-free function at x, or its posterior mean."""
        if self.mean_only:
            return self.process.predict_marginals(state, x)[0]
        return self.process.sample(state, x, key)


def condition_each(process: GaussianProcess, tasks: PaddedTasks, mean_only: bool = False) -> FittedGP:
    """The interpolator that a fitted process is: conditioned on every task."""
    return FittedGP(_condition(process, tasks), process, mean_only)


def matern_process(lengthscale: Float[Array, ""], noise_std: Float[Array, ""]) -> GaussianProcess:
    """The paper's process: zero mean, unit variance, isotropic Matern-5/2 kernel."""
    return GaussianProcess(ZeroMean(), Matern(jnp.ones(()), lengthscale[None], 2.5), noise_std)


@eqx.filter_jit
def cross_validate(
    tasks: PaddedTasks,
    lengthscales: Float[Array, " p"],
    noise_std: Float[Array, ""],
    keys: PRNGKeyArray,
    count: int = 4,
) -> Float[Array, " p"]:
    """Mean over tasks of the held-out folds' log density, sum_f log p(y_f | y_rest) (Alg. 3); keys (n,).

    Each term is log p(y) - log p(y_rest): zero for the empty folds of tasks with fewer points than folds.
    """
    held = jax.vmap(lambda mask, key: folds(mask, key, count))(tasks.mask, keys)
    # Kept points: all of them, then all but one fold.
    kept = jnp.concatenate([tasks.mask[:, None], tasks.mask[:, None] & ~held], axis=1)

    def score(lengthscale: Float[Array, ""]) -> Float[Array, ""]:
        likelihood = jax.vmap(matern_process(lengthscale, noise_std).log_likelihood, in_axes=(None, None, 0))
        values = jax.vmap(likelihood)(tasks.x, tasks.y, kept)
        return jnp.mean(jnp.sum(values[:, :1] - values[:, 1:], axis=1))

    return jax.lax.map(score, lengthscales)


@eqx.filter_jit(**LEVEL_1_NO_FUSION)
def _condition(process: GaussianProcess, tasks: PaddedTasks) -> Conditioned:
    return jax.vmap(process.condition)(*tasks)
