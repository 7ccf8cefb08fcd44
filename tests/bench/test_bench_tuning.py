"""Selection by validation tasks: what it may read, what it remembers, what it chooses."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from optuna.samplers import TPESampler

import scoreprior as sp
from scoreprior.bench import work
from scoreprior.bench.budget import reduced
from scoreprior.bench.cell import Cell, canonical
from scoreprior.bench.plan import Plan
from scoreprior.bench.report.results import Results
from scoreprior.bench.runner import InlineRunner
from scoreprior.bench.selected import (
    SelectionFileError,
    load_selection,
    save_selection,
    selected_overrides,
    selected_path,
)
from scoreprior.bench.tuning import SEED, NothingToTuneError, Protocol, Study, run_off, tune
from scoreprior.learners.naive import Ridge
from scoreprior.space import Choice, Range

BEST = 0.01


class Interrupted(BaseException):
    """As a kill: nobody catches it."""


class Bowl:
    """A validation error with its least value at a learning rate of BEST; fewer iterations, a larger error."""

    def __init__(self, stop_after: int | None = None):
        self.cells: list[Cell] = []
        self.stop_after = stop_after

    def __call__(self, cell: Cell) -> dict:
        if self.stop_after is not None and len(self.cells) == self.stop_after:
            raise Interrupted
        self.cells.append(cell)
        rate = cell.overrides.get("training.learning_rate", 1.0)
        steps = cell.overrides.get("training.steps", 10_000)
        if rate < 2e-4:
            raise sp.DataError("too small")
        value = math.log10(rate / BEST) ** 2 + 100 / steps
        return {
            "summary": {"nll": value, "log_score": value, "rmse": 1.0},
            "tasks": {"nll": [value]},
            "seconds": {"wall": 2.0},
        }


def run(out, bowl: Bowl, trials: int, **protocol):
    study = Study(out, "sinusoid", "np", trials, Protocol(**protocol))
    try:
        for _ in tune(study, InlineRunner(bowl)):
            pass
        return study.select()
    finally:
        study.close()


@pytest.mark.parametrize("mode", ["random", "efficient"])
def test_the_best_configuration_is_selected_and_used_by_the_next_run(tmp_path, mode):
    bowl = Bowl()
    selection = run(tmp_path, bowl, 12, mode=mode)
    assert all((cell.part, cell.seed, cell.split) == ("valid", SEED, 0) for cell in bowl.cells)
    assert len(selection.trials) == 12
    assert selection.trials[0]["settings"] == {}  # the defaults
    complete = [trial for trial in selection.trials if trial["state"] == "complete"]
    assert selection.value == min(trial["value"] for trial in complete)
    best = min(complete, key=lambda trial: abs(math.log10(trial["settings"].get("training.learning_rate", 1.0) / BEST)))
    assert selection.settings == best["settings"]
    assert selection.default_value == pytest.approx(4 + 100 / 10_000)
    assert selection.seconds == 2.0 * (len(bowl.cells) - sum(trial["state"] == "failed" for trial in selection.trials))
    save_selection(tmp_path, selection)
    assert load_selection(tmp_path, "sinusoid", "np") == selection
    # Tuning that has nothing left to do leaves the file as it is.
    save_selection(tmp_path, replace(selection, made={"revision": "a later one"}))
    assert load_selection(tmp_path, "sinusoid", "np") == selection
    save_selection(tmp_path, replace(selection, value=selection.value - 1))
    assert load_selection(tmp_path, "sinusoid", "np") != selection
    save_selection(tmp_path, selection)
    (cell,) = Plan(["sinusoid"], ["np"], 1).cells(tmp_path)
    assert (cell.overrides, cell.config_hash) == (selection.overrides, selection.config_hash)
    (plain,) = Plan(["sinusoid"], ["np"], 1, tuned=False).cells(tmp_path)
    assert plain.settings == "{}"
    everything = Plan(["sinusoid"], ["np"], 1, paper_protocol=True).cells(tmp_path)
    assert {each.settings for each in everything} == {
        Cell.of("", "", 0, trial["settings"]).settings for trial in selection.trials
    }


def test_successive_halving_stops_what_looks_bad_early(tmp_path):
    bowl = Bowl()
    selection = run(tmp_path, bowl, 15, mode="efficient")
    steps = [cell.overrides["training.steps"] for cell in bowl.cells if "training.steps" in cell.overrides]
    assert set(steps) == {1111, 3333}  # ninth and third of 10000; the whole is the default
    assert {trial["state"] for trial in selection.trials} == {"complete", "pruned", "failed"}
    # Asynchronous halving by hand: on goes who is, so far, among the best third of those judged at the same point.
    seen: dict[str, list[float]] = {"1": [], "3": []}
    for number, trial in enumerate(each for each in selection.trials if each["state"] != "failed"):
        last = list(trial["judged_at"])[-1]
        for rung, values in seen.items():
            if rung in trial["judged_at"]:
                values.append(trial["judged_at"][rung])
                goes_on = values[-1] <= sorted(values)[max(0, len(values) // 3 - 1)] or number == 0
                assert goes_on == (int(last) > int(rung))
        assert trial["state"] == ("complete" if last == "9" else "pruned")


@pytest.mark.parametrize("mode", ["random", "efficient"])
def test_tuning_continues_where_it_was_killed(tmp_path, mode):
    whole = run(tmp_path / "whole", Bowl(), 8, mode=mode)
    for stop_after in (0, 3, 4, 100):
        bowl = Bowl(stop_after)
        try:
            selection = run(tmp_path / "parts", bowl, 8, mode=mode)
        except Interrupted:
            continue
    settings = [[trial["settings"] for trial in each.trials] for each in (selection, whole)]
    assert settings[0] == settings[1]
    assert selection.value == whole.value
    again = Bowl()
    run(tmp_path / "parts", again, 8, mode=mode)
    assert again.cells == []
    run(tmp_path / "parts", again, 10, mode=mode)
    assert len(again.cells) >= 2


def test_every_split_has_trials_and_a_selection_of_its_own(tmp_path):
    first, second = (run(tmp_path, Bowl(), 3 + split, split=split) for split in (0, 1))
    paths = [save_selection(tmp_path, each) for each in (first, second)]
    assert [path.name for path in paths] == ["sinusoid--np.json", "sinusoid--np--split1.json"]
    assert {path.name for path in (tmp_path / "tuning").iterdir()} == {
        "sinusoid--np.journal",
        "sinusoid--np--split1.journal",
    }
    assert load_selection(tmp_path, "sinusoid", "np") == first
    assert load_selection(tmp_path, "sinusoid", "np", 1) == second
    assert load_selection(tmp_path, "sinusoid", "np", 2) is None
    save_selection(tmp_path, replace(second, method="mars-gp-letter", settings={"inference.bandwidth": 7.0}))
    assert selected_overrides(tmp_path, "sinusoid", "mars-gp-letter") is None
    assert selected_overrides(tmp_path, "sinusoid", "mars-gp-mean-letter", 1) == selected_overrides(
        tmp_path, "sinusoid", "mars-gp-letter", 1
    )
    for split, selection in enumerate((first, second)):
        everything = Plan(["sinusoid"], ["np"], 1, splits=(split,), paper_protocol=True).cells(tmp_path)
        assert everything[0].overrides == selection.overrides
        assert {each.settings for each in everything} == {canonical(each) for each in selection.configurations}


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: text.replace('"version": 1', '"version": 0'),
        lambda text: text.replace('"seconds"', '"minutes"'),
        lambda text: text.replace('"settings": {', '"settings": 3, "others": {'),
        lambda text: text.replace('"split": 0', '"split": 1'),  # tuned on other tasks, maybe on our test tasks
    ],
)
def test_a_file_that_holds_no_selection_of_ours_is_named(tmp_path, damage):
    selection = run(tmp_path, Bowl(), 3)
    path = save_selection(tmp_path, selection)
    text = path.read_text()
    path.write_text(damage(text))
    assert path.read_text() != text
    with pytest.raises(SelectionFileError, match="delete it or tune again") as caught:
        load_selection(tmp_path, "sinusoid", "np")
    assert caught.value.filename == str(selected_path(tmp_path, "sinusoid", "np"))
    save_selection(tmp_path, selection)
    assert load_selection(tmp_path, "sinusoid", "np") == selection


def told(value: float) -> dict:
    return {
        "status": "done",
        "summary": {"nll": value, "log_score": value},
        "tasks": {"nll": [value]},
        "seconds": {"wall": 1.0},
    }


def test_trials_that_ran_at_once_are_neither_repeated_nor_lost(tmp_path):
    whole = run(tmp_path / "whole", Bowl(), 6)
    study = Study(tmp_path / "parts", "sinusoid", "np", 6, Protocol())
    defaults, second, third = (study.ask() for _ in range(3))
    assert defaults.settings == "{}"
    study.tell(second, told(1.0))
    fourth = study.ask()
    study.tell(fourth, told(2.0))
    study.close()  # killed while the defaults and the third were at work
    rest = Bowl()
    selection = run(tmp_path / "parts", rest, 6)
    assert [cell.settings for cell in rest.cells[:2]] == ["{}", third.settings]
    expected, found = (sorted(canonical(trial["settings"]) for trial in each.trials) for each in (whole, selection))
    assert found == expected


def test_a_journal_without_the_numbers_of_its_proposals_is_continued(tmp_path):
    whole = run(tmp_path / "whole", Bowl(), 6)
    run(tmp_path / "parts", Bowl(), 3)
    (journal,) = (tmp_path / "parts" / "tuning").glob("*.journal")
    lines = journal.read_text().splitlines(keepends=True)
    kept = [line for line in lines if "proposal" not in json.loads(line).get("user_attr", {})]
    assert len(kept) == len(lines) - 3
    journal.write_text("".join(kept))
    selection = run(tmp_path / "parts", Bowl(), 6)
    assert [trial["settings"] for trial in selection.trials] == [trial["settings"] for trial in whole.trials]


def test_settings_are_proposed_together_once_there_is_something_to_learn_from(tmp_path, monkeypatch):
    proposed = []
    original = TPESampler.sample_relative

    def sample_relative(self, *arguments):
        proposed.append(original(self, *arguments))
        return proposed[-1]

    monkeypatch.setattr(TPESampler, "sample_relative", sample_relative)
    run(tmp_path, Bowl(), 9, mode="efficient")
    names = [set(each) for each in proposed]  # Optuna may leave out the first trials, with nothing to propose from
    assert names[-4:] == [set(sp.learner("np").space)] * 4
    assert not any(names[:-4])


def test_failed_trials_cost_what_they_took(tmp_path):
    study = Study(tmp_path, "sinusoid", "np", 2, Protocol())
    study.tell(study.ask(), told(1.0))
    error = {"type": "TimeLimit", "message": "not done after 30 seconds"}
    study.tell(study.ask(), {"status": "failed", "error": error, "seconds": {"wall": 30.0}})
    selection = study.select()
    study.close()
    assert [trial["seconds"] for trial in selection.trials] == [1.0, 30.0]
    assert selection.seconds == 31.0


def test_a_value_that_is_no_number_is_the_worst(tmp_path):
    study = Study(tmp_path, "sinusoid", "np", 2, Protocol())
    study.tell(study.ask(), told(math.nan))
    study.tell(study.ask(), told(1.0))
    assert study.ask() is None  # it is not tried again, which would never end
    assert study.select().value == 1.0
    study.close()


def test_a_torn_journal_is_repaired(tmp_path):
    run(tmp_path, Bowl(), 3)
    (journal,) = (tmp_path / "tuning").glob("*.journal")
    journal.write_bytes(journal.read_bytes() + b'{"op_code":4,"wor')
    assert len(run(tmp_path, Bowl(), 5).trials) == 5


class Hare:
    """Any change of the settings is better than the defaults in a short run; in a long one only if `steady`."""

    def __init__(self, steady: bool):
        self.steady, self.cells = steady, []

    def __call__(self, cell: Cell) -> dict:
        self.cells.append(cell)
        short = "training.steps" in cell.overrides
        changed = bool({*cell.overrides} - {"training.steps"})
        value = 1.0 - changed if short or self.steady else 1.0 + changed
        return {"summary": {"nll": value, "log_score": value}, "tasks": {"nll": [value]}, "seconds": {"wall": 1.0}}


@pytest.mark.parametrize("steady", [True, False])
def test_a_winner_of_short_trials_must_beat_the_defaults_in_full(tmp_path, steady):
    hare = Hare(steady)
    selection = run(tmp_path, hare, 3, iterations=0.1)
    assert selection.settings
    final = run_off(tmp_path, selection, InlineRunner(hare))
    assert len(hare.cells) == 5
    assert all((cell.part, cell.seed) == ("valid", SEED) for cell in hare.cells)
    assert final.settings == (selection.settings if steady else {})
    assert final.protocol["in_full"] == {"selected": 0.0 if steady else 2.0, "defaults": 1.0}
    assert run_off(tmp_path, selection, InlineRunner(hare)) == final
    assert len(hare.cells) == 5  # the two are on record
    assert Results.load(tmp_path).entries == {}  # and in no table
    assert run_off(tmp_path, replace(selection, settings={}), InlineRunner(hare)).settings == {}
    assert len(hare.cells) == 5


def test_protocols_do_not_mix(tmp_path):
    run(tmp_path, Bowl(), 3)
    other = Bowl()
    run(tmp_path, other, 3, iterations=0.1)
    assert [cell.overrides["training.steps"] for cell in other.cells] == [1000] * 3


def test_random_configurations_come_from_the_whole_space(tmp_path):
    bowl = Bowl()
    run(tmp_path, bowl, 60)
    space = sp.learner("np").space
    found = {name: [cell.overrides[name] for cell in bowl.cells[1:]] for name in space}
    for name, values in found.items():
        dimension = space[name]
        if isinstance(dimension, Choice):
            assert set(values) == set(dimension.options)
        else:
            assert isinstance(dimension, Range)
            share = np.log(np.array(values) / dimension.low) / np.log(dimension.high / dimension.low)
            assert 0 <= share.min() < 0.15 < 0.85 < share.max() <= 1
            assert abs(share.mean() - 0.5) < 4 / np.sqrt(12 * len(values))


def test_methods_without_settings_have_nothing_to_tune(tmp_path):
    with pytest.raises(NothingToTuneError, match="last-value has no settings"):
        Study(tmp_path, "sinusoid", "last-value", 3, Protocol())


class Untouchable:
    """Test tasks that tell if anybody looks at them."""

    def __getattribute__(self, name: str):
        raise AssertionError(f"a test task was read: {name}")

    def __len__(self) -> int:
        raise AssertionError("the test tasks were counted")


@pytest.fixture
def guarded(monkeypatch):
    small = sp.environment("sinusoid")
    small = replace(small, meta_valid=small.meta_valid.take(range(3)), meta_test=Untouchable())
    monkeypatch.setattr(work, "environment", lambda name, split: small)
    work._environment.cache_clear()
    monkeypatch.setattr(Ridge, "space", {"strengths": Choice(((1.0,), (10.0, 100.0)))}, raising=False)
    yield small
    work._environment.cache_clear()


def test_tuning_never_reads_a_test_task(tmp_path, guarded):
    study = Study(tmp_path, "sinusoid", "ridge", 3, Protocol())
    states = [record["status"] for record in tune(study, InlineRunner(work.run_cell))]
    assert states == ["done"] * 3
    study.close()
    # The guard itself works: a run on test tasks reads them.
    record = next(iter(InlineRunner(work.run_cell).map([Cell.of("sinusoid", "ridge", 0, {})])))[1]
    assert record["error"]["type"] == "AssertionError"


def test_a_record_is_what_evaluate_says(monkeypatch):
    whole = sp.environment("sinusoid")
    small = replace(whole, meta_test=whole.meta_test.take(range(4)))
    monkeypatch.setattr(work, "environment", lambda name, split: small)
    work._environment.cache_clear()
    record = work.run_cell(Cell.of("sinusoid", "ridge", 3, {"strengths": (1.0,)}))
    work._environment.cache_clear()
    frame = sp.evaluate(sp.learner("ridge", strengths=(1.0,)), small, 3)
    expected = sp.summarise(frame).iloc[0].drop(["fit_seconds", "condition_seconds"])
    assert record["summary"] == pytest.approx(expected.to_dict(), rel=1e-5)
    assert record["tasks"]["rmse"] == pytest.approx(frame["rmse"].tolist(), rel=1e-4)
    assert record["config"] == {"strengths": (1.0,)}
    assert record["seconds"]["wall"] >= record["seconds"]["fit"] > 0
    assert record["points"] is None
    assert set(record["made"]) == {"revision", "versions", "machine", "date"}


def test_only_iterations_are_cut():
    cut = reduced("fbnn-gp", {"inference.learning_rate": 0.1}, 0.5)
    assert cut == {"inference.learning_rate": 0.1, "process.training.steps": 150, "inference.steps": 300}
    assert reduced("maml", {}, 0.5) == {"training.steps": 3000}  # its inner steps are what it is
    assert reduced("vanilla-bnn", {"inference.steps": 30}, 0.1)["inference.steps"] == 20
    assert reduced("pacoh-nn", {"training.steps": 6000}, 0.5) == {"training.steps": 3000, "target_steps": 150}
    assert reduced("ridge", {}, 0.5) == {}
    with pytest.raises(ValueError, match="share"):
        reduced("np", {}, 0.0)
