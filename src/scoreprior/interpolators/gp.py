"""Gaussian-process interpolation: a draw is an exact joint sample of the posterior."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from scoreprior._compilation import LEVEL_1_NO_FUSION
from scoreprior._settings import check_positive
from scoreprior._types import KeyLike, as_key
from scoreprior.gp.config import ProcessConfig
from scoreprior.gp.fit import fit_process
from scoreprior.gp.kernels import Matern, ZeroMean
from scoreprior.gp.process import Conditioned, GaussianProcess
from scoreprior.interpolators._base import FittedInterpolator, folds, task_keys
from scoreprior.tasks import PaddedTasks

LENGTHSCALES = tuple(10.0 ** (-3 + 4 * i / 9) for i in range(10))
"""The paper's candidates: 10 log-spaced points in [0.001, 10]."""
WIDE_LENGTHSCALES = tuple(10.0 ** (-2 + i / 4) for i in range(17))
"""Log-spaced points in [0.01, 100]; 100 standard deviations of the inputs are a constant function."""
NOISE_RATIOS = tuple(10.0 ** (-2.25 + i / 4) for i in range(11))
"""Candidates of noise over the function's standard deviation; with less, single precision has no inverse."""


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
        noise_std: observation noise, which the paper does not name, standardised units; None: this and the function's
            standard deviation, 1 in the paper, maximise the same likelihood.
        lengthscales: candidates.
        mean_only: every draw is the posterior mean (the paper's "GP mean" ablation).
    """

    noise_std: float | None = 0.1
    lengthscales: tuple[float, ...] = LENGTHSCALES
    mean_only: bool = False

    def __post_init__(self) -> None:
        check_positive(self, "noise_std")
        if not (self.lengthscales and min(self.lengthscales) > 0):
            raise ValueError("Every candidate of lengthscales (at least one) must be positive.")

    @classmethod
    def cross_validated(cls, *, mean_only: bool = False) -> MaternInterpolator:
        """Noise, standard deviation and lengthscale, up to 100, by cross-validation."""
        return cls(noise_std=None, lengthscales=WIDE_LENGTHSCALES, mean_only=mean_only)

    def fit(self, tasks: PaddedTasks, key: KeyLike, *, progress: bool = False) -> FittedGP:
        """Choose the kernel and condition the process on every task; takes seconds and shows no progress."""
        lengthscales, keys = jnp.asarray(self.lengthscales, jnp.float32), task_keys(key, len(tasks.mask))
        if self.noise_std is None:
            std, lengthscale, noise_std = best_kernel(tasks, lengthscales, jnp.asarray(NOISE_RATIOS, jnp.float32), keys)
        else:
            std, noise_std = jnp.ones(()), jnp.float32(self.noise_std)
            lengthscale = lengthscales[jnp.argmax(cross_validate(tasks, lengthscales, noise_std, keys))]
        return condition_each(matern_process(lengthscale, noise_std, std), tasks, self.mean_only)

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


def matern_process(
    lengthscale: Float[Array, ""], noise_std: Float[Array, ""], std: Float[Array, ""] | None = None
) -> GaussianProcess:
    """The paper's process: zero mean, isotropic Matern-5/2 kernel, unit variance if no other is given."""
    return GaussianProcess(ZeroMean(), Matern(jnp.ones(()) if std is None else std, lengthscale[None], 2.5), noise_std)


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
    kept = _kept(tasks, keys, count)
    return jax.lax.map(
        lambda lengthscale: _held_out(matern_process(lengthscale, noise_std), tasks, kept) / len(tasks.mask),
        lengthscales,
    )


@eqx.filter_jit
def best_kernel(
    tasks: PaddedTasks,
    lengthscales: Float[Array, " p"],
    ratios: Float[Array, " r"],
    keys: PRNGKeyArray,
    count: int = 4,
) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, ""]]:
    """Standard deviation, lengthscale and noise that maximise the held-out folds' log density together.

    With covariance s^2 (K + r^2 I) it is c - Q / (2 s^2) - M log s for M held-out points, s^2 = Q / M, and only
    lengthscale and r are searched.
    """
    kept = _kept(tasks, keys, count)
    total = jnp.sum(tasks.mask)
    without = tasks._replace(y=jnp.zeros_like(tasks.y))

    def score(pair: Float[Array, "2"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        process = matern_process(pair[0], pair[1])
        constant = _held_out(process, without, kept)
        variance = jnp.maximum(2 * (constant - _held_out(process, tasks, kept)) / total, 1e-6)
        return constant - 0.5 * total * (1 + jnp.log(variance)), jnp.sqrt(variance)

    pairs = jnp.stack(jnp.meshgrid(lengthscales, ratios, indexing="ij"), axis=-1).reshape(-1, 2)
    scores, stds = jax.lax.map(score, pairs)
    best = jnp.nanargmax(scores)
    return stds[best], pairs[best, 0], stds[best] * pairs[best, 1]


def _kept(tasks: PaddedTasks, keys: PRNGKeyArray, count: int) -> Bool[Array, "n count+1 m"]:
    """Which points are kept: all of them, then all but one fold."""
    held = jax.vmap(lambda mask, key: folds(mask, key, count))(jnp.asarray(tasks.mask), keys)
    return jnp.concatenate([tasks.mask[:, None], tasks.mask[:, None] & ~held], axis=1)


def _held_out(process: GaussianProcess, tasks: PaddedTasks, kept: Bool[Array, "n c m"]) -> Float[Array, ""]:
    """Sum over tasks and folds of log p(y) - log p(y_rest)."""
    likelihood = jax.vmap(process.log_likelihood, in_axes=(None, None, 0))
    values = jax.vmap(likelihood)(tasks.x, tasks.y, kept)
    return jnp.sum(values[:, :1] - values[:, 1:])


@eqx.filter_jit(**LEVEL_1_NO_FUSION)
def _condition(process: GaussianProcess, tasks: PaddedTasks) -> Conditioned:
    return jax.vmap(process.condition)(*tasks)
