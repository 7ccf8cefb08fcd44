"""Families of functions with few latent parameters, and their Bayes-optimal predictive by numerical integration.

f(x) = sum_j w_j phi_j(x; theta) with shapes theta uniform on a box and weights w_j ~ N(mean_j, std_j^2), and
y = f(x) + noise. Given theta the model is linear, so the weights are integrated out in closed form; theta, of one
or two dimensions, on a fine grid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float

from scoreprior.environments._base import Card, Environment
from scoreprior.environments._synthetic import check_context, describe, simulate
from scoreprior.predictive import Predictive
from scoreprior.tasks import Task
from scoreprior.tasks.checks import check_query

Basis: TypeAlias = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""phi: x (m,), theta (n, r) -> (n, m, p)."""
Edges: TypeAlias = Callable[[np.ndarray], tuple[np.ndarray, ...]]
"""Edges of the grid's cells over the box, one increasing array for each of the r shapes, given the context's x."""


@dataclass(frozen=True)
class Family:
    """The functions of an environment; called as an oracle, the predictive of y at x (q, 1) given a context.

    p(theta | D), with a density constant on the cells of a grid, is replaced by `nodes` equally weighted points:
    the Hammersley points of the unit square (in one dimension: evenly spaced levels) mapped through the inverse
    CDFs. Each gives a Gaussian for y; at each query they are sorted and merged to `components` equally weighted
    ones by their moments, which keeps mean and standard deviation.

    Args:
        name: the environment's.
        title: for its card, as are `source` and `units`.
        stream: the seed that tells its random numbers from those of other environments.
        basis: the functions phi_j.
        edges: the grid; its outermost edges are the box that theta is uniform on.
        weight_mean: means of the weights, p.
        weight_std: standard deviations of the weights, p; 0 is a known weight.
        x_range: x is uniform on it.
        noise_std: standard deviation of the Gaussian observation noise.
        nodes: points of p(theta | D), a multiple of `components` and best a power of two.
        components: of the predictive.
    """

    name: str
    title: str
    source: str
    units: str
    stream: int
    basis: Basis
    edges: Edges
    weight_mean: tuple[float, ...]
    weight_std: tuple[float, ...]
    x_range: tuple[float, float]
    noise_std: float
    nodes: int = 4096
    components: int = 128

    def __call__(self, context: Task, x: Any) -> Predictive:
        inputs, y = check_context(context)
        query = check_query(x, 1)[:, 0]
        theta = self._posterior_shapes(inputs, y)
        mean, cov = self._posterior_weights(*self._standardised(inputs, y, theta))
        scaled = self.basis(query, theta) * self.weight_std
        locs = self.basis(query, theta) @ np.array(self.weight_mean) + np.einsum("nqp,np->nq", scaled, mean)
        variances = np.einsum("nqp,npr,nqr->nq", scaled, cov, scaled)
        return Predictive(*_merge(locs, variances + self.noise_std**2, self.components))

    def functions(self, rng: np.random.Generator, x: Any, n: int) -> Float[np.ndarray, "n k"]:
        """n functions of the prior at x (k, 1), without noise."""
        at = check_query(x, 1)[:, 0]
        low, high = np.transpose([(edges[0], edges[-1]) for edges in self.edges(np.zeros(0))])
        theta = rng.uniform(low, high, size=(n, len(low)))
        weights = rng.normal(self.weight_mean, self.weight_std, size=(n, len(self.weight_mean)))
        return np.einsum("nkp,np->nk", self.basis(at, theta), weights)

    def draw(self, rng: np.random.Generator, m: int) -> tuple[np.ndarray, np.ndarray]:
        """One task of m points: x uniform, y from a function of the prior plus noise."""
        x = rng.uniform(*self.x_range, size=m)
        return x, self.functions(rng, x, 1)[0] + self.noise_std * rng.normal(size=m)

    def log_evidence(self, inputs: np.ndarray, y: np.ndarray, theta: np.ndarray) -> Float[np.ndarray, " n"]:
        """log p(y | theta) up to a constant, the weights integrated out: inputs, y (m,), theta (n, r)."""
        scaled, residual = self._standardised(inputs, y, theta)
        mean, cov = self._posterior_weights(scaled, residual)
        explained = np.einsum("nmp,nm,np->n", scaled, residual, mean)
        return -0.5 * ((residual**2).sum(-1) - explained) + 0.5 * np.linalg.slogdet(cov)[1]

    def _standardised(self, inputs: np.ndarray, y: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Basis (n, m, p) for weights in units of their prior, and residuals (n, m), both divided by the noise."""
        design = self.basis(inputs, theta)
        residual = (y - design @ np.array(self.weight_mean)) / self.noise_std
        return design * (np.array(self.weight_std) / self.noise_std), residual

    @staticmethod
    def _posterior_weights(scaled: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean (n, p) and covariance (n, p, p) of the weights, in units of their prior."""
        cov = np.linalg.inv(np.eye(scaled.shape[-1]) + scaled.swapaxes(1, 2) @ scaled)
        return np.einsum("npr,nmr,nm->np", cov, scaled, residual, optimize=True), cov

    def _posterior_shapes(self, inputs: np.ndarray, y: np.ndarray) -> Float[np.ndarray, "L r"]:
        """Equally weighted nodes of p(theta | D)."""
        edges = self.edges(inputs)
        middles = [0.5 * (each[1:] + each[:-1]) for each in edges]
        theta = np.stack(np.meshgrid(*middles, indexing="ij"), axis=-1)
        volumes = np.prod(np.meshgrid(*[np.diff(each) for each in edges], indexing="ij"), axis=0)
        evidence = self.log_evidence(inputs, y, theta.reshape(-1, len(edges)))
        with np.errstate(divide="ignore"):  # two context points may share an x
            log_mass = evidence.reshape(volumes.shape) + np.log(volumes)
        return _equal_nodes(edges, log_mass, self.nodes)

    def environment(
        self,
        split: int = 0,
        data_dir: str | Path | None = None,
        *,
        tasks: int = 1000,
        points: int = 20,
        n_context: int = 8,
        n_valid: int = 100,
        n_test: int = 100,
        n_target: int = 50,
    ) -> Environment:
        """Tasks of this family, with it as their oracle; `data_dir` is not used: the data are simulated."""
        parts = simulate(
            self.draw,
            self.stream,
            split,
            tasks=tasks,
            points=points,
            n_context=n_context,
            n_valid=n_valid,
            n_test=n_test,
            n_target=n_target,
        )
        card = Card(
            title=self.title,
            source=f"simulated: {self.source}, observation noise {self.noise_std:g}",
            licence="none needed, generated by this package",
            sizes=describe(parts),
            units=self.units,
            notes="The oracle is the Bayes-optimal predictive under the true prior. With fewer tasks, the training "
            "tasks are the first of these.",
        )
        return Environment(self.name, parts.train, parts.valid, parts.test, card, split, oracle=self)


def _merge(locs: np.ndarray, variances: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations (n, q) of n Gaussians, each with the moments of L / n neighbours of (L, q)."""
    order = np.argsort(locs, axis=0)
    locs, variances = (np.take_along_axis(a, order, 0).reshape(n, -1, a.shape[1]) for a in (locs, variances))
    return locs.mean(1), np.sqrt(variances.mean(1) + locs.var(1))


def _equal_nodes(edges: tuple[np.ndarray, ...], log_mass: np.ndarray, n: int) -> Float[np.ndarray, "n r"]:
    """n nodes of equal weight of a distribution over the cells of a one- or two-dimensional grid."""
    levels = (np.arange(n) + 0.5) / n
    mass = np.exp(log_mass - log_mass.max())
    first = np.interp(levels, _cdf(mass if len(edges) == 1 else mass.sum(-1)), edges[0])
    if len(edges) == 1:
        return first[:, None]
    # All conditional CDFs end to end, each one higher than that before it, are inverted by one interpolation.
    rows = np.clip(np.searchsorted(edges[0], first) - 1, 0, len(log_mass) - 1)
    conditional = _cdf(np.exp(log_mass - log_mass.max(-1, keepdims=True)))
    heights = (conditional + np.arange(len(conditional))[:, None]).ravel()
    second = np.interp(rows + _radical_inverse(n), heights, np.tile(edges[1], len(conditional)))
    return np.stack([first, second], axis=1)


def _cdf(mass: Float[np.ndarray, "*rows cells"]) -> Float[np.ndarray, "*rows edges"]:
    """The CDF at the edges of the cells, from 0 to 1."""
    total = np.cumsum(mass, axis=-1)
    return np.concatenate([np.zeros_like(total[..., :1]), total / total[..., -1:]], axis=-1)


def _radical_inverse(n: int) -> Float[np.ndarray, " n"]:
    """0, 1, ..., n - 1 with their binary digits mirrored at the point, and half of 1 / n added.

    A golden-ratio lattice in their place resonates with waves whose phase is linear in both shapes.
    """
    rest, result, weight = np.arange(n), np.full(n, 0.5 / n), 0.5
    while rest.any():
        result, rest, weight = result + weight * (rest % 2), rest // 2, weight / 2
    return result
