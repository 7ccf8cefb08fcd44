"""A wrong name is answered by the one that was meant."""

from __future__ import annotations

import pandas as pd
import pytest

import scoreprior as sp
from scoreprior._suggestions import did_you_mean, meant
from scoreprior.bench.plan import UnknownNameError, known_among
from scoreprior.tasks.files import ColumnError, read_table


@pytest.mark.parametrize(
    ("call", "likely"),
    [
        (lambda: sp.learner("mars-pg"), "mars-gp"),
        (lambda: sp.learner("Pooled-GP"), "pooled-gp"),
        (lambda: sp.learner("mars-gp", networs=3), "networks"),
        (lambda: sp.learner("mars-gp", **{"network.embeding": 3}), "embedding"),
        (lambda: sp.learner("mars-gp", **{"trainig.steps": 3}), "training"),
        (lambda: sp.environment("sinusiod"), "sinusoid"),
        (lambda: sp.TrainingConfig(schedule="cosin"), "cosine"),
        (
            lambda: sp.TaskSet.from_frame(
                pd.DataFrame({"plant": ["a"], "day": [1], "cm": [2]}), task="plant", inputs="dya", target="cm"
            ),
            "day",
        ),
        (lambda: known_among("sinusiod", ["sinusoid", "sawtooth"], "environment"), "sinusoid"),
    ],
)
def test_the_likely_name_is_told(call, likely):
    with pytest.raises((ValueError, UnknownNameError), match=rf"[Dd]id you mean '{likely}'\?"):
        call()


def test_a_column_of_a_file(tmp_path):
    path = tmp_path / "plants.csv"
    path.write_text("plant,day,height cm\na,1,2\n")
    with pytest.raises(ColumnError, match="did you mean 'height cm'"):
        read_table(path, ("hight cm",), inputs=("day",), kinds=None, label="plant", need_label=True)


def test_where_nothing_is_alike_all_names_are_listed():
    assert did_you_mean("zzz", ["a", "b"], "there are a, b.") == "there are a, b."
    assert meant("LAST_VALUE", ["context-mean", "last-value"]) == "last-value"
    with pytest.raises(ValueError, match=r"There is no method 'zzz'; there are last-value, context-mean"):
        sp.learner("zzz")
