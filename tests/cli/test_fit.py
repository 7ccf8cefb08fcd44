"""`scoreprior fit`: what it understands, compares, warns of, writes and refuses."""

from __future__ import annotations

import errno
import json
import os

import numpy as np
import pandas as pd
import pytest
from own_table import COLUMNS, rows, run

import scoreprior as sp
from scoreprior import diagnostics
from scoreprior.cli import _comparison
from scoreprior.cli._judgement import QUICK_SHARE, choose
from scoreprior.evaluation import METRICS
from scoreprior.serialization import describe


def test_it_says_what_it_understood_compares_and_writes(table, no_gp):
    lines = table.read_text().splitlines()
    lines += ["p1,,fine,12", "p2,3,fine,", ",4,fine,10", "lost,5,fine,NA"]
    table.write_text("\n".join(lines))
    out = table.with_name("gcs.prior")
    result = run("fit", table, *COLUMNS, "--out", out, "--method", "ridge")
    assert result.exit_code == 0, result.output
    for text in ("12 tasks (by 'patient')", "input  hour: 0 to", "target gcs:", "1 row without patient"):
        assert text in result.stderr
    for text in (
        "1 row without hour",
        "2 rows without gcs",
        "1 task without a complete row: lost",
        "predict tasks left out",
    ):
        assert text in result.stderr
    for text in ("ridge", "last-value", "context-mean", "RMSE", "NLL", "90%", f"Wrote {out}"):
        assert text in result.stdout
    assert "newest-lag" not in result.stdout
    assert sorted(path.name for path in table.parent.iterdir()) == ["gcs.prior", "readings.csv"]


def test_the_prior_is_of_all_tasks_and_its_file_tells_the_rest(table, no_gp):
    out = table.with_name("gcs.prior")
    result = run("fit", table, *COLUMNS, "--out", out, "--method", "ridge", "--json", "--seed", 3)
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    header = describe(out)
    assert header["method"] == "ridge"
    columns = {name: value for name, value in header["extra"]["columns"].items() if value is not None}
    assert columns == {"task": "patient", "inputs": ["hour"], "target": "gcs", "order": "input"}
    assert header["extra"]["training"]["tasks"] == record["tasks"] == 12
    assert header["extra"]["held_out"] == record["held_out"]
    assert (record["held_out"]["tasks"], record["held_out"]["folds"]) == (10, 5)
    assert set(record["held_out"]["methods"]) == {"ridge", "last-value", "context-mean"}
    frame = pd.read_csv(table).sort_values(["patient", "hour"], kind="stable")
    assert header["domain"] == {"low": [frame["hour"].min()], "high": [frame["hour"].max()]}
    tasks = sp.TaskSet.from_frame(frame, task="patient", inputs="hour", target="gcs")
    expected = sp.learner("ridge").fit(tasks, 3).condition([1.0], [9.0], 0).predict([[5.0]])
    found = sp.load_prior(out).unguarded.condition([1.0], [9.0], 0).predict([[5.0]])
    # The same tasks in another order: sums differ in their last bits.
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-5)


def test_held_out_metrics_are_those_of_a_fit_to_the_other_tasks(table, no_gp):
    out = table.with_name("gcs.prior")
    arguments = ("fit", table, *COLUMNS, "--out", out, "--method", "ridge", "--folds", 1, "--json")
    record = json.loads(run(*arguments).stdout)
    frame = pd.read_csv(table)
    names = list(dict.fromkeys(frame["patient"]))
    held = np.random.default_rng(0).permutation(len(names))[:2]
    frame = frame.sort_values("hour", kind="stable")
    tasks = {name: sp.Task(part[["hour"]], part["gcs"], name) for name, part in frame.groupby("patient")}
    prior = sp.learner("last-value").fit(sp.TaskSet([tasks[n] for i, n in enumerate(names) if i not in held]), 0)
    errors = []
    for task in (tasks[names[i]] for i in held):
        known = min(max(round(len(task) / 2), 1), len(task) - 1)
        mean = prior.condition(task.x[:known], task.y[:known], 0).predict(task.x[known:]).mean
        errors.append(np.sqrt(np.mean((mean - task.y[known:]) ** 2)))
    assert record["held_out"]["methods"]["last-value"]["rmse"] == pytest.approx(np.mean(errors), rel=1e-5)


def words_of(nll_lower_by: float = 0.0, **errors: list[float]) -> list[str]:
    """The warnings on tasks with these errors; the first method's NLL is its error less so much."""
    frames = []
    for name, values in errors.items():
        rows = pd.DataFrame(dict.fromkeys(METRICS, values))
        rows["nll"] -= nll_lower_by if not frames else 0.0
        rows = rows.assign(coverage90=0.9, n_target=1, pit=[np.array([0.5])] * len(values))
        frames.append(rows.assign(method=name, position=range(len(values)), fit_seconds=0.0, condition_seconds=0.0))
    return _comparison.rule_words(diagnostics.Comparison(next(iter(errors)), pd.concat(frames, ignore_index=True)))


