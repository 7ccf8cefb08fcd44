"""The one place that reads data frames: any library's frame in, checked NumPy columns out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from jaxtyping import Float

from scoreprior._suggestions import did_you_mean
from scoreprior.tasks.cells import MISSING
from scoreprior.tasks.checks import TaskError
from scoreprior.tasks.columns import Column, Instants, Kind, Numbers, Words
from scoreprior.tasks.dates import DateError, instants, looks_like_a_date, moment
from scoreprior.tasks.encoding import InputEncoding
from scoreprior.tasks.files import FilePath, read_table
from scoreprior.tasks.input_cells import MISSING_WORDS, kind_of


class FrameColumns(NamedTuple):
    """What was asked for of a frame: labels of tasks, empty where missing; inputs of any kind; the target (r,)."""

    labels: list[str]
    inputs: list[Column]
    target: Float[np.ndarray, " r"]


def columns_from_frame(
    frame: Any, names: Sequence[str], kinds: Sequence[Kind] | None = None, extra: Sequence[str] = ()
) -> tuple[FrameColumns, np.ndarray, list[Float[np.ndarray, " r"]]]:
    """Labels, inputs and target of the columns named in this order, what an error calls rows, and extra numbers.

    Without `kinds` it is found out what the inputs are. Raises `TaskError` when a column is absent, repeated or cannot
    be used.
    """
    columns = _select(frame, [*names, *extra])
    task, *inputs, target = names
    labels = ["" if _is_missing(label) else str(label).strip() for label in columns[task].to_list()]
    found = FrameColumns(labels, _inputs(columns, inputs, kinds), _numbers(columns[target], target))
    return found, np.arange(len(labels)), [_numbers(columns[name], name) for name in extra]


def columns_from_file(
    path: FilePath, names: Sequence[str], kinds: Sequence[Kind] | None = None, extra: Sequence[str] = ()
) -> tuple[FrameColumns, np.ndarray, list[Float[np.ndarray, " r"]]]:
    """`columns_from_frame` of a CSV or Parquet file."""
    table = read_table(path, (names[-1], *extra), inputs=names[1:-1], kinds=kinds, label=names[0])
    return (
        FrameColumns(table.labels or [], list(table.inputs), table.numbers[:, 0]),
        table.rows,
        list(table.numbers[:, 1:].T),
    )


def encode_frame(frame: Any, encoding: InputEncoding, *, start: Any = None) -> Float[np.ndarray, "q d"]:
    """Inputs x (q, d) of one task's rows; `start` is its first date, by default the first of the frame."""
    columns = _inputs(_select(frame, encoding.columns), encoding.columns, encoding.kinds)
    encoding.warn_unknown(columns, stacklevel=3)
    labels = [""] * len(columns[0].present())
    if start is None:
        return encoding.encode(columns, labels)
    began = moment(start)
    if began is None:
        raise TaskError(f"start must be a date, not {start!r}.")
    first = {"": np.datetime64(began.microseconds, "us")}
    return encoding.encode(columns, labels, tuple(first if kind == "date" else {} for kind in encoding.kinds))


def _select(frame: Any, wanted: Sequence[str]) -> dict[str, nw.Series]:
    names = _column_names(frame)
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise TaskError(f"Column {repeated[0]!r} appears {names.count(repeated[0])} times; rename or drop the copies.")
    absent = [name for name in wanted if name not in names]
    if absent:
        listed = f"the columns are {', '.join(map(repr, names))}."
        raise TaskError(f"There is no column {absent[0]!r}; {did_you_mean(str(absent[0]), map(str, names), listed)}")
    table = nw.from_native(frame, eager_only=True)
    if len(table) == 0:
        raise TaskError("The table has no rows.")
    # By position: the names of a pandas frame need not be text.
    return {name: table[:, names.index(name)] for name in wanted}


def _inputs(columns: dict[str, nw.Series], names: Sequence[str], kinds: Sequence[Kind] | None) -> list[Column]:
    try:
        found = zip(names, [None] * len(names) if kinds is None else kinds)
        return [_column(columns[name], name, kind) for name, kind in found]
    except DateError as error:
        raise TaskError(f"C{str(error)[1:]}") from error  # they begin with the word column


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


def _column(series: nw.Series, name: str, kind: Kind | None) -> Column:
    """A column of inputs, of this kind if it is known."""
    if series.dtype in (nw.Date, nw.Datetime) and kind in (None, "date"):
        return _instants(series)
    plain = series.dtype.is_numeric() or series.dtype == nw.Boolean or series.dtype.is_temporal()
    if plain and kind in (None, "number"):
        return Numbers(_numbers(series, name))
    values = [None if _is_missing(value) else value for value in series.to_list()]
    values = [value.strip() if isinstance(value, str) else value for value in values]
    kind = kind or _kind(values)
    if kind == "number":
        return Numbers(_numbers(series, name))
    if kind == "date":
        values = [None if isinstance(value, str) and value.lower() in MISSING else value for value in values]
        return Instants(*instants(name, values, range(len(values))))
    texts = ["" if value is None else str(value).strip() for value in values]
    return Words(tuple("" if text.lower() in MISSING_WORDS else text for text in texts))


def _kind(values: list[Any]) -> Kind:
    dates = words = numbers = 0
    for value in values:
        if isinstance(value, date) or (isinstance(value, str) and looks_like_a_date(value)):
            dates += 1
        elif isinstance(value, str) and value.lower() not in MISSING and not _is_number(value):
            words += 1
        elif value is not None and not (isinstance(value, str) and value.lower() in MISSING):
            numbers += 1  # or something that no number can be made of, which is told then
    return kind_of(numbers, dates, words)


def _is_number(text: str) -> bool:
    with suppress(ValueError):
        float(text)
        return True
    return False


def _instants(series: nw.Series) -> Instants:
    zoned = isinstance(series.dtype, nw.Datetime) and series.dtype.time_zone is not None
    if zoned:
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    values = series.cast(nw.Datetime("us")).to_numpy()
    return Instants(np.array(values, "datetime64[us]"), zoned)


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
