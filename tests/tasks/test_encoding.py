"""Dates and categories as inputs: fitted to one table, frozen, and the same however a table is stored."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_tasks import fast

import scoreprior as sp
from scoreprior.tasks import TaskSet
from scoreprior.tasks.columns import Instants
from scoreprior.tasks.input_kinds import DateInput

SINCE_MONDAY = "2024-01-01"


def sales(days: int = 10, shops: int = 4, start: str = SINCE_MONDAY, step: str = "1D") -> pd.DataFrame:
    """Shops in two towns with a date per row, in no order."""
    rows = [
        {"shop": f"s{shop}", "date": when, "town": "north" if shop % 2 else "south", "sold": shop + day / 8}
        for shop in range(shops)
        for day, when in enumerate(pd.date_range(start, periods=days, freq=step))
    ]
    return pd.DataFrame(rows).sample(frac=1, random_state=0, ignore_index=True)


def read(table, inputs=("date", "town"), **options):
    reader = TaskSet.from_file if hasattr(table, "suffix") else TaskSet.from_frame
    return reader(table, task="shop", inputs=list(inputs), target="sold", **options)


def assert_same(a: TaskSet, b: TaskSet) -> None:
    assert a.encoding == b.encoding
    assert a.input_names == b.input_names
    assert [task.name for task in a] == [task.name for task in b]
    np.testing.assert_array_equal(a.x, b.x)
    np.testing.assert_array_equal(a.y, b.y)


def test_a_date_is_time_since_the_first_one_and_words_are_indicators():
    tasks = read(sales())
    assert tasks.input_names == ("date", "town=north", "town=south")
    first = next(task for task in tasks if task.name == "s1")
    np.testing.assert_array_equal(first.x, [[day, 1, 0] for day in range(10)])
    assert tasks.encoding.kinds == ("date", "category")
    assert tasks.encoding.inputs[0] == DateInput("date", "days", SINCE_MONDAY, whole_days=True)
    assert tasks.take([0, 1])[:1].encoding == tasks.encoding
    assert tasks.context_target(0.5).context.encoding == tasks.encoding


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("options", [{}, {"cycles": ["week", "year"]}, {"since": "task"}], ids=str)
def test_csv_parquet_and_frames_of_all_libraries_give_the_same_tasks(tmp_path, zone, options):
    """Across the change to summer time, where a zone's offset changes."""
    frame = sales(start="2024-03-25 06:30", step="13h")
    frame["date"] = frame["date"].dt.tz_localize(zone)
    expected = read(frame, **options)
    frame.to_csv(tmp_path / "sales.csv", index=False)
    frame.to_parquet(tmp_path / "sales.parquet")
    frame.assign(date=frame["date"].astype(str)).to_parquet(tmp_path / "text.parquet")
    tables = [tmp_path / "sales.csv", tmp_path / "sales.parquet", tmp_path / "text.parquet", pl.from_pandas(frame)]
    tables += [pa.Table.from_pandas(frame), frame.astype(object), frame.astype({"town": "category", "date": str})]
    for table in tables:
        assert_same(read(table, **options), expected)


def test_plain_dates_of_all_libraries_are_read_alike(tmp_path):
    frame = sales()
    polars = pl.from_pandas(frame).with_columns(pl.col("date").cast(pl.Date))
    polars.write_parquet(tmp_path / "sales.parquet")
    polars.write_csv(tmp_path / "sales.csv")
    python = frame.assign(date=frame["date"].dt.date)
    for table in (polars, polars.to_arrow(), python, tmp_path / "sales.parquet", tmp_path / "sales.csv"):
        assert_same(read(table), read(frame))


