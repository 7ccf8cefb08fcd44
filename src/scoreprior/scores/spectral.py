"""Spectral normalisation W / ||W|| (the paper's section 5.3) as pure functions, beside the forward pass.

A training step is: `power_iterate` the network once, then differentiate objective(normalise(network)). When
training ends `finalise` makes the bound hold for the weights as they are saved. Every function takes any
pytree that holds score networks, such as a closed-form score plus a network, and leaves the rest alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from scoreprior.scores.attention import Linear
from scoreprior.scores.network import ScoreNetwork

T = TypeVar("T")
_TINY = 1e-12


def power_iterate(network: T) -> T:
    """One power iteration u <- W^T W u / ||W^T W u|| in every normalisable layer; weights are untouched."""

    def iterate(layer: Linear) -> Linear:
        matrices = jax.lax.stop_gradient(stacked(layer))
        image = _unit(jnp.einsum("ipo,po->pi", matrices, layer.singular))
        return _with(layer, singular=_unit(jnp.einsum("ipo,pi->po", matrices, image)))

    return _over_layers(iterate, network)


def normalise(network: T) -> T:
    """Weights W * multiplier / sigma with sigma = u^T W^T v, differentiable in W with u and v constant.

    Always divides, also where ||W|| < 1. A network without normalisation is returned as it is.
    """

    def rescale(one: ScoreNetwork) -> ScoreNetwork:
        if one.multiplier is None:
            return one
        multiplier = jax.lax.stop_gradient(one.multiplier)

        def divide(layer: Linear) -> Linear:
            factor = jnp.repeat(multiplier / norms(layer), stacked(layer).shape[-1])
            return _with(layer, weight=layer.weight * (factor[:, None] if layer.transposed else factor))

        return _over_layers(divide, one)

    return _over(ScoreNetwork, rescale, network)


@eqx.filter_jit
def finalise(network: T) -> T:
    """The network normalised by exact singular values: ||W|| = multiplier to float precision."""

    def exact(layer: Linear) -> Linear:
        # One matrix after the other: `_linalg.py` says what two batches of LAPACK calls at once may do.
        right = jax.lax.map(lambda w: jnp.linalg.svd(w, full_matrices=False)[2][0], jnp.moveaxis(stacked(layer), 1, 0))
        return _with(layer, singular=right)

    return normalise(_over_layers(exact, network))


def norms(layer: Linear) -> Float[Array, " p"]:
    """Current estimates sigma = ||W u|| of the spectral norms ||W||, (p,).

    With v = W u / ||W u|| this is the form u^T W^T v, and so is its gradient in W: v constant, u constant.
    """
    directions = _unit(jax.lax.stop_gradient(jnp.asarray(layer.singular)))
    image = jnp.einsum("ipo,po->pi", stacked(layer), directions)
    return jnp.sqrt(jnp.sum(image**2, axis=-1) + _TINY**2)


def normalisable(network: PyTree) -> list[Linear]:
    """The layers that spectral normalisation concerns: all linear layers but the final one."""
    nodes = jax.tree.leaves(network, is_leaf=_is(Linear))
    return [node for node in nodes if isinstance(node, Linear) and node.singular is not None]


def trainable(network: PyTree) -> PyTree[bool]:
    """Filter for `eqx.partition`: all floating-point arrays but singular vectors, multiplier and frequencies."""
    spec = jax.tree.map(eqx.is_inexact_array, network)

    def frozen(one: ScoreNetwork) -> ScoreNetwork:
        names = [name for name in ("multiplier", "frequencies") if getattr(one, name) is not None]
        return _with(one, **dict.fromkeys(names, False)) if names else one

    freeze = _over(ScoreNetwork, frozen, spec)
    return _over_layers(lambda layer: _with(layer, singular=False), freeze)


def only_networks(tree: PyTree) -> PyTree[bool]:
    """`trainable` of the score networks in a tree, and nothing else."""
    is_network = _is(ScoreNetwork)
    return jax.tree.map(lambda node: trainable(node) if is_network(node) else False, tree, is_leaf=is_network)


def stacked(layer: Linear) -> Float[Array, "in p out"]:
    """The layer's p matrices W as one array."""
    if layer.singular is None:
        raise ValueError("This layer is never normalised and carries no singular vectors.")
    return layer.matrix.reshape(len(layer.matrix), *layer.singular.shape)


def _unit(vector: Float[Array, "p s"]) -> Float[Array, "p s"]:
    return vector / jnp.maximum(jnp.linalg.norm(vector, axis=-1, keepdims=True), _TINY)


def _over_layers(change: Callable[[Linear], Linear], tree: T) -> T:
    return _over(Linear, lambda layer: layer if layer.singular is None else change(layer), tree)


def _over(kind: type, change: Callable[[Any], Any], tree: T) -> T:
    is_kind = _is(kind)
    return jax.tree.map(lambda node: change(node) if is_kind(node) else node, tree, is_leaf=is_kind)


def _is(kind: type) -> Callable[[Any], bool]:
    return lambda node: isinstance(node, kind)


def _with(module: T, **changes: Any) -> T:
    """The module with these fields replaced."""
    names = list(changes)
    return eqx.tree_at(
        lambda node: [getattr(node, name) for name in names],
        module,
        [changes[name] for name in names],
        is_leaf=lambda leaf: leaf is None,
    )
