"""Methods by name, and names of methods."""

from __future__ import annotations

from dataclasses import replace

import pytest

import scoreprior as sp
from scoreprior.learners._methods import method_of
from scoreprior.serialization import describe


@pytest.mark.parametrize("name", sp.methods())
def test_a_method_is_found_by_its_settings(name):
    assert method_of(sp.learner(name)) == name


def test_other_settings_leave_the_nearest_name():
    assert method_of(sp.MARS(held_out=0.1)) == "mars-gp"
    assert method_of(replace(sp.MARS.fsvgd(), networks=2, noised=0.1)) == "mars-fsvgd"
    assert method_of(sp.PlainMARS(points=5)) == "mars-gp-paper"
    assert method_of(sp.PlainMARS.letter()) == "mars-gp-letter"


def test_a_class_that_is_not_registered_keeps_its_name():
    class Other(sp.PlainMARS):
        pass

    assert method_of(Other()) == "Other"


def test_files_of_mars_have_the_registered_name(tmp_path):
    tasks = sp.TaskSet.from_arrays([[0.0, 1.0, 2.0]] * 3, [[1.0, 2.0, 3.0], [2.0, 3.0, 5.0], [0.0, 1.0, 1.0]])
    sp.learner("mars-ssge-letter").fit(tasks, 0, progress=False).save(tmp_path / "some.prior")
    assert describe(tmp_path / "some.prior")["method"] == "mars-ssge-letter"
