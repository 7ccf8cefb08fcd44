"""The SwissFEL loader on small files in the published layout, whole and broken."""

import h5py
import numpy as np
import pytest
import yaml

from scoreprior.environments import environment
from scoreprior.environments import swissfel as module
from scoreprior.environments._store import DataError, locate

CHANNELS = [f"SARUN{i:02d}-DBPM070:X-REF" for i in range(12)]
EXPERIMENTS = ("line_ucb_ascent", "line_ucb", "neldermead")


def recording(seed, points=420, columns=12):
    generator = np.random.default_rng(seed)
    table = np.zeros(points, [("x", "f8", (columns,)), ("y", "f8"), ("y_std", "f8")])
    table["x"] = generator.standard_normal((points, columns)).cumsum(0)
    table["y"] = generator.standard_normal(points)
    return table


def write_experiment(folder, seed, parameter_files=("knobs.csv",), fallback=False):
    for part in ("data", "sf"):
        (folder / part).mkdir(parents=True)
    with h5py.File(folder / "data" / "evaluations.hdf5", "w") as file:
        for run in range(3):
            file[f"1/{run}"] = recording(seed + run)
    listed = [f"/machine/config/{name}" for name in parameter_files]
    config = {"swissfel.interface": {"channel_config_set": listed if len(listed) > 1 else listed[0]}}
    (folder / "experiment.yaml").write_text(yaml.safe_dump(config))
    names = ["channel_config_set.txt"] if fallback else parameter_files
    for name, channels in zip(names, np.array_split(CHANNELS, len(names))):
        lines = ["# settings of the day", "pv, low, high", *(f"{channel}, 0, 1" for channel in channels)]
        (folder / "sf" / name).write_text("\n".join(lines))


@pytest.fixture
def archive(tmp_path):
    root = tmp_path / "swissfel" / "2018_10_31"
    write_experiment(root / "line_ucb_ascent", 0)
    write_experiment(root / "line_ucb", 10, parameter_files=("a.csv", "b.csv"))
    write_experiment(root / "neldermead", 20, fallback=True)
    return root


def expected():
    return {
        f"2018_10_31/{name} {run}": recording(10 * i + run)[:400]
        for i, name in enumerate(EXPERIMENTS)
        for run in range(3)
    }


def test_reads_the_published_layout(archive, tmp_path):
    env = environment("swissfel", data_dir=tmp_path)
    assert (len(env.meta_train), len(env.meta_valid), len(env.meta_test)) == (5, 2, 4)
    assert env.meta_train.input_names == tuple(CHANNELS)
    truth = expected()
    names = [task.name for tasks in (env.meta_train, env.meta_test.context) for task in tasks]
    assert sorted(names) == sorted(truth)
    for context, target in zip(env.meta_test.context, env.meta_test.target):
        table = truth[context.name]
        assert len(context) == len(target) == 200
        # Together the two halves are exactly the first 400 evaluations, each in order of time.
        rows = [np.flatnonzero(np.isin(table["y"], part.y)) for part in (context, target)]
        assert sorted(np.concatenate(rows)) == list(range(400))
        for part, where in zip((context, target), rows):
            np.testing.assert_array_equal(part.x, table["x"][where])
            np.testing.assert_array_equal(part.y, table["y"][where])


@pytest.mark.data("swissfel-lines-bpm")
def test_reads_the_rows_of_a_real_recording(archive, tmp_path):
    with h5py.File(locate("swissfel-lines-bpm"), "r") as file:
        real = file["0"][()]
    # As the machine's software wrote it, fields and all, but for the number of its inputs.
    fields = [(name, real.dtype[name]) if name != "x" else ("x", "f8", (12,)) for name in real.dtype.names]
    table = np.zeros(len(real), fields)
    for name in real.dtype.names:
        table[name] = real[name][:, :12] if name == "x" else real[name]
    for name in EXPERIMENTS:
        with h5py.File(archive / name / "data" / "evaluations.hdf5", "r+") as file:
            for run in range(3):
                del file[f"1/{run}"]
                file[f"1/{run}"] = table
    env = module.swissfel(data_dir=tmp_path)
    for task in env.meta_test.whole:
        order = np.argsort(task.y, kind="stable")
        np.testing.assert_array_equal(task.y[order], np.sort(real["y"][:400]))
        np.testing.assert_array_equal(task.x[order], real["x"][np.argsort(real["y"][:400], kind="stable"), :12])


def test_directory_of_the_archive_itself_works(archive, monkeypatch):
    monkeypatch.setenv("SCOREPRIOR_DATA", str(archive.parent))
    assert len(module.swissfel().meta_train) == 5


