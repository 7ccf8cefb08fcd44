"""Masked solves and the shared evidence against dense double-precision formulas."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from scoreprior._linalg import (
    JITTER,
    cholesky,
    gaussian_log_prob,
    mask_gram,
    shared_evidence,
    shared_log_prob,
    solve_cholesky,
    solve_lower,
    solve_upper,
    whitener,
)


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    n, m, r = 3, 4, 2
    mask = rng.random((n, m)) < 0.7
    root = rng.normal(size=(n, m, m))
    blocks = root @ root.transpose(0, 2, 1) + np.eye(m)
    blocks = np.where(mask[:, :, None] & mask[:, None, :], blocks, np.eye(m))
    features = np.where(mask[..., None], rng.normal(size=(n, m, r)), 0.0)
    y = np.where(mask, rng.normal(size=(n, m)), 0.0)
    return blocks, features, y, mask


def dense(blocks: np.ndarray, features: np.ndarray, y: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    from scipy.linalg import block_diag

    flat = features.reshape(-1, features.shape[-1])
    real = np.flatnonzero(mask.ravel())
    return (block_diag(*blocks) + flat @ flat.T)[np.ix_(real, real)], y.ravel()[real]


def test_shared_evidence_is_the_dense_gaussian(problem):
    with jax.enable_x64(True):
        evidence = jax.jit(shared_evidence)(*map(jnp.asarray, problem))
        covariance, y = dense(*problem)
        np.testing.assert_allclose(evidence.log_prob, multivariate_normal(cov=covariance).logpdf(y), rtol=1e-9)
        blocks, features, targets, _ = problem
        # w | y by the textbook formula of Bayesian linear regression.
        precision = np.eye(2) + sum(f.T @ np.linalg.solve(b, f) for b, f in zip(blocks, features))
        mean = np.linalg.solve(
            precision, sum(f.T @ np.linalg.solve(b, t) for b, f, t in zip(blocks, features, targets))
        )
        np.testing.assert_allclose(evidence.mean, mean, rtol=1e-9)
        np.testing.assert_allclose(evidence.spread @ evidence.spread.T, np.linalg.inv(precision), rtol=1e-9)


def test_shared_log_prob_gradient_is_finite_differences(problem):
    blocks, features, y, mask = problem
    with jax.enable_x64(True):
        gradients = jax.jit(jax.grad(shared_log_prob, (0, 1, 2)))(*map(jnp.asarray, problem))
        rng = np.random.default_rng(1)
        step = 1e-6
        both = mask[:, :, None] & mask[:, None, :]
        direction = rng.normal(size=blocks.shape)
        directions = [
            np.where(both, direction + direction.transpose(0, 2, 1), 0.0),
            np.where(mask[..., None], rng.normal(size=features.shape), 0.0),
            np.where(mask, rng.normal(size=y.shape), 0.0),
        ]
        for i, change in enumerate(directions):
            ends = []
            for sign in (1, -1):
                moved = [blocks, features, y]
                moved[i] = moved[i] + sign * step * change
                covariance, target = dense(*moved, mask)
                ends.append(multivariate_normal(cov=covariance).logpdf(target))
            slope = (ends[0] - ends[1]) / (2 * step)
            np.testing.assert_allclose(np.sum(gradients[i] * change), slope, rtol=1e-6)


def test_masked_log_prob_ignores_masked_points():
    rng = np.random.default_rng(2)
    root = rng.normal(size=(5, 5))
    gram = root @ root.T + np.eye(5)
    mask = np.array([True, False, True, True, False])
    residual = np.where(mask, rng.normal(size=5), 0.0)
    with jax.enable_x64(True):
        value = jax.jit(lambda r, gram, mask: gaussian_log_prob(r, mask_gram(gram, mask), mask, 0.0))(
            residual, gram, mask
        )
    expected = multivariate_normal(cov=gram[np.ix_(mask, mask)]).logpdf(residual[mask])
    np.testing.assert_allclose(value, expected, rtol=1e-10)


def test_derivatives_of_the_masked_log_prob_are_those_through_a_factor():
    """First and second ones, in the residual, the matrix and by way of its jitter."""
    rng = np.random.default_rng(3)
    root = rng.normal(size=(6, 6))
    gram, mask = root @ root.T + np.eye(6), np.array([True, False, True, True, False, True])
    residual = np.where(mask, rng.normal(size=6), 0.0)

    def by_factor(residual, gram):
        masked = mask_gram(gram, mask)
        masked = masked + 0.01 * jnp.mean(jnp.diagonal(masked)) * jnp.eye(6)
        factor = jnp.linalg.cholesky(masked)
        white = jax.scipy.linalg.solve_triangular(factor, residual, lower=True)
        return -0.5 * jnp.sum(white**2) - jnp.sum(jnp.where(mask, jnp.log(jnp.diagonal(factor)), 0.0))

    def own(residual, gram):
        return gaussian_log_prob(residual, mask_gram(gram, mask), jnp.asarray(mask), 0.01)

    with jax.enable_x64(True):
        args = jnp.asarray(residual), jnp.asarray(gram)
        for derivative in (jax.grad, jax.hessian):
            mine, expected = (jax.jit(derivative(f, argnums=(0, 1)))(*args) for f in (own, by_factor))
            for ours, other in zip(jax.tree.leaves(mine), jax.tree.leaves(expected)):
                np.testing.assert_allclose(ours, other, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("m", [1, 2, 7, 40, 300])
def test_factors_and_solves_are_lapacks(m):
    rng = np.random.default_rng(m)
    root = rng.normal(size=(m, m + 3))
    gram, b = root @ root.T + np.eye(m), rng.normal(size=(m, 2))

    @jax.jit
    def ours(gram, b):
        factor = cholesky(gram, 0.0)
        solves = solve_lower(factor, b[:, 0]), solve_upper(factor, b), solve_cholesky(factor, b)
        return factor, *solves, whitener(gram, 0.0)

    with jax.enable_x64(True):
        factor, lower, upper, whole, inverse = ours(gram, b)
    expected = np.linalg.cholesky(gram)
    np.testing.assert_allclose(factor, expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(lower, np.linalg.solve(expected, b[:, 0]), rtol=1e-8)
    np.testing.assert_allclose(upper, np.linalg.solve(expected.T, b), rtol=1e-8)
    np.testing.assert_allclose(whole, np.linalg.solve(gram, b), rtol=1e-8)
    np.testing.assert_allclose(inverse, np.linalg.inv(expected), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("lengthscale", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("m", [40, 100, 200, 300])
def test_single_precision_factors_long_smooth_tasks(m, lengthscale):
    """Their Gram matrices are singular but for jitter and noise: what halves lose must not exceed that."""
    x = np.sort(np.random.default_rng(m).uniform(-2, 2, m))
    gram = np.exp(-0.5 * ((x[:, None] - x) / lengthscale) ** 2) + 0.003**2 * np.eye(m)
    gram = np.asarray(gram, np.float32)
    factor = np.asarray(jax.jit(cholesky)(gram), np.float64)
    expected = gram + JITTER * np.eye(m)
    assert np.abs(factor @ factor.T - expected).max() < 2e-6  # some ten round-offs of the largest entries
    y = np.cos(x / lengthscale)
    weights = jax.jit(lambda gram, y: solve_cholesky(cholesky(gram), y))(gram, np.float32(y))
    exact = np.linalg.solve(np.asarray(expected, np.float64), y)
    # Predictions K (K + s)^-1 y, not the weights themselves, which no single-precision method gets right.
    np.testing.assert_allclose(gram @ np.asarray(weights, np.float64), gram @ exact, atol=1e-3)


@pytest.mark.parametrize("m", [5, 100])
def test_derivatives_of_factors_and_solves_are_lapacks(m):
    """Both modes, against JAX's own rules for the LAPACK versions, batched as well."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, m, m + 3)) / np.sqrt(m)
    grams, b = root @ root.transpose(0, 2, 1) + np.eye(m), rng.normal(size=(3, m, 2))

    def own(gram, b):
        factor = cholesky(gram, 0.0)
        return jnp.sum(jnp.sin(solve_cholesky(factor, b))) + jnp.sum(solve_lower(factor, b[:, 0]) ** 3)

    def by_products(gram, b):
        root = whitener(gram, 0.0)
        return jnp.sum(jnp.sin(root.T @ (root @ b))) + jnp.sum((root @ b[:, 0]) ** 3)

    def lapack(gram, b):
        factor = jnp.linalg.cholesky(gram)
        lower = jax.scipy.linalg.solve_triangular(factor, b[:, 0], lower=True)
        return jnp.sum(jnp.sin(jax.scipy.linalg.cho_solve((factor, True), b))) + jnp.sum(lower**3)

    with jax.enable_x64(True):
        args = (jnp.asarray(grams), jnp.asarray(b))
        tangents = tuple(0.5 * (a + jnp.flip(a, 1)) for a in (args[0] + jnp.swapaxes(args[0], 1, 2), args[1]))
        backward = lambda f: jax.jit(jax.vmap(jax.grad(f, argnums=(0, 1))))(*args)  # noqa: E731
        forward = lambda f: jax.jit(lambda *a: jax.jvp(jax.vmap(f), *a)[1])(args, tangents)  # noqa: E731
        for derivative in (backward, forward):
            expected = jax.tree.leaves(derivative(lapack))
            for f in (own, by_products):
                for ours, other in zip(jax.tree.leaves(derivative(f)), expected):
                    np.testing.assert_allclose(ours, other, rtol=1e-8, atol=1e-10)


