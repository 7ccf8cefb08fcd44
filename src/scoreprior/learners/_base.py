"""Hinge 2: `MetaLearner.fit -> Prior`, `Prior.condition -> Posterior`, `Posterior.predict -> Predictive`.

A method writes the mathematics of ONE task in standardised units (`Prior.infer` and `Prior.evaluate`); this file
owns what is the same for all: checking, standardising, padding, batching over tasks, and the way back to
original units.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from scoreprior._types import KeyLike, as_key
from scoreprior.inference._base import NeedsAllTasksError
from scoreprior.learners._batches import draw_many, evaluate_many, infer_in_chunks
from scoreprior.predictive import Mixture, NoDistributionError, Predictive
from scoreprior.tasks import InputEncoding, PaddedTasks, Standardizer, Task, TaskSet, bucket
from scoreprior.tasks.checks import TaskError, check_query
from scoreprior.tasks.frames import encode_frame
from scoreprior.tasks.padding import groups_by_size, pad_noise
from scoreprior.warped_predictive import through

_CHUNKS_WORTH_COMPILING = 10  # inference on smaller tasks saves less than its compilation costs on fewer


@runtime_checkable
class MetaLearner(Protocol):
    """Learns a prior over functions from related tasks."""

    def fit(self, tasks: TaskSet, key: KeyLike, *, progress: bool = True) -> Prior:
        """The prior learned from the tasks."""

    def with_budget(self, share: float) -> MetaLearner:
        """The same method with this share, above 0 and at most 1, of everything that iterates."""


class Prior(eqx.Module):
    """A learned prior over functions.

    Methods define `infer` and `evaluate` for one task in standardised units; both are compiled without the
    standardiser, so they cannot read it.
    """

    standardizer: eqx.AbstractVar[Standardizer]
    # Whether it uses what is known of the noise of points; then `evaluate` takes that of the queries, too.
    uses_noise: ClassVar[bool] = False
    # Tasks inferred at once: a batch whose working set leaves the cache is slower than several small ones.
    chunk: ClassVar[int | None] = None

    @abstractmethod
    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> PyTree:
        """Posterior state given one padded task: x (m, d), y (m,), mask (m,), possibly with no real point."""

    @abstractmethod
    def evaluate(self, state: PyTree, x: Float[Array, "q d"]) -> Mixture:
        """The predictive at x given a posterior state."""

    def draw(self, state: PyTree, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """One joint draw at x given a posterior state: of methods with particles, one of these."""
        functions = self.evaluate(state, x).draws
        if functions is None:
            raise NoDistributionError(
                "This method gives no joint draws; predict(x).sample draws every point on its own."
            )
        return functions[jax.random.randint(key, (), 0, len(functions))]

    def surprise(self, state: PyTree) -> Float[Array, "*n"]:
        """How probable known points that fit no better are among related tasks, given posterior states."""
        raise NoDistributionError("This prior does not judge known points: fit it by sp.Guarded(method).")

    def condition(self, x: Any, y: Any, key: KeyLike, *, noise: Any = None, replicates: Any = None) -> Posterior:
        """Posterior given the few points (x, y) of a new task; no points gives the prior predictive.

        `noise` (m,) is their known standard deviation, `replicates` how many measurements each is the mean of.
        """
        if np.size(y) == 0:
            x, y = np.zeros((0, self.dim)), np.zeros(0)
        task = Task(x, y, "the new task", noise=noise, replicates=replicates)
        return self.condition_many(TaskSet([task], allow_empty=True), key)[0]

    def condition_many(self, tasks: TaskSet, key: KeyLike) -> Posteriors:
        """Posteriors of many tasks in one compiled call; task i uses the i-th key split from `key`."""
        if not isinstance(tasks, TaskSet):
            tasks = TaskSet(tasks, allow_empty=True)
        if tasks.dim != self.dim:
            raise TaskError(f"{tasks[0].name} has {tasks.dim} input columns; this prior was fitted with {self.dim}.")
        # How much a task counts in learning says nothing of what its points say.
        scaled = self.standardizer.apply(tasks, noise=self.uses_noise, weights=True).map(lambda each: each.counted_once)
        keys = jax.random.split(as_key(key), len(tasks))
        chunk = self.chunk or len(tasks)
        groups = []
        for rows in groups_by_size(tasks.sizes, _CHUNKS_WORTH_COMPILING * chunk):
            batch = scaled.take(rows).padded(bucket(int(tasks.sizes[rows].max())))
            groups.append(Group(rows, infer_in_chunks(self.bare(), batch, keys[rows], chunk)))
        return Posteriors(self, groups, tasks)

    def sample(self, x: Any, key: KeyLike, n: int) -> Float[np.ndarray, "n q"]:
        """n joint draws from the prior at x (q, d), in original units: those of a task without a known point."""
        infer_key, draw_key = jax.random.split(as_key(key))
        return self.condition([], [], infer_key).sample(x, draw_key, n)

    def update(self, tasks: TaskSet) -> Prior:
        """The prior given further tasks beside those that it was learned from: of processes in closed form.

        What all tasks share is learned from the new ones as well; hyper-parameters stay, which `fit(..., init=prior)`
        adapts, given all tasks. Other methods need all tasks and say so.
        """
        raise NeedsAllTasksError("This method cannot learn from further tasks alone: fit it again to all tasks.")

    def save(self, path: str | PathLike[str], *, metadata: dict[str, Any] | None = None) -> None:
        """Write the prior to a file that `load_prior` reads; the file appears whole or not at all.

        `metadata` goes beside what the method says of itself in `about`: see `serialization.save_prior`.
        """
        # Reading a file needs to know every prior, so that module imports this one.
        from scoreprior.serialization import save_prior

        save_prior(self, path, metadata=self.about() | (metadata or {}))

    def about(self) -> dict[str, Any]:
        """What a person may want to know of this prior: method, config, domain, metrics; goes into its file."""
        return {"prior": type(self).__name__, "inputs": self.dim, "target": self.standardizer.kind.words}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(d={self.dim}, target={self.standardizer.kind.words})"

    def bare(self) -> Prior:
        """The prior without what is no array, the standardiser: all priors of a method share compiled code."""
        return eqx.tree_at(lambda p: p.standardizer, self, None)

    @property
    def unguarded(self) -> Prior:
        """The prior itself, without a guard against tasks that do not fit."""
        return self

    @property
    def is_point(self) -> bool:
        """Whether it predicts points, found without computing anything."""
        nothing = PaddedTasks(jnp.zeros((4, self.dim)), jnp.zeros(4), jnp.zeros(4, bool))

        def predict(bare: Prior) -> Mixture:
            return bare.evaluate(bare.infer(nothing, jax.random.key(0)), nothing.x)

        return eqx.filter_eval_shape(predict, self.bare()).scales is None

    @property
    def dim(self) -> int:
        """Number of input dimensions d."""
        return len(self.standardizer.x_mean)

    @property
    def encoding(self) -> InputEncoding | None:
        """How the columns of the training table became inputs x; None where tasks were made of arrays."""
        return self.standardizer.encoding

    def encode(self, frame: Any, *, start: Any = None) -> Float[np.ndarray, "q d"]:
        """Inputs x (q, d) of the rows of a data frame: its dates and categories read as those of training were.

        `start` is the first date of the task, where time is counted from there; by default the first of the frame.
        """
        if self.encoding is None:
            raise TaskError("This prior was learned from arrays: it does not know of the columns of a data frame.")
        return encode_frame(frame, self.encoding, start=start)


class Posterior:
    """What is known of one task's function after conditioning."""

    def __init__(self, prior: Prior, state: PyTree, context: Task | None = None):
        self.prior = prior
        self.state = state
        self.context = context

    def __repr__(self) -> str:
        known = "" if self.context is None else f", {len(self.context)} known points"
        return f"Posterior({self.prior!r}{known})"

    def update(self, x: Any, y: Any, key: KeyLike) -> Posterior:
        """The posterior given the points (x, y) as well: that of conditioning on all of them at once.

        The prior is not fitted again: of processes and denoisers it takes milliseconds, of particles a new inference.
        """
        if self.context is None:
            raise ValueError("This posterior does not know its points; posteriors of Prior.condition do.")
        new = Task(x, y, self.context.name)
        if new.x.shape[1] != self.prior.dim:
            raise TaskError(f"x has {new.x.shape[1]} columns; this prior was fitted with {self.prior.dim}.")
        return self.prior.condition_many(TaskSet([self.context.joined(new)]), key)[0]

    def predict(self, x: Any) -> Predictive:
        """Predictive distribution of y at x (q, d), in original units."""
        alone = Group(np.zeros(1, int), jax.tree.map(lambda leaf: leaf[None], self.state))
        return Posteriors(self.prior, [alone]).predict([x])[0]

    @property
    def surprise(self) -> float:
        """How probable known points that fit no better are among related tasks; below 0.01 the task does not fit."""
        return float(self.prior.surprise(self.state))

    def sample(self, x: Any, key: KeyLike, n: int) -> Float[np.ndarray, "n q"]:
        """n joint draws at x (q, d), in original units.

        Gaussian processes and particles draw the noise-free function; a denoiser draws observations, with their noise.
        """
        scaler, query = self.prior.standardizer, check_query(x, self.prior.dim)
        padded = np.zeros((bucket(len(query)), self.prior.dim), np.float32)
        padded[: len(query)] = scaler.scale_x(query)
        keys = jax.random.split(as_key(key), n)
        draws = draw_many(self.prior.bare(), self.state, jnp.asarray(padded), keys)
        return scaler.unscale_y(np.asarray(draws, np.float64)[:, : len(query)], query)


