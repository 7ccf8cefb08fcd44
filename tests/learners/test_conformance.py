"""One table that every method passes: what the interface promises, checked on small tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scoreprior as sp
from scoreprior._saved_classes import CLASSES
from scoreprior.gp import ProcessConfig
from scoreprior.inference.bnn import BNNConfig
from scoreprior.inference.denoised_particles import ParticleConfig
from scoreprior.inference.fsvgd import FSVGDConfig
from scoreprior.inference.fvi import FVIConfig
from scoreprior.inference.svgd import SVGDConfig
from scoreprior.interpolators import GPInterpolator
from scoreprior.learners import _batches
from scoreprior.learners.gaussian_process import PooledGP
from scoreprior.learners.naive import ContextMean
from scoreprior.scores.bidimensional import NoisePredictorConfig
from scoreprior.scores.denoiser import DenoiserConfig
from scoreprior.scores.network import NetworkConfig
from scoreprior.serialization import read_file
from scoreprior.training import TrainingConfig

# Settings that make a method quick enough for this table; the interface does not depend on them.
MARS = {
    "network": NetworkConfig(embedding=8, heads=2, key_size=4),
    "training": TrainingConfig(steps=20, chunk=20),
    "inference": FSVGDConfig(steps=20, particles=4, measurement_points=4),
}
SHORT = TrainingConfig(steps=20, chunk=20)
ANCHOR = ProcessConfig(evidence_evaluations=20, tuning_evaluations=5, frequencies=0)
DENOISED: dict[str, Any] = {
    "anchor": ANCHOR,
    "network": DenoiserConfig(embedding=8, blocks=1, heads=2, frequencies=4),
    "training": TrainingConfig(steps=20, chunk=20, patience=1),
    "held_out": 0.3,
}
QUICK: dict[str, dict] = {
    "pooled-gp": {"process.evidence_evaluations": 20, "process.tuning_evaluations": 0, "process.one_part": False},
    "hierarchical-gp": {"process.evidence_evaluations": 20, "process.tuning_evaluations": 0, "process.frequencies": 0},
    "stack": {
        "members.0": PooledGP(ANCHOR),
        "members.1": ContextMean(),
    },
    "mars-gp": DENOISED,
    "mars-fsvgd": DENOISED | {"inference": ParticleConfig(fsvgd=MARS["inference"], warm_start=20)},
    **dict.fromkeys(("mars-gp-paper", "mars-bnn-paper", "mars-gp-letter", "mars-bnn-letter"), MARS),
    "mars-gp-exact": {"inference": MARS["inference"]},
    **{
        name: {"inference": MARS["inference"], "interpolator": GPInterpolator(process=ANCHOR)}
        for name in ("mars-ssge", "mars-gauss")
    },
    **{name: {"inference": MARS["inference"]} for name in ("mars-ssge-letter", "mars-gauss-letter")},
    **{f"mars-{name}-letter": MARS for name in ("no-spectral", "gp-mean", "nn", "ensemble")},
    "maml": {"training": SHORT, "network": BNNConfig(hidden=(8,)), "inner_steps": 2},
    "bmaml": {"training": SHORT, "network": BNNConfig(hidden=(8,)), "particles": 4},
    "np": {"training": SHORT, "width": 8, "layers": 1, "samples": 16},
    "anp": {"training": SHORT, "width": 8, "layers": 1, "samples": 16},
    "ndp": {
        "network": NoisePredictorConfig(width=8, blocks=1, heads=2),
        "training": TrainingConfig(steps=20, chunk=20, patience=1),
        "diffusion_steps": 10,
        "repeats": 2,
        "samples": 4,
    },
    "vanilla-bnn": {"bnn": BNNConfig(hidden=(8,)), "inference": SVGDConfig(steps=20, particles=4)},
    "fbnn-gp": {"bnn": BNNConfig(hidden=(8,)), "inference": MARS["inference"]},
    "fbnn-gp-vi": {
        "bnn": BNNConfig(hidden=(8,)),
        "inference": FVIConfig(steps=20, particles=4, samples=4, measurement_points=4),
    },
    "mlap": {"bnn": BNNConfig(hidden=(8,)), "training": SHORT, "steps": 20, "draws": 4},
    "pacoh-gp": {"training": SHORT, "hidden": (8, 8), "particles": 3},
    "pacoh-gp-map": {"training": SHORT, "hidden": (8, 8)},
    "pacoh-nn": {
        "training": SHORT,
        "particles": 2,
        "target_particles": 3,
        "target_steps": 20,
        "bnn": BNNConfig(hidden=(8, 8)),
    },
}
# Methods that refuse tasks whose inputs are not lags of the target.
NEEDS_LAGS = {"newest-lag"}
# Compiling these takes longer than the rest together; test_mars.py covers MARS in the default suite.
SLOW = {
    name
    for name in sp.methods()
    if name.startswith(("mars", "maml", "bmaml", "np", "anp", "ndp", "pacoh", "mlap", "fbnn", "vanilla-bnn", "stack"))
}
NAMES = [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in sp.methods()]


def lag_tasks(n: int, m: int, seed: int, scale: float = 1.0, shift: float = 0.0) -> sp.TaskSet:
    """Ragged autoregressive tasks in two lags; mapping y maps the lags with it."""
    rng = np.random.default_rng(seed)
    xs, ys = [], []
    for i in range(n):
        series = np.cumsum(rng.normal(size=m + 2 + i % 3)) * 0.3 + rng.normal()
        series = scale * series + shift
        xs.append(np.column_stack([series[:-2], series[1:-1]]))
        ys.append(series[2:])
    return sp.TaskSet.from_arrays(xs, ys)


def plain_tasks(n: int, m: int, seed: int, scale: float = 1.0, shift: float = 0.0) -> sp.TaskSet:
    """Ragged noisy sinusoids over two inputs."""
    rng = np.random.default_rng(seed)
    xs, ys = [], []
    for i in range(n):
        x = rng.uniform(-2, 2, (m + i % 3, 2))
        y = rng.normal(1, 0.3) * np.sin(2 * x[:, 0]) + 0.3 * x[:, 1] + 0.1 * rng.normal(size=len(x))
        xs.append(x)
        ys.append(scale * y + shift)
    return sp.TaskSet.from_arrays(xs, ys)


def make(name: str, **kwargs: float) -> tuple[sp.TaskSet, sp.ContextTarget]:
    build = lag_tasks if name in NEEDS_LAGS else plain_tasks
    return build(6, 8, 0, **kwargs), build(5, 8, 1, **kwargs).context_target(4)


@pytest.fixture(scope="module")
def fitted() -> dict[str, sp.Prior]:
    return {}


@pytest.fixture(params=NAMES)
def case(request: pytest.FixtureRequest, fitted: dict) -> tuple[str, sp.Prior, sp.ContextTarget]:
    name = request.param
    train, test = make(name)
    if name not in fitted:
        fitted[name] = sp.learner(name, **QUICK.get(name, {})).fit(train, 0, progress=False)
    return name, fitted[name], test


def test_every_prior_says_something_of_itself(case):
    """What a person may ask: the method or the class of the prior, and what it is for."""
    name, prior, _ = case
    found = prior.about()
    assert found.get("method") == name if "method" in found else found["prior"] == type(prior).__name__
    assert ("config" in found) or (found["inputs"], found["target"]) == (2, prior.standardizer.kind.words)


def test_shapes_and_ragged_batches(case):
    _, prior, test = case
    posteriors = prior.condition_many(test.context, 1)
    predictives = posteriors.predict([task.x for task in test.target])
    assert len(posteriors) == len(test)
    for predictive, target in zip(predictives, test.target):
        assert predictive.mean.shape == target.y.shape
        assert np.isfinite(predictive.mean).all()
        if not predictive.is_point:
            assert (predictive.std > 0).all()
            assert predictive.log_prob(target.y).shape == target.y.shape


def test_batched_equals_one_by_one(case):
    _, prior, test = case
    context = test.context[:1]
    many = prior.condition_many(context, 3)[0].predict(test.target[0].x)
    one = prior.condition(context[0].x, context[0].y, 3).predict(test.target[0].x)
    np.testing.assert_array_equal(many.mean, one.mean)


def test_what_stands_in_the_padding_never_shows(case):
    _, prior, test = case
    # Shapes that `condition_many` and `predict` have compiled for before: two points in four slots, six queries.
    batch = prior.standardizer.apply(test.context.map(lambda task: task.take(slice(2)))).padded(4)
    junk = batch._replace(x=jnp.where(batch.mask[..., None], batch.x, 7.0), y=jnp.where(batch.mask, batch.y, -5.0))
    keys = jax.random.split(jax.random.key(0), len(test))
    x = jnp.asarray(np.resize(prior.standardizer.scale_x(test.target[0].x), (6, 2)), jnp.float32)[None]
    outcomes = []
    for padded in (batch, junk):
        state = _batches.infer_many(prior.bare(), padded, keys)
        outcomes.append(_batches.evaluate_many(prior.bare(), state, jnp.repeat(x, len(test), 0)).locs)
    np.testing.assert_allclose(outcomes[0], outcomes[1], atol=1e-5)


def test_deterministic_under_a_key(case):
    name, prior, test = case
    train, _ = make(name)
    again = sp.learner(name, **QUICK.get(name, {})).fit(train, 0, progress=False)
    x = test.target[0].x
    context = test.context[0]
    first = prior.condition(context.x, context.y, 5).predict(x)
    second = again.condition(context.x, context.y, jax.random.key(5)).predict(x)
    np.testing.assert_array_equal(first.mean, second.mean)


def test_affine_equivariance_in_y(case):
    """Mapping every task y -> a y + b maps predictions alike."""
    name, prior, test = case
    scale, shift = 37.0, -1200.0
    train, mapped = make(name, scale=scale, shift=shift)
    other = sp.learner(name, **QUICK.get(name, {})).fit(train, 0, progress=False)
    for i in (0, 3):  # of one size, so that nothing more is compiled
        context, target = test.context[i], test.target[i]
        plain = prior.condition(context.x, context.y, 1).predict(target.x).affine(scale, shift)
        context, target = mapped.context[i], mapped.target[i]
        there = other.condition(context.x, context.y, 1).predict(target.x)
        spread = scale * np.std([t.y.std() for t in test.target]) + scale
        # Single precision inside; hyper-parameters are fitted to slightly different round-off.
        np.testing.assert_allclose(there.mean, plain.mean, atol=2e-3 * spread)
        if not plain.is_point:
            np.testing.assert_allclose(there.std, plain.std, rtol=2e-2)


def test_one_point_and_no_point(case):
    _, prior, test = case
    x = test.target[0].x
    one = prior.condition(test.context[0].x[:1], test.context[0].y[:1], 0).predict(x)
    none = prior.condition([], [], 0).predict(x)
    for predictive in (one, none):
        assert np.isfinite(predictive.mean).all()
        assert predictive.is_point or (predictive.std > 0).all()


def test_constant_context_and_far_queries_are_finite(case):
    _, prior, test = case
    context = test.context[0]
    posterior = prior.condition(context.x, np.full(len(context), 0.7), 0)
    for x in (context.x, context.x * 1e3):
        predictive = posterior.predict(x)
        assert np.isfinite(predictive.mean).all()
        assert predictive.is_point or np.isfinite(predictive.log_prob(predictive.mean)).all()


def test_no_retrace_for_new_tasks_or_priors(case):
    """Other tasks of the same size, another key and another fit reuse the compiled code."""
    name, prior, test = case
    prior.condition_many(test.context, 1)
    infer = _batches.infer_many
    before = infer._cached._cache_size()
    prior.condition_many(test.context, 2)
    train = (lag_tasks if name in NEEDS_LAGS else plain_tasks)(6, 8, 7)
    other = sp.learner(name, **QUICK.get(name, {})).fit(train, 0, progress=False)
    other.condition_many(test.context, 1)
    assert infer._cached._cache_size() == before


def test_saved_and_loaded_priors_predict_the_same(case, tmp_path):
    _, prior, test = case
    prior.save(tmp_path / "some.prior")
    loaded = sp.load_prior(tmp_path / "some.prior")
    context, x = test.context[0], test.target[0].x
    before = prior.condition(context.x, context.y, 1).predict(x)
    after = loaded.condition(context.x, context.y, 1).predict(x)
    np.testing.assert_array_equal(before.locs, after.locs)
    if not before.is_point:
        np.testing.assert_array_equal(before.scales, after.scales)


def test_files_name_registered_classes(case, tmp_path):
    name, prior, _ = case
    prior.save(tmp_path / "some.prior")
    found = set(classes_of(read_file(tmp_path / "some.prior").structure))
    assert found <= set(CLASSES) | {each for each in found if each.startswith(f"{name}/")}


def classes_of(node: Any) -> Iterator[str]:
    """Names of the classes in a file's tree."""
    if isinstance(node, dict):
        if {"class", "fields"} == set(node):
            yield node["class"]
        for item in node.values():
            yield from classes_of(item)
    elif isinstance(node, list):
        for item in node:
            yield from classes_of(item)


def test_wrong_input_is_named(case):
    _, prior, test = case
    with pytest.raises(sp.TaskError, match="d=2"):
        prior.condition(test.context[0].x, test.context[0].y, 0).predict(np.zeros((3, 5)))
    with pytest.raises(sp.TaskError, match="input columns"):
        prior.condition(np.zeros((3, 5)), np.zeros(3), 0)
    with pytest.raises(sp.TaskError, match="nan"):
        prior.condition(np.full((3, 2), np.nan), np.zeros(3), 0)
    with pytest.raises(TypeError, match="key"):
        prior.condition(test.context[0].x, test.context[0].y, "today")


@pytest.mark.parametrize("name", NAMES)
def test_one_task_is_refused(name: str):
    train, _ = make(name)
    with pytest.raises(sp.TaskError, match="at least two tasks"):
        sp.learner(name, **QUICK.get(name, {})).fit(train[:1], 0)


def test_unknown_method_lists_the_known():
    with pytest.raises(ValueError, match="pooled-gp"):
        sp.learner("oracle-gp")
