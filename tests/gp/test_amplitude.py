"""An amplitude of the deviation that varies with the inputs: its kernel, and when tasks ask for it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scoreprior as sp
from scoreprior.gp import Amplitude, GaussianProcess, Linear, Matern, Modulated, ProcessConfig, Sum, ZeroMean
from scoreprior.gp.amplitude import amplitude_of, constant_amplitude, inputs_with_room
from scoreprior.gp.fit import fit_process
from scoreprior.gp.model import AMPLITUDE, parameters_of
from scoreprior.tasks import PaddedTasks

CONFIG = ProcessConfig(
    ("linear", "matern52"), frequencies=0, centres=12, starts=2, tuning_evaluations=10, amplitude_knots=5
)


def opening(n: int, seed: int, *, constant: bool = False) -> PaddedTasks:
    """Smooth deviations on [-1, 1] with an amplitude from 0.02 to 1, or of 0.5 throughout, and noise of 0.05."""
    rng = np.random.default_rng(seed)
    xs = np.sort(rng.uniform(-1, 1, (n, 8)), axis=1)
    offset, slope = rng.normal(size=(2, n, 1))
    size = 0.5 if constant else np.exp(2 * xs - 2)
    ys = size * (offset + 0.5 * slope * xs) + 0.05 * rng.normal(size=xs.shape)
    return sp.TaskSet.from_arrays(list(xs[..., None]), list(ys)).padded(dtype=np.float64)


def test_gram_is_the_elementwise_product_with_the_amplitudes():
    rng = np.random.default_rng(0)
    x, z = jnp.asarray(rng.normal(size=(5, 2)), jnp.float32), jnp.asarray(rng.normal(size=(4, 2)), jnp.float32)
    amplitude = Amplitude(jnp.linspace(-1, 1, 5)[:, None], jnp.asarray(rng.normal(size=(5, 1)), jnp.float32), (1,))
    inner = Sum((Matern(jnp.float32(0.7), jnp.ones(2), 2.5), Linear(jnp.float32(0.3), jnp.ones(2))))
    kernel = Modulated(inner, amplitude)
    expected = np.diag(amplitude(x)) @ np.asarray(inner(x, z)) @ np.diag(amplitude(z))
    np.testing.assert_allclose(kernel(x, z), expected, rtol=1e-5)
    np.testing.assert_allclose(kernel.diagonal(x), np.diag(kernel(x, x)), rtol=1e-5)
    assert np.linalg.eigvalsh(np.asarray(kernel(x, x), np.float64)).min() > -1e-6


def test_it_is_smooth_between_knots_and_constant_beyond():
    knots = jnp.linspace(-1.0, 1.0, 5)[:, None]
    equal = Amplitude(knots, jnp.full((5, 1), 0.3), (0,))
    np.testing.assert_allclose(equal(jnp.linspace(-3, 3, 11)[:, None]), np.exp(0.3), rtol=1e-5)
    rising = Amplitude(knots, jnp.arange(5.0)[:, None], (0,))
    far = rising(jnp.array([[-9.0], [-4.0], [4.0], [9.0]]))
    np.testing.assert_allclose(far, np.exp([0.0, 0.0, 4.0, 4.0]), rtol=1e-3)
    between = rising(jnp.linspace(-1.2, 1.2, 60)[:, None])
    assert (np.diff(between) > 0).all()
    # The other inputs do not matter.
    x = jnp.array([[0.3, -5.0], [0.3, 5.0]])
    assert jnp.ptp(rising(x)) == 0


def test_inputs_of_categories_have_no_knots():
    rng = np.random.default_rng(0)
    xs = [np.column_stack([rng.normal(size=6), np.tile(np.eye(3)[i % 3], (6, 1))]) for i in range(6)]
    tasks = sp.TaskSet.from_arrays(xs, [x[:, 0] for x in xs]).padded(dtype=np.float64)
    assert inputs_with_room(tasks) == (0,)
    found = constant_amplitude(tasks, 5, 3)
    assert found.knots.shape == (5, 1)
    np.testing.assert_allclose(found(jnp.asarray(xs[0])), 1.0)
    assert constant_amplitude(tasks, 0, 3) is None
    wide = sp.TaskSet.from_arrays([rng.normal(size=(9, 4))], [rng.normal(size=9)]).padded(dtype=np.float64)
    assert constant_amplitude(wide, 5, 3) is None


def test_tasks_that_open_up_have_an_amplitude_and_others_have_none():
    process = fit_process(opening(40, 0), CONFIG, jax.random.key(0))
    amplitude = amplitude_of(process)
    low, high = np.sqrt(process.kernel.diagonal(jnp.array([[-0.9], [0.9]])))
    # The true ratio is exp(3.6) = 37 but for the noise, beside which the smaller one is hardly seen.
    assert high / low > 8
    assert set(parameters_of(process)) >= {AMPLITUDE}
    np.testing.assert_allclose(parameters_of(process)[AMPLITUDE], amplitude.log_values, rtol=1e-5)
    assert amplitude_of(fit_process(opening(40, 0, constant=True), CONFIG, jax.random.key(0))) is None


def test_fewer_than_ten_tasks_have_none():
    assert amplitude_of(fit_process(opening(9, 0), CONFIG, jax.random.key(0))) is None


def test_a_fit_goes_on_with_the_same_knots():
    tasks = opening(40, 0)
    first = fit_process(tasks, CONFIG, jax.random.key(0))
    more = fit_process(opening(60, 3), CONFIG, jax.random.key(0), init=first)
    np.testing.assert_array_equal(amplitude_of(more).knots, amplitude_of(first).knots)


def test_what_is_too_few_knots_is_said():
    with pytest.raises(ValueError, match="amplitude_knots is 0 or at least 2"):
        ProcessConfig(amplitude_knots=1)


def test_a_process_of_one_kernel_has_a_constant_amplitude():
    assert amplitude_of(GaussianProcess(ZeroMean(), Matern(1.0, jnp.ones(1), 2.5), 0.1)) is None