class Group(NamedTuple):
    """Tasks of similar size: their positions among all, and one batch of their posterior states."""

    rows: Int[np.ndarray, " n"]
    state: PyTree


class Posteriors(Sequence[Posterior]):
    """Posteriors of many tasks, held in a few batches; index or iterate it."""

    def __init__(self, prior: Prior, groups: Sequence[Group], contexts: TaskSet | None = None):
        self.prior = prior
        self.groups = groups
        self.contexts = contexts
        self._n = sum(len(group.rows) for group in groups)
        self._places = {int(row): (group, at) for group in groups for at, row in enumerate(group.rows)}

    def __len__(self) -> int:
        return self._n

    def __repr__(self) -> str:
        return f"Posteriors(n={self._n}, {self.prior!r})"

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._n))]
        if not -self._n <= index < self._n:
            raise IndexError(f"There are {self._n} posteriors; index {index} is out of range.")
        group, at = self._places[index % self._n]
        context = None if self.contexts is None else self.contexts[index % self._n]
        return Posterior(self.prior, jax.tree.map(lambda leaf: leaf[at], group.state), context)

    def __iter__(self) -> Iterator[Posterior]:
        return (self[i] for i in range(self._n))

    @property
    def surprise(self) -> Float[np.ndarray, " n"]:
        """The surprise of every posterior."""
        values = np.empty(self._n)
        for rows, state in self.groups:
            values[rows] = np.asarray(self.prior.surprise(state))
        return values

    def predict(self, xs: Sequence[Any], *, rows: Sequence[Task] | None = None) -> list[Predictive]:
        """Predictives of all tasks at their own query points, in one compiled call for each batch.

        With `rows`, tasks at the same points, of measurements with the noise and the replicates that they tell.
        """
        if len(xs) != self._n:
            raise TaskError(f"{len(xs)} sets of query points were given for {self._n} tasks.")
        queries = [check_query(x, self.prior.dim) for x in xs]
        found: dict[int, Predictive] = {}
        for at, state in self.groups:
            known = None if rows is None else [rows[row] for row in at]
            found |= zip(at.tolist(), self._predict(state, [queries[row] for row in at], known))
        return [found[row] for row in range(self._n)]

    def _predict(
        self, state: PyTree, queries: Sequence[Float[np.ndarray, "q d"]], rows: Sequence[Task] | None
    ) -> Iterator[Predictive]:
        scaler, noise = self.prior.standardizer, None
        padded = np.zeros((len(queries), bucket(max(map(len, queries))), self.prior.dim), np.float32)
        for row, query in zip(padded, queries):
            row[: len(query)] = scaler.scale_x(query)
        if rows is not None and any(row.noise_is_known for row in rows):
            noise = pad_noise([scaler.scale_task(row) for row in rows], padded.shape[1], np.float32)
        mixtures = jax.tree.map(np.asarray, evaluate_many(self.prior.bare(), state, jnp.asarray(padded), noise))
        for i, query in enumerate(queries):
            by_point = (mixtures.locs, mixtures.scales, mixtures.draws, mixtures.function_scales)
            locs, scales, draws, function_scales = (
                None if leaf is None else leaf[i, :, : len(query)] for leaf in by_point
            )
            weights = None if mixtures.weights is None else mixtures.weights[i]
            mean, std = scaler.target_scales(query)
            latent = Predictive(locs, scales, draws, weights, function_scales).affine(std, mean)
            yield through(latent, scaler.warp)
