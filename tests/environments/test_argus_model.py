"""The environment of the published Argus model, with costs that we can read off, and one task of the real one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from scoreprior.environments import _store, argus_loop, environment
from scoreprior.environments import argus_model as module


def readable(axis, gains, step, samples=argus_loop.SAMPLES):
    """Costs that say which gains and step they are of."""
    assert samples == argus_loop.SAMPLES
    readable.runs += 1
    return argus_loop.Costs(step * gains[:, 0], step + gains[:, 1], gains[:, 2])


@pytest.fixture
def fake_dir(tmp_path, monkeypatch):
    position = np.linspace(-0.2, 0.2, 801)
    savemat(tmp_path / "argus_cogging.mat", {"cog_pos": position[:, None], "cog_mean": np.sin(100 * position)[:, None]})
    digest = _store.checksum(tmp_path / "argus_cogging.mat")
    monkeypatch.setattr(
        _store, "SOURCES", {"argus-cogging": _store.Source("argus_cogging.mat", "", (digest,), "", ("argus-model",))}
    )
    monkeypatch.setattr(module, "cache_directory", lambda: tmp_path / "cache")
    monkeypatch.setattr(module, "costs", readable)
    readable.runs = 0
    return tmp_path


def steps(tasks):
    return np.array([float(task.name.split()[1]) * 1e-3 for task in tasks])


def test_tasks_are_the_24_step_sizes_in_metres(fake_dir):
    env = environment("argus-model", data_dir=fake_dir)
    assert (len(env.meta_train), len(env.meta_valid), len(env.meta_test)) == (20, 4, 4)
    every = np.sort(np.concatenate([steps(env.meta_train), steps(env.meta_test.target)]))
    np.testing.assert_allclose(every, np.exp(-5 + 0.18 * np.arange(24)), rtol=1e-4)
    np.testing.assert_array_equal(env.meta_train.sizes, 500)
    np.testing.assert_array_equal(env.meta_test.context.sizes, 100)
    np.testing.assert_array_equal(env.meta_test.target.sizes, 400)
    assert (env.meta_train.x >= module.GAINS_LOW).all()
    assert (env.meta_train.x <= module.GAINS_HIGH).all()
    for task, step in zip(env.meta_train, steps(env.meta_train)):
        np.testing.assert_allclose(task.y, step * task.x[:, 0], rtol=1e-3)


def test_validation_tasks_are_held_out_for_selection_only(fake_dir):
    env = module.argus_model(3, fake_dir)
    valid, rest, train = (set(steps(each)) for each in (env.meta_valid.target, env.selection_train, env.meta_train))
    assert (len(valid), len(rest)) == (4, 16)
    assert valid | rest == train
    assert not train & set(steps(env.meta_test.target))


def test_the_simulation_runs_once_for_all_splits_and_targets(fake_dir):
    one, again, other = (module.argus_model(split, fake_dir) for split in (0, 0, 1))
    settling = module.argus_model(0, fake_dir, target="settling_time")
    assert readable.runs == 24
    np.testing.assert_array_equal(one.meta_test.context.x, again.meta_test.context.x)
    assert set(steps(one.meta_test.target)) != set(steps(other.meta_test.target))
    np.testing.assert_array_equal(one.meta_train.x, settling.meta_train.x)
    task = settling.meta_train[0]
    np.testing.assert_allclose(task.y, steps([task])[0] + task.x[:, 1], atol=1e-3)
    assert "settling time in s" in settling.card.units


def test_another_machine_is_simulated_again(fake_dir, monkeypatch):
    module.argus_model(0, fake_dir)
    monkeypatch.setattr(module, "FILTERS", argus_loop.FILTERS * (1 + 1e-12))
    module.argus_model(0, fake_dir)
    assert readable.runs == 48


def test_scales_of_the_target(fake_dir):
    plain, log, standardised = (
        module.argus_model(0, fake_dir, scale=scale).meta_train for scale in ("plain", "log", "standardised")
    )
    np.testing.assert_allclose(log.y, np.log(plain.y))
    for task, raw in zip(standardised, plain):
        assert (task.y.mean(), task.y.std()) == pytest.approx((0, 1), abs=1e-9)
        assert np.corrcoef(task.y, raw.y)[0, 1] == pytest.approx(1)
    assert log.target_name.endswith("log")


@pytest.mark.parametrize("options", [{"scale": "sqrt"}, {"target": "TV"}])
def test_an_unknown_choice_is_named(fake_dir, options):
    with pytest.raises(ValueError, match=r"is one of .*, not '(sqrt|TV)'"):
        module.argus_model(0, fake_dir, **options)


def test_a_missing_or_other_table_is_a_data_error(tmp_path, fake_dir):
    with pytest.raises(_store.DataError, match="scoreprior data fetch argus-cogging"):
        module.argus_model(data_dir=tmp_path / "elsewhere")
    savemat(tmp_path / "other.mat", {"cog_pos": np.arange(3.0)})
    with pytest.raises(_store.DataError, match="no variable 'cog_mean'"):
        module.read_cogging(tmp_path / "other.mat")


def test_the_card_tells_original_from_inferred_and_unknown(fake_dir):
    card = str(module.argus_model(0, fake_dir).card)
    for word in ("Original:", "Not original:", "Inferred:", "Unknown:", "mm s"):
        assert word in card


def test_the_docs_show_the_recorded_sensitivity():
    root = Path(__file__).parents[2]
    page = (root / "docs" / "benchmark.md").read_text()
    rows = json.loads((root / "results" / "argus-sensitivity.json").read_text())["rows"]
    short, long = ([row for row in rows if row["step in mm"] == size] for size in (6.738, 100.0))
    assert len(short) == len(long) == len(rows) / 2
    for pair in zip(short, long):
        cells = [pair[0]["change"], ", ".join(str(row["changed class"]) for row in pair)]
        for column in ("variation, stable", "variation, unstable", "settling time, stable"):
            cells.append(", ".join(f"{100 * row[column]:.2f}%" for row in pair))
        assert f"| {' | '.join(cells)} |" in page


@pytest.mark.data("argus-cogging")
def test_the_real_table_has_the_figures_of_the_description():
    position, value, _ = module.machine().cogging.rows.T
    assert len(position) == 16_721
    assert (position[0], position[-1]) == pytest.approx((-209.00679, 208.99315))
    assert (value[0], value[-1]) == pytest.approx((-5.266, -0.848), abs=1e-3)
    assert np.interp(8.5, position, value) == pytest.approx(1.905, abs=1e-3)


@pytest.mark.slow
@pytest.mark.data("argus-cogging")
def test_half_of_the_gains_are_unstable_and_the_variation_has_two_levels():
    gains = module.draw_gains(60)[0]
    found = argus_loop.costs(module.machine(), gains, float(module.STEPS[0]))
    unstable = found.variation > 1e-2
    # 52% of all gains; four standard errors of a share among 60.
    assert unstable.mean() == pytest.approx(0.522, abs=4 * np.sqrt(0.25 / 60))
    assert 3e-6 < np.median(found.variation[~unstable]) < 1e-5
    assert 2 < np.median(found.variation[unstable]) < 5
    assert found.largest.max() < 60
