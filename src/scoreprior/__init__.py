"""Learn a prior over functions from a few small regression datasets; predict a new one with honest error bars."""

from scoreprior.auto import Auto, Choice
from scoreprior.diagnostics import (
    Check,
    Comparison,
    CrossValidation,
    check,
    compare_with_rules,
    cross_validate,
    hold_out,
    judge_coverage,
)
from scoreprior.environments import DataError, Environment, environment, environments, register_environment
from scoreprior.evaluation import evaluate, evaluate_oracle, evaluate_pairs, summarise
from scoreprior.interpolators import (
    DeterministicInterpolator,
    DropoutInterpolator,
    EnsembleInterpolator,
    GPInterpolator,
    MaternInterpolator,
)
from scoreprior.learners import MetaLearner, Posterior, Posteriors, Prior, learner, methods, register
from scoreprior.learners.denoised_mars import DenoisedMARS
from scoreprior.learners.guarded import Guarded
from scoreprior.learners.mars import PlainMARS
from scoreprior.learners.sampled_mars import SampledMARS
from scoreprior.learners.stack import Stack
from scoreprior.predictive import Mixture, NoDistributionError, Predictive
from scoreprior.serialization import PriorFileError, load_prior
from scoreprior.stacking import squared_error_weights, stacking_weights
from scoreprior.tasks import (
    BinaryRate,
    Bounded,
    ContextTarget,
    Count,
    PaddedTasks,
    Positive,
    Real,
    Standardizer,
    TargetKind,
    Task,
    TaskError,
    TaskSet,
)
from scoreprior.training import TrainingConfig

MARS = DenoisedMARS
"""The method to start with."""

__version__ = "0.2.0"

__all__ = [
    "MARS",
    "Auto",
    "BinaryRate",
    "Bounded",
    "Check",
    "Choice",
    "Comparison",
    "ContextTarget",
    "Count",
    "CrossValidation",
    "DataError",
    "DenoisedMARS",
    "DeterministicInterpolator",
    "DropoutInterpolator",
    "EnsembleInterpolator",
    "Environment",
    "GPInterpolator",
    "Guarded",
    "MaternInterpolator",
    "MetaLearner",
    "Mixture",
    "NoDistributionError",
    "PaddedTasks",
    "PlainMARS",
    "Positive",
    "Posterior",
    "Posteriors",
    "Predictive",
    "Prior",
    "PriorFileError",
    "Real",
    "SampledMARS",
    "Stack",
    "Standardizer",
    "TargetKind",
    "Task",
    "TaskError",
    "TaskSet",
    "TrainingConfig",
    "check",
    "compare_with_rules",
    "cross_validate",
    "environment",
    "environments",
    "evaluate",
    "evaluate_oracle",
    "evaluate_pairs",
    "hold_out",
    "judge_coverage",
    "learner",
    "load_prior",
    "methods",
    "register",
    "register_environment",
    "squared_error_weights",
    "stacking_weights",
    "summarise",
]
