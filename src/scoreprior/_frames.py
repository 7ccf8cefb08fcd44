"""The one place that reads data frames: any library's frame in, checked NumPy columns out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np


def columns_from_frame(
    frame: Any, task: str, inputs: Sequence[str], target: str, missing: str, error: type[ValueError]
) -> tuple[np.ndarray, np.ndarray]:
    """Task labels (rows,) and a float table (rows, d + 1) with the target last; missing values are NaN.

    Raises `error` when a column is absent, repeated, not numeric, or (unless `missing="drop"`) not complete.
    """
    if missing not in ("error", "drop"):
        raise error(f'missing must be "error" or "drop", not {missing!r}.')
    if not hasattr(frame, "columns") and not hasattr(frame, "column_names"):
        raise error(f"A data frame is needed, not a {type(frame).__name__}.")
    names = [str(name) for name in (frame.columns if hasattr(frame, "columns") else frame.column_names)]
    if hasattr(frame, "column_names"):
        names = [str(name) for name in frame.column_names]
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise error(f"Column {repeated[0]!r} appears {names.count(repeated[0])} times; rename or drop the copies.")
    wanted = [task, *inputs, target]
    if not inputs:
        raise error("At least one input column is needed.")
    absent = [name for name in wanted if name not in names]
    if absent:
        raise error(f"There is no column {absent[0]!r}; the columns are {', '.join(map(repr, names))}.")
    doubled = [name for name, count in Counter(wanted).items() if count > 1]
    if doubled:
        raise error(f"Column {doubled[0]!r} is used twice; task, inputs and target must be different columns.")
    table = nw.from_native(frame, eager_only=True)
    if len(table) == 0:
        raise error("The table has no rows.")
    labels = _labels(table[task], task, error)
    numbers = np.column_stack([_numbers(table[name], name, error) for name in (*inputs, target)])
    bad = ~np.isfinite(numbers)
    if bad.any() and missing == "error":
        row, column = (int(i) for i in np.argwhere(bad)[0])
        raise error(
            f"Column {[*inputs, target][column]!r} is {numbers[row, column]} in row {row} (task {labels[row]!r}); "
            f'{int(bad.any(1).sum())} rows are incomplete. Repair them or pass missing="drop".'
        )
    return labels, numbers


def _labels(series: nw.Series, name: str, error: type[ValueError]) -> np.ndarray:
    labels = np.array(series.to_list(), dtype=object)
    unknown = [row for row, label in enumerate(labels) if label is None or label != label]
    if unknown:
        raise error(f"Column {name!r} is missing in row {unknown[0]} ({len(unknown)} such rows): which task is it?")
    return labels


def _numbers(series: nw.Series, name: str, error: type[ValueError]) -> np.ndarray:
    if series.dtype.is_temporal():
        raise error(
            f"Column {name!r} holds dates or times; turn it into numbers first, for example hours since the task began."
        )
    if series.dtype.is_numeric() or series.dtype == nw.Boolean:
        return np.array(series.cast(nw.Float64).to_numpy(), np.float64)
    values = series.to_list()
    numbers = np.full(len(values), np.nan)
    for row, value in enumerate(values):
        if value is None or value != value:
            continue
        # An object column of plain numbers (pandas after a merge, Decimals) is fine; text never is.
        if isinstance(value, str):
            raise error(f"Column {name!r} is not numeric: row {row} holds {value!r}. Convert it or choose another column.")
        try:
            numbers[row] = float(value)
        except (TypeError, ValueError):
            raise error(
                f"Column {name!r} is not numeric: row {row} holds {value!r}. Convert it or choose another column."
            ) from None
    return numbers