def test_a_gradient_through_a_whitener_has_no_further_loops():
    """The factor's own derivative has a loop over rows for every solve: slow to compile."""
    program = jax.jit(jax.grad(lambda gram: jnp.sum(whitener(gram) @ gram))).lower(jnp.eye(5)).as_text()
    assert program.count("stablehlo.while") == 1


def test_a_matrix_that_is_not_positive_definite_gives_no_numbers():
    for function in (cholesky, whitener):
        assert not np.isfinite(function(jnp.asarray([[1.0, 2.0], [2.0, 1.0]]))).all()


@pytest.mark.parametrize("m", [24, 100])
def test_many_batched_solves_at_once_come_back(m):
    """LAPACK's batches hung here: independent factors and solves under a gradient, inside a loop."""
    rng = np.random.default_rng(0)
    root = jnp.asarray(rng.normal(size=(100 if m < 50 else 6, m, m + 6)), jnp.float32)
    grams = root @ jnp.swapaxes(root, 1, 2)

    def loss(log_scale):
        def one(gram):
            factors = [cholesky(gram + jnp.exp(s) * jnp.eye(m)) for s in log_scale]
            return sum(jnp.sum(solve_lower(f, gram) ** 2) + jnp.sum(solve_cholesky(f, gram[0])) for f in factors)

        return jnp.mean(jax.vmap(one)(grams))

    def descend(log_scale, _):
        return log_scale - 1e-6 * jax.grad(loss)(log_scale), None

    final, _ = jax.jit(lambda s: jax.lax.scan(descend, s, None, 50))(jnp.zeros(4))
    assert np.isfinite(final).all()
