"""Checks of settings where a config is constructed, with a message that names the setting."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from scoreprior._suggestions import meant


def check_choice(name: str, value: Any, allowed: Collection[Any]) -> None:
    """Refuse a value that is none of the allowed ones."""
    if value not in allowed:
        likely = meant(value, map(str, allowed)) if isinstance(value, str) else None
        hint = "" if likely is None else f" Did you mean {likely!r}?"
        raise ValueError(f"{name} is one of {', '.join(map(str, allowed))}, not {value!r}.{hint}")


def check_counts(config: Any, *names: str, least: int = 1) -> None:
    """Refuse counts that are no whole number of at least 1, or `least`; None, where a setting has it, is allowed."""
    for name in names:
        value = getattr(config, name)
        if value is not None and not (isinstance(value, (int, np.integer)) and value >= least):
            raise ValueError(f"{name} must be at least {least}, and a whole number, not {value}.")


def check_positive(config: Any, *names: str) -> None:
    """Refuse numbers that are not positive and finite; None, where a setting has it, is allowed."""
    for name in names:
        value = getattr(config, name)
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"{name} must be positive, not {value}.")


def check_hidden(hidden: tuple[int, ...]) -> None:
    """Refuse widths of hidden layers unless there is a layer, and a unit in each."""
    if not hidden or min(hidden) < 1:
        raise ValueError(f"hidden needs at least one layer of at least one unit, not {hidden}.")
