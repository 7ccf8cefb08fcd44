"""From names to cells: which configuration of which method runs on which environment, with which seeds."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import product
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from scoreprior._suggestions import did_you_mean
from scoreprior.bench.budget import QUICK, reduced
from scoreprior.bench.catalogue import SUITE, TRUTH_KNOWN
from scoreprior.bench.cell import ORACLE, Budget, Cell, Part
from scoreprior.bench.selected import load_selection, selected_overrides
from scoreprior.environments import DataError, environment, environments
from scoreprior.learners import learner, methods

ALL: Literal["all"] = "all"
Number: TypeAlias = int | Literal["all"]


class UnknownNameError(ValueError):
    """There is no environment, method, setting or number of tasks of this name; the message says which there are."""


@dataclass(frozen=True)
class Plan:
    """What to run.

    Args:
        seeds: how many, from 0.
        splits: of the data.
        tasks: numbers of meta-training tasks, or "all"; None is an environment's default number.
        overrides: settings of all methods, on top of the selected ones.
        tuned: whether the configurations in `out` that were selected on a split are used, whatever the number of tasks.
        paper_protocol: run every configuration that tuning tried, not only the selected one.
    """

    environments: Sequence[str]
    methods: Sequence[str]
    seeds: int
    splits: Sequence[int] = (0,)
    tasks: Sequence[Number | None] = (None,)
    part: Part = "test"
    overrides: Mapping[str, Any] = field(default_factory=dict)
    tuned: bool = True
    budget: Budget = "full"
    paper_protocol: bool = False

    def cells(self, out: Path) -> list[Cell]:
        """All cells, those of one configuration next to each other: they share compiled code."""
        found = []
        for name in self.environments:
            numbers = {split: [tasks_of_cell(name, split, each) for each in self.tasks] for split in self.splits}
            for method, split in product(self.methods, self.splits):
                if method == ORACLE:  # it learns nothing, draws no random numbers, and not every truth is known
                    found += [self._cell(name, method, 0, {}, split, None)] if name in TRUTH_KNOWN else []
                    continue
                for overrides, tasks in product(self._configurations(out, name, method, split), numbers[split]):
                    found += [self._cell(name, method, seed, overrides, split, tasks) for seed in range(self.seeds)]
        return found

    def _configurations(self, out: Path, name: str, method: str, split: int) -> list[dict[str, Any]]:
        chosen = [selected_overrides(out, name, method, split) or {}] if self.tuned else [{}]
        if self.paper_protocol:
            selection = load_selection(out, name, method, split)
            chosen += [{}] + (selection.configurations if selection is not None else [])
        full = [{**each, **self.overrides} for each in chosen]
        return [reduced(method, each, QUICK) for each in full] if self.budget == "quick" else full

    def _cell(
        self, name: str, method: str, seed: int, overrides: Mapping[str, Any], split: int, tasks: int | None
    ) -> Cell:
        # Where there is nothing to cut, the quick cell is the full one.
        budget = self.budget if overrides else "full"
        return Cell.of(name, method, seed, overrides, split=split, part=self.part, tasks=tasks, budget=budget)


def tasks_of_cell(name: str, split: int, wanted: Number | None) -> int | None:
    """The `tasks` of a cell: None for the environment's default number, which is the same computation."""
    if wanted is None:
        return None
    try:
        found = len(environment(name, split=split, tasks=wanted).meta_train)
    except DataError:
        raise
    except ValueError as error:
        raise UnknownNameError(str(error)) from error
    return None if found == len(environment(name, split=split).meta_train) else found


