"""The exact posterior of the interpolated process: every task's process conditioned on the points, reweighted."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior._linalg import cholesky, mask_gram, solve_lower
from scoreprior.inference._base import Inference
from scoreprior.interpolators.mixture import ProcessMixture
from scoreprior.predictive import Mixture
from scoreprior.tasks import PaddedTasks


class ExactMixture(Inference):
    """Bayes' rule in every component of a mixture of Gaussian processes; no score, no particles.

    Args:
        mixture: the interpolated process.
        noise_std: observation noise.
        level: white part of the noise on the functions.
        components: of a predictive, all equally likely: components of the posterior in proportion to their weights.
    """

    mixture: ProcessMixture
    noise_std: Float[Array, ""]
    level: Float[Array, ""]
    components: int = eqx.field(static=True, default=200)

    chunk = 20

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> PaddedTasks:
        """The points themselves: evidence and conditional both need the queries' covariance with them."""
        return context

    def predict(self, state: PaddedTasks, x: Float[Array, "q d"]) -> Mixture:
        """The conditioned Gaussians, each as often as its weight asks for."""
        log_weights, means, variances = self.mixture.condition(state, x, self.noise_std, self.level)
        share = jnp.cumsum(jax.nn.softmax(log_weights))
        places = (jnp.arange(self.components) + 0.5) / self.components
        chosen = jnp.clip(jnp.searchsorted(share, places), 0, len(share) - 1)
        return Mixture(means[chosen], jnp.sqrt(variances)[chosen])

    def draw(self, state: PaddedTasks, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """A joint draw of one task's process given the points, tasks by their weights."""
        task_key, draw_key = jax.random.split(key)
        log_weights, means, _ = self.mixture.condition(state, x, self.noise_std, self.level)
        chosen = jax.random.categorical(task_key, log_weights)
        noise = jnp.sqrt(self.noise_std**2 + self.level**2)
        covariance = self.mixture.moments(jnp.concatenate([state.x, x]), noise)[1][chosen]
        m = len(state.y)
        cross = jnp.where(state.mask[:, None], covariance[:m, m:], 0.0)
        white = solve_lower(cholesky(mask_gram(covariance[:m, :m], state.mask)), cross)
        root = cholesky(covariance[m:, m:] - white.T @ white)
        return means[chosen] + root @ jax.random.normal(draw_key, (len(x),))

    def sample(self, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """A draw of one task's process."""
        task_key, draw_key = jax.random.split(key)
        states = self.mixture.fitted.states
        chosen = jax.random.randint(task_key, (), 0, len(jax.tree.leaves(states)[0]))
        return self.mixture.fitted.draw(jax.tree.map(lambda leaf: leaf[chosen], states), x, draw_key)

    def describe(self) -> str:
        """What it is."""
        return "the exact posterior of the interpolated process"
