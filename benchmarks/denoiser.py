"""Speed of MARS with networks: a training step, and conditioning and predicting 100 tasks in three ways.

    python benchmarks/denoiser.py [--tasks 100] [--repeats 3] [--fsvgd-steps 500]

Tasks have 8 known points and 60 queries, training tasks 20 points; two networks of the default size. Weights do not
change the time, so networks are untrained. Times are of compiled programs, the shortest of the repeats.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from _clock import clock

import scoreprior as sp
from scoreprior.gp import GaussianProcess, Matern, ZeroMean
from scoreprior.inference import Box, Inference
from scoreprior.inference.denoised import Denoised
from scoreprior.inference.denoised_particles import ParticleConfig, particles_along
from scoreprior.learners._denoising import DenoisingLoss, Recorded
from scoreprior.learners._function_prior import FunctionPrior
from scoreprior.scores.denoiser import Denoiser, DenoiserConfig, DenoiserEnsemble
from scoreprior.space import override
from scoreprior.tasks import PaddedTasks, Standardizer

KNOWN, QUERIES, POINTS, BATCH, NETWORKS, DRAWS = 8, 60, 20, 32, 2, 1
BOX = Box(jnp.array([-2.0]), jnp.array([2.0]))


def denoisers() -> list[Denoiser]:
    """As many as an ensemble has, around one process."""
    process = GaussianProcess(ZeroMean(), Matern(jnp.asarray(1.0), jnp.asarray([0.7]), 2.5), jnp.asarray(0.1))
    return [Denoiser(process, 1, DenoiserConfig(), key) for key in jax.random.split(jax.random.key(0), NETWORKS)]


def peak() -> float:
    """Floating-point operations per second of a large matrix product."""
    size = 3000
    matrix = jnp.ones((size, size))
    product = jax.jit(lambda a: a @ a)
    return 2 * size**3 / clock(lambda: product(matrix), 5)[0]


def training_step(repeats: int) -> tuple[float, float, float]:
    """Wall and CPU seconds, and operations of a gradient as XLA counts them."""
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.uniform(-2, 2, (200, POINTS, 1)), jnp.float32)
    tasks = PaddedTasks(x, jnp.sin(x[..., 0]), jnp.ones((200, POINTS), bool))
    share, low, high, none = map(jnp.float32, (0.3, np.log(0.03), np.log(3.0), 0.0))
    recorded = Recorded(tasks, tasks.y, jnp.zeros_like(tasks.y))
    loss = DenoisingLoss(recorded, share, share, low, high, none, None, batch=BATCH, points=64, further=8)
    denoiser = denoisers()[0]
    arrays, static = eqx.partition(denoiser.encoder, eqx.is_array)

    def value(encoder: Any, key: Any) -> Any:
        return loss(eqx.tree_at(lambda d: d.encoder, denoiser, eqx.combine(encoder, static)), key)[0]

    compiled = jax.jit(jax.grad(value)).lower(arrays, jax.random.key(0)).compile()
    operations = compiled.cost_analysis()["flops"]
    return *clock(lambda: compiled(arrays, jax.random.key(0)), 20 * repeats), operations


def prior(inference: Inference, tasks: sp.TaskSet) -> FunctionPrior:
    return FunctionPrior(Standardizer.fit(tasks), inference)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--fsvgd-steps", type=int, default=500)
    arguments = parser.parse_args()
    best = peak()
    wall, cpu, operations = training_step(arguments.repeats)
    print(f"peak {best / 1e9:.0f} GFLOP/s (a large matrix product)")
    print(
        f"training step, {BATCH} tasks of {POINTS} points: {1e3 * wall:.2f} ms wall, {1e3 * cpu:.2f} ms CPU, "
        f"{operations / wall / best:.1%} of peak"
    )

    rng = np.random.default_rng(0)
    xs = rng.uniform(-2, 2, (arguments.tasks, KNOWN))
    tasks = sp.TaskSet.from_arrays(xs, np.sin(xs))
    queries = [np.linspace(-2, 2, QUERIES)] * arguments.tasks
    both = DenoiserEnsemble.of(denoisers())
    config = override(ParticleConfig(), {"fsvgd.steps": arguments.fsvgd_steps})
    direct = prior(Denoised(both), tasks)
    particles = prior(particles_along(both, BOX, BOX, config), tasks)
    draws = eqx.filter_jit(
        lambda one, state, x, keys: jax.vmap(lambda context, own: jax.vmap(lambda key: one.draw(context, x, key))(own))(
            state, keys
        )
    )
    state = direct.condition_many(tasks, 0).groups[0].state
    grid = jnp.linspace(-2, 2, QUERIES)[:, None]
    keys = jax.random.split(jax.random.key(1), (arguments.tasks, DRAWS))
    ways: dict[str, Callable[[], Any]] = {
        "marginals in one pass": lambda: [each.locs for each in direct.condition_many(tasks, 0).predict(queries)],
        f"{DRAWS} joint draws of each": lambda: draws(direct.inference, state, grid, keys),
        f"fSVGD, {arguments.fsvgd_steps} steps": lambda: [
            each.locs for each in particles.condition_many(tasks, 0).predict(queries)
        ],
    }
    print(f"{arguments.tasks} tasks of {KNOWN} points at {QUERIES} places     wall s    CPU s")
    for name, call in ways.items():
        wall, cpu = clock(call, arguments.repeats)
        print(f"{name:36s} {wall:8.2f} {cpu:8.2f}", flush=True)
    each = 1e3 * wall / arguments.tasks / arguments.fsvgd_steps
    print(f"fSVGD: {each:.3f} ms wall per step and task, warm start included")


if __name__ == "__main__":
    main()
