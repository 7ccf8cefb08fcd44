"""Tasks on their way in: ragged tasks, data frames and files, padding, the frozen map to standardised units."""

from scoreprior.tasks.checks import TaskError
from scoreprior.tasks.context_target import ContextTarget
from scoreprior.tasks.encoding import InputEncoding
from scoreprior.tasks.fingerprint import fingerprint
from scoreprior.tasks.order import runs_in_order
from scoreprior.tasks.padding import PaddedTasks, PointNoise, bucket
from scoreprior.tasks.resolution import resolution
from scoreprior.tasks.standardizer import Standardizer
from scoreprior.tasks.target_kinds import BinaryRate, Bounded, Count, Positive, Real, TargetKind
from scoreprior.tasks.task import Task
from scoreprior.tasks.task_set import TaskSet

__all__ = [
    "BinaryRate",
    "Bounded",
    "ContextTarget",
    "Count",
    "InputEncoding",
    "PaddedTasks",
    "PointNoise",
    "Positive",
    "Real",
    "Standardizer",
    "TargetKind",
    "Task",
    "TaskError",
    "TaskSet",
    "bucket",
    "fingerprint",
    "resolution",
    "runs_in_order",
]
