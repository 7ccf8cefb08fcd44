"""Environments by name, the paper's and others: `environment("berkeley")`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, TypeAlias

from scoreprior._registry import Registry
from scoreprior.environments._base import Card, Environment, Oracle
from scoreprior.environments._store import DataError

Load: TypeAlias = Callable[..., Environment]
"""Called as load(split=..., data_dir=..., **options)."""

# name -> (module, function, what it is called with first); a module is imported when its environment is asked for.
_OWN: dict[str, tuple[str, ...]] = {
    "sinusoid": ("sinusoid", "sinusoid"),
    "gp-sinusoid": ("processes", "gp_sinusoid"),
    "student-t-sinusoid": ("processes", "student_t_sinusoid"),
    "dose-response": ("dose_response", "dose_response"),
    "sawtooth": ("sawtooth", "sawtooth"),
    "change-point": ("change_point", "change_point"),
    "berkeley": ("berkeley", "berkeley"),
    "berkeley-full": ("berkeley", "berkeley_full"),
    "swissfel": ("swissfel", "swissfel"),
    "swissfel-lines": ("swissfel_lines", "swissfel_lines"),
    "argus": ("argus", "argus"),
    "argus-model": ("argus_model", "argus_model"),
    "swissfel-sim": ("swissfel_sim", "swissfel_sim"),
    "argus-sim": ("argus_sim", "argus_sim"),
    **{
        f"physionet-{variable.lower()}": ("physionet", "physionet", variable)
        for variable in ("GCS", "HCT", "HR", "NIMAP", "Temp", "Glucose", "K", "Na", "Creatinine", "WBC")
    },
}


def _find(module: str, function: str, *first: str) -> Load:
    return partial(getattr(import_module(f"scoreprior.environments.{module}"), function), *first)


_ENVIRONMENTS: Registry[Callable[[], Load]] = Registry(
    "environment", {name: partial(_find, *place) for name, place in _OWN.items()}
)


def environments() -> list[str]:
    """Names of all environments."""
    return list(_ENVIRONMENTS.all())


def environment(name: str, *, split: int = 0, data_dir: str | Path | None = None, **options: Any) -> Environment:
    """An environment by name.

    Args:
        name: one of `environments()`.
        split: data-split seed; 0 is the canonical split.
        data_dir: where downloaded data live (default: the SCOREPRIOR_DATA variable, then the user's cache).
        options: of the environment. `tasks`, the number of meta-training tasks, is one of all synthetic and
            PhysioNet environments: the first 100 of 1000 tasks are those of `tasks=100`.

    Example:
        `sp.environment("dose-response", tasks=100)`
    """
    load = _ENVIRONMENTS[name]()
    known = [each.name for each in signature(load).parameters.values() if each.kind is Parameter.KEYWORD_ONLY]
    for option in options:
        if option not in known:
            offer = f"its options are {', '.join(known)}" if known else "it has none"
            raise ValueError(f"The environment {name} has no option {option!r}; {offer}.")
    return load(split=split, data_dir=data_dir, **options)


def register_environment(name: str, load: Load) -> None:
    """Add an environment from outside the package: `load(split=..., data_dir=...)` returns it, with this name."""
    _ENVIRONMENTS.add(name, lambda: load, load)


__all__ = ["Card", "DataError", "Environment", "Oracle", "environment", "environments", "register_environment"]
