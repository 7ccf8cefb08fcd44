import numpy as np

import scoreprior as sp
from scoreprior.tasks import fingerprint

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(6, 2)), RNG.normal(size=6)


def test_it_depends_on_the_points_alone():
    order = RNG.permutation(6)
    assert fingerprint(sp.Task(X, Y, "a")) == fingerprint(sp.Task(X[order], Y[order], "b"))
    assert fingerprint(sp.Task(X * 0, Y)) == fingerprint(sp.Task(X * -0.0, Y))


def test_every_value_counts():
    found = {fingerprint(sp.Task(X, Y))}
    for change in (1e-6, -1e-3):
        for at in range(6):
            found |= {fingerprint(sp.Task(X, Y + change * (np.arange(6) == at)))}
            found |= {fingerprint(sp.Task(X + change * (np.arange(6) == at)[:, None], Y))}
    assert len(found) == 25
