"""Test figures of methods on environments: one JSON line per (environment, method, seed), resumable.

    SCOREPRIOR_DATA=... python benchmarks/quality.py --env sinusoid,berkeley --method mars-gp,last-value --seeds 5
    python benchmarks/quality.py --part valid --env sinusoid --method mars-gp --seeds 1 --set smoothing=0.0

Lines go to results/quality.jsonl; a line that is there is not run again. `--show` prints the table of what is there.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import time
from importlib.metadata import version
from pathlib import Path

import pandas as pd

import scoreprior as sp

RECORDS = Path(__file__).parents[1] / "results" / "quality.jsonl"
COLUMNS = ["rmse", "nll", "crps", "pooled_calibration_error", "pooled_coverage90", "fit_seconds", "condition_seconds"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="")
    parser.add_argument("--method", default="")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--part", choices=("test", "valid"), default="test")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=JSON", help="settings of the method to override")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    if options.show:
        print(table(options.part).to_string(float_format="%.3f"))
        return
    settings = {name: json.loads(value) for name, value in (pair.split("=", 1) for pair in options.set)}
    for name in options.env.split(","):
        environment = sp.environment(name)
        for method in options.method.split(","):
            for seed in range(options.seeds):
                run(environment, method, settings, seed, options.part)


def run(environment: sp.Environment, method: str, settings: dict, seed: int, part: str) -> None:
    cell = {"environment": environment.name, "method": method, "settings": settings, "seed": seed, "part": part}
    if any(all(record.get(name, {}) == value for name, value in cell.items()) for record in records()):
        return
    started = time.process_time()  # the machine may be doing other things: CPU seconds are what can be compared
    frame = sp.evaluate(sp.learner(method, **settings), environment, seed, tasks=part)
    cpu = time.process_time() - started
    summary = sp.summarise(frame).iloc[0].to_dict()
    # PhysioNet's first 200 test patients, for comparison with figures that were measured on so many.
    first = sp.summarise(frame[frame["position"] < 200]).iloc[0]["rmse"] if len(frame) > 200 else summary["rmse"]
    where = {
        "revision": subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True
        ).stdout.strip(),
        "versions": {name: version(name) for name in ("scoreprior", "jax", "equinox", "numpy")},
        "machine": platform.machine(),
    }
    line = json.dumps(cell | {"summary": summary, "rmse_first_200": first, "cpu_seconds": cpu} | where)
    RECORDS.parent.mkdir(exist_ok=True)
    with RECORDS.open("a") as file:
        file.write(line + "\n")
    print(line[:200], flush=True)


def records() -> list[dict]:
    if not RECORDS.exists():
        return []
    return [json.loads(line) for line in RECORDS.read_text().splitlines()]


def table(part: str) -> pd.DataFrame:
    """Mean over seeds and, beside the RMSE, its standard deviation over seeds."""
    rows = [
        {
            "environment": r["environment"],
            "method": " ".join([r["method"], *(f"{name}={value}" for name, value in r.get("settings", {}).items())]),
            "rmse_first_200": r["rmse_first_200"],
            "cpu_seconds": r.get("cpu_seconds"),
        }
        | r["summary"]
        for r in records()
        if r["part"] == part
    ]
    groups = pd.DataFrame(rows).groupby(["environment", "method"], sort=False)
    return pd.concat(
        [
            groups.size().rename("seeds"),
            groups[[*COLUMNS, "rmse_first_200", "cpu_seconds"]].mean(),
            groups["rmse"].std().rename("rmse_over_seeds"),
        ],
        axis=1,
    )


if __name__ == "__main__":
    main()
