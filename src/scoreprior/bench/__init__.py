"""The benchmark: every method on every environment, in cells that are computed once and kept.

names -> Plan -> cells              plan.py, cell.py, budget.py
cells -> Runner -> records          runner.py, _worker.py, work.py
records on disk                     campaign.py, line_file.py, counts.py; published.py packs them
configurations by validation        tuning.py, selected.py
records -> report                   report/, catalogue.py and the paper's figures; curve.py
prior draws against the truth       draws.py
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from scoreprior.bench.campaign import Campaign
from scoreprior.bench.cell import ORACLE, Budget, Cell
from scoreprior.bench.runner import InlineRunner, ProcessRunner, Runner, does_not_apply, runner_for


class Tables(NamedTuple):
    """The report's files, what it finds, and how many cells have no result that should have one."""

    files: list[Path]
    findings: list[str]
    failed: int


def reproduce_tables(
    budget: Budget,
    out: str | Path,
    *,
    seeds: int = 5,
    workers: int = 1,
    environments: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    progress: bool = False,
) -> Tables:
    """Run what has no record yet, then write the report.

    Args:
        budget: "full", or "quick" for a twentieth of the iterations.
        environments: by default those of the tables whose data are at hand; a warning and a finding name the others.
        methods: by default all, and the oracle.
        workers: processes, each on one core; 0 computes in this one.
    """
    # Imported here because workers import this package too, and need none of it.
    from scoreprior import learners
    from scoreprior.bench.catalogue import ENVIRONMENTS
    from scoreprior.bench.plan import Plan, is_at_hand
    from scoreprior.bench.report import write_report
    from scoreprior.bench.watch import watch
    from scoreprior.bench.work import run_cell

    place = Path(out)
    notes = []
    if environments is None:
        wanted = (*ENVIRONMENTS, "berkeley-full")
        environments = [name for name in wanted if is_at_hand(name)]
        absent = [name for name in wanted if name not in environments]
        if absent:
            notes.append(
                f"Left out, since their data are not on this machine: {', '.join(absent)}. "
                "`scoreprior data list` says what is missing, `scoreprior data fetch` gets it."
            )
            warnings.warn(notes[0], stacklevel=2)  # now, not after hours
    plan = Plan(environments, methods or [*learners.methods(), ORACLE], seeds, budget=budget)
    with Campaign(place, plan.cells(place)) as campaign, watch(campaign, workers, progress) as saw:
        records = [record for _, record in campaign.done]
        for cell, record in campaign.run(runner_for(run_cell, workers)):
            saw(cell, record)
            records.append(record)
    files, found = write_report(place, budget=budget)
    return Tables(
        files, [*found, *notes], sum(each["status"] == "failed" and not does_not_apply(each) for each in records)
    )


__all__ = ["Campaign", "Cell", "InlineRunner", "ProcessRunner", "Runner", "Tables", "reproduce_tables", "runner_for"]
