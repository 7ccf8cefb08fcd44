"""When tasks say that something should be added to a process."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

FEWEST_TASKS = 10
"""With fewer tasks than this, none of which may be like the next, nothing is added to the process."""


def is_significant(gain: Float[np.ndarray, " n"]) -> bool:
    """Whether tasks gain on average, by more than two standard errors over tasks."""
    return bool(gain.mean() > 2 * gain.std(ddof=1) / np.sqrt(len(gain)))
