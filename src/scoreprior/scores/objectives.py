"""Objectives of score matching as settings of a method: which loss of `losses.py` or `noised.py`, at which noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, get_args, runtime_checkable

from jaxtyping import Array, Bool, Float, PRNGKeyArray

from scoreprior._settings import check_choice, check_positive
from scoreprior.scores import losses, spectral
from scoreprior.scores.network import ScoreNetwork
from scoreprior.scores.noised import Form, NoisedScore


@runtime_checkable
class ScoreMatching(Protocol):
    """A loss of a score on functions f (b, k) at one measurement set x (k, d)."""

    any_size: ClassVar[bool]
    """Whether the loss may leave out some of the k points."""

    def __call__(
        self, score: Any, f: Float[Array, "b k"], x: Float[Array, "k d"], there: Bool[Array, " k"], key: PRNGKeyArray
    ) -> Float[Array, ""]: ...


@dataclass(frozen=True)
class ExactTrace:
    """The paper's objective (eq. 2): the trace of the Jacobian is computed exactly."""

    any_size: ClassVar[bool] = False

    def __call__(
        self,
        score: ScoreNetwork,
        f: Float[Array, "b k"],
        x: Float[Array, "k d"],
        there: Bool[Array, " k"],
        key: PRNGKeyArray,
    ) -> Float[Array, ""]:
        """The loss; all points count."""
        return losses.exact_trace(spectral.normalise(score), f, x, key)


@dataclass(frozen=True)
class Sliced:
    """Sliced score matching: Hutchinson's estimate of the trace."""

    any_size: ClassVar[bool] = False

    def __call__(
        self,
        score: ScoreNetwork,
        f: Float[Array, "b k"],
        x: Float[Array, "k d"],
        there: Bool[Array, " k"],
        key: PRNGKeyArray,
    ) -> Float[Array, ""]:
        """The loss; all points count."""
        return losses.sliced(spectral.normalise(score), f, x, key)


@dataclass(frozen=True)
class Denoising:
    """Denoising score matching: the score of functions with noise of covariance level^2 I + tau^2 R (`noised.py`).

    Args:
        level: standard deviation of the white noise, standardised units; None: the one that makes left-out tasks most
            likely (`choose_bandwidths`).
        tau: standard deviation of the noise with the interpolator's correlation R; None: chosen together with `level`.
        form: the network is the denoiser's correction, or the score itself.
        tails: the network sees clipped values, and a Gaussian's score acts on what is beyond.
        coarse: the network also learns noise up to this many times as large, and inference comes down from it.
    """

    any_size: ClassVar[bool] = True

    level: float | None = 0.1
    tau: float | None = 0.0
    form: Form = "score"
    tails: bool = False
    coarse: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self, "level")
        check_choice("form", self.form, get_args(Form))
        if self.tau is not None and not self.tau >= 0:
            raise ValueError(f"tau must not be negative, not {self.tau}.")
        if not self.coarse >= 1:
            raise ValueError(f"coarse is a multiple of the noise, at least 1, not {self.coarse}.")

    @classmethod
    def repaired(cls) -> Denoising:
        """Denoiser form, Gaussian tails, and enough noise for a network to learn its score."""
        return cls(level=0.2, tau=0.3, form="denoiser", tails=True)

    def __call__(
        self,
        score: NoisedScore,
        f: Float[Array, "b k"],
        x: Float[Array, "k d"],
        there: Bool[Array, " k"],
        key: PRNGKeyArray,
    ) -> Float[Array, ""]:
        """The loss."""
        return spectral.normalise(score).loss(f, x, there, key, self.coarse)
