"""From names to cells: which configuration of which method runs on which environment, with which seeds."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from scoreprior.bench.budget import QUICK, reduced
from scoreprior.bench.catalogue import TRUTH_KNOWN
from scoreprior.bench.cell import ORACLE, Budget, Cell, Part
from scoreprior.bench.selected import load_selection, selected_overrides
from scoreprior.environments import DataError, environment, environments
from scoreprior.learners import learner, methods

ALL = "all"


class UnknownNameError(ValueError):
    """There is no environment, method or setting of this name; the message says which there are."""


@dataclass(frozen=True)
class Plan:
    """What to run.

    Args:
        seeds: how many, from 0.
        overrides: settings of all methods, on top of the selected ones.
        tuned: whether the configurations in `out` that were selected on this split are used.
        paper_protocol: run every configuration that tuning tried, not only the selected one.
    """

    environments: Sequence[str]
    methods: Sequence[str]
    seeds: int
    split: int = 0
    part: Part = "test"
    overrides: Mapping[str, Any] = field(default_factory=dict)
    tuned: bool = True
    budget: Budget = "full"
    paper_protocol: bool = False

    def cells(self, out: Path) -> list[Cell]:
        """All cells, those of one configuration next to each other: they share compiled code."""
        found = []
        for name in self.environments:
            for method in self.methods:
                if method == ORACLE:  # it draws no random numbers, and not every truth is known
                    found += [self._cell(name, method, 0, {})] if name in TRUTH_KNOWN else []
                    continue
                for overrides in self._configurations(out, name, method):
                    found += [self._cell(name, method, seed, overrides) for seed in range(self.seeds)]
        return found

    def _configurations(self, out: Path, name: str, method: str) -> list[dict[str, Any]]:
        chosen = [selected_overrides(out, name, method, self.split) or {}] if self.tuned else [{}]
        if self.paper_protocol:
            selection = load_selection(out, name, method, self.split)
            chosen += [{}] + (selection.configurations if selection is not None else [])
        full = [{**each, **self.overrides} for each in chosen]
        return [reduced(method, each, QUICK) for each in full] if self.budget == "quick" else full

    def _cell(self, name: str, method: str, seed: int, overrides: Mapping[str, Any]) -> Cell:
        # Where there is nothing to cut, the quick cell is the full one.
        budget = self.budget if overrides else "full"
        return Cell.of(name, method, seed, overrides, split=self.split, part=self.part, budget=budget)


def known_environments(names: str) -> list[str]:
    """Environments from a list with commas; each must exist, and its data be at hand. "all" are those at hand."""
    chosen = _known(names, environments(), "environment")
    if names == ALL:
        return [name for name in chosen if is_at_hand(name)]
    for name in chosen:  # missing data are the caller's to fetch now, not a cell's failure later
        environment(name)
    return chosen


def known_methods(names: str) -> list[str]:
    """Methods from a list with commas; "oracle" is the true process, where it is known."""
    return _known(names, [*methods(), ORACLE], "method")


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


def _known(names: str, known: Sequence[str], what: str) -> list[str]:
    if names == ALL:
        return list(known)
    chosen = [name.strip() for name in names.split(",") if name.strip()]
    if not chosen:
        raise UnknownNameError(f"Name at least one {what}: {', '.join(known)}.")
    for name in chosen:
        if name not in known:
            raise UnknownNameError(f"There is no {what} {name!r}; there are {', '.join(known)}.")
    return list(dict.fromkeys(chosen))


def is_at_hand(name: str) -> bool:
    """Whether an environment's data are on this machine."""
    try:
        environment(name)
    except DataError:
        return False
    return True
