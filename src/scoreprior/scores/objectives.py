"""Objectives of score matching as settings of a method: which loss of `losses.py`, at which noise level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior.scores import losses
from scoreprior.scores.network import ScoreNetwork


@runtime_checkable
class ScoreMatching(Protocol):
    """A loss of a network on functions f (b, k) at one measurement set x (k, d), and the noise level that it is for."""

    @property
    def level(self) -> float:
        """Standard deviation of the noise whose score is learned, standardised units; 0 is the process itself."""

    def __call__(
        self, network: ScoreNetwork, f: Float[Array, "b k"], x: Float[Array, "k d"], key: PRNGKeyArray
    ) -> Float[Array, ""]: ...


@dataclass(frozen=True)
class ExactTrace:
    """The paper's objective (eq. 2): the trace of the Jacobian is computed exactly."""

    level: ClassVar[float] = 0.0

    def __call__(
        self, network: ScoreNetwork, f: Float[Array, "b k"], x: Float[Array, "k d"], key: PRNGKeyArray
    ) -> Float[Array, ""]:
        """The loss."""
        return losses.exact_trace(network, f, x, key)


@dataclass(frozen=True)
class Sliced:
    """Sliced score matching: Hutchinson's estimate of the trace."""

    level: ClassVar[float] = 0.0

    def __call__(
        self, network: ScoreNetwork, f: Float[Array, "b k"], x: Float[Array, "k d"], key: PRNGKeyArray
    ) -> Float[Array, ""]:
        """The loss."""
        return losses.sliced(network, f, x, key)


@dataclass(frozen=True)
class Denoising:
    """Denoising score matching: the score of f + level * eps, bounded by 1 / level^2 per unit of f."""

    level: float = 0.1

    def __post_init__(self) -> None:
        if not self.level > 0:
            raise ValueError(f"level must be positive, not {self.level}.")

    def __call__(
        self, network: ScoreNetwork, f: Float[Array, "b k"], x: Float[Array, "k d"], key: PRNGKeyArray
    ) -> Float[Array, ""]:
        """The loss."""
        return losses.denoising(self.level)(network, f, x, key)
