"""The configuration that tuning selected for a method on an environment: a small file that `bench run` uses."""

from __future__ import annotations

import errno
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scoreprior._files import replace_file
from scoreprior.bench.catalogue import ablated
from scoreprior.bench.cell import canonical, digest, split_suffix, thaw
from scoreprior.bench.published import read_result
from scoreprior.learners import learner

VERSION = 1


class SelectionFileError(OSError):
    """The file does not hold the selection that its name says."""

    def __init__(self, path: Path, problem: str):
        super().__init__(errno.EILSEQ, f"{problem}; delete it or tune again", str(path))


@dataclass(frozen=True)
class Selection:
    """What was selected, how, at what cost.

    Args:
        settings: what to override in the method's defaults.
        protocol: mode, metric, share of the iterations, split, seed of the trials; if trials had fewer iterations,
            "in_full" has the metrics of the best one's settings and of the defaults with all: the better is selected.
        value: the metric of the selected trial on the meta-validation tasks; default_value: that of the defaults.
        trials: settings, value (None if it failed or was stopped early), state and seconds of every trial.
    """

    environment: str
    method: str
    settings: dict[str, Any]
    protocol: dict[str, Any]
    value: float
    default_value: float | None
    seconds: float
    trials: list[dict[str, Any]]
    made: dict[str, Any]

    @property
    def overrides(self) -> dict[str, Any]:
        """The settings as `learner(method, **overrides)` takes them."""
        return {name: thaw(value) for name, value in self.settings.items()}

    @property
    def split(self) -> int:
        """The data split whose validation tasks decided."""
        return self.protocol.get("split", 0)

    @property
    def config_hash(self) -> str:
        """As in the cells of this configuration."""
        return digest(canonical(self.settings), 10)

    @property
    def configurations(self) -> list[dict[str, Any]]:
        """The settings of every trial: the paper's protocol tests them all."""
        return [{name: thaw(value) for name, value in trial["settings"].items()} for trial in self.trials]


def selected_path(out: Path, environment: str, method: str, split: int = 0) -> Path:
    """The file of a selection. One per split: validation tasks of one may be test tasks of another."""
    return out / "selected" / f"{environment}--{method}{split_suffix(split)}.json"


def save_selection(out: Path, selection: Selection) -> Path:
    """Write the file, whole or not at all; what is there already keeps its date and revision.

    A file that cannot be read is replaced.
    """
    path = selected_path(out, selection.environment, selection.method, selection.split)
    path.parent.mkdir(parents=True, exist_ok=True)
    fields = json.loads(canonical({"version": VERSION} | asdict(selection)))
    with suppress(FileNotFoundError, SelectionFileError):
        if _fields(out, selection.environment, path) | {"made": fields["made"]} == fields:
            return path
    trials = ",\n  ".join(canonical(trial) for trial in fields.pop("trials"))  # a line each, for readable differences
    text = json.dumps(fields | {"trials": []}, indent=1).replace('"trials": []', f'"trials": [\n  {trials}\n ]')
    replace_file(path, (text + "\n").encode())
    return path


def selected_overrides(out: Path, environment: str, method: str, split: int = 0) -> dict[str, Any] | None:
    """The settings to use, if any were selected.

    An ablation that was not tuned itself has those of the method it is made from, as far as it knows them: the two are
    to differ in one thing only.
    """
    own = load_selection(out, environment, method, split)
    if own is not None:
        return own.overrides
    whole = ablated(method)
    theirs = load_selection(out, environment, whole, split) if whole is not None else None
    if theirs is None:
        return None
    known = getattr(learner(method), "space", {})
    return {name: value for name, value in theirs.overrides.items() if name in known}


def load_selection(out: Path, environment: str, method: str, split: int = 0) -> Selection | None:
    """What was selected, if anything was."""
    path = selected_path(out, environment, method, split)
    try:
        fields = _fields(out, environment, path)
    except FileNotFoundError:
        return None
    if fields.pop("version", None) != VERSION:
        raise SelectionFileError(path, f"it is no selection of version {VERSION}")
    try:
        selection = Selection(**fields)
    except TypeError:
        raise SelectionFileError(path, "it lacks what a selection has, or has more") from None
    parts = (selection.settings, selection.protocol, selection.trials)
    if [type(part) for part in parts] != [dict, dict, list]:
        raise SelectionFileError(path, "its settings, its protocol or its trials are damaged")
    if (selection.environment, selection.method, selection.split) != (environment, method, split):
        raise SelectionFileError(path, "it is the selection for another environment, method or split")
    return selection


def _fields(out: Path, environment: str, path: Path) -> dict[str, Any]:
    data = read_result(out, environment, path)
    if data is None:
        raise FileNotFoundError(errno.ENOENT, "there is no selection", str(path))
    try:
        fields = json.loads(data)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise SelectionFileError(path, "it is damaged")
    return fields
