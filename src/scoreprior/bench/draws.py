"""Prior draws against true functions: the energy distance at random point sets, where the true process is known.

Both samples are of observations y = f(x) + noise. Draws of methods that draw the function f get the environment's
observation noise added; those that draw y have it already.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from scoreprior._files import replace_file
from scoreprior.bench.cell import canonical, split_suffix
from scoreprior.bench.report.significance import paired_difference, standard_error
from scoreprior.bench.report.table import Row, Table, Value, number
from scoreprior.bench.work import provenance, rounded
from scoreprior.diagnostics.two_sample import energy_distance
from scoreprior.environments import environment
from scoreprior.environments._family import Family
from scoreprior.learners import learner
from scoreprior.learners._function_prior import FunctionPrior

_TRUE_STREAM, _NOISE_STREAM = 901, 902


class NoDrawsError(ValueError):
    """There is nothing to compare: no true functions, or a prior that cannot be drawn from."""


@dataclass(frozen=True)
class Comparison:
    """What is compared.

    Args:
        tasks: meta-training tasks; None is the environment's default number.
        points: of every set, uniform on the environment's range of x.
        draws: functions of either sample at every set.
        sets: repetitions, each with new points and draws: their spread is the standard error.
    """

    environment: str
    method: str
    seed: int
    split: int = 0
    tasks: int | None = None
    points: int = 10
    draws: int = 200
    sets: int = 50

    def path(self, out: Path) -> Path:
        """Where its record is."""
        number = "" if self.tasks is None else f"--tasks{self.tasks}"
        name = f"{self.environment}--{self.method}--seed{self.seed}{split_suffix(self.split)}{number}"
        return out / f"{name}.json"


def true_family(name: str) -> Family:
    """The process behind an environment."""
    oracle = environment(name).oracle
    if not isinstance(oracle, Family):
        raise NoDrawsError(f"{name} has no true functions to compare with; dose-response, sawtooth, change-point do.")
    return oracle


def measure(wanted: Comparison, out: Path) -> dict[str, Any]:
    """The record of a comparison: what is there with the same settings is kept, all else is computed and written."""
    path = wanted.path(out)
    if path.exists() and (kept := json.loads(path.read_bytes()))["comparison"] == asdict(wanted):
        return kept
    family, started = true_family(wanted.environment), time.perf_counter()
    options: dict[str, Any] = {} if wanted.tasks is None else {"tasks": wanted.tasks}
    env = environment(wanted.environment, split=wanted.split, **options)
    fit_key, draw_key = jax.random.split(jax.random.key(wanted.seed))
    prior = learner(wanted.method).fit(env.meta_train, fit_key)
    if not isinstance(prior, FunctionPrior):
        raise NoDrawsError(f"{wanted.method} cannot be compared: its prior has no `sample`.")
    distances = [
        (energy_distance(drawn, true), energy_distance(again, true))
        for drawn, true, again in _samples(wanted, family, prior, draw_key)
    ]
    learned, level = np.transpose(distances)
    record = {
        "comparison": asdict(wanted),
        "draws_of": "observations" if prior.inference.draws_observations else "functions, observation noise added",
        "inference": prior.inference.describe(),
        "energy_distance": rounded(learned.tolist(), 5),
        "two_true_samples": rounded(level.tolist(), 5),
        "seconds": round(time.perf_counter() - started, 1),
        "made": provenance() | {"date": datetime.now(UTC).isoformat(timespec="seconds")},
    }
    out.mkdir(parents=True, exist_ok=True)
    replace_file(path, (canonical(record) + "\n").encode())
    return record


def _samples(
    wanted: Comparison, family: Family, prior: FunctionPrior, key: jax.Array
) -> Iterator[tuple[Float[np.ndarray, "n k"], ...]]:
    """For every set of points: draws of the prior, and two samples of the truth, the same for all methods."""
    for at in range(wanted.sets):
        rng = np.random.default_rng([_TRUE_STREAM, wanted.split, at])
        x = rng.uniform(*family.x_range, size=(wanted.points, 1))
        shape = (wanted.draws, wanted.points)
        true, again = (
            family.functions(rng, x, wanted.draws) + family.noise_std * rng.normal(size=shape) for _ in range(2)
        )
        drawn = prior.sample(x, jax.random.fold_in(key, at), wanted.draws)
        if not prior.inference.draws_observations:
            noise = np.random.default_rng([_NOISE_STREAM, wanted.seed, at]).normal(size=shape)
            drawn = drawn + family.noise_std * noise
        yield drawn, true, again


def draws_table(records: Sequence[dict[str, Any]]) -> Table:
    """Energy distances with their standard errors; the first method is what others are compared with."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for record in records:
        named = record["comparison"]
        found.setdefault(named["environment"], {}).setdefault(named["method"], []).append(record)
    rows: list[Row] = []
    for name, methods in found.items():
        values = {method: np.array([each["energy_distance"] for each in some]) for method, some in methods.items()}
        reference = next(iter(values.values()))
        rows.append(Row(name))
        rows += [
            Row(method, (*_shown(each, reference), Value(methods[method][0]["draws_of"])))
            for method, each in values.items()
        ]
        level = np.array([next(iter(methods.values()))[0]["two_true_samples"]])
        rows.append(Row("two true samples", (*_shown(level, reference), Value("observations"))))
    caption = (
        "Energy distance between draws of the learned prior and true functions, both with observation noise: zero on "
        "average for two samples of one process. Mean over point sets and seeds ± standard error over both; the "
        "difference is to the first method at the same points and true draws."
    )
    head = ("method", "energy distance", "share of the first", "difference to the first", "draws of")
    return Table("draws", "Prior draws against true functions", caption, head, tuple(rows))


def _shown(values: Float[np.ndarray, "s n"], reference: Float[np.ndarray, "r n"]) -> tuple[Value, ...]:
    mean = float(values.mean())
    gap, error = paired_difference(values, reference)
    return (
        Value(_small(mean, standard_error(values))),
        Value(number(mean / float(reference.mean()))),
        Value("-" if values is reference else _small(gap, error)),
    )


def _small(mean: float, error: float) -> str:
    """With two digits of the error: distances are small numbers."""
    digits = 3 if error <= 0 else max(0, 1 - int(np.floor(np.log10(error))))
    return f"{mean:.{digits}f} ± {error:.{digits}f}"
