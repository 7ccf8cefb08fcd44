"""Choosing a method's configuration by its meta-validation tasks; no test task is ever read.

"random" is the paper's protocol: random configurations from the method's space. "efficient" lets TPE propose them, and
successive halving stop those that look bad after a ninth and a third of the iterations. In both the first trial is the
method's default configuration. Trials are kept in an Optuna journal, so that tuning continues where it was stopped.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from scoreprior._extras import extra
from scoreprior.bench.budget import reduced
from scoreprior.bench.campaign import Campaign
from scoreprior.bench.cell import Cell, canonical, split_suffix, thaw
from scoreprior.bench.line_file import LineFile, in_place
from scoreprior.bench.published import restore
from scoreprior.bench.runner import Record, Runner
from scoreprior.bench.selected import Selection
from scoreprior.bench.work import provenance, rounded
from scoreprior.learners import learner
from scoreprior.space import Choice, Space

with extra("bench"):
    import optuna
    from optuna.exceptions import ExperimentalWarning
    from optuna.samplers import RandomSampler, TPESampler
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend
    from optuna.trial import FrozenTrial, Trial, TrialState

Mode = Literal["random", "efficient"]
Metric = Literal["log_score", "nll", "rmse", "crps"]

SEED = 1000
"""Seed of all trials: not one of those that are reported, so that no configuration is chosen for their luck."""

_RUNGS = (1, 3, 9)  # ninths of the iterations
_RANDOM_FIRST = 5  # TPE starts to model after so many trials


class NothingToTuneError(ValueError):
    """The method has no settings that a tuner may vary."""


class NoTrialSucceededError(RuntimeError):
    """All trials of a study failed: there is nothing to select."""


@dataclass(frozen=True)
class Protocol:
    """How a configuration is chosen.

    Args:
        metric: what is compared, a mean over the meta-validation tasks; point predictors are compared by RMSE.
        iterations: share of the method's iterations that a trial gets.
    """

    mode: Mode = "random"
    metric: Metric = "log_score"
    iterations: float = 1.0
    split: int = 0

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode) or self.metric not in get_args(Metric):
            raise ValueError(f"mode is one of {get_args(Mode)} and metric one of {get_args(Metric)}.")
        if not 0 < self.iterations <= 1:
            raise ValueError(f"iterations is a share above 0 and at most 1, not {self.iterations}.")

    @property
    def rungs(self) -> tuple[int, ...]:
        """Ninths of a trial's iterations after which it is judged."""
        return _RUNGS if self.mode == "efficient" else _RUNGS[-1:]


class Study:
    """The trials of one method on one environment; closes with `close`."""

    def __init__(self, out: Path, environment: str, method: str, trials: int, protocol: Protocol):
        self.environment, self.method, self.trials, self.protocol = environment, method, trials, protocol
        self.space: Space = getattr(learner(method), "space", {})
        if not self.space:
            raise NothingToTuneError(f"{method} has no settings to tune.")
        path = out / "tuning" / f"{environment}--{method}{split_suffix(protocol.split)}.journal"
        with ExitStack() as stack:
            stack.enter_context(in_place(out))
            restore(out, environment, path)
            stack.enter_context(LineFile(path))  # ours alone, and repaired if its last writer was killed
            self._open = stack.pop_all()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._study = optuna.create_study(
            storage=JournalStorage(JournalFileBackend(str(path), lock_obj=_HeldAlready())),  # type: ignore[arg-type]
            study_name=canonical(asdict(protocol)),
            load_if_exists=True,
            pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=_RUNGS[0], reduction_factor=3),
        )
        for left in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            self._study.tell(left.number, state=TrialState.FAIL)  # interrupted; asked again below
        self._at_work: list[tuple[Cell, Trial, int]] = []
        self._continued: list[tuple[Trial, int]] = []

    def ask(self) -> Cell | None:
        """The next cell to compute, if there is one now."""
        if self._continued:
            trial, rung = self._continued.pop(0)
        else:
            taken = self._taken
            proposal = next(index for index in range(len(taken) + 1) if index not in taken)
            if proposal >= self.trials:
                return None
            trial, rung = self._new_trial(proposal), 0
        share = self.protocol.iterations * self.protocol.rungs[rung] / _RUNGS[-1]
        overrides = reduced(self.method, _settings(trial), share)
        cell = Cell.of(self.environment, self.method, SEED, overrides, split=self.protocol.split, part="valid")
        self._at_work.append((cell, trial, rung))
        return cell

    @property
    def _taken(self) -> set[int]:
        """Proposals that came to an end or are at work. Older journals do not number them, and made them in order."""
        trials = [*self.counted, *(trial for _, trial, _ in self._at_work)]
        numbers = [trial.user_attrs.get("proposal") for trial in trials]
        return {*range(numbers.count(None)), *(number for number in numbers if number is not None)}

    def _new_trial(self, proposal: int) -> Trial:
        # Seeded by its number: after an interruption, what is missing is proposed again and nothing else is.
        self._study.sampler = _tpe(proposal) if self.protocol.mode == "efficient" else RandomSampler(seed=proposal)
        trial = self._study.ask()
        settings = {} if proposal == 0 else {name: _suggest(trial, name, self.space) for name in self.space}
        trial.set_user_attr("settings", canonical(settings))
        trial.set_user_attr("proposal", proposal)
        return trial

    def tell(self, cell: Cell, record: Record) -> None:
        """What came of a cell that was asked for."""
        at = next(i for i, (asked, _, _) in enumerate(self._at_work) if asked.key == cell.key)
        _, trial, rung = self._at_work.pop(at)
        trial.set_user_attr("seconds", trial.user_attrs.get("seconds", 0.0) + record["seconds"]["wall"])
        if record["status"] == "failed":
            trial.set_user_attr("error", record["error"])
            self._study.tell(trial, math.inf)  # TPE learns from bad values, and forgets what it is told has failed
            return
        value = _judged(record, self.protocol.metric)
        trial.report(value, self.protocol.rungs[rung])
        if rung + 1 == len(self.protocol.rungs):
            self._study.tell(trial, value)
        elif trial.should_prune() and _settings(trial):  # the defaults are always seen through
            self._study.tell(trial, state=TrialState.PRUNED)
        else:
            self._continued.append((trial, rung + 1))

    @property
    def counted(self) -> list[FrozenTrial]:
        """Trials that came to an end, also to a bad one; interrupted ones do not count."""
        return self._study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))

    def select(self) -> Selection:
        """The best of the trials that were seen through."""
        trials = self.counted
        complete = [trial for trial in trials if _outcome(trial) == "complete"]
        if not complete:
            errors = [trial.user_attrs["error"]["message"] for trial in trials if "error" in trial.user_attrs]
            where = f"{self.method} on {self.environment}"
            raise NoTrialSucceededError(f"No trial of {where} succeeded: {'; '.join(errors[:1])}")
        best = min(complete, key=lambda trial: (trial.value, trial.number))
        default = [trial.value for trial in complete if not _settings(trial)]
        return Selection(
            environment=self.environment,
            method=self.method,
            settings=json.loads(best.user_attrs["settings"]),
            protocol=asdict(self.protocol) | {"trials": len(trials), "seed": SEED},
            value=_told(best)["value"],
            default_value=default[0] if default else None,
            seconds=round(sum(trial.user_attrs.get("seconds", 0.0) for trial in trials), 1),
            trials=[_told(trial) for trial in trials],
            made=provenance(),
        )

    def close(self) -> None:
        """Let others tune."""
        self._open.close()


