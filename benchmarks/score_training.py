"""Seconds per training step of the score network, against the authors' code and the machine's own peak.

    python benchmarks/score_training.py [--heads 8 --key-size 16] [--objectives denoising] [--seconds 2]

A step is loss, gradient, spectral normalisation and Adam, inside one compiled scan. CPU is process time over all
threads; both it and wall time are the best of several scans, as other processes only ever add to them. The share
of peak is FLOPs of a step (counted by XLA before optimisation) per wall second over those of a large float32
matrix product in the same run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from scoreprior.scores import losses, spectral
from scoreprior.scores.network import NetworkConfig, ScoreNetwork

REFERENCE_CPU = {(8, 20): 0.077, (16, 20): 0.25, (16, 100): 1.2}
"""CPU seconds per step of the authors' code (exact trace) by (points, functions)."""

OBJECTIVES = {
    "exact": losses.exact_trace,
    "sliced": losses.sliced,
    "denoising": losses.denoising(0.1),
    "exact, generic": losses.exact_trace_of_any,
}


class Timing(NamedTuple):
    """Best seconds per call."""

    wall: float
    cpu: float


def best(run: Callable[[], Any], seconds: float, calls: int = 1) -> Timing:
    """The best of as many runs as fit (at least three); each makes `calls` calls."""
    wall = cpu = float("inf")
    stop, count = time.perf_counter() + seconds, 0
    while count < 3 or time.perf_counter() < stop:
        wall_start, cpu_start = time.perf_counter(), time.process_time()
        jax.block_until_ready(run())
        wall = min(wall, time.perf_counter() - wall_start)
        cpu = min(cpu, time.process_time() - cpu_start)
        count += 1
    return Timing(wall / calls, cpu / calls)


def peak_flops(seconds: float, size: int = 2048) -> float:
    """FLOPs per wall second of a float32 matrix product."""
    matrix = jnp.ones((size, size))
    product = jax.jit(jnp.matmul)
    return 2 * size**3 / best(lambda: product(matrix, matrix), seconds).wall


def time_step(
    objective: losses.Objective, config: NetworkConfig, points: int, functions: int, seconds: float
) -> tuple[Timing, float]:
    """Best seconds of a step, and its FLOPs."""
    network = ScoreNetwork(1, config, jax.random.key(0))
    spec, optimiser = spectral.trainable(network), optax.adam(1e-3)
    f = jax.random.normal(jax.random.key(1), (functions, points))
    x = jax.random.normal(jax.random.key(2), (points, 1))
    steps = 4 if "exact" in _name(objective) else 20

    def step(carry: tuple[ScoreNetwork, Any], key: Array) -> tuple[tuple[ScoreNetwork, Any], Float[Array, ""]]:
        network, state = carry
        params, rest = eqx.partition(spectral.power_iterate(network), spec)
        loss, gradient = jax.value_and_grad(lambda p: objective(spectral.normalise(eqx.combine(p, rest)), f, x, key))(
            params
        )
        updates, state = optimiser.update(gradient, state)
        return (eqx.combine(eqx.apply_updates(params, updates), rest), state), loss

    start = (network, optimiser.init(eqx.filter(network, spec)))
    run, keys = jax.jit(lambda c, k: jax.lax.scan(step, c, k)), jax.random.split(jax.random.key(3), steps)
    jax.block_until_ready(run(start, keys))
    analysis: Any = jax.jit(step).lower(start, keys[0]).cost_analysis()
    return best(lambda: run(start, keys), seconds, steps), float(analysis["flops"])


def _name(objective: losses.Objective) -> str:
    return next(name for name, known in OBJECTIVES.items() if known is objective)


def main() -> None:
    default = NetworkConfig()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("embedding", "heads", "key_size"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(default, name))
    parser.add_argument("--normalisation", choices=["spectral", "none"], default=default.normalisation)
    parser.add_argument("--objectives", nargs="*", choices=list(OBJECTIVES), default=["exact", "sliced", "denoising"])
    parser.add_argument("--seconds", type=float, default=2.0, help="time spent on each figure")
    options = vars(parser.parse_args())
    seconds, names = options.pop("seconds"), options.pop("objectives")
    config = NetworkConfig(**options)
    peak = peak_flops(seconds)
    print(config, f"peak {peak / 1e9:.0f} GFLOP/s", sep="\n")
    print(
        f"{'objective':15s} {'k':>3s} {'n':>4s} {'wall s':>9s} {'CPU s':>9s} {'reference / CPU':>16s} {'of peak':>8s}"
    )
    for name in names:
        for (points, functions), reference in REFERENCE_CPU.items():
            timing, flops = time_step(OBJECTIVES[name], config, points, functions, seconds)
            print(
                f"{name:15s} {points:3d} {functions:4d} {timing.wall:9.4f} {timing.cpu:9.4f} "
                f"{reference / timing.cpu:16.1f} {flops / timing.wall / peak:8.1%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
