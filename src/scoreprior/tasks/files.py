"""Tables of people's own: a CSV or Parquet file in, checked columns out; errors name the file, the row, the column.

Rows are numbered as a spreadsheet does: the header of a CSV file is row 1. Files are read row by row up to a stated
limit, so that no file, however large or odd, exhausts the memory.
"""

from __future__ import annotations

import csv
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import IO

import numpy as np
from jaxtyping import Bool, Float, Int

from scoreprior._suggestions import meant
from scoreprior.tasks.arrow import column_from_arrow, numbers_from_arrow
from scoreprior.tasks.cells import CellError, NumberColumn
from scoreprior.tasks.columns import Column, Kind
from scoreprior.tasks.dates import DateError
from scoreprior.tasks.input_cells import InputCells

MOST_ROWS = 1_000_000
"""Longest table that is read: Scoreprior is for many small tasks, not for long ones."""

_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_PEEK = 65_536
_BINARY = {
    b"PK\x03\x04": "an Excel workbook or a ZIP archive; save the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; save the sheet as CSV",
    b"\x1f\x8b": "compressed; unpack it first",
}

FilePath = str | os.PathLike[str]


class TableError(ValueError):
    """A file that cannot be used as it is; the message says which, where, and what to do."""


class ColumnError(TableError):
    """A column was asked for that the table does not have."""


