"""Masked solves and the shared evidence against dense double-precision formulas."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from scoreprior._linalg import cholesky, gaussian_log_prob, mask_gram, shared_evidence, shared_log_prob


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
        evidence = shared_evidence(*map(jnp.asarray, problem))
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
        gradients = jax.grad(shared_log_prob, (0, 1, 2))(*map(jnp.asarray, problem))
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
        factor = cholesky(mask_gram(jnp.asarray(gram), jnp.asarray(mask)), 0.0)
        value = gaussian_log_prob(jnp.asarray(residual), factor, jnp.asarray(mask))
    expected = multivariate_normal(cov=gram[np.ix_(mask, mask)]).logpdf(residual[mask])
    np.testing.assert_allclose(value, expected, rtol=1e-10)
