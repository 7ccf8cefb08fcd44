"""The paper's environments, by name: `environment("berkeley")`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from scoreprior._registry import Registry
from scoreprior.environments._base import Card, Environment, Oracle
from scoreprior.environments._store import DataError

# name -> (module, function); a module is imported only when its environment is asked for.
# Each function is called as load(split=..., data_dir=...) and returns an Environment.
_OWN = {
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


def _load(module: str, function: str, **arguments: Any) -> Environment:
    return getattr(import_module(f"scoreprior.environments.{module}"), function)(**arguments)


_ENVIRONMENTS: Registry[Callable[..., Environment]] = Registry(
    "environment", {name: partial(_load, *place) for name, place in _OWN.items()}
)


def environments() -> list[str]:
    """Names of all environments."""
    return list(_ENVIRONMENTS.all())


def environment(name: str, *, split: int = 0, data_dir: str | Path | None = None) -> Environment:
    """An environment by name.

    Args:
        name: one of `environments()`.
        split: data-split seed; 0 is the canonical split.
        data_dir: where downloaded data live (default: the SCOREPRIOR_DATA variable, then the user's cache).
    """
    return _ENVIRONMENTS[name](split=split, data_dir=data_dir)


def register_environment(name: str, load: Callable[..., Environment]) -> None:
    """Add an environment from outside the package: `load(split=..., data_dir=...)` returns it, with this name."""
    _ENVIRONMENTS.add(name, load, load)


__all__ = ["Card", "DataError", "Environment", "Oracle", "environment", "environments", "register_environment"]
