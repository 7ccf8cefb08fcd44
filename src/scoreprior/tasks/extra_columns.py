"""Columns that say something of rows beside inputs and target: known noise, replicate counts, weights of tasks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Int

from scoreprior.tasks.checks import TaskError

_LEAST = {"noise": 0.0, "replicates": 1.0}
_MEANING = {
    "noise": "a standard deviation, so none is below 0",
    "replicates": "how many measurements a row is the mean of, so none is below 1",
    "weight": "how much a task counts, so all are above 0",
}


def extra_columns(noise: str | None, replicates: str | None, weight: str | None) -> dict[str, str]:
    """Names of the columns that there are, by what they say."""
    named = {"noise": noise, "replicates": replicates, "weight": weight}
    return {what: name for what, name in named.items() if name is not None}


def check_extra(
    values: Mapping[str, Float[np.ndarray, " r"]], names: Mapping[str, str], rows: Int[np.ndarray, " r"]
) -> Mapping[str, Float[np.ndarray, " r"]]:
    """The values, by what they say, or an error that names column and row; `rows` are numbers for people."""
    for what, column in values.items():
        wrong = column < _LEAST[what] if what in _LEAST else column <= 0
        if wrong.any():
            at = int(np.argmax(wrong))
            raise TaskError(f"Column {names[what]!r} is {column[at]:g} in row {rows[at]}; it is {_MEANING[what]}.")
    return values