def test_missing_dates_and_words_are_dropped_alike(tmp_path):
    frame = sales()
    frame.loc[[1, 7], "date"] = pd.NaT
    frame.loc[[2, 7], "town"] = None
    with pytest.raises(sp.TaskError, match=r"Column 'date' is nan in row 1 .*; 3 rows are incomplete"):
        read(frame)
    expected = read(frame, missing="drop")
    assert expected.sizes.sum() == len(frame) - 3
    frame.to_csv(tmp_path / "sales.csv", index=False)
    frame.to_parquet(tmp_path / "sales.parquet")
    arrow = frame.convert_dtypes(dtype_backend="pyarrow")
    for table in (tmp_path / "sales.csv", tmp_path / "sales.parquet", pl.from_pandas(frame), arrow):
        assert_same(read(table, missing="drop"), expected)


def test_a_category_without_a_complete_row_is_none(tmp_path):
    frame = sales()
    frame.loc[frame["shop"] == "s3", ["town", "sold"]] = ["east", np.nan]
    with pytest.warns(UserWarning, match="1 tasks have no complete row") as said:
        tasks = read(frame, missing="drop")
    assert tasks.encoding.inputs[1].categories == ("north", "south")
    assert len(said) == 1


def test_a_category_of_held_out_tasks_alone_is_no_constant_input():
    tasks = read(sales().assign(town=lambda t: t["shop"].map({"s0": "a", "s1": "b", "s2": "b", "s3": "c"})))
    rest = tasks.take([at for at, task in enumerate(tasks) if task.name != "s3"])
    assert (rest.x[:, 3] == 0).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sp.Standardizer.fit(rest)
    with pytest.warns(UserWarning, match="Input 'town=x' is constant"):
        sp.Standardizer.fit(read(sales().assign(town="x")))


units = st.sampled_from(["days", "hours", "minutes", "seconds"])
near = st.datetimes(pd.Timestamp("1980-01-01").to_pydatetime(), pd.Timestamp("2070-01-01").to_pydatetime())


@fast
@given(st.lists(near, min_size=1, max_size=5), near, units, st.booleans())
def test_encoded_dates_are_decoded_to_the_microsecond(times, start, unit, from_task):
    values, begin = np.array(times, "datetime64[us]"), np.datetime64(start, "us")
    date = DateInput("date", unit, None if from_task else str(begin))
    elapsed = date.encode(Instants(values), np.full(len(values), begin))[:, 0]
    np.testing.assert_array_equal(date.decode(elapsed, begin).values, values)


def test_the_phase_of_each_cycle_runs_once_through_it():
    frame = sales(start="2024-01-01", step="6h", days=4 * 366)
    tasks = read(frame, ["date"], cycles=["day", "week", "year"], most_points=None)
    assert tasks.input_names[1:3] == ("date: sine of day", "date: cosine of day")
    x = tasks[0].x
    for at, period in ((1, 4), (3, 28), (5, 4 * 366)):
        phase = 2 * np.pi * np.arange(len(x)) / period
        np.testing.assert_allclose(x[:, at : at + 2], np.column_stack([np.sin(phase), np.cos(phase)]), atol=1e-9)


def test_cycles_that_mean_nothing_are_refused():
    for cycles, message in (
        (["month"], "no cycle 'month'"),
        (["week", "week"], "named twice"),
        (["day"], "no time of"),
    ):
        with pytest.raises(sp.TaskError, match=message):
            read(sales(), cycles=cycles)
    with pytest.raises(sp.TaskError, match=r"since must be .* not 'birth'"):
        read(sales(), since="birth")
    assert read(sales(), cycles="week").encoding == read(sales(), cycles=["week"]).encoding
    with pytest.raises(sp.TaskError, match="no column of dates among 'town'"):
        read(sales(), ["town"], cycles=["week"])


