"""The one place that reads data frames: any library's frame in, checked NumPy columns out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd


def columns_from_frame(
    frame: Any, task: str, inputs: Sequence[str], target: str, missing: str, error: type[ValueError]
) -> tuple[list[Any], np.ndarray]:
    """Task labels (one per row) and a float table (rows, d + 1) with the target last; missing values are NaN.

    Raises `error` when a column is absent, repeated, not numeric, or (unless `missing="drop"`) not complete.
    """
    if missing not in ("error", "drop"):
        raise error(f'missing must be "error" or "drop", not {missing!r}.')
    names = _column_names(frame, error)
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
    # By position: the names of a pandas frame need not be text.
    columns = {name: table[:, names.index(name)] for name in wanted}
    labels = _labels(columns[task], task, error)
    numbers = np.column_stack([_numbers(columns[name], name, error) for name in (*inputs, target)])
    bad = ~np.isfinite(numbers)
    if bad.any() and missing == "error":
        row, column = (int(i) for i in np.argwhere(bad)[0])
        raise error(
            f"Column {[*inputs, target][column]!r} is {numbers[row, column]} in row {row} "
            f"(task {labels[row]!r}); {int(bad.any(1).sum())} rows are incomplete. "
            'Repair them or pass missing="drop".'
        )
    return labels, numbers


def _column_names(frame: Any, error: type[ValueError]) -> list[str]:
    try:
        # Narwhals refuses repeated names; they are reported by the caller.
        lazy = isinstance(nw.from_native(frame), nw.LazyFrame)
    except nw.exceptions.DuplicateError:
        lazy = False
    except TypeError:
        raise error(f"A data frame is needed, not a {type(frame).__name__}.") from None
    if lazy:
        raise error(f"A data frame is needed, not a {type(frame).__name__}; collect it first.")
    native = frame.column_names if nw.dependencies.is_pyarrow_table(frame) else frame.columns
    return [str(name) for name in native]


def _is_missing(value: Any) -> bool:
    # None, NaN, NaT, pandas.NA, Decimal("NaN"); of a list pandas.isna would answer for every entry.
    return pd.api.types.is_scalar(value) and bool(pd.isna(value))


def _labels(series: nw.Series, name: str, error: type[ValueError]) -> list[Any]:
    labels = series.to_list()
    unknown = [row for row, label in enumerate(labels) if _is_missing(label)]
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
        if _is_missing(value):
            continue
        # An object column of plain numbers (pandas after a merge, Decimals) is fine; text never is.
        with suppress(TypeError, ValueError):
            numbers[row] = np.nan if isinstance(value, str) else float(value)
        if np.isnan(numbers[row]):
            raise error(f"Column {name!r} is not numeric: row {row} holds {value!r}. Convert it or choose another.")
    return numbers
