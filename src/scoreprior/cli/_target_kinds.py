"""Kinds of targets on the command line: the options that name one, and which of them a table's values suggest."""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Float

from scoreprior.cli._console import CallError
from scoreprior.tasks import BinaryRate, Bounded, Count, Positive, Real, TargetKind
from scoreprior.tasks.checks import TaskError

KindName = Literal["real", "positive", "bounded", "count", "binary-rate"]

_ON_BOUND = 0.1
"""Share of the values that are exactly the largest (or the least) one, above which that looks like a bound."""
_SMALL, _OFTEN = 3, 0.2
"""Whole numbers look counted where so many of them are so small."""
_DECADES = 100.0
"""Ratio of the 99% to the 1% quantile of positive values, above which their logarithm is the better scale."""


def chosen_kind(name: KindName, bounds: str | None) -> TargetKind:
    """The kind that --target-kind and --bounds name."""
    if (name == "bounded") != (bounds is not None):
        raise CallError("--target-kind bounded needs --bounds LOW,HIGH, and no other kind of target takes them.")
    if bounds is not None:
        try:
            low, high = (float(end) for end in bounds.split(","))
            return Bounded(low, high)
        except (ValueError, TaskError):
            raise CallError(f"--bounds are two numbers, the lower first, as in 0,100, not {bounds!r}.") from None
    kinds = {kind.name: kind for kind in (Real(), Positive(), Count(), BinaryRate())}
    return kinds[name]


def suggestion(y: Float[np.ndarray, " n"], target: str) -> str | None:
    """A sentence on the kind that values look like; None where they look like any numbers."""
    low, high = float(y.min()), float(y.max())
    at_low, at_high = float(np.mean(y == low)), float(np.mean(y == high))
    if low == high or len(np.unique(y)) < 3:
        return None
    whole = bool(np.all(y == np.round(y)))
    if at_high < _ON_BOUND and low >= 0 and whole and np.mean(y <= _SMALL) >= _OFTEN:
        return (
            f"All values of {target} are whole numbers and many are small: if they are counts, use --target-kind count."
        )
    if max(at_low, at_high) >= _ON_BOUND:
        value, share, which = (high, at_high, "largest") if at_high >= at_low else (low, at_low, "least")
        return (
            f"{share:.0%} of the values of {target} are exactly {value:g}, the {which}: if that is a bound, use "
            f"--target-kind bounded --bounds {low:g},{high:g} (or wider bounds, if you know them)."
        )
    if low > 0 and np.quantile(y, 0.99) >= _DECADES * np.quantile(y, 0.01) and y.mean() > np.median(y):
        return (
            f"All values of {target} are positive and spread over decades ({low:.3g} to {high:.3g}): "
            "--target-kind positive would suit them."
        )
    return None
