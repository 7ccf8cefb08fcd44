"""Observations at the inputs that `predict` is asked for, where the table of these has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from scoreprior.cli._queries import Query
from scoreprior.cli._tables import Columns
from scoreprior.tasks import Task
from scoreprior.tasks.files import TableError, read_table


def true_points(at: Path | None, columns: Columns, queries: list[Query]) -> list[Task | None]:
    """Of every query the rows with a target; None without any, or without such a column of numbers."""
    if at is None:
        return [None] * len(queries)
    try:
        y = read_table(at, (columns.target,)).numbers[:, 0]
    except TableError:
        return [None] * len(queries)
    found: list[Task | None] = []
    for query in queries:
        own = y[query.rows % len(y)]  # rows of a table that names no task are asked for of every task
        used = np.isfinite(own) & np.isfinite(query.x).all(1)
        found.append(Task(query.x[used], own[used], query.task) if used.any() else None)
    return found
