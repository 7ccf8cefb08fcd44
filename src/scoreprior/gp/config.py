"""`ProcessConfig`: what the pooled process is made of, and how it is fitted."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

from scoreprior._budget import share_of
from scoreprior._settings import check_choice, check_counts

Part = Literal["linear", "matern12", "matern52", "spectral"]
MeanShape = Literal["auto", "linear", "smooth"]


@dataclass(frozen=True)
class ProcessConfig:
    """What the pooled process is made of and how it is fitted.

    Args:
        deviation: parts of k_h: "linear" (random offset and slopes), "matern12" (Matern-1/2), "matern52" (Matern-5/2),
            "spectral" (one spectral component: a damped cosine).
        one_part: k_h is not the sum of these parts but the one that predicts later points of the tasks best.
        mean: g is "linear", or "smooth": linear plus a smooth function. "auto" is smooth for up to three inputs
            that take more than two values: in more dimensions the centres span too little of the space.
        frequencies: how many of the most promising frequencies of the spectrum search start a fit with a spectral
            component, which joins the deviation if its evidence exceeds its cost (BIC and the number of frequencies).
            0 does not search; nor are there searches with more than three inputs, which have too many directions.
        amplitude_knots: knots along each input of the deviation's amplitude (`amplitude.py`), which varies if its
            evidence exceeds its cost and left-out tasks gain. 0 leaves it constant, as do more than three inputs with
            more than two values.
        centres: number of centres that span the smooth part of g, for each of up to three inputs.
        starts: random starting points; the likeliest one is optimised.
        evidence_evaluations: most evaluations of the marginal likelihood (L-BFGS).
        tuning_evaluations: most evaluations of the predictive tuning that follows (`predictive_tuning.py`), which also
            fits the tails of the predictive; 0 leaves the type-II fit.
        scale_calibration: after predictive tuning, learn factors on the predictive's scale (`scale_calibration.py`);
            they stay if left-out tasks are predicted better by two standard errors, and need ten tasks.
        most_tasks: with more tasks than this, predictive tuning and scale calibration take a random subset so large.
        evidence_tasks: the same for the evidence and the choice of parts, whose maximum only starts the tuning.
        most_points: with more points in a task, to as many of them. The shared mean is that of all points.
        noise_floor: least standard deviation of the noise, standardised units: with repeated targets the evidence has
            no maximum without one.
    """

    deviation: tuple[Part, ...] = ("linear", "matern12", "matern52")
    one_part: bool = False
    mean: MeanShape = "auto"
    frequencies: int = 24
    amplitude_knots: int = 0
    centres: int = 48
    starts: int = 8
    evidence_evaluations: int = 80
    tuning_evaluations: int = 40
    scale_calibration: bool = True
    most_tasks: int = 1000
    evidence_tasks: int = 200
    most_points: int = 100
    noise_floor: float = 0.003

    def __post_init__(self) -> None:
        check_choice("mean", self.mean, get_args(MeanShape))
        for part in self.deviation:
            check_choice("deviation", part, get_args(Part))
        if not self.deviation or len(set(self.deviation)) < len(self.deviation):
            raise ValueError(f"deviation names at least one part, each once, not {self.deviation}.")
        check_counts(self, "centres", "starts", "evidence_evaluations", "most_tasks", "evidence_tasks", "most_points")
        check_counts(self, "frequencies", "tuning_evaluations", "amplitude_knots", least=0)
        if self.amplitude_knots == 1:
            raise ValueError(f"amplitude_knots is 0 or at least 2, not {self.amplitude_knots}.")
        if not 0 <= self.noise_floor < math.inf:
            raise ValueError(f"noise_floor must not be negative, not {self.noise_floor}.")

    def simple(self) -> ProcessConfig:
        """The simplest process, fitted in the same way: a linear mean and one ARD Matern kernel."""
        return replace(
            self,
            deviation=("matern12", "matern52"),
            one_part=True,
            mean="linear",
            frequencies=0,
            amplitude_knots=0,
            scale_calibration=False,
        )

    def with_budget(self, share: float) -> ProcessConfig:
        """A share of the evaluations, and of the tasks that are looked at."""
        return replace(
            self,
            evidence_evaluations=share_of(self.evidence_evaluations, share),
            tuning_evaluations=share_of(self.tuning_evaluations, share),
            most_tasks=share_of(self.most_tasks, share, least=40),
            evidence_tasks=share_of(self.evidence_tasks, share, least=40),
        )
