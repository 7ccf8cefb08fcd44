"""The benchmark: every method on every environment, in cells that are computed once and kept.

names -> Plan -> cells              plan.py, cell.py, budget.py
cells -> Runner -> records          runner.py, _worker.py, work.py
records on disk                     campaign.py, line_file.py, counts.py
configurations by validation        tuning.py, selected.py
records -> report                   report/, catalogue.py and the paper's figures
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scoreprior.bench.campaign import Campaign
from scoreprior.bench.cell import ORACLE, Budget, Cell
from scoreprior.bench.runner import InlineRunner, ProcessRunner, Runner, runner_for


def reproduce_tables(
    budget: Budget,
    out: str | Path,
    *,
    seeds: int = 5,
    workers: int = 1,
    environments: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    progress: bool = False,
) -> tuple[list[Path], list[str]]:
    """Run what has no record yet, then write the report: paths of its files, and what it finds.

    Args:
        budget: "full", or "quick" for a twentieth of the iterations.
        environments: by default those of the tables whose data are at hand.
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
    if environments is None:
        environments = [name for name in (*ENVIRONMENTS, "berkeley-full") if is_at_hand(name)]
    plan = Plan(environments, methods or [*learners.methods(), ORACLE], seeds, budget=budget)
    with Campaign(place, plan.cells(place)) as campaign, watch(campaign, workers, progress) as saw:
        for cell, record in campaign.run(runner_for(run_cell, workers)):
            saw(cell, record)
    return write_report(place, budget=budget)


__all__ = ["Campaign", "Cell", "InlineRunner", "ProcessRunner", "Runner", "reproduce_tables", "runner_for"]
