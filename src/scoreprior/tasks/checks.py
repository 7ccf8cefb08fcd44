"""Arrays of users on their way in: numbers, all of them finite, or an error that names the place and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from scoreprior._types import Inputs


class TaskError(ValueError):
    """Data that cannot be used as it is; the message names the place and what to do."""


def check_query(x: Any, dim: int) -> Inputs:
    """Query inputs as a finite (q, d) array, or an error that says what is wrong with them."""
    inputs = numeric(x, "x")
    if inputs.ndim == 1 and dim == 1:
        inputs = inputs[:, None]
    if inputs.ndim != 2 or inputs.shape[1] != dim:
        raise TaskError(f"x has shape {np.shape(x)}; this prior was fitted with d={dim}, so it must be (q, {dim}).")
    check_finite(inputs, "x")
    return inputs


_NOT_NUMBERS = {
    "U": "text",
    "S": "text",
    "T": "text",
    "M": "dates or times",
    "m": "dates or times",
    "c": "complex numbers",
}


def numeric(values: Any, what: str) -> np.ndarray:
    """Anything array-like as doubles, or an error that says what `what` holds instead."""
    if np.ma.isMaskedArray(values):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    try:
        raw = np.asarray(values)
        # NumPy would turn "1.5" and dates into numbers and drop imaginary parts, all without a word.
        kind = _NOT_NUMBERS.get(raw.dtype.kind)
        if raw.dtype == object and any(isinstance(value, str) for value in raw.flat):
            kind = "text"
        if kind is not None:
            raise TaskError(f"{what} holds {kind} ({raw.dtype}); turn it into numbers first.")
        return np.array(values, dtype=np.float64)
    except TaskError:
        raise
    except (TypeError, ValueError) as error:
        raise TaskError(f"{what} is not a rectangular array of numbers: {error}.") from error


def check_finite(array: np.ndarray, what: str) -> None:
    """Refuse missing and infinite values, and say where the first one is."""
    bad = ~np.isfinite(array)
    if bad.any():
        first = tuple(int(i) for i in np.argwhere(bad)[0])
        place = f"row {first[0]}" if array.ndim == 1 else f"row {first[0]}, column {first[1]}"
        raise TaskError(
            f"{what} is {array[first]} in {place} ({int(bad.sum())} such values); remove these rows, or load "
            'the table with TaskSet.from_frame(..., missing="drop").'
        )


def per_row(values: Any, rows: int, what: str, *, least: float) -> np.ndarray | None:
    """One number for each row, none below `least`; None if there are none."""
    if values is None:
        return None
    found = np.atleast_1d(numeric(values, what))
    if found.shape != (rows,):
        raise TaskError(f"{what} has shape {found.shape}; it must be ({rows},), one number for each row.")
    check_finite(found, what)
    if (found < least).any():
        row = int(np.argmax(found < least))
        raise TaskError(f"{what} is {found[row]:g} in row {row}; it must be at least {least:g}.")
    return found


def check_columns(task: str, inputs: Sequence[str], target: str) -> None:
    """Refuse a choice of columns that has no input or uses one column twice."""
    if not inputs:
        raise TaskError("At least one input column is needed.")
    doubled = [name for name, count in Counter((task, *inputs, target)).items() if count > 1]
    if doubled:
        raise TaskError(f"Column {doubled[0]!r} is used twice; task, inputs and target must be different columns.")


def column_names(task: str, inputs: str | Sequence[str], target: str) -> tuple[str, ...]:
    """Names of the task's column, of the inputs' and of the target's, all different."""
    # Columns of a table without a header are numbered; text and number name the same column.
    input_names = (inputs,) if isinstance(inputs, str) else tuple(str(name) for name in inputs)
    check_columns(str(task), input_names, str(target))
    return (str(task), *input_names, str(target))


def listing(names: Sequence[str], most: int = 3) -> str:
    """The first few names, quoted, and how many more there are."""
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def looks_like_one_table(tasks: Any) -> bool:
    """Whether a single table was given for a set of tasks."""
    return isinstance(tasks, (str, dict)) or hasattr(tasks, "columns") or hasattr(tasks, "dtype")
