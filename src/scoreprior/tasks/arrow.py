"""Columns of a Parquet file: Arrow columns in, numbers or columns of any kind out."""

from __future__ import annotations

from typing import Any

import numpy as np

from scoreprior.tasks.cells import CellError, NumberColumn, dates_message
from scoreprior.tasks.columns import Column, Instants, Kind, Numbers
from scoreprior.tasks.input_cells import InputCells


def numbers_from_arrow(column: Any, name: str) -> np.ndarray:
    """An Arrow column as numbers; nulls are NaN."""
    import pyarrow as pa

    kind = _value_type(column)
    if pa.types.is_temporal(kind):
        raise CellError(dates_message(name, str(kind)))
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not (_is_text(kind) or is_number or pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        raise CellError(f"column {name!r} holds {kind}, not numbers. Choose another column or turn it into numbers.")
    values = column.to_pylist()
    if not _is_text(kind):
        return np.array([np.nan if value is None else float(value) for value in values], np.float64)
    cells = NumberColumn(name)
    for row, value in enumerate(values, 1):
        cells.append("" if value is None else value, row)
    return cells.finish()[0]


def column_from_arrow(column: Any, name: str, kind: Kind | None) -> Column:
    """An Arrow column of inputs, of this kind if it is known."""
    import pyarrow as pa

    stored = _value_type(column)
    if (pa.types.is_timestamp(stored) or pa.types.is_date(stored)) and kind in (None, "date"):
        zoned = pa.types.is_timestamp(stored) and stored.tz is not None  # Arrow keeps such times in UTC
        values = column.cast(pa.timestamp("us", "UTC" if zoned else None), safe=False).to_numpy()
        return Instants(values.astype("datetime64[us]"), zoned)
    if not _is_text(stored) and kind != "category":
        if kind == "date":
            raise CellError(f"column {name!r} holds {stored}, but the prior was learned with dates there.")
        return Numbers(numbers_from_arrow(column, name))
    cells = InputCells(name, kind)
    for row, value in enumerate(column.to_pylist(), 1):
        cells.append("" if value is None else str(value), row)
    return cells.finish()[0]


def _value_type(column: Any) -> Any:
    import pyarrow as pa

    return column.type.value_type if pa.types.is_dictionary(column.type) else column.type


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_string(kind) or pa.types.is_large_string(kind)