def test_time_is_counted_from_first_rows_where_tasks_began_apart():
    one, far = sales(days=3), sales(days=3)
    far["date"] += pd.to_timedelta(100 * far["shop"].str[1:].astype(int), unit="D")
    assert read(one).encoding.inputs[0].reference == SINCE_MONDAY
    tasks = read(far)
    assert tasks.encoding.counts_from_tasks
    for task in tasks:
        np.testing.assert_array_equal(task.x[:, 0], [0, 1, 2])
    assert read(far, since="calendar").encoding.inputs[0].reference == SINCE_MONDAY
    born = one.assign(date=pd.to_datetime("2024-01-01") + pd.to_timedelta(one["shop"].str[1:].astype(int), unit="D"))
    assert not read(born, ["date"]).encoding.counts_from_tasks  # the same in every row of a task


def test_a_new_table_is_read_as_the_first_one():
    tasks = read(sales(), cycles=["week"])
    later = sales(days=2, start="2024-02-05 12:00")
    later.loc[later["shop"] == "s0", "town"] = "west"
    with pytest.warns(UserWarning, match="Column 'town' has categories that were not in training: 'west'") as said:
        new = read(later, encoding=tasks.encoding)
    assert said[0].filename == __file__
    assert new.encoding == tasks.encoding
    shop = next(task for task in new if task.name == "s0")
    np.testing.assert_array_equal(shop.x[:, [0, 3, 4]], [[35.5, 0, 0], [36.5, 0, 0]])
    assert tasks.encoding.unseen(shop.x).all()
    assert not tasks.encoding.unseen(tasks.x).any()
    with pytest.raises(sp.TaskError, match="The encoding has 2 input columns, but 1 are named"):
        read(later, ["date"], encoding=tasks.encoding)
    with pytest.raises(sp.TaskError, match="but not both"):
        read(later, encoding=tasks.encoding, cycles=["week"])
    with pytest.raises(sp.TaskError, match=r"dates of column 'date' have time zones, but .* have none"):
        read(sales().assign(date=lambda t: t["date"].dt.tz_localize("UTC")), encoding=tasks.encoding)


def test_categories_of_a_new_table_may_look_like_numbers(tmp_path):
    frame = sales().assign(town=lambda t: t["shop"].map({"s0": "1", "s1": "2a", "s2": "3b", "s3": "3b"}))
    tasks = read(frame)
    new = frame[frame["shop"] == "s0"]
    new.to_csv(tmp_path / "new.csv", index=False)
    for table in (new, tmp_path / "new.csv"):
        assert (read(table, encoding=tasks.encoding).x[:, 1:] == [1, 0, 0]).all()


def test_a_prior_keeps_the_encoding_and_encodes_frames(tmp_path):
    frame = sales()
    prior = sp.learner("ridge").fit(read(frame), 0)
    prior.save(tmp_path / "sales.prior")
    loaded = sp.load_prior(tmp_path / "sales.prior")
    assert loaded.encoding == prior.encoding == read(frame).encoding
    query = pd.DataFrame({"town": ["south", "east"], "date": ["2024-01-03", "2024-01-09 12:00"]})
    with pytest.warns(UserWarning, match="not in training: 'east'"):
        x = loaded.encode(query)
    np.testing.assert_array_equal(x, [[2, 0, 1], [8.5, 0, 0]])
    plain = sp.TaskSet.from_arrays([[0.0, 1.0]] * 2, [[0.0, 1.0]] * 2)
    with pytest.raises(sp.TaskError, match="learned from arrays"):
        sp.learner("ridge").fit(plain, 0).encode(query)


def test_a_task_that_began_earlier_is_encoded_from_its_start():
    prior = sp.learner("ridge").fit(read(sales(), ["date"], since="task"), 0)
    query = pd.DataFrame({"date": ["2030-05-03", "2030-05-04"]})
    np.testing.assert_array_equal(prior.encode(query)[:, 0], [0, 1])
    np.testing.assert_array_equal(prior.encode(query, start="2030-05-01")[:, 0], [2, 3])
    with pytest.raises(sp.TaskError, match="start must be a date, not 'May'"):
        prior.encode(query, start="May")


