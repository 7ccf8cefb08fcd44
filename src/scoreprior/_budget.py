"""A share of whatever iterates: what `with_budget` of every method and config is made of."""

from __future__ import annotations

LEAST = 20
"""Fewer iterations than this say nothing of a method."""


def share_of(count: int, share: float, least: int = LEAST) -> int:
    """That share of a count of iterations, but at least `least` of them, or all where there are fewer."""
    check_share(share)
    return max(min(count, least), round(share * count))


def check_share(share: float) -> None:
    """Refuse a share of the budget outside (0, 1]."""
    if not 0 < share <= 1:
        raise ValueError(f"A share of the budget is above 0 and at most 1, not {share}.")
