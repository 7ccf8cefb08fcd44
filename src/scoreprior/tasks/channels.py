"""Several targets as one: a row for every cell that is there, with the name of its column, the channel, as an input.

A method then sees points-with-channel: what is known of one target of a task says something of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from scoreprior.tasks.checks import TaskError
from scoreprior.tasks.columns import Column, Words

CHANNEL = "target"
"""Name of the input that says which target a row is of."""


@dataclass(frozen=True, eq=False)
class ChannelScales:
    """Mean and standard deviation (c,) of each target, and the inputs x, by position, that are 1 in its rows."""

    inputs: tuple[int, ...]
    means: Float[np.ndarray, " c"]
    stds: Float[np.ndarray, " c"]

    @classmethod
    def fit(cls, inputs: tuple[int, ...], x: Float[np.ndarray, "r d"], y: Float[np.ndarray, " r"]) -> ChannelScales:
        """Those of the training rows; of a target without a row in training, or a constant one, the scale is 1."""
        rows = [y[x[:, at] == 1] for at in inputs]
        means = np.array([each.mean() if len(each) else 0.0 for each in rows])
        stds = np.array([each.std() if len(each) and np.ptp(each) > 0 else 1.0 for each in rows])
        return cls(inputs, means, stds)

    def of(self, x: Float[np.ndarray, "q d"]) -> tuple[Float[np.ndarray, " q"], Float[np.ndarray, " q"]]:
        """Mean and standard deviation of the target that each row of x is of."""
        shares = x[:, list(self.inputs)]
        if not ((shares == 0) | (shares == 1)).all() or (shares.sum(axis=1) != 1).any():
            raise TaskError(
                f"Every row is of one target: exactly one of its {len(self.inputs)} inputs is 1, the others 0."
            )
        return shares @ self.means, shares @ self.stds


def one_row_per_cell(
    labels: Sequence[str],
    inputs: Sequence[Column],
    targets: Mapping[str, Float[np.ndarray, " r"]],
    rows: Int[np.ndarray, " r"],
    extra: Mapping[str, Float[np.ndarray, " r"]],
) -> tuple[list[str], list[Column], Float[np.ndarray, " s"], Int[np.ndarray, " s"], dict[str, Float[np.ndarray, " s"]]]:
    """Labels, inputs with the channel last, target, numbers of rows and extra numbers, for every cell that is there."""
    there = np.isfinite(np.column_stack(list(targets.values())))
    row, channel = np.nonzero(there)
    names = list(targets)
    words = Words(tuple(names[at] for at in channel.tolist()))
    values = np.column_stack(list(targets.values()))[row, channel]
    known = {name: each[row] for name, each in extra.items()}
    return [labels[at] for at in row.tolist()], [*(each.take(row) for each in inputs), words], values, rows[row], known
