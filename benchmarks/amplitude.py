"""What an amplitude of the deviation that varies with the inputs gains on validation tasks, environment by environment.

    python benchmarks/amplitude.py [--env sinusoid,suite ...] [--split 0,1] [--out results/amplitude.json]

`hierarchical-gp` with the amplitude and without, one seed, the same validation tasks. Where it was not kept, both fits
are the same but for round-off. A run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import scoreprior as sp
from scoreprior.bench.plan import named_environments
from scoreprior.bench.work import provenance
from scoreprior.gp.amplitude import amplitude_of
from scoreprior.learners.gaussian_process import PooledGP, average_in

METRICS = ("rmse", "log_score", "crps")


def compare(environment: str, split: int) -> dict[str, object]:
    """Scores with and without, and the gain with its standard error over tasks where the amplitude was kept."""
    env = sp.environment(environment, split=split)
    learner = PooledGP.hierarchical()
    begun = time.process_time()
    tables, summaries, seconds, kept = [], [], [], []
    for one in (replace(learner, process=replace(learner.process, amplitude_knots=5)), learner):
        prior = one.fit(env.selection_train, key=0, progress=False)
        kept.append(amplitude_of(average_in(prior).process) is not None)
        seconds.append(round(time.process_time() - begun, 1))
        begun = time.process_time()
        tables.append(sp.evaluate(prior, env, key=1, tasks="valid"))
        summaries.append(sp.summarise(tables[-1]).iloc[0])
    record: dict[str, object] = {"environment": environment, "split": split, "cpu_seconds": seconds}
    for name, summary in zip(("with", "without"), summaries):
        record[name] = {metric: round(float(summary[metric]), 4) for metric in (*METRICS, "pooled_calibration_error")}
    gains = {metric: (tables[1][metric] - tables[0][metric]).to_numpy() for metric in METRICS}
    record["kept"] = kept[0]
    record["gain"] = {
        metric: [round(float(gain.mean()), 4), round(float(gain.std(ddof=1) / np.sqrt(len(gain))), 4)]
        for metric, gain in gains.items()
    }
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="sinusoid,student-t-sinusoid,dose-response,sawtooth,change-point,suite")
    parser.add_argument("--split", default="0")
    parser.add_argument("--out", type=Path, default=Path("results/amplitude.json"))
    args = parser.parse_args()
    names = named_environments(args.env)
    records = json.loads(args.out.read_text()) if args.out.exists() else []
    done = {(each["environment"], each["split"]) for each in records}
    for split in map(int, args.split.split(",")):
        for name in names:
            if (name, split) not in done:
                records.append(compare(name, split) | {"provenance": provenance()})
                args.out.write_text(json.dumps(records, indent=1) + "\n")
                print(json.dumps({k: v for k, v in records[-1].items() if k != "provenance"}), flush=True)


if __name__ == "__main__":
    main()
