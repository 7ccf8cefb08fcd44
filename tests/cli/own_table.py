"""A table of one's own, for the tests of the commands, and how they are called."""

from __future__ import annotations

import numpy as np
from typer.testing import CliRunner, Result

from scoreprior.cli import app

COLUMNS = ("--task", "patient", "--inputs", "hour", "--target", "gcs")


def run(*arguments: object) -> Result:
    """One command, in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def rows(tasks: int = 12, seed: int = 0) -> list[str]:
    """Ragged tasks around a straight line of their own, in no order, as lines of CSV."""
    rng = np.random.default_rng(seed)
    lines = []
    for task in range(tasks):
        offset, slope = rng.normal(10, 3), rng.normal(0.5, 0.1)
        for hour in rng.choice(24, rng.integers(3, 9), replace=False):
            lines.append(f"p{task},{hour},fine,{offset + slope * hour + 0.1 * rng.normal():.3f}")
    rng.shuffle(lines)
    return lines
