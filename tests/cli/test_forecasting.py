"""Forecasts in the commands: rolling origins in `fit`, the next rows in `predict`, and what is flagged."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from own_table import run

SALES = ("--task", "product", "--inputs", "date,town", "--target", "sold")


def sales(products: int = 8, days: int = 28, start: str = "2024-01-01") -> pd.DataFrame:
    rng = np.random.default_rng(0)
    dates = pd.date_range(start, periods=days)
    frames = [
        pd.DataFrame({"product": f"p{i}", "date": dates, "town": "north" if i % 2 else "south"}).assign(
            sold=(5 + i + rng.normal(size=days)).round(2)
        )
        for i in range(products)
    ]
    return pd.concat(frames, ignore_index=True)


def write(path: Path, frame: pd.DataFrame) -> Path:
    frame.to_csv(path, index=False)
    return path


def fit(table: Path, *options: object):
    out = table.with_suffix(".prior")
    return out, run("fit", table, *options, "--out", out, "--method", "ridge")


def predicted(*arguments: object) -> tuple[pd.DataFrame, str]:
    result = run("predict", *arguments)
    assert result.exit_code == 0, result.output
    return pd.read_csv(io.StringIO(result.stdout)), result.stderr


@pytest.fixture
def prior(tmp_path, no_gp):
    out, result = fit(write(tmp_path / "sales.csv", sales()), *SALES, "--horizon", 7)
    assert result.exit_code == 0, result.output
    assert "with the phase of the week" in result.stderr
    assert "the next 7 rows of a task along 'date'" in result.stderr
    assert "at up to 3 origins" in result.stdout
    return out


def test_predict_goes_on_and_flags_only_what_is_too_far_ahead(prior, tmp_path):
    known = write(tmp_path / "so-far.csv", sales(2))
    frame, said = predicted(prior, known)
    assert frame["date"].tolist() == [*map(str, pd.date_range("2024-01-29", periods=7).date)] * 2
    assert frame["town"].tolist() == ["south"] * 7 + ["north"] * 7
    assert not frame["extrapolates"].any()
    assert "do not rely" not in said
    later = pd.concat([sales(1, 9, "2024-01-29"), sales(1, 1, "2023-12-31")])
    frame, said = predicted(prior, known, "--at", write(tmp_path / "at.csv", later))
    assert frame["extrapolates"].tolist() == [False] * 7 + [True] * 3
    assert "3 predictions outside the range of training, or more than 7 rows ahead" in said
    # Years later time has gone on; an unknown town is as unlike training as ever.
    moved = sales(1, 10, "2026-06-01").assign(town="west")
    frame, _ = predicted(prior, write(tmp_path / "moved.csv", sales(1, 10, "2026-06-01")))
    assert not frame["extrapolates"].any()
    frame, _ = predicted(prior, write(tmp_path / "moved.csv", moved))
    assert frame["extrapolates"].all()


@pytest.mark.slow
def test_check_judges_forecasts(prior, tmp_path):
    result = run("check", prior, write(tmp_path / "later.csv", sales(6, 40, "2024-02-01")))
    assert result.exit_code == 0, result.output
    assert "6 tasks, 126 points predicted from the rows before, 7 rows ahead" in result.stdout
    result = run("check", prior, write(tmp_path / "short.csv", sales(6, 7)))
    assert result.exit_code == 2
    assert "has more than 7 rows" in result.output


def test_a_forecast_needs_something_to_go_on_from(prior, tmp_path):
    result = run("predict", prior)
    assert result.exit_code == 2
    assert "give a table of them, or the rows to predict with --at" in result.output
    gone = sales(2)
    gone.loc[gone["product"] == "p1", "sold"] = np.nan
    frame, said = predicted(prior, write(tmp_path / "gaps.csv", gone))
    assert set(frame["product"]) == {"p0"}
    assert "1 task without a known row" in said


@pytest.mark.slow
def test_an_input_that_changes_must_be_told(tmp_path, no_gp):
    table = sales()
    table["price"] = np.arange(len(table)) % 5
    columns = ("--task", "product", "--inputs", "date,price", "--target", "sold")
    out, result = fit(write(tmp_path / "prices.csv", table), *columns, "--horizon", 3, "--cycle", "none")
    assert result.exit_code == 0, result.output
    assert "price changes within tasks" in result.stderr
    assert "phase" not in result.stderr
    result = run("predict", out, tmp_path / "prices.csv")
    assert result.exit_code == 2
    assert "What 'price' will be is not known" in result.output


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--horizon", 28), "No task has more than 28 rows"),
        (("--horizon", 0), "--horizon"),
        (("--time", "date"), "give --horizon"),
        (("--horizon", 7, "--time", "sold"), "--time sold is none of the inputs"),
        (("--horizon", 7, "--time", "town"), "holds words, which are no time"),
        (("--horizon", 7, "--order", "rows"), "leave out --order rows"),
    ],
)
def test_what_cannot_be_forecast_is_refused_in_a_sentence(tmp_path, options, told):
    table = sales().sample(frac=1, random_state=0)
    _, result = fit(write(tmp_path / "sales.csv", table), *SALES, *options)
    assert result.exit_code in (1, 2)
    assert told in result.output
    assert "Traceback" not in result.output


def test_rows_in_no_order_have_no_time(tmp_path):
    table = sales().assign(level=np.random.default_rng(0).normal(size=224))
    columns = ("--task", "product", "--inputs", "level", "--target", "sold")
    _, result = fit(write(tmp_path / "levels.csv", table), *columns, "--horizon", 7)
    assert result.exit_code in (1, 2)
    assert "not known which of them is time" in result.output