def known_numbers(text: str, chosen: Sequence[str], splits: Sequence[int]) -> list[Number]:
    """Numbers of meta-training tasks from a list with commas; each of these environments must have so many."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word != ALL and not (word.isdecimal() and int(word)):
            raise UnknownNameError(f"--tasks needs whole numbers from 1 with commas between, or {ALL}, not {word!r}.")
    numbers: list[Number] = [ALL if word == ALL else int(word) for word in dict.fromkeys(words)]
    if not numbers:
        raise UnknownNameError("Name at least one number of tasks.")
    for name, split, number in product(chosen, splits, numbers):
        tasks_of_cell(name, split, number)
    return numbers


def named_environments(names: str) -> list[str]:
    """Environments from a list with commas, in which "suite" stands for those of the suite; each must exist."""
    words = [",".join(SUITE) if word.strip() == "suite" else word for word in names.split(",")]
    return known_among(",".join(words), environments(), "environment")


def known_environments(names: str) -> list[str]:
    """Environments from a list with commas; each must exist, and its data be at hand. "all" are those at hand."""
    chosen = named_environments(names)
    if names == ALL:
        return [name for name in chosen if is_at_hand(name)]
    for name in chosen:  # missing data are the caller's to fetch now, not a cell's failure later
        environment(name)
    return chosen


def known_methods(names: str) -> list[str]:
    """Methods from a list with commas; "oracle" is the true process, where it is known."""
    return known_among(names, [*methods(), ORACLE], "method")


def check_settings(chosen: Sequence[str], overrides: Mapping[str, Any]) -> None:
    """Every method must have these settings and accept these values, before anything runs."""
    for name in chosen:
        if name == ORACLE:  # it has no settings
            continue
        try:
            for setting, value in overrides.items():
                _check_kind(learner(name), setting, value)
            learner(name, **overrides)
        except (ValueError, TypeError) as error:
            raise UnknownNameError(f"{name}: {error}") from error


def _check_kind(config: Any, setting: str, value: Any) -> None:
    """Is the value of the kind that the config says? What it does not have, `learner` will say."""
    *groups, last = setting.split(".")
    for group in groups:
        config = getattr(config, group, None)
    if not is_dataclass(config) or last not in {each.name for each in fields(config)}:
        return
    kind = get_type_hints(type(config))[last]
    if _fits(value, kind):
        return
    held = getattr(config, last)
    if is_dataclass(held) and (parts := [f"{setting}.{each.name}" for each in fields(held)]):
        raise ValueError(f"{setting} is a group of settings; set one of them: {', '.join(parts)}.")
    raise ValueError(f"{setting} cannot be {json.dumps(value)}; it is of the kind {_told_kind(kind)}.")


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value that was read from JSON is of an annotated kind; a config never is."""
    origin, inside = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in inside)
    if origin is Literal:
        return value in inside
    if origin is tuple and inside[-1:] != (...,):
        return isinstance(value, tuple) and len(value) == len(inside) and all(map(_fits, value, inside))
    if origin in (tuple, Sequence):
        return isinstance(value, tuple) and all(_fits(each, inside[0]) for each in value)
    if isinstance(value, bool):  # which Python counts among the ints
        return kind is bool
    if kind is float:
        return isinstance(value, (int, float))
    return kind in (int, str, NoneType) and isinstance(value, kind)


def _told_kind(kind: Any) -> str:
    """An annotation without the modules of its names."""
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else re.sub(r"\b[a-z_]+\.", "", str(kind))


def known_among(names: str, known: Sequence[str], what: str) -> list[str]:
    """Names from a list with commas, each once; "all" are all that are known."""
    if names == ALL:
        return list(known)
    chosen = [name.strip() for name in names.split(",") if name.strip()]
    if not chosen:
        raise UnknownNameError(f"Name at least one {what}: {', '.join(known)}.")
    for name in chosen:
        if name not in known:
            listed = f"there are {', '.join(known)}."
            raise UnknownNameError(f"There is no {what} {name!r}; {did_you_mean(name, known, listed)}")
    return list(dict.fromkeys(chosen))


def is_at_hand(name: str) -> bool:
    """Whether an environment's data are on this machine."""
    try:
        environment(name)
    except DataError:
        return False
    return True
