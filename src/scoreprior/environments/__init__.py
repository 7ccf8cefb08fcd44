"""The paper's environments, by name: `environment("berkeley")`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from scoreprior.environments._base import Card, Environment, Oracle
from scoreprior.environments._store import DataError

# name -> (module, function); a module is imported only when its environment is asked for.
# Each function is called as load(split=..., data_dir=...) and returns an Environment.
_REGISTRY = {
    "sinusoid": ("sinusoid", "sinusoid"),
    "gp-sinusoid": ("processes", "gp_sinusoid"),
    "student-t-sinusoid": ("processes", "student_t_sinusoid"),
    "physionet-gcs": ("physionet", "physionet_gcs"),
    "physionet-hct": ("physionet", "physionet_hct"),
    "berkeley": ("berkeley", "berkeley"),
    "berkeley-full": ("berkeley", "berkeley_full"),
    "swissfel": ("swissfel", "swissfel"),
    "argus": ("argus", "argus"),
    "swissfel-sim": ("swissfel_sim", "swissfel_sim"),
    "argus-sim": ("argus_sim", "argus_sim"),
}


def environments() -> list[str]:
    """Names of all environments."""
    return list(_REGISTRY)


def environment(name: str, *, split: int = 0, data_dir: str | Path | None = None) -> Environment:
    """An environment by name.

    Args:
        name: one of `environments()`.
        split: data-split seed; 0 is the canonical split.
        data_dir: where downloaded data live (default: the SCOREPRIOR_DATA variable, then the user's cache).
    """
    if name not in _REGISTRY:
        raise ValueError(f"There is no environment {name!r}; there are {', '.join(_REGISTRY)}.")
    module, function = _REGISTRY[name]
    load = getattr(import_module(f"scoreprior.environments.{module}"), function)
    return load(split=split, data_dir=data_dir)


__all__ = ["Card", "DataError", "Environment", "Oracle", "environment", "environments"]
