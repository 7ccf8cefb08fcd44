"""Tables as people have them: what is read, what is refused, and what the refusal says."""

from __future__ import annotations

import builtins
import os
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from scoreprior.tasks import TaskError, TaskSet
from scoreprior.tasks import files as tables
from scoreprior.tasks.files import ColumnError, Table, TableError, read_table


def put(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


def read(path: Path, **options: object) -> Table:
    return read_table(path, ["hour", "gcs"], label="patient", **options)  # type: ignore[arg-type]


def message(path: Path, **options: object) -> str:
    with pytest.raises(TableError) as caught:
        read(path, **options)
    text = str(caught.value)
    assert str(path) in text
    assert text.endswith((".", "?"))
    assert "\n" not in text
    return text


PLAIN = "patient,note,hour,gcs\na,ok,0,15\na,,6.5,14\nb,ok,2,\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "readings.csv"


def test_a_plain_table(file):
    table = read(put(file, PLAIN))
    assert table.labels == ["a", "a", "b"]
    np.testing.assert_array_equal(table.numbers, [[0, 15], [6.5, 14], [2, np.nan]])
    assert table.rows.tolist() == [2, 3, 4]
    assert table.names == ("hour", "gcs")
    assert table.notes == ()


VARIANTS = {
    "bom": (lambda text: text, "utf-8-sig"),
    "utf-16": (lambda text: text, "utf-16"),
    "windows line ends": (lambda text: text.replace("\n", "\r\n"), "utf-8"),
    "old mac line ends": (lambda text: text.replace("\n", "\r"), "utf-8"),
    "semicolons": (lambda text: text.replace(",", ";"), "utf-8"),
    "tabs": (lambda text: text.replace(",", "\t"), "utf-8"),
    "decimal commas": (lambda text: text.replace(",", ";").replace("6.5", "6,5"), "utf-8-sig"),
    "excel's sep": (lambda text: "sep=;\r\n" + text.replace(",", ";"), "utf-8"),
    "quoted decimal comma": (lambda text: text.replace("6.5", '"6,5"'), "utf-8"),
    "quotes": (lambda text: text.replace("a,ok", '"a","o, k"'), "utf-8"),
    "windows-1252": (lambda text: text.replace("note", "température"), "cp1252"),
    "spaces": (lambda text: text.replace(",", " , "), "utf-8"),
    "no final newline": (lambda text: text.rstrip("\n"), "utf-8"),
    "trailing separators": (lambda text: text.replace("\n", ",,\n"), "utf-8"),
}


@pytest.mark.parametrize(("change", "encoding"), VARIANTS.values(), ids=VARIANTS)
def test_variants_read_the_same(file, change, encoding):
    expected = read(put(file, PLAIN))
    table = read(put(file, change(PLAIN), encoding))
    assert table.labels == expected.labels
    np.testing.assert_array_equal(table.numbers, expected.numbers)


def test_what_was_taken_for_granted_is_noted(file):
    table = read(put(file, PLAIN.replace(",", ";").replace("6.5", "6,5")))
    assert any("semicolons" in note for note in table.notes)
    assert any("Decimal commas" in note and "'hour'" in note for note in table.notes)
    assert any("Windows-1252" in note for note in read(put(file, PLAIN.replace("ok", "é"), "cp1252")).notes)


def test_rows_are_numbered_as_in_a_spreadsheet(file):
    table = read(put(file, 'patient,note,hour,gcs\n\na,"two\nlines",0,15\n\nb,,1,14\n\n'))
    assert table.rows.tolist() == [3, 5]
    assert "row 5" in message(put(file, "patient,hour,gcs\na,0,15\n\n\nb,1,bad\na,2,15\n"))


@pytest.mark.parametrize("text", ["", "NA", "n/a", "NaN", "null", "-", "?", " "])
def test_missing_values_are_nan(file, text):
    assert np.isnan(read(put(file, f"patient,hour,gcs\na,0,15\na,1,{text}\n")).numbers[1, 1])


def test_short_rows_lack_their_last_cells(file):
    assert np.isnan(read(put(file, "patient,hour,gcs\na,0,15\na,1\n")).numbers[1, 1])


def test_rows_that_are_too_long_are_refused(file):
    text = message(put(file, "patient,hour,gcs\na,0,15\na,1,5,14\n"))
    assert "row 3 has 4 cells" in text
    assert "decimal commas" in text


def test_decimal_commas_that_may_be_thousands_are_refused(file):
    assert "thousands" in message(put(file, "patient;hour;gcs\na;0;1,500\na;1;2,250\n"))
    assert read(put(file, "patient;hour;gcs\na;0;1,500\na;1;2,25\n")).numbers[:, 1].tolist() == [1.5, 2.25]
    assert "mixes decimal commas and points" in message(put(file, "patient;hour;gcs\na;0;1,5\na;1;2.5\n"))


def test_text_and_dates_are_refused_with_advice(file):
    text = message(put(file, "patient,hour,gcs\na,0,mild\na,1,severe\n"))
    assert "'gcs' holds text ('mild' in row 2)" in text
    for date in (
        "2024-03-01",
        "2024-03-01 10:30",
        "2024-03-01T10:30:00Z",
        "1/3/2024",
        "01.03.2024",
        "10:30",
        "3 Mar 2024",
    ):
        text = message(put(file, f"patient,hour,gcs\na,{date},15\n"))
        assert "dates or times" in text
        assert "hours since the task began" in text
    text = message(put(file, "patient,hour,gcs\na,0,15\na,1,<5\na,2,14\na,3,13\na,4,<3\n"))
    assert "'<5' in row 3" in text
    assert "2 such cells" in text
    assert "1_000" in message(put(file, "patient,hour,gcs\na,0,1_000\n"))


def test_columns_that_are_not_there(file):
    with pytest.raises(ColumnError, match="did you mean 'GCS'"):
        read(put(file, "patient,hour,GCS\na,0,15\n"))
    with pytest.raises(ColumnError, match="the columns are 'patient', 'hour', 'score'"):
        read(put(file, "patient,hour,score\na,0,15\n"))
    with pytest.raises(ColumnError, match="first line seems to hold data"):
        read(put(file, "1,0,15\n1,1,14\n"))


def test_the_label_may_be_optional(file):
    assert read(put(file, "hour,gcs\n0,15\n"), need_label=False).labels is None
    assert "did you mean 'Patient'" in message(put(file, "Patient,hour,gcs\na,0,15\n"), need_label=False)
    assert "no column 'patient'" in message(put(file, "hour,gcs\n0,15\n"))


def test_duplicate_headers(file):
    assert "'gcs' appears 2 times" in message(put(file, "patient,hour,gcs,gcs\na,0,15,14\n"))
    assert len(read(put(file, "patient,hour,gcs,note,note\na,0,15,x,y\n"))) == 1


def test_no_rows_and_nothing_at_all(file):
    assert "no rows" in message(put(file, "patient,hour,gcs\n"))
    assert len(read(put(file, "patient,hour,gcs\n"), need_rows=False)) == 0
    assert "empty" in message(put(file, ""))
    assert "blank lines" in message(put(file, "\n \n\n"))


def test_binary_files(file):
    for head, word in ((b"PK\x03\x04", "Excel"), (b"\x1f\x8b\x08", "compressed"), (b"\x89PNG\r\n\x1a\n\0\0", "binary")):
        file.write_bytes(head + bytes(range(256)))
        assert word in message(file)
    file.write_bytes(b"patient,hour,gcs\n" + bytes(range(256)) * 10)
    assert "binary" in message(file)


def test_an_open_quotation_mark(file):
    assert "quotation mark" in message(put(file, 'patient,hour,gcs\na,0,15\n"a,1,14\na,2,13\n'))


def test_directories_and_missing_files(tmp_path):
    assert "it is a directory" in message(tmp_path)
    assert "No such file" in message(tmp_path / "none.csv")
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in message(tmp_path / "pipe")


def test_no_permission(file, monkeypatch):
    put(file, PLAIN)
    if os.geteuid() != 0:
        file.chmod(0)
        assert "Permission denied" in message(file)
        file.chmod(0o600)

    def refuse(path, *args, **kwargs):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(builtins, "open", refuse)
    assert "Permission denied" in message(file)


def test_parquet_reads_the_same_as_csv(file, tmp_path):
    expected = read(put(file, PLAIN))
    frame = pd.read_csv(file)
    path = tmp_path / "readings.parquet"
    frame.to_parquet(path)
    table = read(path)
    assert table.labels == expected.labels
    np.testing.assert_array_equal(table.numbers, expected.numbers)
    frame.assign(gcs=["15", "1,5", None], patient=[1, 2, 3]).to_parquet(path)
    np.testing.assert_array_equal(read(path).numbers[:, 1], [15, 1.5, np.nan])
    assert read(path).labels == ["1", "2", "3"]
    frame.assign(hour=pd.to_datetime(["2024-01-01"] * 3)).to_parquet(path)
    assert "dates or times" in message(path)
    frame.assign(gcs=[[1], [2], [3]]).to_parquet(path)
    assert "holds list" in message(path)
    path.write_bytes(path.read_bytes()[:200])
    assert "damaged Parquet" in message(path)


def test_labels_of_a_parquet_file_are_those_of_a_csv_file(file, tmp_path):
    path = tmp_path / "readings.parquet"
    pd.DataFrame({"patient": ["a", " a ", " ", None], "hour": [0, 1, 2, 3], "gcs": [15] * 4}).to_parquet(path)
    assert read(path).labels == ["a", "a", "", ""]
    assert read(put(file, "patient,hour,gcs\na,0,15\n a ,1,15\n ,2,15\n,3,15\n")).labels == ["a", "a", "", ""]


def test_a_file_becomes_tasks_in_one_call(file):
    options = {"task": "patient", "inputs": "hour", "target": "gcs"}
    put(file, "patient;hour;gcs\nb;3;1,5\na;0;2\nb;1;3\na;;4\n;2;5\nlost;7;\n")
    with pytest.raises(TaskError, match=r"Column 'patient' is missing in row 6 \(1 such rows\)"):
        TaskSet.from_file(file, **options)
    with pytest.warns(UserWarning, match="were left out") as said:
        tasks = TaskSet.from_file(str(file), missing="drop", **options)
    assert [str(each.message).split(" and")[0] for each in said] == [
        "1 rows are without 'patient'",
        "1 tasks have no complete row",
    ]
    assert [(task.name, task.x.ravel().tolist(), task.y.tolist()) for task in tasks] == [
        ("b", [1, 3], [3, 1.5]),
        ("a", [0], [2]),
    ]
    assert (tasks.input_names, tasks.target_name) == (("hour",), "gcs")
    put(file, "patient,hour,gcs\na,0,15\na,1,NA\n")
    with pytest.raises(TaskError, match=r"Column 'gcs' is nan in row 3 \(task 'a'\); 1 rows are incomplete"):
        TaskSet.from_file(file, **options)
    with pytest.raises(TaskError, match="Column 'hour' is used twice"):
        TaskSet.from_file(file, **(options | {"target": "hour"}))
    with pytest.raises(ColumnError, match="no column 'day'"):
        TaskSet.from_file(file, **(options | {"inputs": "day"}))


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    path = tmp_path / "readings.parquet"
    pd.DataFrame({"patient": ["a"], "hour": [0], "gcs": [15]}).to_parquet(path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install" in message(path)


def test_the_limit_of_rows_holds_for_csv_and_parquet(file, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MOST_ROWS", 3)
    assert len(read(put(file, PLAIN))) == 3
    assert "rows" in message(put(file, PLAIN + "b,ok,3,12\n"))
    path = tmp_path / "readings.parquet"
    pd.read_csv(file).to_parquet(path)
    assert "rows" in message(path)


@pytest.mark.slow
def test_ten_million_rows_neither_hang_nor_fill_the_memory(file):
    block = "".join(f"p{i % 1000},{i},{i % 13}\n" for i in range(100_000)).encode()
    with open(file, "wb") as out:
        out.write(b"patient,hour,gcs\n")
        for _ in range(100):
            out.write(block)
    tracemalloc.start()
    started = time.process_time()
    text = message(file)
    seconds, (_, peak) = time.process_time() - started, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "more than 1,000,000 rows" in text
    assert "few hundred rows of every task" in text
    assert peak < 300e6
    assert seconds < 60