def test_selection_leaves_validation_runs_out(archive, tmp_path):
    env = module.swissfel(data_dir=tmp_path)
    valid = {task.name for task in env.meta_valid.context}
    selection = {task.name for task in env.selection_train}
    assert len(selection) == 3
    assert not valid & selection
    assert valid | selection == {task.name for task in env.meta_train}
    assert not valid & {task.name for task in env.meta_test.context}


def test_splits_are_reproducible_and_differ(archive, tmp_path):
    first, again, other = (module.swissfel(split, tmp_path) for split in (0, 0, 1))
    np.testing.assert_array_equal(first.meta_train.x, again.meta_train.x)
    assert not np.array_equal(first.meta_train.x, other.meta_train.x)
    roles = [{task.name for task in env.meta_train} for env in (first, other)]
    assert roles[0] != roles[1]


def test_target_may_be_a_column(archive, tmp_path):
    plain = module.swissfel(data_dir=tmp_path)
    path = archive / "line_ucb" / "data" / "evaluations.hdf5"
    with h5py.File(path, "r+") as file:
        table = file["1/0"][()]
        column = np.zeros(len(table), [("x", "f8", (12,)), ("y", "f8", (1,))])
        column["x"], column["y"] = table["x"], table["y"][:, None]
        del file["1/0"]
        file["1/0"] = column
    np.testing.assert_array_equal(module.swissfel(data_dir=tmp_path).meta_train.y, plain.meta_train.y)


def test_absent_archive_says_where_to_get_it(tmp_path):
    with pytest.raises(DataError, match=r"swissfel.*is not there.*krunolp/mars.*swissfel-sim"):
        module.swissfel(data_dir=tmp_path)


def replace_run(path, table):
    with h5py.File(path, "r+") as file:
        del file["1/1"]
        if table is not None:
            file["1/1"] = table


def with_nan():
    table = recording(1)
    table["y"][17] = np.nan
    return table


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (None, "has no dataset /1/1"),
        (recording(1, points=300), "/1/1 has 300 evaluations; the first 400 are needed"),
        (recording(1, columns=5), r"/1/1 field 'x' has shape \(400, 5\); expected \(m, 12\)"),
        (np.zeros(420, [("x", "f8", (12,)), ("z", "f8")]), "/1/1 has no field 'y'"),
        (np.zeros((420, 13)), "/1/1 has no field 'x'"),
        (with_nan(), "/1/1.*nan in row 17"),
    ],
)
def test_malformed_recordings_are_named(archive, tmp_path, table, message):
    path = archive / "line_ucb" / "data" / "evaluations.hdf5"
    replace_run(path, table)
    with pytest.raises(DataError, match=message) as caught:
        module.swissfel(data_dir=tmp_path)
    assert str(path) in str(caught.value)


def test_truncated_recordings_are_named(archive, tmp_path):
    path = archive / "neldermead" / "data" / "evaluations.hdf5"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match=r"evaluations\.hdf5 cannot be read as HDF5.*truncated") as caught:
        module.swissfel(data_dir=tmp_path)
    assert str(path) in str(caught.value)


def test_missing_recordings_are_named(archive, tmp_path):
    (archive / "line_ucb" / "data" / "evaluations.hdf5").unlink()
    with pytest.raises(DataError, match=r"line_ucb.*evaluations\.hdf5 is not there"):
        module.swissfel(data_dir=tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("experiment.yaml", None, "is not there"),
        ("experiment.yaml", "a: [1, 2", "not valid YAML"),
        ("experiment.yaml", "other: 1", "no section 'swissfel.interface'"),
        ("experiment.yaml", "swissfel.interface: {}", "no key 'channel_config_set'"),
        (
            "experiment.yaml",
            "swissfel.interface: {channel_config_set: 3}",
            r"must be one or several file names",
        ),
        ("sf/knobs.csv", None, "is not there, nor the parameter files"),
        ("sf/knobs.csv", "", "not a table of parameters"),
        ("sf/knobs.csv", "name, low\na, 1", "no column 'pv'; it has name, low"),
        ("sf/knobs.csv", "pv, low\na, 1\nb, 2", "list 2 channels; the inputs have 12"),
        ("sf/knobs.csv", "pv, low\na, 1\n, 2", "column 'pv' is empty in row 1"),
        ("sf/knobs.csv", "\n".join(["pv", *reversed(CHANNELS)]), "do not share their inputs"),
    ],
)
def test_malformed_parameters_are_named(archive, tmp_path, name, content, message):
    path = archive / "line_ucb_ascent" / name
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        module.swissfel(data_dir=tmp_path)
    assert str(archive / "line_ucb_ascent") in str(caught.value)
