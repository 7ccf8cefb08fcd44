"""What a guard against unlike tasks costs on related ones, and what it gives on tasks of another family.

    python benchmarks/guard.py [--method hierarchical-gp] [--env sinusoid physionet-gcs ...] [--out results/guard.json]

Related tasks are the validation tasks of an environment. Tasks of another family are sine waves over the same inputs,
one to five times as large as the training targets and three to ten standard deviations away from them.
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import scoreprior as sp
from scoreprior.bench.work import provenance
from scoreprior.learners.guarded import FLAGGED

ENVIRONMENTS = ("sinusoid", "physionet-gcs", "physionet-hct", "physionet-hr")


def waves(pairs: sp.ContextTarget, standardizer: sp.Standardizer, seed: int) -> sp.ContextTarget:
    """The same inputs, and targets of another family."""
    rng, contexts, targets = np.random.default_rng(seed), [], []
    for known, asked in ((one.x, other.x) for one, other in zip(pairs.context, pairs.target)):
        level, size = rng.choice([-1, 1]) * rng.uniform(3, 10), rng.uniform(1, 5)
        slope, phase = rng.normal(size=known.shape[1]), rng.uniform(0, 2 * np.pi)

        def values(x: np.ndarray, level=level, size=size, slope=slope, phase=phase) -> np.ndarray:
            angle = 2 * standardizer.scale_x(x) @ slope + phase
            noise = 0.1 * rng.normal(size=len(x))
            return standardizer.unscale_y(level + size * (np.sin(angle) + noise))

        contexts.append(sp.Task(known, values(known)))
        targets.append(sp.Task(asked, values(asked)))
    return sp.ContextTarget(sp.TaskSet(contexts), sp.TaskSet(targets))


def compare(prior: Any, pairs: sp.ContextTarget) -> dict[str, float]:
    """Both with and without the guard on the same tasks."""
    guarded, plain = (sp.evaluate_pairs(each, pairs, 0) for each in (prior, prior.unguarded))
    n = len(pairs)
    found = {"tasks": n, "flagged": float(np.mean(prior.condition_many(pairs.context, 0).surprise < FLAGGED))}
    for name in ("rmse", "log_score", "crps", "coverage90"):
        gap = guarded[name] - plain[name]
        found |= {name: float(plain[name].mean()), f"{name}_guarded": float(guarded[name].mean())}
        found |= {f"{name}_se": float(plain[name].std() / np.sqrt(n)), f"{name}_gap_se": float(gap.std() / np.sqrt(n))}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", default="hierarchical-gp")
    parser.add_argument("--env", nargs="+", default=ENVIRONMENTS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    records = []
    print(f"{'environment':22}{'tasks':9}{'flagged':>8}{'RMSE':>16}{'log score':>18}{'in 90%':>14}")
    for name in arguments.env:
        env = sp.environment(name)
        prior = sp.Guarded(arguments.method).fit(env.meta_train, arguments.seed, progress=False)
        for kind, pairs in (
            ("related", env.meta_valid),
            ("unlike", waves(env.meta_valid, prior.standardizer, arguments.seed)),
        ):
            found = compare(prior, pairs)
            records.append({"environment": name, "method": arguments.method, "kind": kind, **found})
            told = [f"{found[m]:.3f} {found[m + '_guarded']:.3f}" for m in ("rmse", "log_score", "coverage90")]
            print(f"{name:22}{kind:9}{found['flagged']:8.1%}{told[0]:>16}{told[1]:>18}{told[2]:>14}", flush=True)
    if arguments.out is not None:
        made = provenance() | {"date": datetime.now(UTC).isoformat(timespec="seconds"), "seed": arguments.seed}
        arguments.out.write_text(json.dumps({"made": made, "records": records}, indent=1) + "\n")


if __name__ == "__main__":
    main()
