"""Exact scores against scipy's densities, finite differences and the samples' own moments."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats
from tinygp.kernels import ExpSquared, Matern52

from scoreprior._linalg import JITTER
from scoreprior._types import Score
from scoreprior.environments.processes import sinusoidal_mean
from scoreprior.scores.exact import GaussianProcessScore, StudentTProcessScore

NOISE = 0.3
N_DRAWS = 8000  # one number for all: the gamma sampler compiles anew for every shape
X = np.array([[-1.0], [-0.2], [0.4], [1.7]])


@pytest.fixture
def double():
    with jax.enable_x64(True):
        yield


@eqx.filter_jit
def _evaluate(process, f, x):
    """Log density, its automatic gradient, and the score by hand."""
    return *jax.value_and_grad(process.log_prob)(f, x), process(f, x)


def _mean(x):
    return 2 * x[:, 0] + 5 * np.sin(2 * x[:, 0])


def _cov(x, noise=0.0):
    gram = np.exp(-0.5 * ((x[:, None] - x[None]) ** 2).sum(-1)) + noise**2 * np.eye(len(x))
    return gram + JITTER * np.mean(np.diag(gram)) * np.eye(len(x))


def _gp_density(f, x, noise=0.0):
    return stats.multivariate_normal(_mean(x), _cov(x, noise)).logpdf(f)


def _tp_density(f, x, df):
    return stats.multivariate_t(_mean(x), (df - 2) / df * _cov(x), df).logpdf(f)


def _noisy_tp_density(f, x, df, noise):
    """log int InvGamma(r) N(f; m, r K + noise^2 I) dr by Gauss-Legendre quadrature over log r in [-6, 24]."""
    residual, k = f - _mean(x), len(x)
    nodes, weights = special.roots_legendre(400)
    r = np.exp(9 + 15 * nodes)
    cov = r[:, None, None] * _cov(x) + noise**2 * np.eye(k)
    quadratic = np.linalg.solve(cov, np.broadcast_to(residual[:, None], (len(r), k, 1)))[:, :, 0] @ residual
    log_normal = -0.5 * (quadratic + np.linalg.slogdet(cov)[1] + k * np.log(2 * np.pi))
    log_prior = stats.invgamma(df / 2, scale=(df - 2) / 2).logpdf(r)
    return special.logsumexp(log_normal + log_prior + np.log(r * 15 * weights))


def _numerical_score(density, f, step=1e-4):
    return np.array([(density(f + e) - density(f - e)) / (2 * step) for e in step * np.eye(len(f))])


class Noised(eqx.Module):
    """A score with a noise level of its own."""

    score: GaussianProcessScore | StudentTProcessScore
    noise: float

    def __call__(self, f, x):
        return self.score(f, x, self.noise)

    def log_prob(self, f, x):
        return self.score.log_prob(f, x, self.noise)

    def sample(self, x, key, n):
        return self.score.sample(x, key, n, self.noise)


def test_every_point_may_have_a_noise_of_its_own(double):
    """-(K + diag(noise^2))^-1 (f - m), by NumPy."""
    score = GaussianProcessScore(sinusoidal_mean, ExpSquared(1.0))
    noise = np.array([0.0, 0.1, 1.0, 30.0])
    f = _mean(X) + np.array([0.5, -1.0, 0.3, 2.0])
    gram = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1)) + np.diag(noise**2)
    gram += JITTER * np.mean(np.diag(gram)) * np.eye(4)
    expected = -np.linalg.solve(gram, f - _mean(X))
    found = eqx.filter_jit(score)(jnp.asarray(f), jnp.asarray(X), jnp.asarray(noise))
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def _processes():
    kernel = ExpSquared(1.0)
    return {
        "gp": (GaussianProcessScore(sinusoidal_mean, kernel), lambda f, x: _gp_density(f, x)),
        "gp-noise": (
            Noised(GaussianProcessScore(sinusoidal_mean, kernel), NOISE),
            lambda f, x: _gp_density(f, x, NOISE),
        ),
        "tp": (StudentTProcessScore(sinusoidal_mean, kernel, 5.0), lambda f, x: _tp_density(f, x, 5.0)),
        "tp-noise": (
            Noised(StudentTProcessScore(sinusoidal_mean, kernel, 5.0), NOISE),
            lambda f, x: _noisy_tp_density(f, x, 5.0, NOISE),
        ),
    }


NAMES = ["gp", "gp-noise", "tp", "tp-noise"]


@pytest.mark.parametrize("spread", [0.1, 1.0, 15.0])
@pytest.mark.parametrize("name", NAMES)
def test_density_and_score_agree_with_scipy(name, spread, double):
    score, density = _processes()[name]
    f = _mean(X) + spread * np.random.default_rng(3).normal(size=len(X))
    log_prob, automatic, by_hand = _evaluate(score, jnp.asarray(f), jnp.asarray(X))
    np.testing.assert_allclose(log_prob, density(f, X), rtol=1e-8)
    np.testing.assert_allclose(by_hand, automatic, rtol=1e-8)
    numerical = _numerical_score(lambda values: density(values, X), f)
    np.testing.assert_allclose(by_hand, numerical, rtol=1e-5, atol=1e-6 * np.abs(numerical).max())


@pytest.mark.parametrize("name", NAMES)
def test_single_precision_is_close_to_double(name):
    f = _mean(X) + np.array([0.5, -1.0, 0.3, 2.0])
    single = _evaluate(_processes()[name][0], jnp.asarray(f), jnp.asarray(X))[-1]
    with jax.enable_x64(True):
        exact = np.asarray(_evaluate(_processes()[name][0], jnp.asarray(f), jnp.asarray(X))[-1])
    assert single.dtype == jnp.float32
    # Round-off in a solve grows with the condition number of the matrix.
    condition = np.linalg.cond(_cov(X, NOISE if "noise" in name else 0.0))
    tolerance = 10 * np.finfo(np.float32).eps * condition * np.abs(exact).max()
    np.testing.assert_allclose(single, exact, atol=tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_permutation_equivariance(name, double):
    score = _processes()[name][0]
    f, x = jnp.asarray(_mean(X) + np.array([0.5, -1.0, 0.3, 2.0])), jnp.asarray(X)
    order = np.array([2, 0, 3, 1])
    log_prob, _, values = _evaluate(score, f, x)
    log_prob_permuted, _, values_permuted = _evaluate(score, f[order], x[order])
    np.testing.assert_allclose(values_permuted, values[order], rtol=1e-9)
    np.testing.assert_allclose(log_prob_permuted, log_prob, rtol=1e-10)


def test_student_t_becomes_gaussian_with_many_degrees_of_freedom(double):
    kernel = Matern52(0.7)
    f, x = jnp.asarray(_mean(X) + np.array([0.5, -1.0, 0.3, 2.0])), jnp.asarray(X)
    gaussian = GaussianProcessScore(sinusoidal_mean, kernel)
    limit = np.asarray(_evaluate(gaussian, f, x)[-1])
    students = [StudentTProcessScore(sinusoidal_mean, kernel, df) for df in (1e2, 1e4, 1e6)]
    gaps = [np.abs(np.asarray(_evaluate(student, f, x)[-1]) - limit).max() for student in students]
    # The factor (df + k) / (df - 2 + delta) is 1 + O(1 / df).
    np.testing.assert_allclose([gaps[0] / gaps[1], gaps[1] / gaps[2]], 100, rtol=0.2)
    assert gaps[2] < 1e-4


def test_noise_vanishes_from_the_noisy_student_t_score(double):
    x = jnp.array([[-3.0], [0.0], [3.0]])
    f = jnp.asarray(sinusoidal_mean(x)) + jnp.array([1.0, -0.5, 2.0])
    clean = StudentTProcessScore(sinusoidal_mean, ExpSquared(1.0), 5.0)
    noisy = Noised(StudentTProcessScore(sinusoidal_mean, ExpSquared(1.0), 5.0), 1e-4)
    np.testing.assert_allclose(_evaluate(noisy, f, x)[-1], _evaluate(clean, f, x)[-1], rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_draws_have_the_stated_moments(name):
    score, _ = _processes()[name]
    if name.startswith("tp"):  # the standard error of a covariance needs well more than 4 degrees of freedom
        score = StudentTProcessScore(sinusoidal_mean, ExpSquared(1.0), 15.0)
        score = Noised(score, NOISE) if "noise" in name else score
    n = N_DRAWS
    draws = np.asarray(score.sample(jnp.asarray(X), 7, n), np.float64)
    assert draws.shape == (n, len(X))
    residual = draws - _mean(X)
    assert (np.abs(residual.mean(0)) < 4 * residual.std(0) / np.sqrt(n)).all()
    products = residual[:, :, None] * residual[:, None, :]
    gap = products.mean(0) - _cov(X, NOISE if "noise" in name else 0.0)
    assert (np.abs(gap) < 4 * products.std(0) / np.sqrt(n)).all()


@pytest.mark.parametrize("name", NAMES)
def test_stein_identity_ties_draws_to_the_score(name):
    """E[s(f) (f - m)^T] = -I for draws f of the density that s belongs to."""
    score, _ = _processes()[name]
    x, n = jnp.asarray(X), N_DRAWS
    draws = score.sample(x, 11, n)
    scores = np.asarray(eqx.filter_jit(eqx.filter_vmap(score, in_axes=(0, None)))(draws, x), np.float64)
    products = scores[:, :, None] * (np.asarray(draws, np.float64) - _mean(X))[:, None, :]
    gap = products.mean(0) + np.eye(len(X))
    assert (np.abs(gap) < 4 * products.std(0) / np.sqrt(n)).all()


def test_student_t_draws_have_student_t_marginals():
    draws = _processes()["tp"][0].sample(jnp.asarray(X), 5, N_DRAWS)
    standardised = (np.asarray(draws) - _mean(X)) / np.sqrt(3 / 5)
    assert all(stats.kstest(column, stats.t(5).cdf).pvalue > 0.01 for column in standardised.T)


@pytest.mark.parametrize("name", NAMES)
def test_more_input_dimensions_and_coinciding_points_stay_finite(name):
    score, _ = _processes()[name]
    x = jnp.array([[0.0, 1.0], [0.0, 1.0], [1e-6, 1.0], [2.0, -1.0]])
    f = sinusoidal_mean(x) + jnp.array([0.1, 0.1, 0.1, 1.0])
    assert isinstance(score, Score)
    log_prob, _, values = _evaluate(score, f, x)
    assert values.shape == f.shape
    assert jnp.isfinite(values).all()
    assert jnp.isfinite(log_prob)
    assert jnp.isfinite(score.sample(x, 0, N_DRAWS)).all()


def test_changing_the_degrees_of_freedom_does_not_retrace():
    traces = []

    @eqx.filter_jit
    def evaluate(score, f, x):
        traces.append(1)
        return score(f, x)

    kernel = ExpSquared(1.0)
    for df in (3.0, 5.0, 9.0):
        evaluate(
            StudentTProcessScore(sinusoidal_mean, kernel, df),
            jnp.asarray(X[:, 0], jnp.float32),
            jnp.asarray(X),
        )
    assert len(traces) == 1


def test_two_degrees_of_freedom_are_refused():
    with pytest.raises(ValueError, match="more than 2"):
        StudentTProcessScore(sinusoidal_mean, ExpSquared(1.0), 2.0)
