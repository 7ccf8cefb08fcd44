"""Train the network of an anchored score: denoising score matching of the residual that a Gaussian process leaves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior.gp.process import GaussianProcess
from scoreprior.interpolators.draws import FunctionDraws
from scoreprior.scores import losses, spectral
from scoreprior.scores.anchored import AnchoredScore
from scoreprior.scores.levels import NoiseLevels
from scoreprior.scores.network import NetworkConfig, ScoreNetwork
from scoreprior.training import TrainingConfig, train, validation_losses

_REACH = 4.0
_VALIDATION_DRAWS = 64


def train_residual(
    anchor: GaussianProcess,
    levels: NoiseLevels,
    config: NetworkConfig,
    training: TrainingConfig,
    draws: FunctionDraws,
    held_out: FunctionDraws | None,
    key: PRNGKeyArray,
    **files: Any,
) -> tuple[AnchoredScore, dict[str, float]]:
    """The anchor's score with a trained residual, and the losses with and without it.

    Args:
        draws: functions to learn from.
        held_out: functions of other tasks: training stops when their loss no longer falls. None trains to the end.
        files: `checkpoint`, `resume` and `progress` of `train`.
    """
    start_key, loss_key, held_key = jax.random.split(key, 3)
    start = ScoreNetwork(draws.dim, config, start_key, noise_conditional=levels.coarse is not None)
    # The residual starts at nothing: the anchor is right until the data say otherwise.
    start = eqx.tree_at(lambda n: n.final, start, jax.tree.map(jnp.zeros_like, start.final))
    reach = jnp.float32(_REACH)
    validate = None if held_out is None else _HeldOut(_Loss(held_out, anchor, levels, reach), held_key)
    network, history = train(
        _Loss(draws, anchor, levels, reach),
        start,
        training if validate is not None else replace(training, patience=None),
        loss_key,
        project=spectral.power_iterate,
        trainable=spectral.trainable(start),
        validate=validate,
        description="Learning the prior",
        **files,
    )
    metrics = {"training_loss": history[-1].loss}
    if validate is not None:
        before, after = (float(np.mean(validation_losses(validate, each))) for each in (start, network))
        metrics |= {"held_out_loss_without_network": before, "held_out_loss": after}
    return AnchoredScore(anchor, spectral.finalise(network), reach), metrics


class _Loss(eqx.Module):
    """Denoising score matching on fresh draws: the residual network corrects the anchor's score."""

    draws: FunctionDraws
    anchor: GaussianProcess
    levels: NoiseLevels
    reach: Float[Array, ""]

    def __call__(self, network: ScoreNetwork, key: PRNGKeyArray) -> tuple[Float[Array, ""], dict[str, Array]]:
        draw_key, loss_key, level_key = jax.random.split(key, 3)
        f, x = self.draws.sample(draw_key)
        # The levels that inference will meet, one per step: the anchor is factored once, not once per function.
        level = self.levels(jax.random.uniform(level_key))
        score = AnchoredScore(self.anchor, spectral.normalise(network), self.reach)
        return losses.denoising(level)(score, f, x, loss_key), {}


class _HeldOut(eqx.Module):
    """The loss of held-out tasks over a fixed set of draws, so that two networks are compared on the same ones."""

    loss: _Loss
    key: PRNGKeyArray

    def __call__(self, network: ScoreNetwork) -> Float[Array, " n"]:
        return jax.lax.map(lambda key: self.loss(network, key)[0], jax.random.split(self.key, _VALIDATION_DRAWS))
