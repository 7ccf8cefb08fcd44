"""The paper's score-estimation experiments, one file each: `reproduce("table7", "out", seeds=5, seed=0)`.

Every experiment is a function of a `Settings` that returns a `Report`: the numbers, tables that put the paper's
beside them, and a figure. `_output.save` writes them.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path

from scoreprior._extras import extra
from scoreprior.reproduce._output import Budget, Report, Settings, save

# name -> (module, function, what it is in one line); a module is imported only when its experiment is asked for.
_REGISTRY: dict[str, tuple[str, str, str]] = {
    "table7": ("score_tables", "table7", "RMSE of score estimators on process marginals"),
    "table8": ("score_tables", "table8", "cosine similarity of score estimators on process marginals"),
    "figure1": ("figure1", "run", "vanilla BNN, fBNN with a GP prior and MARS on a Student-t process"),
    "figure2": ("figure2", "run", "SSGE against the network; with and without spectral normalisation"),
    "figure3": ("figure3", "run", "constant against Steinwart biases after 2000 steps of fSVGD"),
    "figure5": ("figure5", "run", "the regularised network on Laplace and Student-t samples"),
    "figure6": ("figure6", "run", "training on draws of the interpolators against training on their means"),
    "choose": ("choose", "run", "the estimators' regularisations, on measurement sets that no table reports"),
}


def experiments() -> dict[str, str]:
    """Name and one-line description of every experiment."""
    return {name: description for name, (_, _, description) in _REGISTRY.items()}


def reproduce(
    name: str, out: str | Path, *, seeds: int, seed: int, budget: Budget = "full", progress: bool = False
) -> Report:
    """Run an experiment and write its figure (PNG and SVG) and numbers (JSON) into the directory `out`.

    Args:
        seeds: initialisations of the networks that are averaged over; the paper: 5.
        seed: of the first of them; the others follow.
        budget: "full" is the paper's protocol; "quick" has a fraction of the steps and sets, to see that all is well.
    """
    if name not in _REGISTRY:
        raise ValueError(f"There is no experiment {name!r}; there are {', '.join(_REGISTRY)}.")
    with extra("plots"):  # now, not after hours
        import_module("matplotlib")
    module, function, _ = _REGISTRY[name]
    run = getattr(import_module(f"scoreprior.reproduce.{module}"), function)
    settings = Settings(seeds, budget, progress, Path(out), seed)
    report = run(settings)
    return replace(report, files=save(report, name, settings))


__all__ = ["Budget", "Report", "Settings", "experiments", "reproduce"]
