"""Tables 7 and 8: score estimators on marginals of a Gaussian and a Student-t process (appendix D.1).

Both tables come from one measurement. The paper evaluates one measurement set, the network with five seeds; beside that
stands the mean over 20 other sets (one seed each), since one set is luck. Rows that are not the paper's: Gaussians, two
estimators on whitened samples, and the elliptical network (`scores/fitted_network.py`).

Departures: the network's steps take random batches of 32 samples; on the 20 sets of three points it makes 2000 steps
instead of 5000. The paper's estimators' kernels, bandwidths and regularisations are unknown: see `choose.py` for ours.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from scoreprior._files import replace_file
from scoreprior._progress import track
from scoreprior.reproduce._measure import Errors, measure, measure_network, standard_error, zero_score_error
from scoreprior.reproduce._output import Report, Settings, read_record, table
from scoreprior.reproduce.marginals import MARGINALS, Marginal, Sets, draw_sets
from scoreprior.reproduce.paper_scores import paper
from scoreprior.reproduce.score_figure import draw
from scoreprior.reproduce.score_findings import findings
from scoreprior.scores.estimators import estimator, estimators
from scoreprior.scores.fitted_network import NetworkEstimator, elliptical_network
from scoreprior.scores.sampled import Estimator
from scoreprior.scores.whitened import Whitened

NETWORK, ELLIPTICAL, ZERO = "network", "elliptical network", "zero"
ESTIMATORS: dict[str, Estimator] = {
    **{name: estimator(name) for name in estimators()},
    "whitened ssge": Whitened(estimator("ssge")),
    "whitened stein": Whitened(estimator("stein")),
}
NETWORKS: dict[str, NetworkEstimator] = {
    NETWORK: NetworkEstimator(),
    "denoising network": NetworkEstimator(objective="denoising", level=0.3),
    ELLIPTICAL: elliptical_network(),
}
FILE = "score_tables.json"
_MOST_STEPS = 2000  # on each of the 20 sets


def table7(settings: Settings) -> Report:
    """RMSE."""
    return _report(settings, "rmse", "RMSE")


def table8(settings: Settings) -> Report:
    """Cosine similarity."""
    return _report(settings, "cosine", "Cosine similarity")


def _report(settings: Settings, kind: str, title: str) -> Report:
    numbers = measured(settings)
    results, count = numbers["results"], numbers["sets"]

    def rows(cell: Any) -> list[list[str]]:
        return [[name, *(cell(name, problem) for problem in MARGINALS)] for name in results]

    def both(name: str, problem: str) -> str:
        theirs = paper(name, problem, kind)
        return f"{'-' if theirs is None else f'{theirs:.2f}'} / {results[name][problem]['one'][kind]['mean']:.2f}"

    def mean(name: str, problem: str, kind: str = kind) -> str:
        many = results[name][problem]["many"][kind]
        return f"{many['mean']:.2f} ± {many['error']:.2f}"

    columns = ["estimator", *MARGINALS]
    tables = [
        table(f"{title} on one measurement set: the paper's (its set is unknown) / ours", columns, rows(both)),
        table(f"{title}: mean over {count} measurement sets ± standard error", columns, rows(mean)),
    ]
    if kind == "rmse":
        relative = rows(lambda name, problem: mean(name, problem, "relative"))
        tables.append(table(f"RMSE over the true score's size: mean over {count} sets", columns, relative))
    figures = {
        name: {problem: _figures(name, problem, kind, each[problem]) for problem in MARGINALS}
        for name, each in results.items()
    }
    record = {"measured_in": FILE, "sets": count, "figures": figures}
    return Report(record, tables, findings(results, kind), draw(results, kind, title))


def _figures(name: str, problem: str, kind: str, found: dict[str, Any]) -> dict[str, float | None]:
    one, many = found["one"][kind], found["many"][kind]
    return {
        "paper": paper(name, problem, kind),
        "one_set": one["mean"],
        "mean": many["mean"],
        "standard_error": many["error"],
        "median": many["median"],
    }


def measured(settings: Settings) -> dict[str, Any]:
    """All errors of all estimators; problems that an earlier run measured with the same settings are taken from it."""
    path = settings.out / FILE
    protocol = {
        "seeds": settings.seeds,
        "sets": settings.scaled(20, 3),
        "steps": {name: settings.scaled(m.steps, 50) for name, m in MARGINALS.items()},
        "first_seed": settings.seed,
        "estimators": {name: repr(each) for name, each in ESTIMATORS.items()},
        "networks": {name: repr(each) for name, each in NETWORKS.items()},
    }
    protocol = json.loads(json.dumps(protocol))
    numbers = {**protocol, "results": {}}
    earlier = read_record(path)
    if all(earlier.get(name) == value for name, value in protocol.items()):
        numbers = earlier
    settings.out.mkdir(parents=True, exist_ok=True)
    with track(len(MARGINALS), "Measuring", settings.progress) as advance:
        for problem, marginal in MARGINALS.items():
            if problem not in numbers["results"].get(ZERO, {}):
                for name, found in _problem(marginal, settings, protocol["sets"]).items():
                    numbers["results"].setdefault(name, {})[problem] = found
                # After every problem: an interrupted run goes on where it was.
                replace_file(path, (json.dumps(numbers) + "\n").encode())
            advance(1)
    return numbers


def _problem(marginal: Marginal, settings: Settings, count: int) -> dict[str, dict[str, Any]]:
    one, many = draw_sets(marginal, "one", 1), draw_sets(marginal, "many", count)
    together = Sets(*(np.concatenate(parts) for parts in zip(one, many)))
    found: dict[str, dict[str, Any]] = {}
    for name, each in ESTIMATORS.items():
        errors = measure(each, together)
        found[name] = {"one": _summary(errors, slice(0, 1)), "many": _summary(errors, slice(1, None))}
    for name, network in NETWORKS.items():
        steps = settings.scaled(network.training.steps if name == ELLIPTICAL else marginal.steps, 50)
        seeds = [settings.seed + 100 + i for i in range(count)]
        found[name] = {
            "one": _summary(measure_network(network, one, list(settings.network_seeds), steps)),
            "many": _summary(measure_network(network, many, seeds, min(steps, _MOST_STEPS))),
        }
    sizes = zero_score_error(together)
    zero = {"rmse": sizes, "relative": np.ones_like(sizes), "cosine": np.zeros_like(sizes)}
    found[ZERO] = {"one": _summary(zero, slice(0, 1)), "many": _summary(zero, slice(1, None))}
    return found


def _summary(errors: Errors, part: slice = slice(None)) -> dict[str, Any]:
    return {kind: _moments(values[part]) for kind, values in errors.items()}


def _moments(values: np.ndarray) -> dict[str, Any]:
    summary = {"mean": np.mean(values), "error": standard_error(values), "median": np.median(values)}
    return {name: _rounded(value) for name, value in summary.items()} | {"values": [_rounded(v) for v in values]}


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")
