"""How far to trust a method on tasks of one's own: comparison with simple rules on held-out tasks, and error bars."""

from scoreprior.diagnostics.checks import Check, check
from scoreprior.diagnostics.comparison import (
    LAG_RULES,
    RULES,
    Comparison,
    PairedDifference,
    compare,
    compare_with_rules,
    paired_difference,
)
from scoreprior.diagnostics.coverage import Coverage, Verdict, coverage_without_points, judge_coverage
from scoreprior.diagnostics.forecasts import ORIGINS, hold_out_forecasts, one_row_per_task
from scoreprior.diagnostics.splits import FEWEST_TASKS, HoldOut, halves, hold_out
from scoreprior.diagnostics.two_sample import energy_distance

__all__ = [
    "FEWEST_TASKS",
    "LAG_RULES",
    "ORIGINS",
    "RULES",
    "Check",
    "Comparison",
    "Coverage",
    "HoldOut",
    "PairedDifference",
    "Verdict",
    "check",
    "compare",
    "compare_with_rules",
    "coverage_without_points",
    "energy_distance",
    "halves",
    "hold_out",
    "hold_out_forecasts",
    "judge_coverage",
    "one_row_per_task",
    "paired_difference",
]
