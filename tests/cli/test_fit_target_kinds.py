"""Kinds of targets on the command line: options, suggestions, and that the other commands need not be told."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from own_table import run

from scoreprior.cli._target_kinds import suggestion
from scoreprior.serialization import load_prior
from scoreprior.tasks import BinaryRate, Bounded, Count, Positive, Real

COLUMNS = ("--task", "patient", "--inputs", "hour", "--target", "score")


@pytest.fixture
def scores(tmp_path, no_gp):
    """A score from 3 to 15, often 15."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"patient": np.repeat([f"p{i}" for i in range(15)], 6), "hour": np.tile(np.arange(6.0), 15)})
    level = np.repeat(rng.normal(13, 3, 15), 6) + rng.normal(size=90)
    frame["score"] = np.clip(np.round(level), 3, 15)
    path = tmp_path / "scores.csv"
    frame.to_csv(path, index=False)
    return path


def fit(table, *options):
    out = table.with_name("a.prior")
    return out, run("fit", table, *COLUMNS, "--out", out, "--method", "ridge", *options)


@pytest.mark.slow
def test_a_bounded_target_is_remembered_and_predicted_within_its_bounds(scores):
    prior, result = fit(scores, "--target-kind", "bounded", "--bounds", "3,15")
    assert result.exit_code == 0, result.output
    assert "--target-kind" not in result.output  # nothing is suggested to who has chosen
    assert load_prior(prior).standardizer.kind == Bounded(3, 15)
    new, out = scores.with_name("new.csv"), scores.with_name("out.csv")
    new.write_text("patient,hour,score\na,0,15\na,1,15\nb,0,4\n")
    result = run("predict", prior, new, "--out", out, "--plot", scores.with_name("out.png"))
    assert result.exit_code == 0, result.output
    found = pd.read_csv(out)
    quantiles = found[["q5", "q25", "q50", "q75", "q95"]].to_numpy()
    assert ((quantiles >= 3) & (quantiles <= 15) & (quantiles == np.round(quantiles))).all()
    assert found["mean"].between(3, 15).all()
    result = run("inspect", prior, "--json")
    assert json.loads(result.stdout)["kind of target"] == "bounded by 3 and 15"
    assert json.loads(result.stdout)["noise"] is None
    result = run("check", prior, scores, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["width90"] <= 12


def test_without_the_option_a_sentence_suggests_one_and_nothing_is_switched(scores):
    prior, result = fit(scores)
    assert result.exit_code == 0, result.output
    assert "are exactly 15, the largest" in result.stderr
    assert "--target-kind bounded --bounds" in result.stderr
    assert load_prior(prior).standardizer.kind == Real()
    _, result = fit(scores, "--target-kind", "real")
    assert "--target-kind" not in result.output


def test_values_outside_the_bounds_are_named_with_their_task(scores):
    prior, result = fit(scores, "--target-kind", "bounded", "--bounds", "3,14")
    assert result.exit_code == 1
    assert not prior.exists()
    assert "bounded by 3 and 14, but y of p" in result.stderr
    prior, _ = fit(scores, "--target-kind", "bounded", "--bounds", "3,15")
    new = scores.with_name("new.csv")
    new.write_text("patient,hour,score\nodd,0,15\nodd,1,99\n")
    for command in ("predict", "check"):
        result = run(command, prior, new)
        assert result.exit_code == 1
        assert "y of odd is 99" in result.stderr


@pytest.mark.parametrize(
    "options",
    [
        ("--target-kind", "bounded"),
        ("--bounds", "3,15"),
        ("--target-kind", "count", "--bounds", "3,15"),
        ("--target-kind", "bounded", "--bounds", "15"),
        ("--target-kind", "bounded", "--bounds", "15,3"),
        ("--target-kind", "bounded", "--bounds", "a,b"),
        ("--target-kind", "ordinal"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(scores, options):
    prior, result = fit(scores, *options)
    assert result.exit_code == 2
    assert not prior.exists()


@pytest.mark.parametrize(
    ("name", "kind", "values"),
    [
        ("positive", Positive(), [0.5, 7.25, 90.0]),
        ("count", Count(), [0, 2, 9]),
        ("binary-rate", BinaryRate(), [0, 0.3, 1]),
    ],
)
def test_the_other_kinds_are_fitted_too(scores, name, kind, values):
    frame = pd.read_csv(scores)
    frame["score"] = np.resize(values, len(frame))
    frame.to_csv(scores, index=False)
    prior, result = fit(scores, "--target-kind", name, "--no-hold-out")
    assert result.exit_code == 0, result.output
    assert load_prior(prior).standardizer.kind == kind


def test_suggestions_are_made_where_values_look_like_a_kind():
    rng = np.random.default_rng(0)
    assert "--target-kind count" in suggestion(rng.poisson(2.0, 500).astype(float), "sales")
    assert "--target-kind positive" in suggestion(rng.lognormal(0, 2, 500), "dose")
    bounded = suggestion(np.clip(rng.normal(80, 40, 500), 0, 100), "effect")
    assert "--bounds 0,100" in bounded
    assert suggestion(rng.normal(size=500), "y") is None
    assert suggestion(rng.lognormal(3, 0.2, 500), "height") is None
    assert suggestion(np.ones(10), "y") is None
