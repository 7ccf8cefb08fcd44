"""From names to cells: which configuration of which method runs on which environment, with which seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
        tuned: whether selected configurations in `out` are used.
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
        chosen = [selected_overrides(out, name, method) or {}] if self.tuned else [{}]
        if self.paper_protocol:
            selection = load_selection(out, name, method)
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
        try:
            learner(name, **overrides) if name != ORACLE else None
        except (ValueError, TypeError) as error:
            raise UnknownNameError(f"{name}: {error}") from error


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
