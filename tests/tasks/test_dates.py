"""Dates: what is read, what is refused with which words, and the way back to text."""

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_tasks import fast

from scoreprior.tasks.dates import DateError, choose_unit, date_texts, instants, looks_like_a_date, moment

zones = st.none() | st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@fast
@given(st.datetimes(datetime(1700, 1, 1), datetime(2300, 1, 1)), zones)
def test_a_time_is_the_same_from_text_and_from_python_and_comes_back(time, zone):
    time = time.replace(tzinfo=zone)
    found = moment(time)
    assert found == moment(time.isoformat()) == moment(time.isoformat(sep=" "))
    assert found.zoned == (zone is not None)
    (text,) = date_texts(np.array([found.microseconds], "datetime64[us]"), found.zoned)
    assert datetime.fromisoformat(text) == (time if zone is None else time.astimezone(UTC))
    assert moment(text) == found


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2024-03-01", "2024-03-01T00:00:00"),
        ("2024-03", "2024-03-01T00:00:00"),
        ("2024-03-01 14:30", "2024-03-01T14:30:00"),
        ("2024-03-01T14:30:05.25", "2024-03-01T14:30:05.250000"),
        ("2024-03-01T14:30:00Z", "2024-03-01T14:30:00"),
        ("2024-03-01 14:30 UTC", "2024-03-01T14:30:00"),
        ("2024-03-01 00:30+02:00", "2024-02-29T22:30:00"),
        (date(2024, 3, 1), "2024-03-01T00:00:00"),
        (pd.Timestamp("2024-03-01 00:30", tz="Europe/Berlin"), "2024-02-29T23:30:00"),
    ],
)
def test_dates_are_read_in_utc_where_they_have_a_zone(value, expected):
    assert np.datetime64(moment(value).microseconds, "us") == np.datetime64(expected, "us")


@pytest.mark.parametrize("text", ["1/3/2024", "01.03.2024", "10:30", "3 Mar 2024", "2024-13-01", "2024-02-30 10:00"])
def test_what_is_meant_as_a_date_but_is_none_is_refused_with_its_row(text):
    assert looks_like_a_date(text)
    with pytest.raises(DateError, match=f"column 'when' holds dates, but '{text}' in row 7 cannot be read"):
        instants("when", ["2024-03-01", None, text], [5, 6, 7])


@pytest.mark.parametrize("text", ["20240301", "A-12", "2024", "1.5", "b 3-4"])
def test_numbers_and_words_are_no_dates(text):
    assert not looks_like_a_date(text)
    assert moment(text) is None


def test_several_time_zones_are_one_utc_but_none_and_one_are_refused():
    values, zoned = instants("when", ["2024-03-01 12:00+02:00", "2024-03-01T10:00Z", None], [2, 3, 4])
    assert zoned
    assert values[0] == values[1] == np.datetime64("2024-03-01T10:00")
    assert np.isnat(values[2])
    for order in (1, -1):
        texts, rows = ["2024-03-01 12:00Z", "2024-03-02 12:00"][::order], [2, 3][::order]
        with pytest.raises(DateError, match="'2024-03-02 12:00' in row 3, '2024-03-01 12:00Z' in row 2"):
            instants("when", texts, rows)


def test_texts_are_no_longer_than_needed():
    def texts(*values, zoned=False):
        return date_texts(np.array(values, "datetime64[us]"), zoned)

    assert texts("2024-03-01", "NaT") == ["2024-03-01", ""]
    assert texts("2024-03-01", "2024-03-01T10:30") == ["2024-03-01T00:00:00", "2024-03-01T10:30:00"]
    assert texts("2024-03-01T10:30:00.5") == ["2024-03-01T10:30:00.500000"]
    assert texts("2024-03-01", zoned=True) == ["2024-03-01T00:00:00Z"]


@pytest.mark.parametrize(
    ("step", "unit"),
    [("7D", "days"), ("1D", "days"), ("23h", "hours"), ("1h", "hours"), ("30min", "minutes"), ("59s", "seconds")],
)
def test_the_unit_is_that_of_the_typical_step(step, unit):
    micros = pd.Timedelta(step) // pd.Timedelta("1us")
    assert choose_unit(np.array([micros, micros, 100 * micros, 1])) == unit
    assert choose_unit(np.array([])) == "days"
