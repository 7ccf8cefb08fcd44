"""`TaskSet`: related tasks of different sizes, and `ContextTarget`: the same tasks cut in two.

Arrays are double-precision NumPy in original units until `TaskSet.padded`, the one place where ragged tasks
become a rectangular batch for JAX.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, SupportsIndex, overload

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from scoreprior._types import Inputs, KeyLike, Targets, as_generator
from scoreprior.tasks.checks import TaskError, listing
from scoreprior.tasks.frames import columns_from_frame
from scoreprior.tasks.padding import PaddedTasks
from scoreprior.tasks.task import Task


@dataclass(frozen=True, eq=False)
class TaskSet(Sequence[Task]):
    """Related tasks of different sizes m_i that share their input dimensions."""

    tasks: tuple[Task, ...]
    input_names: tuple[str, ...]
    target_name: str

    def __init__(
        self,
        tasks: Iterable[Task],
        *,
        input_names: Sequence[str] | None = None,
        target_name: str = "y",
        allow_empty: bool = False,
    ):
        if isinstance(tasks, Task) or not isinstance(tasks, Iterable) or _looks_like_one_table(tasks):
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
        object.__setattr__(self, "tasks", members)
        object.__setattr__(self, "input_names", names)
        object.__setattr__(self, "target_name", target_name)

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
        target: str,
        missing: Literal["error", "drop"] = "error",
    ) -> TaskSet:
        """Tasks from a data frame in long form (pandas, polars, pyarrow, ...), one row per point.

        Rows keep their order within a task, tasks the order of their first appearance. With `missing="drop"`
        rows with a missing or infinite input or target are left out; tasks that have none left disappear
        with a warning.
        """
        # Columns of a table without a header are numbered; text and number name the same column.
        input_names = (inputs,) if isinstance(inputs, str) else tuple(str(name) for name in inputs)
        labels, table = columns_from_frame(frame, str(task), input_names, str(target), missing, TaskError)
        kept = np.isfinite(table).all(axis=1)
        order: dict[str, list[int]] = {str(label): [] for label in labels}
        for row, label in enumerate(labels):
            if kept[row]:
                order[str(label)].append(row)
        gone = [label for label, rows in order.items() if not rows]
        if gone:
            warnings.warn(f"{len(gone)} tasks have no complete row and were left out: {listing(gone)}.", stacklevel=2)
        members = [Task(table[rows, :-1], table[rows, -1], label) for label, rows in order.items() if rows]
        if not members:
            raise TaskError("No task has a row with all inputs and the target present; nothing is left to learn from.")
        return cls(members, input_names=input_names, target_name=str(target))

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
        generator = None if key is None else as_generator(key)
        contexts, targets = [], []
        for task in self.tasks:
            chosen = _context_mask(task, context, generator)
            if chosen.all() or not chosen.any():
                raise TaskError(
                    f"{task.name} with {len(task)} points cannot give {int(chosen.sum())} to the context and "
                    "still have both parts non-empty; use a smaller context or leave the task out."
                )
            contexts.append(task.take(chosen))
            targets.append(task.take(~chosen))
        return ContextTarget(self._with(contexts), self._with(targets))

    def padded(self, size: int | None = None, *, dtype: type[np.floating] = np.float32) -> PaddedTasks:
        """One batch, padded to `size` points (the largest task if not given).

        Single precision gives JAX arrays; double precision NumPy's, for computations that enable it.
        """
        largest = max(1, int(self.sizes.max()))
        size = largest if size is None else size
        if size < largest:
            raise TaskError(f"Tasks of up to {largest} points do not fit a batch of size {size}.")
        x = np.zeros((len(self), size, self.dim), dtype)
        y = np.zeros((len(self), size), dtype)
        mask = np.zeros((len(self), size), bool)
        for i, task in enumerate(self.tasks):
            x[i, : len(task)], y[i, : len(task)], mask[i, : len(task)] = task.x, task.y, True
        if dtype == np.float64:
            return PaddedTasks(x, y, mask)
        return PaddedTasks(jnp.asarray(x), jnp.asarray(y), jnp.asarray(mask))

    def _with(self, tasks: Iterable[Task]) -> TaskSet:
        return TaskSet(tasks, input_names=self.input_names, target_name=self.target_name, allow_empty=True)

    def __repr__(self) -> str:
        sizes = self.sizes
        return f"TaskSet(n={len(self)}, m={sizes.min()}..{sizes.max()}, d={self.dim})"


@dataclass(frozen=True, eq=False)
class ContextTarget:
    """Tasks cut in two: condition on `context[i]`, predict `target[i]`."""

    context: TaskSet
    target: TaskSet

    def __post_init__(self) -> None:
        if len(self.context) != len(self.target):
            raise TaskError(f"{len(self.context)} contexts do not pair with {len(self.target)} targets.")

    def __len__(self) -> int:
        return len(self.context)

    def take(self, indices: Iterable[SupportsIndex]) -> ContextTarget:
        """Only these tasks, in this order."""
        chosen = list(indices)
        return ContextTarget(self.context.take(chosen), self.target.take(chosen))


def _looks_like_one_table(tasks: Any) -> bool:
    return isinstance(tasks, (str, dict)) or hasattr(tasks, "columns") or hasattr(tasks, "dtype")


def _context_mask(task: Task, context: Any, generator: np.random.Generator | None) -> np.ndarray:
    if callable(context):
        mask = np.asarray(context(task))
        if mask.shape != (len(task),) or mask.dtype != bool:
            raise TaskError(
                f"The context function gave {mask.dtype} {mask.shape} for {task.name}; expected bool ({len(task)},)."
            )
        return mask
    if isinstance(context, float):
        if not 0 < context < 1:
            raise TaskError(f"A context fraction lies strictly between 0 and 1, not {context}.")
        count = min(max(round(context * len(task)), 1), len(task) - 1)
    else:
        count = int(context)
        if count < 1:
            raise TaskError(f"A context needs at least one point, not {count}.")
    order = np.arange(len(task)) if generator is None else generator.permutation(len(task))
    mask = np.zeros(len(task), bool)
    mask[order[:count]] = True
    return mask
