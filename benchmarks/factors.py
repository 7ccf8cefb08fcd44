"""CPU time of factors and triangular solves of batches, and of the gradient of a marginal likelihood.

    python benchmarks/factors.py

"together" is one loop over rows for the whole batch, "one by one" a loop for each matrix, "LAPACK" one call for each;
all on one thread. The gradient is that of PACOH-GP with 10 particles on 5 tasks of 200 points and 12 inputs: through
the factor and the array of differences, and as the package takes it.
"""

from __future__ import annotations

import os

# One thread, of OpenBLAS too: its own spin while others work, which is not what is to be measured.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jax.custom_batching import sequential_vmap

from scoreprior import _linalg
from scoreprior._memory import keep_freed_memory
from scoreprior.learners import pacoh_gp
from scoreprior.process import GaussianProcess

BATCH = 50
SIZES = (32, 64, 96, 128, 200, 256)


def milliseconds(function: Callable[..., object], *args: object) -> float:
    """CPU time of a call after compilation, the least of three means."""
    compiled = jax.jit(function)
    jax.block_until_ready(compiled(*args))
    means = []
    for _ in range(3):
        start, calls = time.process_time(), 0
        while time.process_time() - start < 0.3:
            jax.block_until_ready(compiled(*args))
            calls += 1
        means.append((time.process_time() - start) / calls)
    return 1e3 * min(means)


def factors() -> None:
    """Batches of factors and of solves with as many right-hand sides as rows."""
    print(f"{BATCH} matrices, ms         size  together  one by one    LAPACK", flush=True)
    solve = lambda factor, b: jsl.solve_triangular(factor, b, lower=True)  # noqa: E731
    for size in SIZES:
        root = jax.random.normal(jax.random.key(0), (BATCH, size, size + 5))
        grams = root @ jnp.swapaxes(root, 1, 2)
        lower = jnp.linalg.cholesky(grams)
        for name, own, lapack, args in (
            ("Cholesky factor", _linalg._factor.fun.__wrapped__, jnp.linalg.cholesky, (grams,)),
            ("triangular solve", _linalg._substitute.__wrapped__, solve, (lower, grams)),
        ):
            variants = (own, sequential_vmap(own), sequential_vmap(lapack))
            times = [milliseconds(jax.vmap(variant), *args) for variant in variants]
            print(f"{name:22s} {size:8d} {times[0]:9.2f} {times[1]:11.2f} {times[2]:9.2f}", flush=True)


def gradient() -> None:
    """The gradient of PACOH-GP's log likelihood, before and now."""
    keys = jax.random.split(jax.random.key(0), 3)
    x, y = jax.random.normal(keys[0], (5, 200, 12)), jax.random.normal(keys[1], (5, 200))
    mask = jnp.ones(y.shape, bool)
    prior = pacoh_gp.hyper_prior(12, pacoh_gp.PACOHGP())
    particles = jax.vmap(prior.sample)(jax.random.split(keys[2], 10))

    def slope(log_prob: Callable[..., jax.Array]) -> Callable[..., object]:
        return jax.vmap(
            jax.grad(lambda phi: jnp.sum(jax.vmap(lambda *task: log_prob(phi.process(), *task))(x, y, mask)))
        )

    def through_factor(process: GaussianProcess, x: jax.Array, y: jax.Array, mask: jax.Array) -> jax.Array:
        gram = process.kernel(x, x) + process.noise_std**2 * jnp.eye(len(x))
        factor = _linalg.cholesky(gram)
        white = _linalg.solve_lower(factor, y - process.mean(x))
        return -0.5 * jnp.sum(white**2) - jnp.sum(jnp.log(jnp.diagonal(factor)))

    now = milliseconds(slope(lambda process, *task: process.log_likelihood(*task)), particles)
    together, distances = _linalg._TOGETHER, pacoh_gp.squared_distances
    _linalg._TOGETHER = _linalg._LARGEST
    pacoh_gp.squared_distances = distances.fun  # without its rule
    before = milliseconds(slope(through_factor), particles)
    _linalg._TOGETHER, pacoh_gp.squared_distances = together, distances
    print(f"gradient of 50 marginal likelihoods, 200 points: {before:.0f} ms, {now:.0f} ms now", flush=True)


if __name__ == "__main__":
    keep_freed_memory()
    factors()
    gradient()
