"""What `fit` writes into a prior's file beside the prior, and the other commands read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from scoreprior.cli._console import CallError, check_input
from scoreprior.cli._tables import Columns
from scoreprior.learners import Prior
from scoreprior.serialization import describe, load_prior
from scoreprior.tasks import InputEncoding, Task, TaskSet, fingerprint
from scoreprior.tasks.dates import MICROSECONDS
from scoreprior.tasks.grouping import Order
from scoreprior.tasks.input_kinds import DateInput


@dataclass(frozen=True, eq=False)
class Notes:
    """Column names, training range and held-out metrics of a prior; None where its file does not say.

    Args:
        domain: lowest and highest training input per column, (2, d).
        header: all that the file says of the prior.
        encoding: how columns become inputs.
    """

    columns: Columns | None
    domain: Float[np.ndarray, "2 d"] | None
    header: dict[str, Any]
    encoding: InputEncoding | None = None

    @property
    def horizon(self) -> int | None:
        """Rows of a forecast; None for a prior that was not fitted for forecasts."""
        return self.header.get("extra", {}).get("horizon")

    def extrapolates(self, x: Float[np.ndarray, "q d"], known: Task | None = None) -> Bool[np.ndarray, " q"] | None:
        """Whether an input lies outside the range of training or is a new category; None if that is not known.

        Of forecasts, time may go on: what counts there is whether it lies no further ahead of the last known point than
        was judged.
        """
        if self.domain is None:
            return None
        slack = 1e-9 * np.ptp(self.domain, axis=0)
        low, high = self.domain[0] - slack, self.domain[1] + slack
        outside = ((x < low) | (x > self._allowed(high, known))).any(axis=1)
        return outside if self.encoding is None else outside | self.encoding.unseen(x)

    def _allowed(self, high: Float[np.ndarray, " d"], known: Task | None) -> Float[np.ndarray, " d"]:
        """The highest inputs of training, but of time what a forecast from the last known point may reach."""
        encoding, horizon = self.encoding, self.horizon
        if encoding is None or encoding.time is None or horizon is None or known is None or not len(known):
            return high
        at = encoding.columns.index(encoding.time.column)
        column, axis = encoding.inputs[at], encoding.sources.index(at)
        ahead = encoding.time.longest(horizon)
        if isinstance(column, DateInput):
            ahead = ahead * 1e6 / MICROSECONDS[column.unit]
        reach = known.x[:, axis].max() + ahead * (1 + 1e-9)
        if not (isinstance(column, DateInput) and column.reference is not None):
            reach = min(reach, high[axis] + ahead)  # no task of training was so old
        return np.where(np.arange(len(high)) == axis, reach, high)

    @property
    def training(self) -> dict[str, Any]:
        """What the file says of the training tasks; empty of priors saved from Python."""
        return self.header.get("extra", {}).get("training") or {}

    def unknown(self, tasks: TaskSet) -> list[int]:
        """Positions of the tasks that the prior was not learned from."""
        known = set(self.training.get("fingerprints", ()))
        return [at for at, task in enumerate(tasks) if fingerprint(task) not in known]

    def first_input(self, columns: Columns) -> str:
        """What stands at the axis of the first input."""
        first = None if self.encoding is None else self.encoding.inputs[0]
        if isinstance(first, DateInput):
            return f"{columns.inputs[0]} ({first.unit} since {first.begin()})"
        return columns.inputs[0]


def metadata(method: str, columns: Columns, tasks: TaskSet, rest: dict[str, Any]) -> dict[str, Any]:
    """What goes into the file: `Prior.save(path, metadata=...)` takes it for every method."""
    return {
        "method": method,
        "domain": {"low": tasks.x.min(0), "high": tasks.x.max(0)},
        "columns": asdict(columns),
        "training": {
            "tasks": len(tasks),
            "points": int(tasks.sizes.sum()),
            "points_per_task": [int(tasks.sizes.min()), float(np.median(tasks.sizes)), int(tasks.sizes.max())],
            "target": [float(tasks.y.min()), float(tasks.y.max())],
            "fingerprints": [fingerprint(task) for task in tasks],
        },
    } | rest


def open_prior(path: Path) -> tuple[Prior, Notes]:
    """The prior of a file and its notes."""
    check_input(path)
    header = describe(path)
    prior = load_prior(path)
    return prior, read_notes(header, prior.dim, prior.encoding)


def read_notes(header: dict[str, Any], dim: int, encoding: InputEncoding | None = None) -> Notes:
    """Notes from a file's header; priors saved from Python have none, and that is fine."""
    named, domain = header.get("extra", {}).get("columns"), header.get("domain")
    columns, box = None, None
    number = dim if encoding is None else len(encoding.inputs)
    if isinstance(named, dict) and len(named.get("inputs", ())) == number:
        order: Order = "input" if named.get("order", "input") == "input" else "rows"  # version 0.1 wrote "file"
        known = {name: named.get(name) for name in ("noise", "replicates")}
        columns = Columns(named["task"], tuple(named["inputs"]), named["target"], order, **known)
    if isinstance(domain, dict) and len(domain.get("low", ())) == len(domain.get("high", ())) == dim:
        box = np.array([domain["low"], domain["high"]], float)
    return Notes(columns, box, header, encoding)


def choose_columns(
    notes: Notes, task: str | None, inputs: Sequence[str] | None, target: str | None, dim: int
) -> Columns:
    """The columns of the table that the prior was fitted to, or as named by the user where the new one differs."""
    known = notes.columns
    if known is None and notes.encoding is not None:
        inputs = inputs or notes.encoding.columns
    if known is None:
        if not inputs or not target:
            raise CallError(
                "This prior does not say which columns it was fitted to; name them with --inputs and --target "
                "(and --task, if there are several tasks)."
            )
        known = Columns(task or "task", tuple(inputs), target, "rows")
    columns = replace(
        known, task=task or known.task, inputs=tuple(inputs or known.inputs), target=target or known.target
    )
    number = dim if notes.encoding is None else len(notes.encoding.inputs)
    if len(columns.inputs) != number:
        raise CallError(f"This prior has {number} inputs, but {len(columns.inputs)} are named.")
    return columns


def line(prior: Prior, notes: Notes, number: int) -> Float[np.ndarray, "q d"]:
    """Points along the first input, with its cycles, over the range of training; the other inputs at their means."""
    scaler = prior.standardizer
    # Where the file does not say: as wide as a uniform distribution of the known spread.
    low, high = scaler.x_mean - np.sqrt(3) * scaler.x_std, scaler.x_mean + np.sqrt(3) * scaler.x_std
    if notes.domain is not None:
        low, high = notes.domain
    x = np.tile(scaler.x_mean, (number, 1))
    x[:, 0] = np.linspace(low[0], high[0], number)
    first = None if notes.encoding is None else notes.encoding.inputs[0]
    if isinstance(first, DateInput) and first.reference is not None:
        x[:, : len(first.labels)] = first.encode(first.decode(x[:, 0]), np.datetime64("NaT", "us"))
    return x
