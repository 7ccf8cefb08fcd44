"""A cell of the benchmark: one method, one configuration, one seed, on one environment."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Part = Literal["test", "valid"]
Budget = Literal["full", "quick"]

ORACLE = "oracle"
"""The method name under which an environment's true process is evaluated."""


def canonical(value: Any) -> str:
    """JSON with one way to write everything: sorted keys, no spaces; not finite numbers are strings."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def thaw(value: Any) -> Any:
    """A setting as configs hold it, from JSON: sequences are tuples, "inf" is a number."""
    if isinstance(value, list):
        return tuple(thaw(item) for item in value)
    return float(value) if value in ("inf", "-inf") else value


def digest(text: str, length: int) -> str:
    """The first digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def split_suffix(split: int) -> str:
    """What a data split adds to the name of a file: nothing for the canonical one, whose files are published."""
    return f"--split{split}" if split else ""


@dataclass(frozen=True)
class Cell:
    """What a record is of. Make one by `Cell.of`, which writes the settings in their canonical form.

    Args:
        settings: what differs from the method's defaults, as canonical JSON.
        tasks: how many meta-training tasks; None is the environment's default, and no part of the identity.
        budget: a label for reports, no part of the identity: a cut budget shows in the settings.
    """

    environment: str
    method: str
    seed: int
    settings: str = "{}"
    split: int = 0
    part: Part = "test"
    tasks: int | None = None
    budget: Budget = field(default="full", compare=False)

    @classmethod
    def of(cls, environment: str, method: str, seed: int, overrides: Mapping[str, Any], **others: Any) -> Cell:
        """The cell of a method with some settings replaced."""
        return cls(environment, method, seed, canonical(dict(overrides)), **others)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Cell:
        """The cell that `to_dict` described."""
        others = dict(fields)
        return cls(settings=canonical(others.pop("settings")), **others)

    def to_dict(self) -> dict[str, Any]:
        """The identity, in JSON's types."""
        identity = {
            "environment": self.environment,
            "split": self.split,
            "part": self.part,
            "method": self.method,
            "settings": json.loads(self.settings),
            "seed": self.seed,
        }
        return identity if self.tasks is None else identity | {"tasks": self.tasks}

    @property
    def overrides(self) -> dict[str, Any]:
        """The settings as `learner(method, **overrides)` takes them."""
        return {name: thaw(value) for name, value in json.loads(self.settings).items()}

    @property
    def config_hash(self) -> str:
        """Tells configurations of one method apart."""
        return digest(self.settings, 10)

    @property
    def key(self) -> str:
        """Tells cells apart; two cells of one key are the same computation."""
        return digest(canonical(self.to_dict()), 16)

    def __str__(self) -> str:
        changed = "" if self.settings == "{}" else f" [{self.config_hash}]"
        number = "" if self.tasks is None else f" of {self.tasks} tasks"
        split = f", split {self.split}" if self.split else ""
        return f"{self.method}{changed} on {self.environment}{number}{split}, seed {self.seed}"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value
