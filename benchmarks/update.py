"""What a prior of half of the tasks gains by the others, and how long that takes: updated, fitted on, fitted anew.

    python benchmarks/update.py [--method hierarchical-gp] [--env physionet-gcs ...] [--tasks 1000] [--out FILE]

Every row is judged on the validation tasks. Seconds are of CPU time in one process, compilation included; a fit of a
few tasks compiles first what all of them share.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import scoreprior as sp
from scoreprior.bench.work import provenance
from scoreprior.learners import Prior

ENVIRONMENTS = ("physionet-gcs", "physionet-hct")


def rows(method: str, environment: str, number: int) -> list[dict]:
    """One for each way to a prior."""
    env = sp.environment(environment, tasks=number)
    tasks, chosen = env.selection_train, sp.learner(method)
    half = len(tasks) // 2
    found = []

    def judged(way: str, make: Callable[[], Prior]) -> Prior:
        begun = time.process_time()
        prior = make()
        seconds = time.process_time() - begun
        frame = sp.evaluate(prior, env, 0, tasks="valid")
        figures = {name: float(frame[name].mean()) for name in ("rmse", "log_score", "crps")}
        found.append({"environment": environment, "tasks": len(tasks), "way": way, "cpu_seconds": seconds} | figures)
        print(found[-1], flush=True)
        return prior

    first = judged("half of the tasks", lambda: chosen.fit(tasks.take(range(half)), 0, progress=False))
    judged("updated", lambda: first.update(tasks.take(range(half, len(tasks)))))
    judged("all tasks, init", lambda: chosen.fit(tasks, 0, progress=False, init=first))
    judged("all tasks", lambda: chosen.fit(tasks, 0, progress=False))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", default="hierarchical-gp")
    parser.add_argument("--env", nargs="+", default=ENVIRONMENTS)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    records = [row for each in args.env for row in rows(args.method, each, args.tasks)]
    if args.out:
        stamp = {"created": datetime.now(UTC).isoformat(timespec="seconds"), "provenance": provenance()}
        args.out.write_text(json.dumps({"method": args.method, **stamp, "records": records}, indent=1) + "\n")


if __name__ == "__main__":
    main()
