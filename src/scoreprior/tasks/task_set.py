"""`TaskSet`: related tasks of different sizes.

Arrays are double-precision NumPy in original units until `TaskSet.padded`, the one place where ragged tasks
become a rectangular batch for JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, SupportsIndex, overload

import numpy as np
from jaxtyping import Bool

from scoreprior._types import Inputs, KeyLike, Targets, as_generator
from scoreprior.tasks.checks import TaskError, looks_like_one_table
from scoreprior.tasks.context_target import ContextTarget
from scoreprior.tasks.contexts import context_masks
from scoreprior.tasks.encoding import InputEncoding
from scoreprior.tasks.extra_columns import extra_columns
from scoreprior.tasks.files import FilePath
from scoreprior.tasks.frames import FrameColumns, columns_from_file, columns_from_frame
from scoreprior.tasks.grouping import MOST_POINTS, Missing, Order, check_choices, tasks_from_columns
from scoreprior.tasks.input_kinds import Since
from scoreprior.tasks.padding import PaddedTasks, pad
from scoreprior.tasks.reading import read_columns
from scoreprior.tasks.rolling_origin import rolling_origin
from scoreprior.tasks.target_kinds import Real, TargetKind
from scoreprior.tasks.task import Task


@dataclass(frozen=True, eq=False)
class TaskSet(Sequence[Task]):
    """Related tasks of different sizes m_i that share their input dimensions and the kind of their target.

    `target` is a kind of target: `Real()`, `Positive()`, `Bounded(low, high)`, `BinaryRate()` or `Count()`. What is
    learned from the set predicts no other values.
    """

    tasks: tuple[Task, ...]
    input_names: tuple[str, ...]
    target_name: str
    target: TargetKind
    encoding: InputEncoding | None

    def __init__(
        self,
        tasks: Iterable[Task],
        *,
        input_names: Sequence[str] | None = None,
        target_name: str = "y",
        target: TargetKind = Real(),  # noqa: B008 (frozen)
        encoding: InputEncoding | None = None,
        allow_empty: bool = False,
    ):
        if isinstance(tasks, Task) or not isinstance(tasks, Iterable) or looks_like_one_table(tasks):
            raise TaskError(
                f"A set of tasks is needed, but a single table ({type(tasks).__name__}) was passed. Give a "
                "list of Task objects, or use TaskSet.from_frame(df, task=..., inputs=..., target=...)."
            )
        members = tuple(tasks)
        if not members:
            raise TaskError("There are no tasks.")
        for position, task in enumerate(members):
            if not isinstance(task, Task):
                raise TaskError(f"Entry {position} is a {type(task).__name__}, not a Task; wrap it as Task(x, y).")
            if task.dim != members[0].dim:
                raise TaskError(
                    f"{task.name} (entry {position}) has {task.dim} input columns but {members[0].name} has "
                    f"{members[0].dim}; all tasks must share the same inputs."
                )
            if len(task) == 0 and not allow_empty:
                raise TaskError(f"{task.name} (entry {position}) is empty; remove it or give it at least one row.")
        names = tuple(input_names) if input_names is not None else tuple(f"x{j}" for j in range(members[0].dim))
        if len(names) != members[0].dim:
            raise TaskError(f"There are {len(names)} input names for {members[0].dim} input columns.")
        if not isinstance(target, TargetKind):
            raise TaskError(f"target is a kind of target, such as Bounded(0, 100), not {target!r}.")
        target.check(members)
        if encoding is not None and len(encoding.names) != members[0].dim:
            raise TaskError(f"The encoding gives {len(encoding.names)} inputs, but tasks have {members[0].dim}.")
        object.__setattr__(self, "tasks", members)
        object.__setattr__(self, "input_names", names)
        object.__setattr__(self, "target_name", target_name)
        object.__setattr__(self, "encoding", encoding)
        object.__setattr__(self, "target", target)

    @classmethod
    def from_arrays(cls, xs: Any, ys: Any, *, names: Sequence[str] | None = None, **labels: Any) -> TaskSet:
        """Tasks from two equally long lists of arrays, or from x (n, m, d) and y (n, m)."""
        if not hasattr(ys, "__len__") or (len(ys) > 0 and all(np.ndim(y) == 0 for y in ys)):
            raise TaskError(
                "A set of tasks is needed, but a single task's arrays were passed. Give one array per task: "
                "from_arrays([x], [y])."
            )
        if len(xs) != len(ys):
            raise TaskError(f"There are {len(xs)} arrays of inputs but {len(ys)} of targets; they must pair up.")
        labelled = names if names is not None else [f"task {i}" for i in range(len(xs))]
        if len(labelled) != len(xs):
            raise TaskError(f"There are {len(labelled)} names for {len(xs)} tasks.")
        return cls([Task(x, y, name) for x, y, name in zip(xs, ys, labelled)], **labels)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        task: str,
        inputs: str | Sequence[str],
        target: str | Sequence[str],
        target_kind: TargetKind = Real(),  # noqa: B008 (frozen)
        missing: Missing = "error",
        order: Order = "input",
        most_points: int | None = MOST_POINTS,
        cycles: Sequence[str] = (),
        since: Since = "auto",
        time: str | bool = False,
        encoding: InputEncoding | None = None,
        **known: str | None,
    ) -> TaskSet:
        """Tasks from a data frame in long form (pandas, polars, pyarrow, ...), one row per point.

        Tasks come in the order of their first appearance. `scoreprior fit` reads a table in the same way and with the
        same `order` and `most_points`, but always with `missing="drop"`.

        Args:
            task: column that says which task a row belongs to.
            inputs: input column, or several, of numbers, dates (as time since a reference) or text (as categories).
            target: column to predict, or several: each cell that is there becomes a row, and the last input its column.
            target_kind: what values it can have, such as `Bounded(3, 15)`.
            missing: "error" refuses a table with missing or infinite values; "drop" leaves these rows out, with a
                warning where a row lacks its task or a task has no row left.
            order: "input" sorts the rows of a task by the first input that is no category, ties as given; "rows" keeps
                them as given. Order matters: later rows are predicted from earlier ones.
            most_points: of a longer task as many rows as this are used, evenly spread or with `time` the last, with a
                warning; None uses all.
            cycles: of "day", "week", "year", those whose phase is to be an input beside a date; "auto" takes those that
                rows are close enough together, and tasks long enough, to show.
            since: count time from one date for all tasks ("calendar"), from each task's first row ("task"), or "auto":
                from first rows if a typical task spans less than a tenth of the table's time.
            time: input column that is time, for forecasts: rows are sorted by it. True finds it: the first of dates,
                else the first of numbers that rise from row to row of a task as given.
            encoding: how another table was read (`tasks.encoding`, `prior.encoding`), to read this one alike.
            known: columns `noise` (a target's known standard deviation), `replicates` (how many measurements it is the
                mean of) and `weight` (how much a task counts in learning), as of `Task`.
        """
        return cls._read(
            partial(columns_from_frame, frame),
            task=task,
            inputs=inputs,
            target=target,
            target_kind=target_kind,
            missing=missing,
            order=order,
            most_points=most_points,
            encoding=encoding,
            **known,
            cycles=cycles,
            since=since,
            time=time,
        )

    @classmethod
    def from_file(
        cls, path: FilePath, *, task: str, inputs: str | Sequence[str], target: str | Sequence[str], **options: Any
    ) -> TaskSet:
        """Tasks from a CSV or Parquet file, one row per point; arguments and options as of `from_frame`.

        The file is read as `scoreprior fit` reads it: separators, decimal commas and encodings are recognised.
        """
        return cls._read(partial(columns_from_file, path), task=task, inputs=inputs, target=target, **options)

    @classmethod
    def _read(
        cls,
        read: Callable[..., tuple[FrameColumns, np.ndarray, list[np.ndarray]]],
        *,
        task: str,
        inputs: str | Sequence[str],
        target: str | Sequence[str],
        target_kind: TargetKind = Real(),  # noqa: B008 (frozen)
        missing: Missing = "error",
        order: Order = "input",
        most_points: int | None = MOST_POINTS,
        encoding: InputEncoding | None = None,
        noise: str | None = None,
        replicates: str | None = None,
        weight: str | None = None,
        **reading: Any,
    ) -> TaskSet:
        check_choices(missing=missing, order=order, most_points=most_points)
        table = read_columns(read, task, inputs, target, extra_columns(noise, replicates, weight), encoding)
        options: dict[str, Any] = {"missing": missing, "order": order, "most_points": most_points, "extra": table.extra}
        tasks, encoding = tasks_from_columns(*table[:5], **options, encoding=encoding, **reading)
        encoding, name = replace(encoding, channels=table.channels), table.names[-1]
        return cls(tasks, input_names=encoding.names, target_name=name, encoding=encoding, target=target_kind)

    def __len__(self) -> int:
        return len(self.tasks)

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> TaskSet: ...
    def __getitem__(self, index: int | slice) -> Task | TaskSet:
        return self._with(self.tasks[index]) if isinstance(index, slice) else self.tasks[index]

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks)

    @property
    def dim(self) -> int:
        """Number of input dimensions d."""
        return self.tasks[0].dim

    @property
    def sizes(self) -> np.ndarray:
        """Number of points m_i of every task, (n,)."""
        return np.array([len(task) for task in self.tasks])

    @property
    def x(self) -> Inputs:
        """All inputs of all tasks stacked, (sum m_i, d)."""
        return np.concatenate([task.x for task in self.tasks])

    @property
    def y(self) -> Targets:
        """All targets of all tasks stacked, (sum m_i,)."""
        return np.concatenate([task.y for task in self.tasks])

    def map(self, change: Callable[[Task], Task]) -> TaskSet:
        """The set with every task changed."""
        return self._with(change(task) for task in self.tasks)

    def take(self, indices: Iterable[SupportsIndex]) -> TaskSet:
        """The set with only these tasks, in this order."""
        return self._with(self.tasks[i] for i in indices)

    def with_target(self, target: TargetKind) -> TaskSet:
        """The set with another kind of target."""
        labels: dict[str, Any] = {"input_names": self.input_names, "target_name": self.target_name}
        return TaskSet(self.tasks, **labels, encoding=self.encoding, target=target, allow_empty=True)

    def split(self, *sizes: int | float, key: KeyLike | None = None) -> tuple[TaskSet, ...]:
        """Disjoint sets of tasks: one of each size (a count, or a fraction of n), and one with the rest.

        Without a key tasks keep their order; with one they are shuffled first.
        """
        n = len(self)
        counts = [round(size * n) if isinstance(size, float) else size for size in sizes]
        if any(count < 1 for count in counts) or sum(counts) >= n:
            raise TaskError(f"Cannot split {n} tasks into parts of {counts} and a rest; every part needs a task.")
        order = np.arange(n) if key is None else as_generator(key).permutation(n)
        edges = np.cumsum([0, *counts, n - sum(counts)])
        return tuple(self.take(order[a:b]) for a, b in pairwise(edges))

    def context_target(
        self, context: int | float | Callable[[Task], Bool[np.ndarray, " m"]], *, key: KeyLike | None = None
    ) -> ContextTarget:
        """Split every task into context and target points.

        `context` is a number of points, a fraction of the task, or a function of the task that returns a mask
        of its context points. Without a key the first points are the context; with one, a random subset.
        Both parts have at least one point.
        """
        masks = context_masks(self.tasks, context, None if key is None else as_generator(key))
        contexts = self._with(task.take(mask) for task, mask in zip(self.tasks, masks))
        return ContextTarget(contexts, self._with(task.take(~mask) for task, mask in zip(self.tasks, masks)))

    def rolling_origin(self, horizon: int, origins: int = 3, *, least: int = 1) -> ContextTarget:
        """Forecasts to judge a method by: the next `horizon` rows predicted from all rows of the task before them.

        Of a task with m rows, origins are m - horizon, m - 2 horizon, ...: at most `origins` of them, with at least
        `least` known rows. Each is a pair of its own, for `evaluate_pairs`. Rows must run in time.
        """
        return rolling_origin(self, horizon, origins, least)

    def padded(self, size: int | None = None, *, dtype: type[np.floating] = np.float32) -> PaddedTasks:
        """One batch, padded to `size` points (the largest task if not given).

        Single precision gives JAX arrays; double precision NumPy's, for computations that enable it.
        """
        return pad(self.tasks, size, dtype)

    def _with(self, tasks: Iterable[Task]) -> TaskSet:
        return TaskSet(
            tasks,
            input_names=self.input_names,
            target_name=self.target_name,
            encoding=self.encoding,
            target=self.target,
            allow_empty=True,
        )

    def __repr__(self) -> str:
        sizes = self.sizes
        return f"TaskSet(n={len(self)}, m={sizes.min()}..{sizes.max()}, d={self.dim})"
