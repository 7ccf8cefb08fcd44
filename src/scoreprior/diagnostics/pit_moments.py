"""`PitMoments`: whether predicted distributions are wrong in centre, in width or in shape.

With z = Phi^-1(PIT), standard normal where predictions are calibrated: the mean of z is the bias, its spread says by
how much error bars are too narrow or too wide, and what remains after z is shifted and rescaled is the shape. Spread
and shape are L-moments (Hosking 1990), which a few far points do not dominate as they do third and fourth powers.
Standard errors are by leaving out groups of tasks in turn (jackknife), because points of a task miss together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from scoreprior.diagnostics.splits import FEWEST_TASKS

_GROUPS = 40
_MOST_Z = 6.0  # a PIT of 0 or 1 is one beyond floating point, not at infinity
_CONFIDENCE = 0.99  # of each of four statements
NORMAL_TAILS = 0.12260171954089
"""L-kurtosis of the normal distribution, 30 / pi arctan(sqrt 2) - 9."""


class Moment(NamedTuple):
    """A figure of all left-out points, its standard error over tasks, what it is where predictions are right."""

    value: float
    standard_error: float
    right: float
    reach: float  # standard errors within which a difference may be chance

    @property
    def sign(self) -> int:
        """1 or -1 where it is too large or too small beyond chance; 0 where it may be right."""
        gap = self.value - self.right
        return int(np.sign(gap)) if abs(gap) > self.reach * self.standard_error else 0


class PitMoments(NamedTuple):
    """Centre, spread, skewness and tails of z = Phi^-1(PIT).

    Args:
        centre: mean of z; positive where observations lie above what was predicted.
        spread: standard deviation of a normal z of the same L-scale; above 1 where error bars are too narrow.
        skewness: L-skewness, in (-1, 1); positive where far values above are more frequent than predicted.
        tails: L-kurtosis; above that of the normal where tails are heavier than predicted, below it where values lie
            in two groups or have lighter tails.
    """

    centre: Moment
    spread: Moment
    skewness: Moment
    tails: Moment

    @classmethod
    def of(cls, pits: Sequence[Float[np.ndarray, " m"]]) -> PitMoments | None:
        """From the PITs of every task; None of fewer than five tasks, or of predictions without a distribution."""
        z = [np.clip(ndtri(np.asarray(each, float)), -_MOST_Z, _MOST_Z) for each in pits]
        number = min(len(z), _GROUPS)
        if len(z) < FEWEST_TASKS or not all(np.isfinite(each).all() for each in z):
            return None
        from scipy.stats import t  # here, since it takes a while to import

        groups = [np.concatenate(z[at::number]) for at in range(number)]
        whole = _moments(np.concatenate(groups))
        left = np.array([_moments(np.concatenate(groups[:at] + groups[at + 1 :])) for at in range(number)])
        errors = np.sqrt((number - 1) / number * ((left - left.mean(0)) ** 2).sum(0))
        reach = float(t.ppf(0.5 + _CONFIDENCE / 2, number - 1))
        rights = (0.0, 1.0, 0.0, NORMAL_TAILS)
        return cls(*(Moment(float(v), float(e), r, reach) for v, e, r in zip(whole, errors, rights)))

    @property
    def is_width_wrong(self) -> bool:
        """Error bars are too narrow or too wide: multiplying them would help."""
        return self.spread.sign != 0

    @property
    def is_shape_wrong(self) -> bool:
        """The distribution has another form than predicted, after its centre and width are put right."""
        return bool(self.skewness.sign or self.tails.sign)

    def words(self) -> str:
        """What is wrong, in a sentence or two."""
        found = []
        if self.centre.sign:
            side = "low" if self.centre.sign > 0 else "high"
            found.append(f"predictions are too {side}, by {abs(self.centre.value):.2g} standard deviations on average")
        if self.spread.sign:
            kind = "narrow" if self.spread.sign > 0 else "wide"
            found.append(
                f"the width is wrong: error bars are too {kind}, and should be {self.spread.value:.2g} times as wide"
            )
        shape = []
        if self.skewness.sign:
            shape.append(
                f"far values {'above' if self.skewness.sign > 0 else 'below'} are more frequent than predicted"
            )
        if self.tails.sign:
            heavy = "tails are heavier than predicted"
            shape.append(
                heavy if self.tails.sign > 0 else "values lie in two groups, or have lighter tails than predicted"
            )
        if shape:
            found.append(f"the shape is wrong: {' and '.join(shape)}, which no other width mends")
        if not found:
            return "Centre, width and shape of the predicted distributions are right, as far as so many tasks can tell."
        text = "; ".join(found)
        rest = "" if shape else " The shape is right, as far as so many tasks can tell."
        return f"{text[0].upper()}{text[1:]}.{rest}"


def _moments(z: Float[np.ndarray, " m"]) -> tuple[float, float, float, float]:
    """Mean, spread, L-skewness and L-kurtosis, by unbiased probability-weighted moments."""
    x, m = np.sort(z), len(z)
    i = np.arange(m, dtype=float)
    b, weight = [x.mean()], np.ones(m)
    for order in range(1, 4):
        weight = weight * np.maximum(i - order + 1, 0) / max(m - order, 1)
        b.append(float((weight * x).mean()))
    scale = max(2 * b[1] - b[0], 1e-9)
    third, fourth = 6 * b[2] - 6 * b[1] + b[0], 20 * b[3] - 30 * b[2] + 12 * b[1] - b[0]
    return b[0], np.sqrt(np.pi) * scale, third / scale, fourth / scale
