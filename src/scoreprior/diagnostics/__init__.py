"""How far to trust a method on tasks of one's own: cross-validation, comparison with simple rules, error bars."""

from scoreprior.diagnostics.checks import Check, check
from scoreprior.diagnostics.comparison import Comparison, PairedDifference, paired_difference
from scoreprior.diagnostics.coverage import Coverage, Verdict, coverage_without_points, judge_coverage
from scoreprior.diagnostics.cross_validation import CrossValidation, cross_validate, trains_networks
from scoreprior.diagnostics.forecasts import ORIGINS, forecast_folds
from scoreprior.diagnostics.pit_moments import PitMoments
from scoreprior.diagnostics.prior_width import WIDER, Stretch, relative_width
from scoreprior.diagnostics.rules import LAG_RULES, RULES, compare_with_rules
from scoreprior.diagnostics.splits import (
    FEWEST_TASKS,
    FOLDS,
    Fold,
    HoldOut,
    TooFewTasksError,
    halves,
    hold_out,
    task_folds,
)
from scoreprior.diagnostics.two_sample import energy_distance

__all__ = [
    "FEWEST_TASKS",
    "FOLDS",
    "LAG_RULES",
    "ORIGINS",
    "RULES",
    "WIDER",
    "Check",
    "Comparison",
    "Coverage",
    "CrossValidation",
    "Fold",
    "HoldOut",
    "PairedDifference",
    "PitMoments",
    "Stretch",
    "TooFewTasksError",
    "Verdict",
    "check",
    "compare_with_rules",
    "coverage_without_points",
    "cross_validate",
    "energy_distance",
    "forecast_folds",
    "halves",
    "hold_out",
    "judge_coverage",
    "paired_difference",
    "relative_width",
    "task_folds",
    "trains_networks",
]
