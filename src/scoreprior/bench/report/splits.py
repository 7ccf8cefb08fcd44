"""Figures of other splits of the data beside those of the reported one: what of a finding is luck of the split."""

from __future__ import annotations

from scoreprior.bench.catalogue import GROUPS
from scoreprior.bench.report.results import Results, mean_and_spread
from scoreprior.bench.report.table import Row, Table, Value, shown

_METRICS = {"rmse": "RMSE", "nll": "NLL", "log_score": "log score", "pooled_calibration_error": "pooled calibration"}
_CAPTION = (
    "A split decides which tasks are for training and which for testing. Others: mean ± standard deviation over other "
    "splits, whose tasks overlap, with the default settings unless tuned for that split. Nothing here is bold: a test "
    "would take the splits for independent."
)


def split_table(results: Results) -> Table | None:
    """Where there are records of other splits; None if there are none."""
    others = [results.of_split(split) for split in results.other_splits]
    rows: list[Row] = []
    for environment in results.environments:
        lines = [
            Row(method, values)
            for method in dict.fromkeys(name for group in GROUPS.values() for name in group)
            if (values := _values(results, others, environment, method))
        ]
        rows += [Row(environment), *lines] if lines else []
    if not rows:
        return None
    titles = [title for metric in _METRICS.values() for title in (metric, f"{metric}, others")]
    return Table("splits", "Other splits of the data", _CAPTION, ("method", *titles, "others"), tuple(rows))


def _values(results: Results, others: list[Results], environment: str, method: str) -> tuple[Value, ...]:
    here = results.get(environment, method)
    elsewhere = [entry for other in others if (entry := other.get(environment, method)) is not None]
    if not elsewhere:
        return ()
    values = []
    for metric in _METRICS:
        figures = [entry.figure(metric) for entry in elsewhere]
        means = [figure.mean for figure in figures if figure is not None]
        values.append(Value(shown(here.figure(metric)) if here else results.why_missing(environment, method)))
        values.append(Value(shown(mean_and_spread(means)) if len(means) == len(figures) else "-"))
    return (*values, Value(str(len(elsewhere))))