def tune(study: Study, runner: Runner, at_once: int = 1) -> Iterator[Record]:
    """Run a study to its end, `at_once` cells at once."""
    while asked := [cell for _ in range(at_once) if (cell := study.ask()) is not None]:
        for cell, record in runner.map(asked):
            study.tell(cell, record)
            yield record


def run_off(out: Path, selection: Selection, runner: Runner) -> Selection:
    """With a share of the iterations other settings win than with all: in full, they must beat the defaults once more.

    Both cells are of validation tasks, and kept with the other records.
    """
    protocol = selection.protocol
    if protocol["iterations"] == 1 or not selection.settings:
        return selection
    rivals = {"selected": selection.overrides, "defaults": {}}
    cells = {
        name: Cell.of(selection.environment, selection.method, SEED, overrides, split=protocol["split"], part="valid")
        for name, overrides in rivals.items()
    }
    with Campaign(out, cells.values()) as campaign:
        records = {cell.key: record for cell, record in (*campaign.done, *campaign.run(runner))}
    found = {name: records[cell.key] for name, cell in cells.items()}
    # A record from before there was a log score can be compared by its NLL only.
    has_metric = all(protocol["metric"] in each["summary"] for each in found.values() if each["status"] == "done")
    values = {name: _judged(record, protocol["metric"] if has_metric else "nll") for name, record in found.items()}
    return replace(
        selection,
        settings=selection.settings if values["selected"] < values["defaults"] else {},
        protocol=protocol | {"in_full": {name: value if value < math.inf else None for name, value in values.items()}},
        seconds=round(
            selection.seconds + sum(each["seconds"]["wall"] for each in found.values() if "seconds" in each), 1
        ),
    )


def _judged(record: Record, metric: str) -> float:
    """What decides; a point predictor has its RMSE only."""
    if record["status"] == "failed":
        return math.inf
    value = record["summary"][metric if record["tasks"]["nll"] is not None else "rmse"]
    # What is no number, which JSON has as null, can win nothing; Optuna would not count such a trial at all.
    return math.inf if value is None or math.isnan(float(value)) else float(value)


def _tpe(seed: int) -> TPESampler:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        # Grouped: a search space is made of what trials vary, and the first trial, with the defaults, varies nothing.
        return TPESampler(seed=seed, n_startup_trials=_RANDOM_FIRST, multivariate=True, group=True)


class _HeldAlready:
    """The journal is locked for as long as the study is open; Optuna's own lock files outlive a `kill -9`."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        pass


def _suggest(trial: Trial, name: str, space: Space) -> Any:
    dimension = space[name]
    if isinstance(dimension, Choice):  # options may be tuples, which Optuna cannot store; their positions it can
        return dimension.options[trial.suggest_categorical(name, list(range(len(dimension.options))))]
    if isinstance(dimension.low, int) and isinstance(dimension.high, int):
        return trial.suggest_int(name, dimension.low, dimension.high, log=dimension.log)
    return rounded(trial.suggest_float(name, dimension.low, dimension.high, log=dimension.log), 6)


def _settings(trial: Trial | FrozenTrial) -> dict[str, Any]:
    return {name: thaw(value) for name, value in json.loads(trial.user_attrs["settings"]).items()}


def _outcome(trial: FrozenTrial) -> str:
    return "failed" if "error" in trial.user_attrs else trial.state.name.lower()


def _told(trial: FrozenTrial) -> dict[str, Any]:
    outcome = _outcome(trial)
    return {
        "settings": json.loads(trial.user_attrs["settings"]),
        "state": outcome,
        "value": trial.value if outcome == "complete" else None,
        "judged_at": {str(step): value for step, value in sorted(trial.intermediate_values.items())},
        "seconds": round(trial.user_attrs.get("seconds", 0.0), 1),
    }
