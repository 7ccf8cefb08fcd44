"""Cheaper versions of a method: fewer steps of everything that iterates, said as settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from scoreprior.bench.cell import ORACLE
from scoreprior.learners import learner

QUICK = 0.05
"""Share of the steps under the quick budget."""

LEAST = 20
"""Fewer steps than this say nothing of a method."""

# Counts of iterations. Not `inner_steps` or `leader_steps`: those say what a method is, not how long it runs.
_COUNTS = ("steps", "target_steps", "epochs")


def flat(config: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted name and value of every setting of a config, nested ones included."""
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value) and not isinstance(value, type):
            yield from flat(value, f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}", value


def reduced(method: str, overrides: Mapping[str, Any], share: float) -> dict[str, Any]:
    """The overrides, with every count of iterations replaced by its share; all other settings stay."""
    if not 0 < share <= 1:
        raise ValueError(f"A share of the iterations is above 0 and at most 1, not {share}.")
    if share == 1 or method == ORACLE:  # which iterates nothing
        return dict(overrides)
    counts = {
        name: max(min(value, LEAST), round(share * value))
        for name, value in flat(learner(method, **overrides))
        if name.rpartition(".")[2] in _COUNTS and isinstance(value, int)
    }
    return {**overrides, **counts}
