"""The runner and the records it fills: nothing lost, nothing run twice, whatever dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from scoreprior.bench.line_file import read_lines

SCRIPT = Path(__file__).with_name("short_cells.py")


def start(out: Path, *cells: str, workers: int = 2, limit: float = 100.0, run: int = 0) -> subprocess.Popen:
    arguments = [str(out), str(workers), str(limit), str(out / "log"), str(run), *cells]
    out.mkdir(exist_ok=True)
    return subprocess.Popen([sys.executable, str(SCRIPT), *arguments], stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen) -> None:
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors


def records(out: Path) -> list[dict]:
    return [line for path in (out / "records" / "short").glob("*.jsonl") for line in read_lines(path)]


def starts(out: Path) -> list[tuple[int, str]]:
    log = out / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [(int(run), key) for run, key, _ in (line.split() for line in lines)]


def test_killing_at_twenty_random_moments_loses_nothing_and_runs_nothing_twice(tmp_path):
    rng = np.random.default_rng(6)
    number, kept = 60, []
    for run in range(20):
        kept.append({record["key"] for record in records(tmp_path)})
        before, patience = len(starts(tmp_path)), int(rng.integers(0, 4))
        process = start(tmp_path, f"fine*{number}", run=run)
        # Random moments of a run that has begun to work, not of Python's start.
        while process.poll() is None and len(starts(tmp_path)) < before + patience:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.03))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert kept[-1] <= {record["key"] for record in records(tmp_path)}
    kept.append({record["key"] for record in records(tmp_path)})
    assert 0 < len(kept[-1]) < number, "the kills came too early or too late to test anything"
    finish(start(tmp_path, f"fine*{number}", run=20))
    counted = Counter(record["key"] for record in records(tmp_path))
    assert len(counted) == number
    assert set(counted.values()) == {1}
    assert not [key for run, key in starts(tmp_path) if key in kept[run]]


def test_seeds_of_one_configuration_go_to_the_worker_that_has_compiled_it(tmp_path):
    """Four configurations of equal length for two workers: each has two of them, and compiles no other."""
    finish(start(tmp_path, *(f"slow-{name}*4" for name in "abcd")))
    workers = {
        name: {record["pid"] for record in records(tmp_path) if record["cell"]["method"] == f"slow-{name}"}
        for name in "abcd"
    }
    assert sum(len(each) for each in workers.values()) <= 5  # four, or five if the last one was shared
    assert len(set.union(*workers.values())) == 2


def test_a_worker_with_nothing_of_its_own_helps_another(tmp_path):
    finish(start(tmp_path, "slow*8"))
    assert len({record["pid"] for record in records(tmp_path)}) == 2


def test_workers_end_when_their_parent_is_killed(tmp_path):
    process = start(tmp_path, "hangs*2")
    while len(starts(tmp_path)) < 2:
        time.sleep(0.01)
        assert process.poll() is None
    workers = {int(line.split()[2]) for line in (tmp_path / "log").read_text().splitlines()}
    process.send_signal(signal.SIGKILL)
    process.communicate()
    for _ in range(2000):
        if not any(is_running(worker) for worker in workers):
            return
        time.sleep(0.01)
    pytest.fail("a worker computes for nobody")


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")  # in a container nobody may collect the dead
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


def test_failing_dying_and_hanging_cells_do_not_stop_the_others(tmp_path):
    finish(start(tmp_path, "fine*4", "raises*1", "dies*2", "hangs*1", "also-fine*4", limit=3.0))
    found = {(record["cell"]["method"], record["cell"]["seed"]): record for record in records(tmp_path)}
    assert len(found) == 12
    fine = {where for where, record in found.items() if record["status"] == "done"}
    assert fine == {(method, seed) for method in ("fine", "also-fine") for seed in range(4)}
    assert found["raises", 0]["error"] == {"type": "ValueError", "message": "this one raises"}
    failed = {where: record["seconds"]["wall"] for where, record in found.items() if record["status"] == "failed"}
    assert len(failed) == 4
    assert failed.pop(("hangs", 0)) >= 3
    assert all(0 <= wall < 3 for wall in failed.values())
    assert found["dies", 1]["error"] == {"type": "WorkerDied", "message": "the worker was ended by SIGSEGV"}
    assert found["hangs", 0]["error"] == {"type": "TimeLimit", "message": "not done after 3 seconds"}
    # Who failed is not tried again without being asked.
    finish(start(tmp_path, "raises*1", "fine*4", run=1))
    assert not [key for run, key in starts(tmp_path) if run == 1]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system cannot pin processes to cores")
def test_each_worker_has_a_core_of_its_own(tmp_path):
    finish(start(tmp_path, "fine*8"))
    cores = {record["pid"]: tuple(record["cores"]) for record in records(tmp_path)}
    assert all(len(each) == 1 for each in cores.values())
    assert len(set(cores.values())) == min(len(cores), len(os.sched_getaffinity(0)))


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not pin processes to cores")
def test_an_only_worker_is_on_no_core_in_particular(tmp_path):
    # The only workers of two runs, each pinned to the first core, would share it.
    finish(start(tmp_path, "fine*1", workers=1))
    (record,) = records(tmp_path)
    assert record["cores"] == sorted(os.sched_getaffinity(0))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="this system does not list a process's threads")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_computes_with_one_thread(tmp_path, workers):
    finish(start(tmp_path, "computes*2", workers=workers))
    assert [record["threads"] for record in records(tmp_path)] == [1, 1]


def test_workers_that_are_kept_do_the_next_cells_too(tmp_path):
    finish(start(tmp_path, "fine*6", "dies*1", "then"))
    pids = [
        {record["pid"] for record in records(tmp_path) if record["cell"]["split"] == i and "pid" in record}
        for i in (0, 1)
    ]
    assert len([record for record in records(tmp_path) if record["status"] == "done"]) == 12
    assert pids[0] & pids[1]
    assert len(pids[0] | pids[1]) <= 4  # two, and one for each that died


def test_two_runs_write_different_methods_at_once_but_never_the_same(tmp_path):
    first = start(tmp_path, "hangs*1", workers=1)
    while not starts(tmp_path):
        time.sleep(0.01)
        assert first.poll() is None
    finish(start(tmp_path, "fine*1", workers=1))
    second = start(tmp_path, "hangs*1", "other*1", workers=1)
    _, errors = second.communicate(timeout=300)
    assert second.returncode == 1
    assert "another run is writing it" in errors
    assert "hangs.jsonl" in errors
    assert first.poll() is None
    first.kill()
    first.communicate()
    assert [record["cell"]["method"] for record in records(tmp_path)] == ["fine"]
    finish(start(tmp_path, "hangs*1", workers=1, limit=0.1))  # a killed run leaves no lock behind
    assert len(records(tmp_path)) == 2
