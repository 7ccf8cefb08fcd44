"""How much inferred and unknown parts of the Argus model matter: each changed alone, at the same gains.

    python benchmarks/argus_sensitivity.py [--gains 40] [--steps 0.00674 0.1] [--out FILE]

A run is unstable if its total variation is above 0.01 mm s. "Changed class" counts runs that are stable in one model
and unstable in the other; the other columns are medians of relative changes over runs of the same class in both.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from scoreprior.environments.argus_loop import COGGING_GAIN, Costs, Machine, costs
from scoreprior.environments.argus_model import GAINS_HIGH, GAINS_LOW, machine
from scoreprior.environments.argus_plant import sampled

UNSTABLE = 1e-2


def variants(axis: Machine) -> dict[str, tuple[Machine, float]]:
    """What is changed, the machine with the change, and the factor of the step size."""
    return {
        "plant solved exactly, not by ode3": (axis._replace(plant=sampled("exact")), 1.0),
        "dead time holds the command, does not interpolate": (axis._replace(plant=sampled("ode3", "held")), 1.0),
        "cogging twice as strong": (axis._replace(cogging_gain=2 * COGGING_GAIN), 1.0),
        "no cogging": (axis._replace(cogging_gain=0.0), 1.0),
        "integrator limited at 0.25, not 0.5": (axis._replace(integral_limit=0.25), 1.0),
        "step sizes in mm, not in m": (axis, 1e-3),
    }


def compare(base: Costs, other: Costs) -> dict[str, float]:
    """Runs that changed class, and medians of |other / base - 1| over the others."""
    unstable = base.variation > UNSTABLE
    same = unstable == (other.variation > UNSTABLE)

    def change(target: str, chosen: np.ndarray) -> float:
        ratio = getattr(other, target)[chosen] / getattr(base, target)[chosen]
        return float(np.median(np.abs(ratio - 1)))

    return {
        "changed class": int((~same).sum()),
        "variation, stable": change("variation", same & ~unstable),
        "variation, unstable": change("variation", same & unstable),
        "settling time, stable": change("settling_time", same & ~unstable),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gains", type=int, default=40)
    parser.add_argument("--steps", type=float, nargs="+", default=[float(np.exp(-5)), 0.1], help="in metres")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    axis = machine()
    gains = np.random.default_rng(0).uniform(GAINS_LOW, GAINS_HIGH, (options.gains, 3))
    rows: list[dict[str, Any]] = []
    for step in options.steps:
        base = costs(axis, gains, step)
        for name, (changed, factor) in variants(axis).items():
            found = compare(base, costs(changed, gains, step * factor))
            rows.append({"step in mm": round(1e3 * step, 3), "change": name, **found})
    print(f"| {' | '.join(rows[0])} |\n|{'---|' * len(rows[0])}")
    for row in rows:
        print(f"| {' | '.join(f'{100 * v:.2f}%' if ', ' in k else str(v) for k, v in row.items())} |")
    if options.out:
        record = {"gains": options.gains, "unstable above": UNSTABLE, "rows": rows}
        options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