def test_the_warning_is_a_paired_comparison():
    method, rule = [1.0, 2.0, 3.0, 4.0], "last-value"
    # Worse by 0.5 on every task: no doubt, though tasks differ far more than that.
    assert words_of(**{"mars-gp": method, rule: [1.5, 2.5, 3.5, 4.5]}) == []
    # Gaps -0.1, -0.3, 0.3, 0.1: mean 0 and se 0.129.
    assert "is about as good as mars-gp" in words_of(**{"mars-gp": method, rule: [1.1, 2.3, 2.7, 3.9]})[0]
    (text,) = words_of(**{"mars-gp": method, rule: [0.5, 1.5, 2.5, 3.5]})
    assert "Carrying the last value forward (last-value) beats mars-gp" in text
    assert "error 2 against 2.5" in text
    assert "--method last-value" in text


def test_names_keep_their_capitals():
    texts = words_of(**{"mars-gp": [2.0, 2.0, 3.0], "pooled-gp": [1.0, 2.0, 2.9]})
    assert texts[0].startswith("One Gaussian process for all tasks (pooled-gp)")


def test_better_error_bars_are_said_even_where_the_rule_wins():
    texts = words_of(1.0, **{"mars-gp": [1.0, 2.0, 3.0], "ridge": [1.0, 2.0, 2.9]})
    assert "error bars of mars-gp are better, though (NLL lower by 0.97)" in texts[0]


def test_every_rule_has_words():
    assert tuple(_comparison.RULES) == diagnostics.RULES


@pytest.mark.slow
def test_a_rule_that_wins_is_told_on_stderr_and_in_json(table, no_gp):
    result = run("fit", table, *COLUMNS, "--out", table.with_name("p"), "--method", "context-mean", "--json")
    assert any("A straight line (ridge) beats context-mean" in text for text in json.loads(result.stdout)["warnings"])
    assert "Warning: A straight line (ridge) beats context-mean" in result.stderr


def test_the_result_says_how_sure_it_is(table, no_gp):
    result = run("fit", table, *COLUMNS, "--out", table.with_name("p"), "--method", "ridge", "--json")
    row = json.loads(result.stdout)["held_out"]["methods"]["ridge"]
    assert row["coverage90_low"] < row["coverage90"] < row["coverage90_high"]
    record = {"tasks": 45, "points": 90, "methods": {"ridge": row | {"rmse": 3.4, "rmse_se": 0.3, "coverage90": 0.89}}}
    record["methods"]["ridge"] |= {"coverage90_low": 0.84, "coverage90_high": 0.93}
    text = "ridge: RMSE 3.4 ± 0.3, 90% intervals hold 89% (84 to 93%) of the points of 45 left-out tasks."
    assert _comparison.shown(record, "ridge", "gcs")[1] == text


def test_a_budget_that_gains_nothing_is_said():
    def scored(method: str, values: list[float]) -> diagnostics.Comparison:
        rows = pd.DataFrame({"log_score": values, "rmse": values, "coverage90": 0.9, "n_target": 1})
        return diagnostics.Comparison(method, rows.assign(method=method, position=range(len(values))))

    quick = scored("--quick", [1.0, 2.0, 3.0, 4.0])
    text = _comparison.budget_words(scored("mars-gp", [1.1, 1.9, 3.0, 4.0, 99.0]), quick)
    assert "The full budget of mars-gp is no better than --quick on 4 left-out tasks" in text
    assert _comparison.budget_words(scored("mars-gp", [0.5, 1.5, 2.5, 3.5]), quick) is None


@pytest.mark.slow
def test_auto_chooses_and_says_why(table, no_gp, monkeypatch):
    monkeypatch.setattr("scoreprior.cli._judgement.CANDIDATES", ("last-value", "ridge"))
    out = table.with_name("gcs.prior")
    result = run("fit", table, *COLUMNS, "--out", out, "--method", "auto", "--json")
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    tasks = sp.TaskSet.from_file(table, task="patient", inputs="hour", target="gcs")
    choice = sp.Auto(("last-value", "context-mean", "ridge")).choose(tasks, 0)
    assert record["method"] == describe(out)["method"] == choice.name
    assert record["reason"] == describe(out)["extra"]["reason"] == choice.reason
    assert set(record["held_out"]["methods"]) == {"last-value", "context-mean", "ridge"}


def test_auto_needs_left_out_tasks(table):
    result = run("fit", table, *COLUMNS, "--out", table.with_name("p"), "--method", "auto", "--no-hold-out")
    assert result.exit_code == 2
    assert "chooses by left-out tasks" in result.stderr


