"""Which column is time, and how it goes on."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import scoreprior as sp


def read(frame: pd.DataFrame, inputs="when", **options) -> sp.TaskSet:
    return sp.TaskSet.from_frame(frame, task="who", inputs=inputs, target="y", **({"time": True} | options))


def table(dates, people: int = 3) -> pd.DataFrame:
    frames = [pd.DataFrame({"who": f"p{i}", "when": dates, "y": np.arange(len(dates))}) for i in range(people)]
    return pd.concat(frames, ignore_index=True)


@pytest.mark.parametrize(
    "dates",
    [
        pd.date_range("2024-01-01", periods=30),
        pd.date_range("2024-01-01", periods=30, freq="B"),
        pd.date_range("2024-01-01", periods=30, freq="MS"),
        pd.date_range("2024-01-31", periods=30, freq="ME"),
        pd.date_range("2024-01-01", periods=12, freq="QS"),
        pd.date_range("2024-01-01", periods=30, freq="W"),
        pd.date_range("2024-01-01 06:00", periods=30, freq="15min"),
    ],
)
def test_dates_go_on_as_pandas_continues_them(dates):
    axis = read(table(dates)).encoding.time
    expected = pd.date_range(dates[-1], periods=15, freq=dates.freq)[1:]
    found = axis.ahead(dates[-1].to_datetime64().astype("datetime64[us]"), 14)
    np.testing.assert_array_equal(found, expected.to_numpy("datetime64[us]"))
    assert (expected[-1] - dates[-1]).total_seconds() <= axis.longest(14)


def test_dates_come_before_numbers_and_numbers_must_rise():
    rng = np.random.default_rng(0)
    frame = table(pd.date_range("2024-01-01", periods=8)).assign(level=rng.normal(size=24), hour=np.tile(range(8), 3))
    assert read(frame, ["hour", "level", "when"]).encoding.time.column == "when"
    found = read(frame, ["level", "hour"])
    assert found.encoding.time.column == "hour"
    assert found.encoding.time.step == 1
    assert found.encoding.time.varying == ("level",)
    np.testing.assert_array_equal(found[0].x[:, 1], np.arange(8))
    np.testing.assert_array_equal(found.encoding.time.ahead(7.0, 3), [8, 9, 10])
    with pytest.raises(sp.TaskError, match="it is not known which of them is time"):
        read(frame, ["level"])
    named = read(frame, ["hour", "level"], time="level")
    assert (np.diff(named[0].x[:, 1]) > 0).all()
    with pytest.raises(sp.TaskError, match="must be one of the inputs"):
        read(frame, ["hour"], time="level")
    with pytest.raises(sp.TaskError, match="holds words, which are no time"):
        read(frame.assign(town=["a", "b"] * 12), ["hour", "town"], time="town")
    with pytest.raises(sp.TaskError, match="time has no step"):
        read(frame.assign(hour=1), ["hour"], time="hour")


@pytest.mark.parametrize(
    ("dates", "expected"),
    [
        (pd.date_range("2024-01-01", periods=28), ("week",)),
        (pd.date_range("2024-01-01", periods=13), ()),
        (pd.date_range("2024-01-01", periods=48, freq="h"), ("day",)),
        (pd.date_range("2024-01-01", periods=24, freq="MS"), ("year",)),
        (pd.date_range("2024-01-01", periods=800), ("week", "year")),
    ],
)
def test_cycles_are_made_where_they_can_be_seen(dates, expected):
    assert read(table(dates), cycles="auto", most_points=None).encoding.inputs[0].cycles == expected


def test_of_a_long_task_the_last_rows_are_used():
    with pytest.warns(UserWarning, match="of which 5 each, the last, are used"):
        tasks = read(table(pd.date_range("2024-01-01", periods=12)), most_points=5)
    np.testing.assert_array_equal(tasks[0].y, np.arange(7, 12))
