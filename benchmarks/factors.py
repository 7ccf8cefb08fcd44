"""CPU time of factors and triangular solves of batches, and of the gradient of a marginal likelihood.

    python benchmarks/factors.py

"rows" is one loop over rows for the whole batch, "halves" is what the package does, "LAPACK" one call for each matrix;
all on one thread. The gradient is that of PACOH-GP with 10 particles on 5 tasks of 200 points and 12 inputs, with
matrices of up to 256 rows factored by rows, and as the package takes it.
"""

from __future__ import annotations

import os

# One thread, of OpenBLAS too: its own spin while others work, which is not what is to be measured.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jax.custom_batching import sequential_vmap

from scoreprior import _linalg
from scoreprior._memory import keep_freed_memory
from scoreprior.learners import pacoh_gp

BATCH = 50
SIZES = (64, 100, 128, 200, 256)
ONLY_ROWS = 256


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


@contextmanager
def by_rows() -> Iterator[None]:
    """Without halves."""
    small = _linalg._SMALL
    _linalg._SMALL = ONLY_ROWS
    try:
        yield
    finally:
        _linalg._SMALL = small


def factors() -> None:
    """Batches of factors, of their inverses, and of solves with as many right-hand sides as rows."""
    print(f"{BATCH} matrices, ms         size      rows    halves    LAPACK", flush=True)
    solve = lambda factor, b: jsl.solve_triangular(factor, b, lower=True)  # noqa: E731
    invert = lambda gram: solve(jnp.linalg.cholesky(gram), jnp.eye(len(gram)))  # noqa: E731
    for size in SIZES:
        root = jax.random.normal(jax.random.key(0), (BATCH, size, size + 5))
        grams = root @ jnp.swapaxes(root, 1, 2)
        lower = jnp.linalg.cholesky(grams)
        for name, own, lapack, args in (
            ("Cholesky factor", _linalg._factor, jnp.linalg.cholesky, (grams,)),
            ("its inverse", _linalg._whiten, invert, (grams,)),
            ("triangular solve", _linalg._substitute, solve, (lower, grams)),
        ):
            with by_rows():
                rows = milliseconds(jax.vmap(lambda *a, own=own: own(*a)), *args)
            halves = milliseconds(jax.vmap(lambda *a, own=own: own(*a)), *args)
            calls = milliseconds(jax.vmap(sequential_vmap(lapack)), *args)
            print(f"{name:22s} {size:8d} {rows:9.2f} {halves:9.2f} {calls:9.2f}", flush=True)


def gradient() -> None:
    """The gradient of PACOH-GP's log likelihood, by rows and by halves."""
    keys = jax.random.split(jax.random.key(0), 3)
    x, y = jax.random.normal(keys[0], (5, 200, 12)), jax.random.normal(keys[1], (5, 200))
    mask = jnp.ones(y.shape, bool)
    prior = pacoh_gp.hyper_prior(12, pacoh_gp.PACOHGP())
    particles = jax.vmap(prior.sample)(jax.random.split(keys[2], 10))

    def log_prob(phi: pacoh_gp.GPPrior) -> jax.Array:
        return jnp.sum(jax.vmap(phi.process().log_likelihood)(x, y, mask))

    with by_rows():
        rows = milliseconds(jax.vmap(jax.grad(log_prob)), particles)
    halves = milliseconds(jax.vmap(jax.grad(lambda phi: log_prob(phi))), particles)
    print(
        f"gradient of 50 marginal likelihoods, 200 points: {rows:.0f} ms by rows, {halves:.0f} ms by halves", flush=True
    )


if __name__ == "__main__":
    keep_freed_memory()
    factors()
    gradient()
