import numpy as np
import pytest

import scoreprior as sp
from scoreprior.tasks import runs_in_order

RNG = np.random.default_rng(0)


def task(rising: bool, points: int = 6):
    x = RNG.normal(size=(points, 2))
    x[:, 1] = np.sort(x[:, 1]) if rising else x[:, 1]
    return sp.Task(x, RNG.normal(size=points))


@pytest.mark.parametrize(("rising", "wanted"), [(20, True), (19, True), (10, False), (0, False)])
def test_rows_follow_an_input_where_nearly_all_tasks_do(rising, wanted):
    assert runs_in_order(sp.TaskSet([task(number < rising) for number in range(20)])) == wanted


def test_two_points_and_a_constant_input_say_nothing():
    assert not runs_in_order(sp.TaskSet([task(True, points=2) for _ in range(5)]))
    assert not runs_in_order(sp.TaskSet([sp.Task(np.ones((4, 1)), np.arange(4.0)) for _ in range(5)]))