@dataclass(frozen=True, eq=False)
class Table:
    """The columns that were asked for.

    Args:
        path: the file.
        rows: row numbers as a spreadsheet shows them, (r,).
        labels: the label column's text, empty where missing, or None where the table has no such column.
        numbers: numeric columns (r, c); missing values are NaN.
        names: names of the numeric columns.
        notes: what was taken for granted in reading, in plain words.
        inputs: columns of numbers, dates or words.
    """

    path: str
    rows: Int[np.ndarray, " r"]
    labels: list[str] | None
    numbers: Float[np.ndarray, "r c"]
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    inputs: tuple[Column, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def present(self) -> Bool[np.ndarray, "r c"]:
        """Where a number is there and finite."""
        return np.isfinite(self.numbers)


def read_table(
    path: FilePath,
    columns: Sequence[str],
    *,
    inputs: Sequence[str] = (),
    kinds: Sequence[Kind] | None = None,
    label: str | None = None,
    need_label: bool = True,
    need_rows: bool = True,
) -> Table:
    """Read numeric `columns`, `inputs` of any kind and the text column `label` of a CSV or Parquet file.

    Without `kinds` it is found out what the inputs are. With `need_label=False` a table without the label column is
    fine, and with `need_rows=False` one without rows.
    """
    with _explained(path):
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            raise TableError("it is a directory, not a table")
        if not stat.S_ISREG(status.st_mode):
            raise TableError("it is not a regular file")
        if status.st_size == 0:
            raise TableError("the file is empty")
        with open(path, "rb") as file:
            head = file.read(_PEEK)
        wanted = _Wanted(tuple(columns), tuple(inputs), tuple(kinds or [None] * len(inputs)), label, need_label)
        table = _parquet(path, wanted) if head[:4] == b"PAR1" else _csv(path, head, wanted)
        if need_rows and len(table) == 0:
            raise TableError("it has a header but no rows")
        return table


@dataclass(frozen=True)
class _Wanted:
    columns: tuple[str, ...]
    inputs: tuple[str, ...]
    kinds: tuple[Kind | None, ...]
    label: str | None
    need_label: bool

    def positions(self, names: list[str]) -> tuple[list[int], int | None]:
        """Where the inputs, the columns and the label are among the names of the header."""
        columns = [_position(names, name) for name in (*self.inputs, *self.columns)]
        if self.label is None or (not self.need_label and _likely(names, self.label) is None):
            return columns, None
        return columns, _position(names, self.label)


def _position(names: list[str], wanted: str) -> int:
    if names.count(wanted) > 1:
        raise TableError(f"column {wanted!r} appears {names.count(wanted)} times in its header; rename the copies")
    if wanted in names:
        return names.index(wanted)
    likely = _likely(names, wanted)
    if likely is not None:
        raise ColumnError(f"there is no column {wanted!r}; did you mean {likely!r}?")
    listed = ", ".join(repr(name) for name in names[:12]) + (", ..." if len(names) > 12 else "")
    headless = all(_is_number(name) for name in names if name)
    hint = ". The first line seems to hold data: add a line with column names" if headless else ""
    raise ColumnError(f"there is no column {wanted!r}; the columns are {listed}{hint}")


def _likely(names: list[str], wanted: str) -> str | None:
    """The name that differs by no more than case, spaces and the like, or is the very same; else one that is alike."""

    def essence(name: str) -> str:
        return "".join(letter for letter in name.casefold() if letter.isalnum())

    same = (name for name in names if name == wanted or essence(name) == essence(wanted) != "")
    return next(same, None) or meant(wanted, [name for name in names if not _is_number(name)])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _csv(path: FilePath, head: bytes, wanted: _Wanted) -> Table:
    utf16 = head[:2] in (b"\xff\xfe", b"\xfe\xff")
    for magic, what in _BINARY.items():
        if head.startswith(magic):
            raise TableError(f"it is {what}")
    if not utf16 and b"\0" in head:
        raise TableError("it is a binary file, not a CSV or Parquet table")
    for encoding in ("utf-16",) if utf16 else ("utf-8-sig", "cp1252"):
        try:
            with open(path, encoding=encoding, newline="") as file:
                table = _parse(file, str(path), wanted)
        except UnicodeDecodeError:
            continue
        if encoding != "cp1252":
            return table
        note = "The file is not UTF-8; its letters were read as Windows-1252."
        return replace(table, notes=(*table.notes, note))
    raise TableError("it is not text in UTF-8, UTF-16 or Windows-1252")


def _parse(file: IO[str], path: str, wanted: _Wanted) -> Table:
    delimiter, header_row, lines = _delimiter(file)
    records = enumerate(csv.reader(lines, delimiter=delimiter, strict=True), header_row)
    row, header = next(_filled(records), (0, []))
    names = [name.strip() for name in header]
    positions, label = wanted.positions(names)
    inputs = [InputCells(name, kind) for name, kind in zip(wanted.inputs, wanted.kinds)]
    columns = [NumberColumn(name) for name in wanted.columns]
    cells: list[InputCells | NumberColumn] = [*inputs, *columns]
    rows: list[int] = []
    labels: dict[str, str] = {}  # one object per label, however many rows it has
    column_of_labels: list[str] = []
    for row, record in _filled(records):
        if len(rows) == MOST_ROWS:
            raise TableError(_TOO_LONG)
        if len(record) != len(names):
            record = _fitted(record, len(names), row, delimiter)
        rows.append(row)
        for column, position in zip(cells, positions):
            column.append(record[position], row)
        if label is not None:
            text = record[label].strip()
            column_of_labels.append(labels.setdefault(text, text))
    given = [column.finish() for column in inputs]
    finished = [column.finish() for column in columns]
    notes = [] if delimiter == "," else [f"Columns are separated by {_DELIMITERS.get(delimiter, repr(delimiter))}."]
    commas = [column.name for column, (_, comma) in zip(cells, (*given, *finished)) if comma]
    if commas:
        notes.append(f"Decimal commas were read as points in {', '.join(map(repr, commas))}.")
    numbers = np.column_stack([values for values, _ in finished]) if finished else np.zeros((len(rows), 0))
    kept = None if label is None else column_of_labels
    columns_given = tuple(column for column, _ in given)
    return Table(path, np.array(rows, int), kept, numbers, wanted.columns, tuple(notes), columns_given)


_TOO_LONG = (
    f"it has more than {MOST_ROWS:,} rows. Scoreprior is made for many small tasks: "
    "keep a few hundred rows of every task"
)


def _delimiter(file: IO[str]) -> tuple[str, int, Iterator[str]]:
    """What separates columns, judged by the header; the header's row; and all lines from the header on."""
    for row, line in enumerate(file, 1):
        text = line.strip("\r\n")
        if text.lower().startswith("sep=") and len(text) == 5:  # Excel's way to say it
            return text[4], row + 1, file
        if text.strip():
            counts = {each: len(next(csv.reader([text], delimiter=each))) for each in _DELIMITERS}
            return max(counts, key=lambda each: counts[each]), row, chain([line], file)
    raise TableError("it holds nothing but blank lines")


def _filled(records: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    row = 0
    while True:
        try:
            row, record = next(records)
        except StopIteration:
            return
        except csv.Error as error:
            raise TableError(f"row {row + 1} cannot be read ({error}). Is a quotation mark left open there?") from error
        if any(cell and not cell.isspace() for cell in record):
            yield row, record


def _fitted(record: list[str], width: int, row: int, delimiter: str) -> list[str]:
    """The record with cells that are left out at its end; too many cells mean that columns have shifted."""
    if any(cell.strip() for cell in record[width:]):
        hint = " Numbers with decimal commas need another separator, such as semicolons." if delimiter == "," else ""
        raise TableError(f"row {row} has {len(record)} cells, but the header has {width} columns.{hint}")
    return record[:width] + [""] * (width - len(record))


def _parquet(path: FilePath, wanted: _Wanted) -> Table:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise TableError("Parquet files need pyarrow: pip install 'scoreprior[parquet]'") from error
    try:
        file = pq.ParquetFile(path)
        names = [str(name).strip() for name in file.schema_arrow.names]
        positions, label = wanted.positions(names)
        if file.metadata.num_rows > MOST_ROWS:
            raise TableError(_TOO_LONG)
        stored = file.schema_arrow.names
        chosen = [stored[position] for position in positions + ([] if label is None else [label])]
        data = file.read(columns=chosen)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise TableError("it is a damaged Parquet file, or one of a kind that pyarrow does not read") from error
    arrays = [data.column(stored[at]) for at in positions]
    inputs = [column_from_arrow(*each) for each in zip(arrays, wanted.inputs, wanted.kinds)]
    columns = [numbers_from_arrow(*each) for each in zip(arrays[len(inputs) :], wanted.columns)]
    labels = None
    if label is not None:
        labels = ["" if value is None else str(value).strip() for value in data.column(stored[label]).to_pylist()]
    numbers = np.column_stack(columns) if columns else np.zeros((len(data), 0))
    return Table(str(path), np.arange(1, len(data) + 1), labels, numbers, wanted.columns, (), tuple(inputs))


@contextmanager
def _explained(path: FilePath) -> Iterator[None]:
    """Every complaint begins with the file and ends with one full stop."""
    try:
        yield
    except (TableError, CellError, DateError) as error:
        kind: Callable[[str], Exception] = type(error) if isinstance(error, TableError) else TableError
        raise kind(f"Cannot use {str(path)!r}: {str(error).rstrip('.')}.".replace("?.", "?")) from error
    except OSError as error:
        raise TableError(f"Cannot read {str(path)!r}: {error.strerror or error}.") from error