@pytest.mark.parametrize(("spread", "warned"), [(50, True), (1, False)])
def test_error_bars_too_narrow_for_the_held_out_tasks_are_said(table, no_gp, spread, warned):
    """Wild tasks that no training task is like: the table shows the coverage, and a sentence says what it means."""
    names = [f"p{i:02}" for i in range(30)]
    held = set(np.random.default_rng(0).permutation(len(names))[:6])
    rng = np.random.default_rng(1)
    lines = [
        f"{name},{hour},{10 + rng.normal(0, spread if i in held else 1):.3f}"
        for i, name in enumerate(names)
        for hour in range(10)
    ]
    table.write_text("\n".join(["patient,hour,gcs", *lines]))
    arguments = ("fit", table, *COLUMNS, "--out", table.with_name("p"), "--method", "ridge", "--folds", 1, "--json")
    record = json.loads(run(*arguments).stdout)
    row = record["held_out"]["methods"]["ridge"]
    assert (row["coverage90"] < 0.7) is warned
    said = [text for text in record["warnings"] if "error bars of ridge are too narrow" in text]
    assert len(said) == warned
    assert all(f"{row['coverage90']:.0%} of the points" in text for text in said)


@pytest.mark.parametrize(
    ("coverage", "error", "words"),
    [
        (0.6, 0.05, "are too narrow"),
        (0.6, 0.2, "may be chance"),
        (0.85, 0.2, None),
        (0.9, 0.02, None),
        (np.nan, np.nan, None),
    ],
)
def test_low_coverage_is_told_even_where_it_may_be_chance(coverage, error, words):
    texts = _comparison.narrow_words("ridge", diagnostics.Coverage(coverage, error, tasks=7, points=100))
    assert len(texts) == (words is not None)
    assert all(words in text and "60% of the points" in text for text in texts)


@pytest.mark.slow
def test_the_newest_lag_is_a_rule_for_lags_alone(table, no_gp):
    """An input of the target's size is not a lag, unless the user says that rows stand in their own order."""
    lines = [f"p{task},{hour},{hour + task / 9:.3f}" for task in range(8) for hour in range(6)]
    table.write_text("\n".join(["patient,hour,gcs", *lines]))
    arguments = ("fit", table, *COLUMNS, "--out", table.with_name("p"), "--method", "ridge", "--json")
    found = [json.loads(run(*arguments, "--order", order).stdout) for order in ("input", "rows")]
    assert ["newest-lag" in each["held_out"]["methods"] for each in found] == [False, True]


def test_too_few_tasks_are_fitted_with_a_warning(table, no_gp):
    table.write_text("\n".join(["patient,hour,mood,gcs", *rows(4)]))
    result = run("fit", table, *COLUMNS, "--out", table.with_name("p"), "--method", "ridge", "--json")
    record = json.loads(result.stdout)
    assert result.exit_code == 0
    assert record["held_out"] is None
    assert any("too few to hold some out" in text for text in record["warnings"])


def test_one_task_is_refused_with_a_hint(table):
    table.write_text("\n".join(["patient,hour,mood,gcs", *rows(1)]))
    result = run("fit", table, *COLUMNS, "--out", table.with_name("p"))
    assert result.exit_code == 2
    assert "Is 'patient' the column" in result.stderr


@pytest.mark.slow
def test_long_tasks_are_thinned_and_that_is_said(table, no_gp):
    lines = [f"p{task},{hour},,{hour % 7 + task}" for task in range(6) for hour in range(230)]
    table.write_text("\n".join(["patient,hour,mood,gcs", *lines]))
    result = run("fit", table, *COLUMNS, "--out", table.with_name("p"), "--method", "last-value", "--json")
    record = json.loads(result.stdout)
    assert record["points"] == 6 * 200
    assert any("6 tasks" in text and "more than 200 points" in text for text in record["warnings"])


