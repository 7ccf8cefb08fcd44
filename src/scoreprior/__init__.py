"""Scoreprior: learn a prior over functions from a few small regression datasets; predict a new one with honest error bars."""

from scoreprior.environments import DataError, Environment, environment, environments
from scoreprior.evaluation import evaluate, evaluate_oracle, summarise
from scoreprior.learners import MetaLearner, Posterior, Posteriors, Prior, learner, methods
from scoreprior.predictive import NoDistributionError, Predictive
from scoreprior.tasks import ContextTarget, Standardizer, Task, TaskError, TaskSet

__version__ = "0.1.0"

__all__ = [
    "ContextTarget",
    "DataError",
    "Environment",
    "MetaLearner",
    "NoDistributionError",
    "Posterior",
    "Posteriors",
    "Predictive",
    "Prior",
    "Standardizer",
    "Task",
    "TaskError",
    "TaskSet",
    "environment",
    "environments",
    "evaluate",
    "evaluate_oracle",
    "learner",
    "methods",
    "summarise",
]
