"""What docs/results.md says of the guard against unlike tasks is what results/guard.json holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
RECORDS: list[dict[str, Any]] = json.loads((ROOT / "results" / "guard.json").read_text())["records"]


def table() -> str:
    """Without and with the guard, on related and on unlike tasks."""
    lines = ["| validation tasks | flagged | RMSE | log score | in the 90% interval |", "|---|---|---|---|---|"]
    for record in RECORDS:
        pairs = [f"{record[m]:.3f}, {record[f'{m}_guarded']:.3f}" for m in ("rmse", "log_score")]
        inside = f"{record['coverage90']:.0%}, {record['coverage90_guarded']:.0%}"
        lines.append(
            f"| {record['environment']}, {record['kind']} | {record['flagged']:.0%} | {' | '.join(pairs)} | {inside} |"
        )
    return "\n".join(lines)


def test_the_table_is_that_of_the_record():
    page = (ROOT / "docs" / "results.md").read_text()
    assert page.split("<!-- guard -->")[1].split("<!-- /guard -->")[0].strip() == table()


@pytest.mark.parametrize("metric", ["rmse", "log_score", "crps"])
def test_related_tasks_are_not_worse_by_a_standard_error(metric):
    for record in RECORDS:
        if record["kind"] == "related":
            assert record[f"{metric}_guarded"] - record[metric] < record[f"{metric}_se"]


def test_unlike_tasks_are_covered_better():
    for record in RECORDS:
        if record["kind"] == "unlike":
            assert record["coverage90_guarded"] > record["coverage90"]
            assert record["log_score_guarded"] < record["log_score"]
