"""`Guarded`: any method, guarded against tasks that are unlike those it has learned from.

A prior answers whatever the known points say; of a task that it gives no probability it is wrong, and sure. Here every
known point is also predicted from the others (in folds), by the prior and by a broad process that knows nothing but
this task.

`surprise` says how rare such ill-fitting known points are among related tasks. With p_i the two-sided tail probability
of y_i given the others, Fisher's statistic sum_i -log p_i of n independent points exceeds t with probability
Q(n, t) = exp(-t) sum_{k<n} t^k / k!. Points of a task are not independent, and no prior is exact: -log Q of left-out
training tasks tells how large it gets among related ones. Many points on a smooth curve predict each other, however far
away it is; so there is a second statistic, the mean of -log p_i under the prior alone. Those predictions fail together,
so they count as one.

A query is answered by a mixture of the prior and the broad process. The odds of the latter are those before any point
is known, times the smaller of two factors: how much better it predicts the known points, and the most that the p-value
of a statistic can say against a hypothesis, 1 / (-e p log p) (Sellke, Bayarri and Berger 2001). So a task that fits is
left to the prior, though the broad process may happen to predict its known points better.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, log_ndtr, logsumexp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from scoreprior._interval import log_interval
from scoreprior._settings import check_counts
from scoreprior._short_repr import short_repr
from scoreprior._types import KeyLike, as_key
from scoreprior.gp.broad import BroadPosterior, condition_broad, draw_broad, predict_broad, target_size
from scoreprior.learners._base import MetaLearner, Prior
from scoreprior.learners._methods import learner
from scoreprior.learners._split_nll import split_tasks
from scoreprior.predictive import Mixture, NoDistributionError, mix
from scoreprior.tasks import PaddedTasks, PointNoise, Standardizer, TaskSet, resolution

FLAGGED = 0.01
"""Tasks with a smaller surprise are said not to fit: so many of related ones are."""
_MOST_CHECKED = 64
"""Known points that are predicted from the others, and that the broad process sees."""
_MOST_LEFT_OUT = 200
_FEW = 20
"""Statistics of left-out tasks below which their mean alone describes how surprising related ones are."""
_PSEUDO = 5
"""So many statistics beyond the decile, as an exponential distribution has them, count beside those found."""


class GuardedState(NamedTuple):
    """Posterior states of the prior and of the broad process, the weight of the latter, and both statistics."""

    member: PyTree
    broad: BroadPosterior
    weight: Float[Array, ""]
    statistics: Float[Array, "2"]


class Tail(eqx.Module):
    """The distributions of both statistics among related tasks, from their ninth deciles on: exponential ones."""

    deciles: Float[Array, "2"]
    excesses: Float[Array, "2"]

    @classmethod
    def of(cls, statistics: Float[np.ndarray, "n 2"]) -> Tail:
        """Those of left-out tasks; of few tasks only the means count. No less than those of an exact prior."""
        if len(statistics) < _FEW:
            means = np.maximum(1.0, statistics.mean(0)) if len(statistics) else np.ones(2)
            return cls(jnp.float32(means * np.log(10)), jnp.float32(means))
        deciles = np.maximum(np.log(10), np.quantile(statistics, 0.9, axis=0))
        beyond = np.maximum(statistics - deciles, 0)
        usual = deciles / np.log(10)  # of an exponential distribution with this decile
        excesses = (beyond.sum(0) + _PSEUDO * usual) / ((beyond > 0).sum(0) + _PSEUDO)
        return cls(jnp.float32(deciles), jnp.float32(np.maximum(1.0, excesses)))

    def log_probabilities(self, statistics: Float[Array, "*n 2"]) -> Float[Array, "*n 2"]:
        """log of the probability of each at least as large; below the decile the same formula, at most 0."""
        return jnp.minimum(-jnp.log(10.0) - (statistics - self.deciles) / self.excesses, 0.0)


class GuardedPrior(Prior):
    """A prior, and a broad process for tasks that it does not fit.

    Args:
        member: the prior.
        log_odds: of the broad process before any point is known.
        half_width: half of the recording step of the targets, standardised units.
        tail: of the statistics among related tasks.
        folds: in which known points are predicted from the others.
    """

    standardizer: Standardizer
    member: Prior
    log_odds: Float[Array, ""]
    half_width: Float[Array, ""]
    tail: Tail
    folds: int = eqx.field(static=True)

    @property
    def chunk(self) -> int | None:  # type: ignore[override]
        """The member's."""
        return self.member.chunk

    @property
    def uses_noise(self) -> bool:  # type: ignore[override]
        """If the member does."""
        return self.member.uses_noise

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> GuardedState:
        own, *keys = jax.random.split(key, self.folds + 2)
        chosen, fold = _checked(context.mask, self.folds)
        some = context._replace(weight=None).take(chosen)
        of_all = jnp.full(len(context.y), -1).at[chosen].set(fold)

        def predicted(number: Int[Array, ""], one: PRNGKeyArray) -> tuple[Float[Array, " c"], ...]:
            """The checked points from those of all other folds; the last number is that of no fold."""
            rest = context._replace(mask=context.mask & (of_all != number) & (number < self.folds))
            answer = self._answer(self.member.infer(rest, one), some.x, some.noise)
            broad = predict_broad(condition_broad(some._replace(mask=some.mask & (fold != number))), some.x, some.noise)
            return *_log_probs(answer, some.y, self.half_width), _log_probs(broad, some.y, self.half_width)[0]

        numbers = jnp.arange(self.folds + 1)
        density, tail, broad = jax.lax.map(lambda pair: predicted(*pair), (numbers, jnp.stack(keys)))
        left_out = (fold, jnp.arange(len(chosen)))
        # From the size of the targets alone; of the prior, from nothing.
        size = 2 * target_size(some)
        far = -0.5 * (some.y / size) ** 2 - jnp.log(size * jnp.sqrt(2 * jnp.pi))
        gains = jnp.stack(
            [
                jnp.sum(jnp.where(some.mask, (broad - density)[left_out], 0.0)),
                _mean(far - density[-1], some.mask),
            ]
        )
        statistics = jnp.stack(
            [_fisher(jnp.where(some.mask, -tail[left_out], 0.0), some.mask), _mean(-tail[-1], some.mask)]
        )
        against = jnp.minimum(gains, _most_against(self.tail.log_probabilities(statistics)))
        weight = jax.nn.sigmoid(self.log_odds + jnp.max(against))
        return GuardedState(self.member.infer(context, own), condition_broad(some), weight, statistics)

    def evaluate(self, state: GuardedState, x: Float[Array, "q d"], noise: PointNoise | None = None) -> Mixture:
        answers = [self._answer(state.member, x, noise), predict_broad(state.broad, x, noise)]
        mixed = mix(answers, jnp.stack([1 - state.weight, state.weight]))
        return mixed._replace(draws=answers[0].draws)

    def _answer(self, state: PyTree, x: Float[Array, "q d"], noise: PointNoise | None) -> Mixture:
        known: Any = () if noise is None else (noise,)
        return self.member.evaluate(state, x, *known)

    def draw(self, state: GuardedState, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        coin_key, member_key, broad_key = jax.random.split(key, 3)
        is_broad = jax.random.bernoulli(coin_key, state.weight)
        return jnp.where(is_broad, draw_broad(state.broad, x, broad_key), self.member.draw(state.member, x, member_key))

    def sample(self, x: Any, key: KeyLike, n: int) -> Float[np.ndarray, "n q"]:
        """Draws of the member: the broad process is for tasks with known points."""
        return self.member.sample(x, key, n)

    def update(self, tasks: TaskSet) -> GuardedPrior:
        """The member given further tasks; what is usual among related tasks stays as it was found."""
        return replace(self, member=self.member.update(tasks))

    def surprise(self, state: GuardedState) -> Float[Array, "*n"]:
        """Twice the smaller tail probability, for there are two statistics; at most 1."""
        return jnp.minimum(2 * jnp.exp(jnp.min(self.tail.log_probabilities(state.statistics), axis=-1)), 1.0)

    def about(self) -> dict[str, Any]:
        return self.member.about()

    @property
    def unguarded(self) -> Prior:
        """The member."""
        return self.member

    def bare(self) -> GuardedPrior:
        return eqx.tree_at(
            lambda p: (p.standardizer, p.member),
            self,
            (None, self.member.bare()),
            is_leaf=lambda leaf: leaf is None,
        )


@short_repr
@dataclass(frozen=True)
class Guarded:
    """A method whose posteriors say how surprising their known points are, and widen where these do not fit.

    Args:
        method: the method, or its name; one that predicts a distribution.
        doubt: probability of a task unlike all others, before its points are known.
        folds: in which known points are predicted from the others: conditioning takes so many times longer.
        held_out: share of the tasks, at most 200, that say how surprising related tasks are. The method is fitted
            without them first, then to all.
    """

    method: MetaLearner | str = "mars-gp"
    doubt: float = 0.01
    folds: int = 8
    held_out: float = 0.2

    def __post_init__(self) -> None:
        check_counts(self, "folds")
        for name in ("doubt", "held_out"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} lies strictly between 0 and 1, not {getattr(self, name)}.")
        if self.folds < 2:
            raise ValueError(f"folds must be at least 2, not {self.folds}.")
        if isinstance(self.method, str):
            object.__setattr__(self, "method", learner(self.method))

    def fit(self, tasks: TaskSet, key: KeyLike, *, progress: bool = True) -> GuardedPrior:
        """Fit the method to most tasks, see how surprising the others are, and fit it to all."""
        assert not isinstance(self.method, str)
        split_key, part_key, all_key, judge_key = jax.random.split(as_key(key), 4)
        held = min(max(round(self.held_out * len(tasks)), 1), _MOST_LEFT_OUT, len(tasks) - 2)
        left_out = None
        if held > 0:
            order = np.asarray(jax.random.permutation(split_key, len(tasks)))
            part = self.method.fit(tasks.take(np.sort(order[held:])), part_key, progress=progress)
            left_out = surprise_of(self.guard(part, tasks), tasks.take(order[:held]), judge_key)
        return self.guard(self.method.fit(tasks, all_key, progress=progress), tasks, left_out)

    def guard(self, prior: Prior, tasks: TaskSet, left_out: Float[np.ndarray, "n 2"] | None = None) -> GuardedPrior:
        """A prior that was fitted to the tasks, guarded; `left_out` is the `surprise_of` tasks it had not seen."""
        if prior.is_point:
            raise NoDistributionError("A prior that predicts points cannot tell how surprising a value is.")
        halves = prior.standardizer.rounding_interval(tasks.y, resolution(tasks.y), tasks.x)[1]
        half_width = np.median(halves[np.isfinite(halves)]) if np.isfinite(halves).any() else 0.0
        log_odds = np.log(self.doubt / (1 - self.doubt))
        tail = Tail.of(np.zeros((0, 2)) if left_out is None else left_out)
        return GuardedPrior(prior.standardizer, prior, jnp.float32(log_odds), jnp.float32(half_width), tail, self.folds)

    def with_budget(self, share: float) -> Guarded:
        """The method with this share of its budget."""
        assert not isinstance(self.method, str)
        return replace(self, method=self.method.with_budget(share))


def surprise_of(prior: GuardedPrior, tasks: TaskSet, key: KeyLike) -> Float[np.ndarray, "s 2"]:
    """Both statistics of unseen tasks, given the first half, quarter and three quarters of their points."""
    contexts = split_tasks(tasks, most=3 * len(tasks))[1] if max(tasks.sizes) >= 2 else tuple(tasks)
    groups = prior.condition_many(TaskSet(contexts), key).groups
    return np.concatenate([np.asarray(group.state.statistics) for group in groups])


def _most_against(log_p: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """log of 1 / (-e p log p), the most that p says against a hypothesis; 0 where it says nothing, from 1/e on."""
    return jnp.where(log_p < -1, -1 - log_p - jnp.log(jnp.maximum(-log_p, 1.0)), 0.0)


def _checked(mask: Bool[Array, " m"], folds: int) -> tuple[Int[Array, " c"], Int[Array, " c"]]:
    """Rows of up to 64 known points, evenly among all, and the fold of each."""
    m, most = len(mask), min(len(mask), _MOST_CHECKED)
    real = jnp.argsort(~mask, stable=True)
    count = jnp.sum(mask)
    even = jnp.floor(jnp.arange(most) * jnp.maximum(count, most) / most).astype(int)
    return real[jnp.minimum(even, m - 1)], jnp.arange(most) % folds


def _log_probs(
    answer: Mixture, y: Float[Array, " c"], half_width: Float[Array, ""]
) -> tuple[Float[Array, " c"], Float[Array, " c"]]:
    """Log probability of the rounding interval over its width (the log density if 0); of the two-sided tail at y."""
    locs, scales = answer.locs, answer.scales
    assert scales is not None
    shares = jnp.full(len(locs), 1 / len(locs)) if answer.weights is None else answer.weights
    logs = jnp.log(shares)[:, None]
    z = (y - locs) / scales
    density = logsumexp(logs + log_interval(z, 2 * half_width / scales, jnp) - jnp.log(scales), axis=0)
    below, above = (logsumexp(logs + log_ndtr(side * z), axis=0) for side in (1, -1))
    return density, jnp.minimum(jnp.log(2.0) + jnp.minimum(below, above), 0.0)


def _mean(values: Float[Array, " c"], mask: Bool[Array, " c"]) -> Float[Array, ""]:
    return jnp.sum(jnp.where(mask, values, 0.0)) / jnp.maximum(jnp.sum(mask), 1)


def _fisher(surprises: Float[Array, " c"], mask: Bool[Array, " c"]) -> Float[Array, ""]:
    """-log Q(n, t) = t - log sum_{k<n} t^k / k! of the total t of n points; 0 of none."""
    total, count = jnp.maximum(jnp.sum(surprises), 1e-6), jnp.sum(mask)
    k = jnp.arange(len(mask))
    terms = jnp.where(k < count, k * jnp.log(total) - gammaln(k + 1.0), -jnp.inf)
    return jnp.where(count > 0, total - logsumexp(terms), 0.0)
