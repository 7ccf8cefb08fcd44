"""What a tuner may vary in `PlainMARS` and `SampledMARS`, and within which ranges."""

from __future__ import annotations

from scoreprior.space import Choice, Range, Space

NETWORK: Space = {
    "training.learning_rate": Range(1e-4, 1e-2, log=True),
    "training.clip": Choice((1.0, 10.0, 100.0)),
    "network.embedding": Choice((16, 32, 64)),
    "network.multiplier": Range(0.5, 4.0, log=True),
    "points": Choice((8, 12, 16)),
}
"""Of training a score network."""

INFERENCE: Space = {
    "inference.learning_rate": Range(1e-4, 1e-2, log=True),
    "inference.bandwidth": Range(0.1, 10.0, log=True),
    "noise_std": Range(0.01, 1.0, log=True),
}
"""Of fSVGD."""
