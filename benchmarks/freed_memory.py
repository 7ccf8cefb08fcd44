"""CPU seconds of inference on long contexts, with freed memory given back to the system and with it kept.

    python benchmarks/freed_memory.py [--steps 50]

Four tasks of swissfel-sim with 200 points each, in the paper's configuration; a process for each, in turns.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys

import jax

import scoreprior as sp
from scoreprior._memory import keep_freed_memory
from scoreprior.learners import learner

TURNS = 2


def measure(steps: int) -> str:
    """User and system seconds and page faults of so many steps, after they have been compiled."""
    env = sp.environment("swissfel-sim")
    settings = {"training.steps": 5, "inference.steps": steps}
    prior = learner("mars-gp-letter", **settings).fit(env.meta_train, 0, progress=False)
    used = []
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_SELF)
        posteriors = prior.condition_many(env.meta_test.context, 0)
        jax.block_until_ready([jax.tree.leaves(group.state) for group in posteriors.groups])
        after = resource.getrusage(resource.RUSAGE_SELF)
        used.append([getattr(after, name) - getattr(before, name) for name in ("ru_utime", "ru_stime", "ru_minflt")])
    user, system, faults = used[-1]
    return f"{user:8.1f} {system:9.1f} {faults:12,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--memory", choices=("kept", "given back"), help="measure this one here, without a new process")
    options = parser.parse_args()
    if options.memory:
        if options.memory == "kept" and not keep_freed_memory():
            sys.exit("The C library of this system is not glibc.")
        print(f"{options.memory:22s} {measure(options.steps)}", flush=True)
        return
    print(f"{options.steps} steps, freed memory {'user s':>8} {'system s':>9} {'page faults':>12}", flush=True)
    for memory in ("given back", "kept") * TURNS:
        subprocess.run([sys.executable, __file__, "--steps", str(options.steps), "--memory", memory], check=True)


if __name__ == "__main__":
    main()
