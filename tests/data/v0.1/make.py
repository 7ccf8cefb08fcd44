"""How the files beside this one were made, with Scoreprior 0.1.0: `python make.py`, in this directory.

They are small fits to a few sinusoids, and expected.json has what 0.1.0 predicts with them.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from scoreprior._training import TrainingConfig
from scoreprior.learners.mars_prior import MARSPrior
from scoreprior.widths import Widths

import scoreprior as sp
from scoreprior.inference.bnn import BNNConfig
from scoreprior.inference.fsvgd import FSVGDConfig
from scoreprior.inference.fvi import FVIConfig
from scoreprior.inference.svgd import SVGDConfig
from scoreprior.interpolators import DeterministicInterpolator, DropoutInterpolator
from scoreprior.pooling import PoolingConfig
from scoreprior.scores.network import NetworkConfig

SHORT = TrainingConfig(steps=10, chunk=10)
NETWORK = NetworkConfig(embedding=4, heads=2, key_size=2, blocks=1)
BNN = BNNConfig(hidden=(4, 4))
INFERENCE = FSVGDConfig(steps=10, particles=4, measurement_points=4)
BASE = PoolingConfig(evaluations=20, foresight=5, waves=0, centres=4, widths=False, second=False)
MARS = sp.MARS(
    base=BASE, network=None, bnn=BNN, inference=replace(INFERENCE, measurement_points=None), settle=10, training=SHORT
)
PLAIN = {"network": NETWORK, "training": SHORT, "inference": INFERENCE, "bnn": BNN}
LEARNERS = {
    **{name: sp.learner(name) for name in ("last-value", "context-mean", "ridge")},
    "vanilla-gp": sp.learner("vanilla-gp", steps=5),
    "pooled-gp": sp.learner("pooled-gp", **{"pooling.evaluations": 20, "pooling.foresight": 0}),
    "hierarchical-gp": sp.learner("hierarchical-gp", pooling=BASE),
    "mars-gp": MARS,
    "mars-without-closed-form": replace(MARS, closed_form=False),
    "mars-other-noise": replace(MARS, noise_std=0.3),
    "mars-network": replace(MARS, network=NETWORK, held_out=0.0),
    "mars-annealed": replace(MARS, network=NETWORK, held_out=0.0, anneal=0.5),
    "mars-gp-paper": sp.learner("mars-gp-paper", **PLAIN),
    "mars-ssge": sp.learner("mars-ssge", base=BASE, bnn=BNN, inference=INFERENCE),
    "fbnn-gp": sp.learner("fbnn-gp", bnn=BNN, inference=INFERENCE),
    "fbnn-gp-vi": sp.learner(
        "fbnn-gp-vi", bnn=BNN, inference=FVIConfig(steps=10, particles=4, samples=4, measurement_points=4)
    ),
    "vanilla-bnn": sp.learner("vanilla-bnn", bnn=BNN, inference=SVGDConfig(steps=10, particles=4)),
    "mlap": sp.learner("mlap", bnn=BNN, training=SHORT, steps=10, draws=4),
    "maml": sp.learner("maml", network=BNN, training=SHORT, inner_steps=2),
    "bmaml": sp.learner("bmaml", network=BNN, training=SHORT, particles=2),
    "np": sp.learner("np", training=SHORT, width=4, layers=1, samples=8),
    "pacoh-gp": sp.learner("pacoh-gp", training=SHORT, hidden=(4, 4), particles=2),
    "pacoh-nn": sp.learner("pacoh-nn", training=SHORT, particles=2, target_particles=2, target_steps=10, bnn=BNN),
}
for kind in (DropoutInterpolator, DeterministicInterpolator):
    name = f"mars-gauss-{kind.__name__.removesuffix('Interpolator').lower()}"
    LEARNERS[name] = replace(
        sp.learner("mars-gauss", base=BASE, bnn=BNN, inference=INFERENCE), interpolator=kind(epochs=2, hidden=(4,))
    )


def main() -> None:
    env = sp.environment("sinusoid")
    train = env.meta_train[:5].map(lambda task: task.take(slice(4)))
    context = env.meta_test.context[:2].map(lambda task: task.take(slice(3)))
    query = [task.x[:6] for task in env.meta_test.target[:2]]
    priors = {name: learner.fit(train, 0, progress=False) for name, learner in LEARNERS.items()}
    widths = Widths(*(jnp.asarray(value, jnp.float32) for value in ([-1.0, 0.0, 1.0], [-0.3, 0.1, 0.2], 0.4)))
    second, hierarchical, mars = priors["pooled-gp"].process, priors["hierarchical-gp"], priors["mars-gp"]
    priors["hierarchical-gp-average"] = replace(hierarchical, second=second)
    score = replace(mars.score, process=replace(mars.score.process, widths=widths))
    priors["mars-gp-widths-average"] = replace(mars, score=score, second=second)
    for name, prior in priors.items():
        if isinstance(prior, MARSPrior) and name != "mars-gp":
            priors[name] = replace(prior, notes=None)  # half of the file
    predictions = {}
    for name, prior in priors.items():
        prior.save(f"{name}.prior")
        found = prior.condition_many(context, 1).predict(query)
        spread = [np.zeros(len(each)) if each.is_point else each.std for each in found]
        predictions[name] = {"mean": [each.mean.tolist() for each in found], "std": [each.tolist() for each in spread]}
    expected = {
        "context": [{"x": task.x.tolist(), "y": task.y.tolist()} for task in context],
        "query": [each.tolist() for each in query],
        "predictions": predictions,
    }
    lines = json.dumps(expected, separators=(",", ":")).replace('},"', '},\n"')
    Path("expected.json").write_text(lines + "\n")


if __name__ == "__main__":
    main()
