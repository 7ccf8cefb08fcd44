"""Query points at the door."""

import numpy as np
import pytest

from scoreprior.tasks.checks import TaskError, check_query


@pytest.mark.parametrize(
    ("x", "dim", "message"),
    [
        ([[1.0, 2.0]], 3, r"x has shape \(1, 2\); this prior was fitted with d=3, so it must be \(q, 3\)"),
        ([1.0, 2.0], 2, r"x has shape \(2,\)"),
        ([[1.0, np.nan]], 2, "x is nan in row 0, column 1"),
        (["a"], 1, "x holds text"),
    ],
)
def test_bad_query_points_are_refused(x, dim, message):
    with pytest.raises(TaskError, match=message):
        check_query(x, dim)


def test_query_points_of_one_dimension_may_be_flat():
    assert check_query([1, 2, 3], 1).shape == (3, 1)
    assert check_query(np.zeros((0, 2)), 2).shape == (0, 2)
