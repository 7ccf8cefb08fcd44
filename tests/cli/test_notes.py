"""What a prior's file says of the table that it was fitted to."""

import pytest

from scoreprior.cli._notes import read_notes


@pytest.mark.parametrize(("written", "read"), [("input", "input"), ("rows", "rows"), ("file", "rows"), (None, "input")])
def test_the_order_of_rows_is_understood_in_older_files_too(written, read):
    columns = {"task": "patient", "inputs": ["hour"], "target": "gcs"} | ({"order": written} if written else {})
    notes = read_notes({"extra": {"columns": columns}}, 1)
    assert notes.columns is not None
    assert notes.columns.order == read
