"""Cheaper versions of a method, said as settings: the counts that a share of its budget cuts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from scoreprior._budget import check_share
from scoreprior.bench.cell import ORACLE
from scoreprior.learners import learner

QUICK = 0.05
"""Share of the iterations under the quick budget."""


def flat(config: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted name and value of every setting of a config, nested ones included; "a.0" is the first of several."""
    several = isinstance(config, tuple)
    for name, value in enumerate(config) if several else ((f.name, getattr(config, f.name)) for f in fields(config)):
        holds_configs = isinstance(value, tuple) and any(map(is_dataclass, value))
        if holds_configs or (is_dataclass(value) and not isinstance(value, type)):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def reduced(method: str, overrides: Mapping[str, Any], share: float) -> dict[str, Any]:
    """The overrides, and the settings in which the method with this share of its budget differs from it in full."""
    check_share(share)
    if share == 1 or method == ORACLE:  # which iterates nothing
        return dict(overrides)
    whole: Any = learner(method, **overrides)
    before = dict(flat(whole))
    after = flat(whole.with_budget(share))
    return {**overrides, **{name: value for name, value in after if value != before[name]}}
