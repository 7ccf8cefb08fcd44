"""The Argus loader on small files in the published layout, whole and broken."""

import json
import math

import numpy as np
import pytest

from scoreprior.environments import argus as module
from scoreprior.environments import environment
from scoreprior.environments._store import DataError

POINTS = 120


def table(number, columns=3):
    generator = np.random.default_rng(number)
    x = generator.uniform(size=(POINTS, columns))
    return x, x.sum(1) + number


def published(train=6, test=2, shared=False):
    """A dictionary in the published layout; with `shared` the test points are the context points."""
    pairs = []
    for i in range(test):
        context, target = table(100 + i), table(100 + i if shared else 200 + i)
        pairs.append([context[0].tolist(), context[1].tolist(), target[0].tolist(), target[1].tolist()])
    tasks = [[x.tolist(), y[:, None].tolist()] for x, y in map(table, range(train))]
    return {"meta_train": {"TV": tasks, "other": []}, "meta_test": {"TV": pairs, "other": []}}


def write(directory, content):
    path = directory / "argus_data" / "meta_data_argus_sim.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_reads_the_published_layout(tmp_path):
    write(tmp_path, published())
    env = environment("argus", data_dir=tmp_path)
    assert (len(env.meta_train), len(env.meta_valid), len(env.meta_test)) == (6, 4, 2)
    for i, task in enumerate(env.meta_train):
        x, y = table(i)
        np.testing.assert_array_equal(task.x, x)
        np.testing.assert_array_equal(task.y, y)
    for i, (context, target) in enumerate(zip(env.meta_test.context, env.meta_test.target)):
        x, y = table(100 + i)
        rows = [int(np.flatnonzero((x == row).all(1))[0]) for row in context.x]
        assert len(set(rows)) == 100
        np.testing.assert_array_equal(context.y, y[rows])
        np.testing.assert_array_equal(target.x, table(200 + i)[0])


def test_file_may_lie_in_the_data_directory_itself(tmp_path, monkeypatch):
    write(tmp_path, published())
    monkeypatch.setenv("SCOREPRIOR_DATA", str(tmp_path / "argus_data"))
    assert len(module.argus().meta_train) == 6


def test_selection_leaves_validation_tasks_out(tmp_path):
    write(tmp_path, published())
    env = module.argus(data_dir=tmp_path)
    valid = {task.name for task in env.meta_valid.context}
    selection = {task.name for task in env.selection_train}
    assert len(selection) == 2
    assert not valid & selection
    assert valid | selection == {task.name for task in env.meta_train}
    assert not {task.name for task in env.meta_test.context} & (valid | selection)
    np.testing.assert_array_equal(env.meta_valid.context.sizes, 100)
    np.testing.assert_array_equal(env.meta_valid.target.sizes, POINTS - 100)


def test_no_target_point_is_a_context_point(tmp_path):
    write(tmp_path, published(shared=True))
    env = module.argus(data_dir=tmp_path)
    for context, target in zip(env.meta_test.context, env.meta_test.target):
        assert len(target) == POINTS - 100
        assert not set(map(tuple, context.x)) & set(map(tuple, target.x))


def test_splits_draw_other_points_and_are_reproducible(tmp_path):
    write(tmp_path, published())
    first, again, other = (module.argus(split, tmp_path) for split in (0, 0, 1))
    np.testing.assert_array_equal(first.meta_test.context.x, again.meta_test.context.x)
    assert not np.array_equal(first.meta_test.context.x, other.meta_test.context.x)
    np.testing.assert_array_equal(first.meta_train.x, other.meta_train.x)


def test_absent_file_says_where_to_get_it(tmp_path):
    with pytest.raises(DataError, match=r"meta_data_argus_sim\.json is not there.*krunolp/mars.*argus-sim"):
        module.argus(data_dir=tmp_path)


def broken(change):
    content = published()
    change(content)
    return content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json.dumps(published())[:5000], "not valid JSON"),
        ("[]", "no key 'meta_train'"),
        (broken(lambda c: c.pop("meta_test")), "no key 'meta_test'"),
        (broken(lambda c: c["meta_train"].pop("TV")), "no key 'TV' in 'meta_train'"),
        (broken(lambda c: c["meta_train"].update(TV={})), "meta_train/TV is a dict"),
        (broken(lambda c: c["meta_train"]["TV"][2].pop()), r"meta_train/TV\[2\] has 1 arrays, not 2"),
        (broken(lambda c: c["meta_test"]["TV"].append(3)), r"meta_test/TV\[2\] has a int, not 4"),
        (
            broken(lambda c: c["meta_train"]["TV"][1][1].pop()),
            r"meta_train/TV\[1\].*120 rows in x but 119 in y",
        ),
        (broken(lambda c: c["meta_test"]["TV"][1][3].pop()), r"meta_test/TV\[1\] test.*119 in y"),
        (broken(lambda c: c["meta_train"]["TV"][0][0][7].pop()), r"meta_train/TV\[0\].*not a rectangular"),
        (broken(lambda c: c["meta_train"]["TV"][0][1].__setitem__(5, [math.nan])), r"TV\[0\].*nan in row 5"),
        (
            broken(lambda c: c["meta_train"]["TV"].__setitem__(3, [a.tolist() for a in table(0, 2)])),
            r"meta_train/TV\[3\] has 2 input columns, not the 3 gains",
        ),
        (
            broken(lambda c: c["meta_train"]["TV"].__setitem__(3, [a[:50].tolist() for a in table(0)])),
            r"meta_train/TV\[3\] has 50 points; at least 101",
        ),
        (published(train=2), "2 tasks in meta_train"),
        (published(test=0), "0 in meta_test"),
    ],
)
def test_malformed_files_are_named(tmp_path, content, message):
    path = write(tmp_path, content)
    with pytest.raises(DataError, match=message) as caught:
        module.argus(data_dir=tmp_path)
    assert str(path) in str(caught.value)
