"""Partial dependence: what is predicted of a task as one input varies and the others stay where the task is known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from scoreprior.learners import Prior
from scoreprior.predictive import Predictive
from scoreprior.tasks import InputEncoding, Task, TaskSet
from scoreprior.tasks.input_kinds import CategoryInput, DateInput

_PLACES = 80


class Varied(NamedTuple):
    """One input that varies: where it does, as inputs x, what is predicted there, and the axis.

    Args:
        place: along the axis, (q,).
        columns: of the inputs x, those of this one.
        ticks: names of categories at places 0, 1, ...; none for numbers and dates.
    """

    name: str
    place: Float[np.ndarray, " q"]
    predictive: Predictive
    columns: np.ndarray
    ticks: tuple[str, ...] = ()

    def of(self, task: Task) -> Task:
        """The points of a task with their place along the axis as the only input."""
        x = task.x[:, self.columns]
        place = np.where(x.any(1), x.argmax(1), -1.0) if self.ticks else x[:, 0]
        return Task(place[:, None], task.y, task.name)


def dependence(
    prior: Prior,
    encoding: InputEncoding,
    domain: Float[np.ndarray, "2 d"],
    shown: list[tuple[str, Float[np.ndarray, "q d"], Task | None]],
    seed: int,
) -> list[list[Varied]]:
    """For every task (name, inputs asked for, known points) one `Varied` of each column of its table."""
    nothing = Task(np.zeros((0, prior.dim)), np.zeros(0))
    posteriors = prior.condition_many(
        TaskSet([nothing if known is None else known for *_, known in shown], allow_empty=True), seed
    )
    inputs = _varying(encoding, shown)
    sets = [_sets(encoding, inputs, domain, _centre(encoding, asked, known)) for _, asked, known in shown]
    answers = posteriors.predict([np.concatenate([x for x, *_ in each]) for each in sets])
    found = []
    for each, answer in zip(sets, answers):
        ends = np.cumsum([len(x) for x, *_ in each])
        parts = [answer.take(np.arange(end - len(x), end)) for end, (x, *_) in zip(ends, each)]
        found.append([Varied(name, place, part, own, ticks) for part, (_, name, place, own, ticks) in zip(parts, each)])
    return found


def _varying(encoding: InputEncoding, shown: list[tuple[str, np.ndarray, Task | None]]) -> list[int]:
    """Columns to vary: all but categories that never change within a task, as a treatment does not."""
    sources, found = np.array(encoding.sources), []
    for at, kind in enumerate(encoding.kinds):
        tasks = [np.concatenate([asked, asked[:0] if known is None else known.x]) for _, asked, known in shown]
        changes = any(len(np.unique(x[:, sources == at], axis=0)) > 1 for x in tasks)
        if kind != "category" or changes:
            found.append(at)
    return found or list(range(len(encoding.kinds)))


def _centre(encoding: InputEncoding, asked: np.ndarray, known: Task | None) -> Float[np.ndarray, " d"]:
    """Where inputs stay: numbers at the median of the task's known points, dates and categories at the last of them."""
    x = asked if known is None or len(known) == 0 else known.x
    centre = x[-1].copy()
    for at, source in enumerate(encoding.sources):
        if encoding.kinds[source] == "number":
            centre[at] = np.median(x[:, at])
    return centre


def _sets(
    encoding: InputEncoding, inputs: list[int], domain: np.ndarray, centre: np.ndarray
) -> list[tuple[np.ndarray, str, np.ndarray, np.ndarray, tuple[str, ...]]]:
    """Inputs x, name, places along the axis, columns of x and names of categories, for every column to vary."""
    found, sources = [], np.array(encoding.sources)
    for at in inputs:
        each = encoding.inputs[at]
        own = np.flatnonzero(sources == at)
        if isinstance(each, CategoryInput):
            x = np.tile(centre, (len(own), 1))
            x[:, own] = np.eye(len(own))
            found.append((x, each.name, np.arange(len(own), dtype=float), own, each.categories))
            continue
        place = np.linspace(domain[0, own[0]], domain[1, own[0]], _PLACES)
        x = np.tile(centre, (_PLACES, 1))
        x[:, own[0]] = place
        if isinstance(each, DateInput) and each.reference is not None:
            x[:, own] = each.encode(each.decode(place), np.datetime64("NaT", "us"))
        name = f"{each.name} ({each.unit} since {each.begin()})" if isinstance(each, DateInput) else each.name
        found.append((x, name, place, own, ()))
    return found
