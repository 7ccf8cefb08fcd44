"""Dates and categories in the commands, from `fit` to `inspect`: a table of daily sales and one of treated plants."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from own_table import run

import scoreprior as sp
from scoreprior.cli._tables import Columns, read_tasks

SALES = ("--task", "product", "--inputs", "date", "--target", "sold")
PLANTS = ("--task", "plant", "--inputs", "day,treatment", "--target", "cm")
LEVELS = {"control": 30.0, "shade": 20.0, "drought": 5.0}
WEEK = np.array([9.0, 8.0, 8.0, 10.0, 13.0, 16.0, 5.0])


def sales(products: int = 8, days: int = 28, start: str = "2024-01-01", seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    dates = pd.date_range(start, periods=days)
    frames = []
    for product in range(products):
        sold = rng.uniform(1, 5) * WEEK[dates.day_of_week] + rng.normal(0, 0.5, days)
        frames.append(pd.DataFrame({"product": f"p{product}", "date": dates, "sold": sold.round(2)}))
    return pd.concat(frames, ignore_index=True)


def plants(number: int = 12, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frames = []
    for plant in range(number):
        treatment, level = list(LEVELS.items())[plant % 3]
        day = np.sort(rng.choice(30, 6, replace=False))
        cm = level + day / 2 + rng.normal(0, 1) + rng.normal(0, 0.2, 6)
        frames.append(pd.DataFrame({"plant": f"p{plant}", "day": day, "treatment": treatment, "cm": cm.round(2)}))
    return pd.concat(frames, ignore_index=True)


def write(path: Path, frame: pd.DataFrame) -> Path:
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    return path


def fit(table: Path, *options: object) -> tuple[Path, str]:
    out = table.with_suffix(".prior")
    result = run("fit", table, *options, "--out", out, "--method", "ridge", "--no-hold-out")
    assert result.exit_code == 0, result.output
    return out, result.stderr


def frame_of(result) -> pd.DataFrame:
    assert result.exit_code == 0, result.output
    return pd.read_csv(io.StringIO(result.stdout))


@pytest.fixture
def sold(tmp_path):
    return fit(write(tmp_path / "sales.csv", sales()), *SALES, "--cycle", "week")[0]


def test_fit_says_what_it_took_dates_and_words_for(tmp_path, no_gp):
    _, said = fit(write(tmp_path / "sales.csv", sales()), *SALES, "--cycle", "week")
    expected = "(dates, taken as days since 2024-01-01, the same for all tasks, with the phase of the week)"
    assert f"input  date: 2024-01-01 to 2024-01-28 {expected}" in said
    _, said = fit(write(tmp_path / "plants.csv", plants()), *PLANTS)
    assert "input  treatment: text, taken as 3 categories: control, drought, shade, constant within tasks" in said
    moved = plants()
    moved.loc[0, "treatment"] = "shade"
    _, said = fit(write(tmp_path / "plants.csv", moved), *PLANTS)
    assert "control, drought, shade\n" in said


@pytest.mark.slow
def test_the_week_is_learned_and_dates_come_back(sold, tmp_path):
    new = sales(products=3, seed=1)
    known = write(tmp_path / "new.csv", new[new["date"] < "2024-01-15"])
    asked = new[new["date"] >= "2024-01-15"].reset_index(drop=True)
    at = write(tmp_path / "query.csv", asked.drop(columns="sold"))
    result = run("predict", sold, known, "--at", at)
    frame = frame_of(result)
    assert frame["date"].tolist() == asked["date"].astype(str).tolist()
    assert frame["product"].tolist() == asked["product"].tolist()
    assert not frame["extrapolates"].any()
    prior = sp.load_prior(sold)
    first = new[new["product"] == "p0"]
    posterior = prior.condition(prior.encode(first[:14]), first["sold"][:14], 0)
    expected = posterior.predict(prior.encode(first[14:]))
    np.testing.assert_allclose(frame["mean"][:14], expected.mean, rtol=1e-4)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_text_and_datetimes_predict_the_same(tmp_path, suffix, zone):
    def zoned(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(date=(frame["date"] + pd.Timedelta("6h")).dt.tz_localize(zone))

    prior, said = fit(write(tmp_path / f"sales.{suffix}", zoned(sales(days=10))), *SALES)
    assert ("dates in UTC" in said) == (zone is not None)
    new = zoned(sales(products=2, days=4, seed=1))
    text = new.assign(date=[when.isoformat() for when in new["date"]])
    tables = [write(tmp_path / "a.csv", text), write(tmp_path / "b.parquet", new), write(tmp_path / "c.parquet", text)]
    results = [run("predict", prior, table, "--at", table).stdout for table in tables]
    assert results[0] == results[1] == results[2]
    out = tmp_path / "out.parquet"
    assert run("predict", prior, tables[0], "--at", tables[1], "--out", out).exit_code == 0
    found = pd.read_parquet(out)["date"]
    pd.testing.assert_series_equal(
        found, new["date"] if zone is None else new["date"].dt.tz_convert("UTC"), check_dtype=False
    )
    assert frame_of(run("predict", prior, tables[0], "--at", out))["date"].tolist() == (
        [f"{when:%Y-%m-%dT%H:%M:%S}{'Z' if zone else ''}" for when in found]
    )


def test_a_grid_of_days_without_at(sold, tmp_path):
    known = write(tmp_path / "new.csv", sales(products=2, days=5))
    frame = frame_of(run("predict", sold, known))
    days = pd.date_range("2024-01-01", "2024-01-28").strftime("%Y-%m-%d").tolist()
    assert frame["date"].tolist() == days * 2
    assert frame["mean"].notna().all()
    assert frame_of(run("predict", sold))["date"].tolist() == days
    record = json.loads(run("predict", sold, known, "--json").stdout)
    assert record["predictions"][3]["date"] == "2024-01-04"


def test_dates_outside_training_and_new_categories_are_flagged(sold, tmp_path):
    at = tmp_path / "query.csv"
    at.write_text("date\n2024-01-02\n2024-02-20\n\n2023-12-31\n")
    result = run("predict", sold, "--at", at)
    assert [str(flag) for flag in frame_of(result)["extrapolates"]] == ["False", "True", "True"]
    at.write_text("product,date\np0,2024-01-02\np0,\n,2024-01-03\n")
    frame = frame_of(run("predict", sold, "--at", at))
    assert frame["mean"].isna().tolist() == [False, True, True]
    assert [str(cell) for cell in frame["date"]] == ["2024-01-02", "nan", "2024-01-03"]
    prior, _ = fit(write(tmp_path / "plants.csv", plants()), *PLANTS)
    at.write_text("plant,day,treatment\nx,3,shade\nx,3,salt\nx,31,shade\nx,3,\n")
    result = run("predict", prior, "--at", at)
    frame = frame_of(result)
    assert [str(flag) for flag in frame["extrapolates"]] == ["False", "True", "True", "nan"]
    assert frame["treatment"].fillna("").tolist() == ["shade", "salt", "shade", ""]
    assert result.stderr.count("categories that were not in training: 'salt'") == 1


@pytest.mark.slow
def test_the_prior_knows_the_treatments_and_check_reads_them(tmp_path):
    prior, _ = fit(write(tmp_path / "plants.csv", plants()), *PLANTS)
    at = tmp_path / "query.csv"
    at.write_text("plant,day,treatment\n" + "".join(f"x,10,{name}\n" for name in LEVELS))
    frame = frame_of(run("predict", prior, "--at", at))
    assert (frame["known_points"] == 0).all()
    np.testing.assert_allclose(frame["mean"], [level + 5 for level in LEVELS.values()], atol=2)
    odd = plants(seed=2).replace({"treatment": {"shade": "salt"}})
    record = json.loads(run("check", prior, write(tmp_path / "odd.csv", odd), "--json").stdout)
    assert record["extrapolating"] == 12  # three points of four plants
    assert any("'salt'" in text for text in record["warnings"])


@pytest.mark.slow
def test_inspect_shows_kinds_and_ranges(sold, tmp_path):
    result = run("inspect", sold, "--plot", tmp_path / "prior.png", "--data", tmp_path / "sales.csv")
    assert result.exit_code == 0, result.output
    assert "date: 2024-01-01 to 2024-01-28" in result.stdout
    assert "taken as days since 2024-01-01" in result.stdout
    assert "phase of the week" in result.stdout
    assert (tmp_path / "prior.png").read_bytes().startswith(b"\x89PNG")
    prior, _ = fit(write(tmp_path / "plants.csv", plants()), *PLANTS)
    record = json.loads(run("inspect", prior, "--json").stdout)
    assert record["inputs"] == ["day", "treatment"]
    assert list(record["range of training"]) == ["day"]
    assert record["input kinds"] == {"treatment": "text, taken as 3 categories: control, drought, shade"}
    known = write(tmp_path / "new.csv", sales(products=2, days=5))
    assert run("predict", sold, known, "--plot", tmp_path / "out.png", "--quiet").exit_code == 0


@pytest.mark.slow
def test_time_since_each_tasks_first_row(tmp_path):
    def apart(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(date=frame["date"] + pd.to_timedelta(90 * frame["product"].str[1:].astype(int), unit="D"))

    prior, said = fit(write(tmp_path / "sales.csv", apart(sales(days=6))), *SALES)
    assert "0 days to 5 days (dates, taken as days since each task's first date)" in said
    known = write(tmp_path / "new.csv", apart(sales(products=2, days=3, start="2030-01-01")))
    at = tmp_path / "query.csv"
    at.write_text("product,date\np1,2030-04-04\np0,2030-01-05\np0,2030-01-09\n")
    frame = frame_of(run("predict", prior, known, "--at", at))
    assert frame["extrapolates"].tolist() == [False, False, True]
    loaded, new = sp.load_prior(prior), pd.read_csv(known)
    posterior = loaded.condition([0.0, 1.0, 2.0], new["sold"][new["product"] == "p1"], 0)
    assert frame["mean"][0] == pytest.approx(posterior.predict([3.0]).mean[0], rel=1e-4)
    grid = frame_of(run("predict", prior, known))
    assert grid["date"].tolist()[:6] == [f"2030-01-0{day}" for day in range(1, 7)]
    assert grid["date"].tolist()[6] == "2030-04-01"
    result = run("predict", prior)
    assert result.exit_code == 2
    assert "counts from each task's first date" in result.stderr
    _, said = fit(tmp_path / "sales.csv", *SALES, "--since", "calendar")
    assert "since 2024-01-01, the same for all tasks" in said


def test_what_cannot_work_is_refused(tmp_path):
    table = write(tmp_path / "sales.csv", sales().astype({"date": str}).replace({"date": {"2024-01-03": "3/1/2024"}}))
    result = run("fit", table, *SALES, "--out", tmp_path / "p")
    assert result.exit_code == 1
    assert "'3/1/2024' in row 4 cannot be read" in result.stderr
    result = run("fit", table, *SALES, "--out", tmp_path / "p", "--cycle", "month")
    assert result.exit_code == 2
    assert "no cycle 'month'" in result.stderr
    prior, _ = fit(write(tmp_path / "plants.csv", plants()), *PLANTS)
    known = write(tmp_path / "new.csv", plants().assign(day="soon"))
    result = run("predict", prior, known)
    assert result.exit_code == 1
    assert "column 'day' holds text ('soon' in row 2), not numbers" in result.stderr
    result = run("predict", prior, write(known, plants()))
    assert result.exit_code == 2
    assert "This prior has 2 inputs: give the rows to predict with --at" in result.stderr


@pytest.mark.parametrize("options", [{}, {"cycles": ("week",)}, {"since": "task"}], ids=str)
def test_the_command_line_reads_as_from_file_does(tmp_path, options):
    table = write(tmp_path / "sales.csv", sales().assign(town=lambda t: np.where(t["product"] < "p3", "a", "b")))
    tasks = read_tasks(table, Columns("product", ("date", "town"), "sold"), **options)[0].tasks
    expected = sp.TaskSet.from_file(table, task="product", inputs=["date", "town"], target="sold", **options)
    assert tasks.encoding == expected.encoding
    assert tasks.input_names == expected.input_names
    np.testing.assert_array_equal(tasks.x, expected.x)
