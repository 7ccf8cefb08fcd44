"""CPU seconds to compile and to run the inference of MARS, by LLVM's level of optimisation and XLA's emitters.

    python benchmarks/compilation.py [--steps 300]

Ten tasks of the sinusoid; JAX's default is level 3. The ways take turns, so that a noisy machine disturbs them alike.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

import scoreprior as sp
from scoreprior._compilation import LEVEL_1, LEVEL_1_NO_FUSION
from scoreprior.learners import learner
from scoreprior.learners._base import Prior, bare

WAYS: dict[str, dict[str, Any]] = {"level 3": {}, "level 1": LEVEL_1, "level 1, older": LEVEL_1_NO_FUSION}
ROUNDS = 3


def cpu_seconds(call: Callable[[], Any]) -> float:
    start = time.process_time()
    jax.block_until_ready(call())
    return time.process_time() - start


def measure(prior: Prior, tasks: sp.TaskSet, options: dict[str, Any]) -> tuple[float, float]:
    """Seconds to compile, and the least of three runs."""
    # A new function every time: JAX would remember the compiled one.
    program = eqx.filter_jit(lambda *args: jax.vmap(bare(prior).infer)(*args), **options)
    args = prior.standardizer.apply(tasks).padded(), jax.random.split(jax.random.key(0), len(tasks))
    lowered = program.lower(*args)
    start = time.process_time()
    compiled = lowered.compile()
    compiling = time.process_time() - start
    return compiling, min(cpu_seconds(lambda: compiled(*args)) for _ in range(ROUNDS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300, help="of fSVGD in the paper's configuration")
    steps = parser.parse_args().steps
    env = sp.environment("sinusoid")
    tasks = env.meta_test.context.take(range(10))
    paper = {"training.steps": 20, "inference.steps": steps}
    learners = {"mars-gp": learner("mars-gp", network=None), "mars-gp-letter": learner("mars-gp-letter", **paper)}
    print(f"10 tasks, CPU seconds {'':14s} {'compile':>9} {'run':>8}")
    for name, method in learners.items():
        prior = method.fit(env.meta_train, 0, progress=False)
        for _ in range(ROUNDS):
            for way, options in WAYS.items():
                compiling, running = measure(prior, tasks, options)
                print(f"{name:21s} {way:14s} {compiling:9.1f} {running:8.2f}", flush=True)


if __name__ == "__main__":
    main()
