"""SwissFEL line scans: recordings we write ourselves in the machine's layout, and the real ones."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from scoreprior.environments import _store, environment
from scoreprior.environments import swissfel_lines as module

SHORTEST = 12


def recording(parameters: int, lines: int, start: float) -> np.ndarray:
    """Lines of 12, 13, ... points from the middle up, then from the middle down; energies say line and position."""
    fields = [("line_id", "i4"), ("x", "f8", (parameters,)), ("x_target", "f8", (parameters,))]
    parts = []
    for line in range(lines):
        points = SHORTEST + line
        table = np.zeros(points, [*fields, ("y", "f8"), ("y_std", "f8")])
        grid = np.linspace(-1, 1, points)
        position = np.concatenate([grid[points // 2 :], grid[: points // 2][::-1]])
        table["line_id"], table["x_target"] = line, start
        table["x_target"][:, line] += 0.01 * position
        table["x"] = table["x_target"]
        table["y"], table["y_std"] = line + position / 10, 0.02 + position / 100
        parts.append(table)
    return np.concatenate(parts)


def put(folder, monkeypatch, tables):
    sources = {}
    for name, table in zip(module.FILES, tables):
        with h5py.File(folder / f"{name}.hdf5", "w") as file:
            file["0"] = table
        digest = _store.checksum(folder / f"{name}.hdf5")
        sources[name] = _store.Source(f"{name}.hdf5", "", (digest,), "the shelf", ("swissfel-lines",))
    monkeypatch.setattr(_store, "SOURCES", sources)
    return folder


@pytest.fixture
def fake_dir(tmp_path, monkeypatch):
    return put(tmp_path, monkeypatch, [recording(5, 5, 3.0), recording(26, 14, -0.5)])


def test_a_line_is_scaled_by_its_own_range_and_sorted_with_its_noise(fake_dir):
    scans = module.line_scans(fake_dir)
    assert [scan.name for scan in scans] == [
        *(f"parameter {i}" for i in range(5)),
        *(f"monitor {i}" for i in range(14)),
    ]
    for scan in scans:
        line = int(scan.name.split()[1])
        np.testing.assert_allclose(scan.x, np.linspace(-1, 1, SHORTEST + line), atol=1e-9)
        np.testing.assert_allclose(scan.y, line + scan.x / 10)
        np.testing.assert_allclose(scan.noise_std, 0.02 + scan.x / 100)


def names(tasks):
    return [task.name for task in tasks]


@pytest.mark.parametrize("known", [1, 4, 6, 8, 11])
def test_sizes_and_separation(fake_dir, known):
    env = environment("swissfel-lines", data_dir=fake_dir, known=known)
    parts = (env.meta_train, env.meta_valid.target, env.meta_test.target)
    assert [len(part) for part in parts] == [10, 3, 6]
    assert len({name for part in parts for name in names(part)}) == 19
    for later in (env.meta_valid, env.meta_test):
        np.testing.assert_array_equal(later.context.sizes, known)
        for whole in later.whole:
            assert len(whole) == len(np.unique(whole.x)) == SHORTEST + int(whole.name.split()[1])
    assert f"with {known} known points" in str(env.card)


def test_points_known_among_few_are_known_among_more(fake_dir):
    few, more = (module.swissfel_lines(2, fake_dir, known=known).meta_test.context for known in (4, 8))
    assert names(few) == names(more)
    assert all(set(one.x[:, 0]) < set(other.x[:, 0]) for one, other in zip(few, more))


def test_splits_are_reproducible_and_differ(fake_dir):
    one, again, other = (module.swissfel_lines(split, fake_dir) for split in (1, 1, 2))
    np.testing.assert_array_equal(one.meta_test.context.x, again.meta_test.context.x)
    assert set(names(one.meta_test.target)) != set(names(other.meta_test.target))


def test_the_measured_noise_of_a_part_of_a_line_is_that_of_its_points(fake_dir):
    env = module.swissfel_lines(data_dir=fake_dir)
    for task in (env.meta_train[0], *env.meta_test.context, *env.meta_test.target):
        np.testing.assert_allclose(module.measured_noise(task, fake_dir), 0.02 + task.x[:, 0] / 100)
    with pytest.raises(ValueError, match="There is no line 'other'"):
        module.measured_noise(type(env.meta_train[0])([0.0], [0.0], "other"), fake_dir)
    with pytest.raises(ValueError, match=r"monitor 0 has a point \(0\.0, 7\.0\)"):
        module.measured_noise(type(env.meta_train[0])([0.0], [7.0], "monitor 0"), fake_dir)


@pytest.mark.parametrize("known", [0, 12, -1, 4.0, True, "6", None])
def test_another_number_of_known_points_is_refused(fake_dir, known):
    with pytest.raises(ValueError, match="a whole number from 1 to 11"):
        module.swissfel_lines(data_dir=fake_dir, known=known)


def test_a_recording_that_is_no_line_scan_is_refused(tmp_path, monkeypatch):
    diagonal = recording(5, 5, 0.0)
    diagonal["x_target"][:, 1] = diagonal["x_target"][:, 0]
    put(tmp_path, monkeypatch, [diagonal, recording(26, 14, 0.0)])
    with pytest.raises(_store.DataError, match="parameter 0 does not move exactly one parameter"):
        module.swissfel_lines(data_dir=tmp_path)
    put(tmp_path, monkeypatch, [recording(5, 4, 0.0), recording(26, 14, 0.0)])
    with pytest.raises(_store.DataError, match="have 18 lines, not 19"):
        module.swissfel_lines(data_dir=tmp_path)


def test_a_missing_file_says_how_to_get_it(tmp_path):
    with pytest.raises(_store.DataError, match="scoreprior data fetch swissfel-lines"):
        module.swissfel_lines(data_dir=tmp_path)


@pytest.mark.data(*module.FILES)
def test_the_real_scans_have_the_figures_of_the_card():
    scans = module.line_scans()
    assert [len(scan.y) for scan in scans] == [50, 52, 50, 50, 12, 51, 51, 51, 51, 51, 52, *[51] * 7, 45]
    assert all(np.abs(scan.x).max() == pytest.approx(1, abs=0.01) for scan in scans)
    assert np.median(np.concatenate([scan.noise_std for scan in scans])) == pytest.approx(0.024, abs=5e-4)
    bends = np.concatenate([np.diff(scan.y, 2) for scan in scans]) / np.sqrt(6)  # the scale of white noise, if smooth
    assert np.median(np.abs(bends)) / 0.6745 == pytest.approx(0.039, abs=5e-4)
    env = environment("swissfel-lines")
    assert env.resolution == 0
    for task in env.meta_test.target:
        assert module.measured_noise(task).shape == task.y.shape
