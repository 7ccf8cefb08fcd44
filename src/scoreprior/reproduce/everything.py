"""All of the paper, in parts: every score-estimation experiment, then the benchmark's tables.

Parts do not need each other, so one that fails stops no other. A part that is done with the same settings is not run
again, and the benchmark keeps every cell: calling again continues.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

from scoreprior.reproduce import experiments, reproduce
from scoreprior.reproduce._output import Budget, Settings, kept

TABLES = "bench"
"""The part with the benchmark's tables, and its directory."""
_OURS = ("choose",)  # selects settings of our own; nothing of the paper


@dataclass(frozen=True)
class Outcome:
    """What became of a part; `problem` is an error, or a sentence if there are files all the same."""

    status: Literal["done", "kept", "failed"]
    seconds: float = 0.0
    findings: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    problem: Exception | str | None = None


@dataclass(frozen=True)
class Part:
    """One experiment, or the tables: `part.run()`."""

    name: str
    description: str
    work: Callable[[], Outcome]

    def run(self) -> Outcome:
        """Do it, unless that was done before; an error is an outcome, an interruption is not."""
        started = time.perf_counter()
        try:
            found = self.work()
        except Exception as error:
            found = Outcome("failed", problem=error)
        return found if found.status == "kept" else replace(found, seconds=round(time.perf_counter() - started, 1))


def parts(
    out: str | Path,
    *,
    seeds: int,
    seed: int,
    budget: Budget = "full",
    workers: int = 1,
    environments: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    progress: bool = False,
) -> list[Part]:
    """All parts, to be run one after the other; experiments write into `out`, the tables into `out`/bench.

    Args:
        seeds: of the experiments' networks, and of every cell of the tables.
        seed: of the experiments' first network; cells have seeds 0, 1, ...
        workers: processes for the cells; 0 computes them in this one.
        environments: of the tables; by default all whose data are at hand.
        methods: of the tables; by default all.
    """
    place = Path(out)
    settings = Settings(seeds, budget, progress, place, seed)

    def experiment(name: str) -> Outcome:
        earlier = kept(name, settings)
        if earlier is not None:
            return Outcome("kept", earlier.numbers["seconds"], earlier.findings, earlier.files)
        report = reproduce(name, place, seeds=seeds, seed=seed, budget=budget, progress=progress)
        return Outcome("done", findings=report.findings, files=report.files)

    def tables() -> Outcome:
        from scoreprior.bench import reproduce_tables

        made = reproduce_tables(
            budget,
            place / TABLES,
            seeds=seeds,
            workers=workers,
            environments=environments,
            methods=methods,
            progress=progress,
        )
        if not made.failed:
            return Outcome("done", findings=made.findings, files=made.files)
        names = {"env": environments, "method": methods}
        wanted = " ".join(f"--{name} {','.join(each) if each else 'all'}" for name, each in names.items())
        quick = " --quick" if budget == "quick" else ""
        again = f"`scoreprior bench run {wanted} --seeds {seeds}{quick} --retry-failed --out {place / TABLES}`"
        problem = f"Cells that failed: {made.failed}. The report says why; {again} runs them again."
        return Outcome("failed", findings=made.findings, files=made.files, problem=problem)

    found = [
        Part(name, description, partial(experiment, name))
        for name, description in experiments().items()
        if name not in _OURS
    ]
    return [*found, Part(TABLES, "the benchmark's tables, every method on every environment", tables)]