def test_rare_categories_are_as_far_from_the_others_as_frequent_ones():
    frame = sales(shops=20)
    frame["town"] = frame["shop"].map(lambda shop: "rare" if shop == "s0" else "north" if shop < "s15" else "south")
    scaler = sp.Standardizer.fit(read(frame, ["town"]))
    corners = scaler.scale_x(np.eye(3))
    distances = np.linalg.norm(corners[:, None] - corners[None], axis=2)[np.triu_indices(3, 1)]
    np.testing.assert_allclose(distances, distances[0])


def test_rows_are_in_order_of_the_first_input_that_is_no_category():
    tasks = read(sales(), ["town", "date"])
    assert all((np.diff(task.x[:, 2]) > 0).all() for task in tasks)
    rows = read(sales(), ["town"])
    assert [list(task.y) for task in rows] == [list(task.y) for task in read(sales(), ["town"], order="rows")]


@pytest.mark.parametrize(
    ("town", "message"),
    [
        (lambda t: t["shop"] + "town", "another text for each of 4 tasks: tasks share no category. Leave it out"),
        (lambda t: [f"t{row}" for row in range(len(t))], "another text in each of 40 rows"),
        (lambda t: t["sold"].map(lambda value: "low" if value == 0 else value), r"is not numeric: row .* holds 'low'"),
    ],
    ids=["tasks", "rows", "mostly numbers"],
)
def test_text_that_is_no_category_is_refused_with_advice(town, message):
    with pytest.raises(sp.TaskError, match=message):
        read(sales().assign(town=town))
    many = sales(days=60).assign(town=lambda t: "t" + (t.index % 51).astype(str))
    with pytest.raises(sp.TaskError, match=r"text with 51 different values .* more than the 50 .* merge rare"):
        read(many)


def test_a_table_of_words_and_few_numbers_is_one_of_categories(tmp_path):
    """As many numbers as words is no table of numbers; `none` is a word, a blank is none."""
    frame = sales().assign(town=lambda t: t["shop"].map({"s0": "1", "s1": "2", "s2": "none", "s3": "x"}))
    frame.loc[0, "town"] = None
    frame.loc[frame["shop"] == "s1", "town"] = "x"
    frame.to_csv(tmp_path / "sales.csv", index=False)
    tasks = read(tmp_path / "sales.csv", missing="drop")
    assert tasks.input_names[1:] == ("town=1", "town=none", "town=x")
    assert tasks.sizes.sum() == len(frame) - 1
    assert_same(read(frame, missing="drop"), tasks)
    with pytest.raises(sp.TaskError, match="Column 'town' is nan in row 2"):
        read(tmp_path / "sales.csv")


def test_truth_values_are_numbers_in_files_and_frames(tmp_path):
    frame = sales().assign(town=lambda t: t["shop"] < "s2")
    frame.to_csv(tmp_path / "sales.csv", index=False)
    assert_same(read(tmp_path / "sales.csv"), read(frame))
    assert read(frame).encoding.kinds == ("date", "number")


def test_unreadable_dates_are_refused_with_row_and_value(tmp_path):
    for cell in ("soon", "13/01/2024", "45000", "2024-02-30"):
        frame = sales().astype({"date": str})
        frame.loc[3, "date"] = cell
        with pytest.raises(sp.TaskError, match=f"^Column 'date' holds dates, but '{cell}' in row 3"):
            read(frame)
        frame.to_csv(tmp_path / "sales.csv", index=False)
        with pytest.raises(ValueError, match=f"sales.csv.*column 'date' holds dates, but '{cell}' in row 5"):
            read(tmp_path / "sales.csv")


def test_numbers_alone_are_read_as_before_and_known_by_name():
    frame = sales().assign(date=lambda t: t.index / 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tasks = read(frame, ["date"])
    assert tasks.encoding == sp.tasks.InputEncoding.of_numbers(["date"])
    assert tasks.input_names == ("date",)
