"""The one place that reads data frames: any library's frame in, checked NumPy columns out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float

from scoreprior.tasks.checks import TaskError


def columns_from_frame(
    frame: Any, task: str, inputs: Sequence[str], target: str
) -> tuple[list[str], Float[np.ndarray, "r c"]]:
    """Task labels (one per row, empty where missing) and numbers (r, d + 1) with the target last, NaN where missing.

    Raises `TaskError` when a column is absent, repeated or not numeric.
    """
    names = _column_names(frame)
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise TaskError(f"Column {repeated[0]!r} appears {names.count(repeated[0])} times; rename or drop the copies.")
    wanted = [task, *inputs, target]
    absent = [name for name in wanted if name not in names]
    if absent:
        raise TaskError(f"There is no column {absent[0]!r}; the columns are {', '.join(map(repr, names))}.")
    table = nw.from_native(frame, eager_only=True)
    if len(table) == 0:
        raise TaskError("The table has no rows.")
    # By position: the names of a pandas frame need not be text.
    columns = {name: table[:, names.index(name)] for name in wanted}
    labels = ["" if _is_missing(label) else str(label).strip() for label in columns[task].to_list()]
    return labels, np.column_stack([_numbers(columns[name], name) for name in (*inputs, target)])


def _column_names(frame: Any) -> list[str]:
    try:
        # Narwhals refuses repeated names; they are reported by the caller.
        lazy = isinstance(nw.from_native(frame), nw.LazyFrame)
    except nw.exceptions.DuplicateError:
        lazy = False
    except TypeError:
        raise TaskError(f"A data frame is needed, not a {type(frame).__name__}.") from None
    if lazy:
        raise TaskError(f"A data frame is needed, not a {type(frame).__name__}; collect it first.")
    native = frame.column_names if nw.dependencies.is_pyarrow_table(frame) else frame.columns
    return [str(name) for name in native]


def _is_missing(value: Any) -> bool:
    import pandas as pd  # here, since it takes a quarter of a second

    # None, NaN, NaT, pandas.NA, Decimal("NaN"); of a list pandas.isna would answer for every entry.
    return pd.api.types.is_scalar(value) and bool(pd.isna(value))


def _numbers(series: nw.Series, name: str) -> np.ndarray:
    if series.dtype.is_temporal():
        raise TaskError(
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
            raise TaskError(f"Column {name!r} is not numeric: row {row} holds {value!r}. Convert it or choose another.")
    return numbers
