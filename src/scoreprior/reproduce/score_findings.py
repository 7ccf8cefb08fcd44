"""What Tables 7 and 8 say, in sentences that are computed from the figures: whoever wins is named, whoever it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from scoreprior.reproduce.paper_scores import PROBLEMS, paper

NONPARAMETRIC = (
    "kef",
    "nkef",
    "kef-cg-imq",
    "kef-cg-rbf",
    "nu-method-imq",
    "nu-method-imqp",
    "nu-method-rbf",
    "landweber",
    "spectral-cutoff",
    "ssge",
    "stein",
)
_TOLERANCE = 0.15


def findings(results: dict[str, Any], kind: str) -> list[str]:
    """Who is best on every problem, what each network beats, and how near the paper's figures are."""
    lines = [_best(results, kind, problem) for problem in PROBLEMS]
    for network in ("network", "elliptical network"):
        lines.append(_beats(results, kind, network, NONPARAMETRIC, "every nonparametric estimator"))
    for rival in ("gaussian", "whitened stein"):
        lines.append(_beats(results, kind, "elliptical network", (rival,), rival))
    return [*lines, _near_the_paper(results, kind)]


def better(a: float, b: float, kind: str) -> bool:
    """Whether a beats b: a smaller RMSE, a larger cosine similarity."""
    return a < b if kind == "rmse" else a > b


def _best(results: dict[str, Any], kind: str, problem: str) -> str:
    def first(part: str) -> str:
        means = {name: each[problem][part][kind]["mean"] for name, each in results.items() if name != "zero"}
        name = (min if kind == "rmse" else max)(means, key=lambda key: means[key])
        return f"{name} ({means[name]:.2f})"

    count = len(results["gaussian"][problem]["many"][kind]["values"])
    return f"{problem}: best on the one set: {first('one')}; by the mean over {count} sets: {first('many')}."


def _beats(results: dict[str, Any], kind: str, one: str, others: tuple[str, ...], title: str) -> str:
    """Whether an estimator beats all others, by protocol; and how often, set by set, the best of them."""
    said = []
    for part, label in (("one", "one set"), ("many", "many sets")):
        won = []
        for problem in PROBLEMS:
            own = results[one][problem][part][kind]["mean"]
            won.append(all(better(own, results[name][problem][part][kind]["mean"], kind) for name in others))
        yes = [problem for problem, each in zip(PROBLEMS, won) if each]
        said.append(f"on {', '.join(yes) if yes else 'no problem'} ({label})")
    shares = []
    for problem in PROBLEMS:
        own = np.asarray(results[one][problem]["many"][kind]["values"])
        rivals = np.stack([results[name][problem]["many"][kind]["values"] for name in others])
        best = rivals.min(0) if kind == "rmse" else rivals.max(0)
        shares.append(f"{int(np.sum([better(a, b, kind) for a, b in zip(own, best)]))}/{len(own)}")
    return f"{one[0].upper()}{one[1:]} beats {title} {', '.join(said)}; set by set on {', '.join(shares)}."


def _near_the_paper(results: dict[str, Any], kind: str) -> str:
    """How many of the paper's nonparametric figures are met within 15% or bettered on our one set."""
    missed, total = [], 0
    for name in NONPARAMETRIC:
        for problem in PROBLEMS:
            theirs = paper(name, problem, kind)
            if theirs is None:
                continue
            total += 1
            bound = theirs * (1 + _TOLERANCE if kind == "rmse" else 1 - _TOLERANCE)
            if not better(results[name][problem]["one"][kind]["mean"], bound, kind):
                missed.append(f"{name} on {problem}")
    sizes = ", ".join(f"{results['zero'][problem]['one']['rmse']['mean']:.2f}" for problem in PROBLEMS)
    return (
        f"Of the paper's {total} nonparametric figures {total - len(missed)} are met within 15% or bettered on our set"
        + (f"; not {', '.join(missed)}" if missed else "")
        + f". The true score's root mean square there is {sizes}; the paper's sets and their sizes are unknown."
    )
