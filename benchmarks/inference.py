"""fSVGD speed: milliseconds per step and task in a batch of tasks, wall clock and CPU time.

    python benchmarks/inference.py [--tasks 100] [--steps 50] [--repeats 5] [--chunk 20]

10 particles of a 3 x 32 network, 8 context and 16 measurement points. The method's original implementation was
once measured at 1.4 to 2.7 ms per step and task, on another machine; the last column is 1.4 over our wall clock.
`--chunk` batches as many tasks at a time one after the other, whose particles and moments then stay in the cache.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from _clock import clock
from jaxtyping import PRNGKeyArray

from scoreprior._types import Score
from scoreprior.gp.kernels import Matern, ZeroMean
from scoreprior.inference import BNNConfig, Box, FSVGDConfig, FSVGDHyper, Network, fsvgd, init_particles
from scoreprior.scores.exact import GaussianProcessScore
from scoreprior.scores.levels import NoiseLevels
from scoreprior.scores.network import NetworkConfig, ScoreNetwork
from scoreprior.tasks import PaddedTasks

REFERENCE = 1.4
BOX = Box(jnp.array([-2.0]), jnp.array([2.0]))


def scores() -> dict[str, Score]:
    """The priors to time: no work at all, a closed form, and networks."""
    kernel = Matern(jnp.asarray(1.0), jnp.asarray([0.7]), 2.5)
    key = jax.random.key(0)
    return {
        "standard normal": lambda f, x, noise: -f,
        "Gaussian process": GaussianProcessScore(ZeroMean(), kernel),
        "network 16, 2 heads of 8": ScoreNetwork(1, NetworkConfig(embedding=16, heads=2, key_size=8), key),
        "network 32, 4 heads of 8": ScoreNetwork(1, NetworkConfig(), key),
    }


def runner(config: FSVGDConfig, chunk: int | None) -> Callable:
    """Particles of all tasks in one compiled call."""

    @eqx.filter_jit
    def run(score: Score, hyper: FSVGDHyper, tasks: PaddedTasks, particles: Network, keys: PRNGKeyArray) -> Network:
        def one(task: tuple) -> Network:
            return fsvgd.run(score, NoiseLevels(jnp.float32(0.1)), BOX, config, hyper, *task)

        return jax.lax.map(one, (tasks, particles, keys), batch_size=chunk or len(keys))

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--chunk", type=int, default=20)
    parser.add_argument("--only", default="", help="part of a score's name")
    arguments = parser.parse_args()
    n, m = arguments.tasks, 8
    config = FSVGDConfig(steps=arguments.steps, measurement_points=16)
    x = np.random.default_rng(0).uniform(-2, 2, (n, m, 1)).astype(np.float32)
    tasks = PaddedTasks(jnp.asarray(x), jnp.sin(x[..., 0]), jnp.ones((n, m), bool))
    keys = jax.random.split(jax.random.key(1), n)
    start = jax.jit(jax.vmap(lambda key: init_particles(key, 10, 1, BNNConfig(), BOX.low, BOX.high)))(keys)
    print(f"{n} tasks, ms per step and task       {'wall':>8} {'CPU':>8} {'times the original':>20}")
    for name, score in scores().items():
        if arguments.only not in name:
            continue
        for label, chunk in (("one batch", None), (f"chunks of {arguments.chunk}", arguments.chunk)):
            call = partial(runner(config, chunk), score, config.hyper(0.1), tasks, start, keys)
            jax.block_until_ready(call())
            wall, cpu = (1e3 * s / (n * config.steps) for s in clock(call, arguments.repeats))
            print(f"{name:26s} {label:13s} {wall:8.3f} {cpu:8.3f} {REFERENCE / wall:20.1f}", flush=True)


if __name__ == "__main__":
    main()
