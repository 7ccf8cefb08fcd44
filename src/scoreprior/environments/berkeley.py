"""Berkeley-Sensor: the next temperature of a sensor from its last ten readings (paper, "Berkeley-Sensor").

The file holds five days (`usedDays` 1, 5, 6, 7, 8) of 1441 one-minute readings, 00:00 to 24:00 with both
midnights: the last row of days 5 to 7 equals the first row of the next. Lags are therefore one minute apart.
The paper's "10-minute intervals" lie between the rows kept; each asks for the reading a minute after `lag1`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float
from scipy.io import loadmat

from scoreprior.environments._base import Card, Environment
from scoreprior.environments._store import locate
from scoreprior.tasks import ContextTarget, Task, TaskSet

N_SENSORS, N_TRAIN = 46, 36
N_LAGS, STRIDE = 10, 10
MINUTES_PER_DAY = 1440
ROWS_PER_DAY = MINUTES_PER_DAY + 1
TWO_DAYS = 2 * MINUTES_PER_DAY // STRIDE  # 288 rows; the four days used give exactly twice as many
N_CONTEXT = 30
N_PARTIAL_TRAIN, N_PARTIAL_VALID, N_PARTIAL_POINTS = 10, 10, 30
N_FULL_VALID = 8
OUTLIER = (4278, 6)  # 4.2 degrees between two readings of 20.9
INPUT_NAMES = (*(f"lag{lag}" for lag in range(N_LAGS, 0, -1)), "time_of_day")  # lag1 is the newest

_SOURCE = (
    "Intel Berkeley Research Lab, 2004 (Bodik, Hong, Guestrin, Madden, Paskin, Thibaux; "
    "db.csail.mit.edu/labdata), as prepared in berkeley_data.mat and used by Rothfuss et al. (2021)"
)
_UNITS = "temperatures in degrees Celsius, time of day as a fraction of a day"
_NOTES = (
    "Training tasks are days one and two; contexts are the last 30 rows before day three and targets are "
    "days three and four, of other sensors. The paper names no validation split; ours has sensors of its own "
    "at the test tasks' times."
)


def berkeley(split: int = 0, data_dir: str | Path | None = None) -> Environment:
    """Berkeley-Sensor, partial: 10 of the 36 training sensors, 30 random rows each; 10 others validate."""
    tasks = _sensor_tasks(data_dir)
    train_pool, test, rng = _split_sensors(split)
    chosen = rng.choice(train_pool, N_PARTIAL_TRAIN + N_PARTIAL_VALID, replace=False)
    meta_train = _task_set(
        tasks[sensor].take(np.sort(rng.choice(TWO_DAYS, N_PARTIAL_POINTS, replace=False)))
        for sensor in chosen[:N_PARTIAL_TRAIN]
    )
    return Environment(
        name="berkeley",
        meta_train=meta_train,
        meta_valid=_later_days(tasks, chosen[N_PARTIAL_TRAIN:]),
        meta_test=_later_days(tasks, test),
        card=_card(
            "Berkeley-Sensor",
            f"{N_PARTIAL_TRAIN} training sensors of {N_PARTIAL_POINTS} points",
            N_PARTIAL_VALID,
        ),
        split=split,
    )


def berkeley_full(split: int = 0, data_dir: str | Path | None = None) -> Environment:
    """Berkeley-Sensor, full: all 36 training sensors with their 288 rows of the first two days.

    No training sensor is left to validate, so 8 of the 36 are held out while hyper-parameters are selected.
    """
    tasks = _sensor_tasks(data_dir)
    train, test, rng = _split_sensors(split)
    valid = np.sort(rng.choice(train, N_FULL_VALID, replace=False))
    first_days = slice(0, TWO_DAYS)
    return Environment(
        name="berkeley-full",
        meta_train=_task_set(tasks[sensor].take(first_days) for sensor in train),
        meta_valid=_later_days(tasks, valid),
        meta_test=_later_days(tasks, test),
        card=_card("Berkeley-Sensor, full", f"{N_TRAIN} training sensors of {TWO_DAYS} points", N_FULL_VALID),
        split=split,
        selection_train=_task_set(tasks[sensor].take(first_days) for sensor in train if sensor not in valid),
    )


def lagged(
    readings: Float[np.ndarray, "t s"],
) -> tuple[Float[np.ndarray, "s r d"], Float[np.ndarray, "s r"]]:
    """Auto-regressive rows of every sensor: inputs (s, r, 11) named `INPUT_NAMES`, targets (s, r).

    The day before the gap (day 1, then 5) is dropped: lags across a gap of four days mean nothing.
    """
    clock = np.arange(len(readings)) % ROWS_PER_DAY / MINUTES_PER_DAY
    series, clock = readings[ROWS_PER_DAY:], clock[ROWS_PER_DAY:]
    rows = np.arange(N_LAGS, len(series), STRIDE)
    lags = [series[rows - lag] for lag in range(N_LAGS, 0, -1)]
    time_of_day = np.broadcast_to(clock[rows, None], lags[0].shape)
    return np.stack([*lags, time_of_day], axis=-1).swapaxes(0, 1), series[rows].T


def _sensor_tasks(data_dir: str | Path | None) -> list[Task]:
    """One task per sensor with all of its 576 rows."""
    readings = np.array(loadmat(locate("berkeley", data_dir))["berkeley_data"]["data"][0, 0], dtype=np.float64)
    row, sensor = OUTLIER
    readings[row, sensor] = readings[[row - 1, row + 1], sensor].mean()
    x, y = lagged(readings)
    return [Task(x[i], y[i], f"sensor {i}") for i in range(N_SENSORS)]


def _split_sensors(split: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Training and test sensors, and the generator that draws what else a split leaves open.

    Split 0 tests on the last ten sensors, as the paper says; the others shuffle the sensors first.
    """
    rng = np.random.default_rng(split)
    order = np.arange(N_SENSORS) if split == 0 else rng.permutation(N_SENSORS)
    return order[:N_TRAIN], order[N_TRAIN:], rng


def _later_days(tasks: Sequence[Task], sensors: np.ndarray) -> ContextTarget:
    """Context: the 30 rows that end day two. Target: days three and four, which no training task covers."""
    context, target = slice(TWO_DAYS - N_CONTEXT, TWO_DAYS), slice(TWO_DAYS, 2 * TWO_DAYS)
    return ContextTarget(
        _task_set(tasks[sensor].take(context) for sensor in sensors),
        _task_set(tasks[sensor].take(target) for sensor in sensors),
    )


def _task_set(tasks: Iterable[Task]) -> TaskSet:
    return TaskSet(tasks, input_names=INPUT_NAMES, target_name="temperature")


def _card(title: str, training: str, n_valid: int) -> Card:
    later = f"with {N_CONTEXT} context and {TWO_DAYS} target points"
    return Card(
        title=title,
        source=_SOURCE,
        licence="none stated by the publishers",
        sizes=f"{training}; {n_valid} validation and {N_SENSORS - N_TRAIN} test sensors {later}.",
        units=_UNITS,
        notes=_NOTES,
    )
