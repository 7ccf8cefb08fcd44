"""Ragged tasks as one rectangular batch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_tasks import fast, task_sets

from scoreprior.tasks import PaddedTasks, Task, TaskSet, bucket
from scoreprior.tasks.checks import TaskError


@fast
@given(task_sets(), st.integers(0, 5))
def test_padding_is_undone_by_the_mask(tasks, extra):
    size = int(tasks.sizes.max()) + extra
    batch = [np.asarray(array) for array in tasks.padded(size)[:3]]
    assert batch[0].shape == (len(tasks), size, tasks.dim)
    for task, x, y, mask in zip(tasks, *batch):
        assert np.allclose(x[mask], task.x, rtol=1e-6)
        assert np.allclose(y[mask], task.y, rtol=1e-6)
        assert (mask == (np.arange(size) < len(task))).all()
        assert (x[~mask] == 0).all()
        assert (y[~mask] == 0).all()


def test_a_batch_that_is_too_small_is_refused():
    with pytest.raises(TaskError, match="up to 3 points do not fit a batch of size 2"):
        TaskSet([Task([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])]).padded(2)


@fast
@given(st.integers(0, 5000))
def test_buckets_hold_their_size_and_waste_at_most_half(size):
    assert bucket(size) >= size
    assert bucket(size) <= max(4, 1.5 * size)
    assert bucket(size + 1) >= bucket(size)
    assert bucket(bucket(size)) == bucket(size)


def test_buckets_are_few():
    assert sorted({bucket(size) for size in range(1, 33)}) == [4, 6, 8, 12, 16, 24, 32]


def test_thinned_tasks_keep_real_points_in_their_order():
    x = jnp.broadcast_to(jnp.arange(9.0)[None, :, None], (3, 9, 1))
    mask = jnp.arange(9)[None, :] < jnp.array([9, 5, 2])[:, None]
    kept = PaddedTasks(x, x[..., 0], mask).at_most(4, jax.random.key(0))
    assert kept.mask.sum(axis=1).tolist() == [4, 4, 2]
    for points, values, real in zip(kept.x, kept.y, kept.mask):
        own = np.asarray(values)[np.asarray(real)]
        assert (np.diff(own) > 0).all()
        assert (points[: len(own), 0] == own).all()
        assert real[: len(own)].all()