def test_quiet_prints_the_result_alone(table, no_gp):
    result = run("fit", table, *COLUMNS, "--out", table.with_name("p"), "--method", "ridge", "--quiet")
    assert all(line.startswith("Warning: ") for line in result.stderr.splitlines())
    assert "RMSE" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--task", "patient", "--inputs", "hour", "--target", "hour"), "used twice"),
        (("--task", "patient", "--inputs", "hour,", "--target", "gcs"), "name of a column"),
        (("--task", "patient", "--inputs", "day", "--target", "gcs"), "no column 'day'"),
        ((*COLUMNS, "--method", "magic"), "no method 'magic'"),
    ],
)
def test_wrong_calls_exit_with_two(table, arguments, words):
    result = run("fit", table, "--out", table.with_name("p"), *arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_bad_places_are_found_before_any_work(table):
    for out, words in (
        (table.parent, "it is a directory"),
        (table.with_name("none") / "p", "there is no directory"),
        (table, "read and written"),
    ):
        result = run("fit", table, *COLUMNS, "--out", out)
        assert result.exit_code == 2
        assert words in result.stderr
    assert run("fit", table.with_name("no.csv"), *COLUMNS, "--out", table.with_name("p")).exit_code == 2
    assert run("fit", table, "--task", "patient").exit_code == 2


def test_only_a_prior_is_replaced_by_a_prior(table, no_gp):
    other = table.with_name("other.csv")
    other.write_text("years of work\n")
    result = run("fit", table, *COLUMNS, "--out", other, "--method", "ridge")
    assert result.exit_code == 2
    assert "other.csv' exists and is no prior file" in result.stderr
    assert other.read_text() == "years of work\n"
    out = table.with_name("gcs.prior")
    for method in ("ridge", "last-value"):
        assert run("fit", table, *COLUMNS, "--out", out, "--method", method, "--no-hold-out").exit_code == 0
    assert describe(out)["method"] == "last-value"


def test_the_largest_seed_works_and_a_larger_one_is_refused(table):
    arguments = ("fit", table, *COLUMNS, "--out", table.with_name("p"), "--method", "last-value", "--no-hold-out")
    assert run(*arguments, "--seed", 2**31 - 1).exit_code == 0
    assert run(*arguments, "--seed", 2**31).exit_code == 2
    assert run(*arguments, "--seed", "abc").exit_code == 2


def test_text_and_dates_name_the_file_row_and_column(table):
    columns = ("--task", "patient", "--inputs", "hour", "--target", "mood")
    for mood, words in (("fine", "holds text"), ("2024-03-01 08:15", "holds dates or times")):
        table.write_text("\n".join(["patient,hour,mood,gcs", *rows()]).replace("fine", mood))
        result = run("fit", table, *columns, "--out", table.with_name("p"))
        assert result.exit_code == 1
        assert all(text in result.stderr for text in ("readings.csv", "'mood'", "row 2", repr(mood), words))
        assert "Traceback" not in result.output


def test_a_full_disk_leaves_nothing_behind(table, no_gp, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    out = table.with_name("gcs.prior")
    assert run("fit", table, *COLUMNS, "--out", out, "--method", "last-value", "--no-hold-out").exit_code == 0
    old = out.read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    result = run("fit", table, *COLUMNS, "--out", out, "--method", "ridge", "--no-hold-out", "--json")
    assert result.exit_code == 1
    assert "No space left on device" in json.loads(result.stdout)["error"]
    assert out.read_bytes() == old
    assert sorted(path.name for path in table.parent.iterdir()) == ["gcs.prior", "readings.csv"]


def test_a_traceback_comes_with_debug_only(table, monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("boom")

    monkeypatch.setattr("scoreprior.cli.fit.read_tasks", broken)
    result = run("fit", table, *COLUMNS, "--out", table.with_name("p"))
    assert result.exit_code == 1
    assert "Unexpected RuntimeError: boom" in result.stderr
    assert "--debug" in result.stderr
    assert isinstance(run("fit", table, *COLUMNS, "--out", table.with_name("p"), "--debug").exception, RuntimeError)


@pytest.mark.slow
def test_the_librarys_own_warnings_are_told_once(table, no_gp):
    lines = [line.rsplit(",", 1)[0] + ",7" for line in rows(6)]
    table.write_text("\n".join(["patient,hour,mood,gcs", *lines]))
    result = run("fit", table, *COLUMNS, "--out", table.with_name("p"), "--method", "context-mean", "--quiet")
    assert result.exit_code == 0, result.output
    assert result.stderr.count("Target gcs is constant") == 1


def test_quick_makes_methods_cheaper():
    assert choose("maml", False) == sp.learner("maml")
    assert choose("maml", True) == sp.learner("maml").with_budget(QUICK_SHARE)
    assert choose("maml", True).training.steps == sp.learner("maml").training.steps // 4
    assert choose("ridge", True) == sp.learner("ridge")


@pytest.mark.slow
def test_mars_from_a_table_with_everything_it_has_to_beat(table):
    out = table.with_name("gcs.prior")
    result = run("fit", table, *COLUMNS, "--out", out, "--quick", "--json")
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    assert {"mars-gp", "pooled-gp", "last-value"} <= set(record["held_out"]["methods"])
    # Lines of their own slope: a method that has seen others extends them, a rule that stays put cannot.
    scores = record["held_out"]["methods"]
    assert scores["mars-gp"]["rmse"] < 0.5 * scores["last-value"]["rmse"]
    assert describe(out)["extra"]["quick"] is True
