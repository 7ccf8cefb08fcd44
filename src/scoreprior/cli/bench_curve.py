"""`scoreprior bench curve`: a metric over the number of tasks to learn from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scoreprior.cli._bench import (
    Environments,
    Limit,
    Methods,
    Out,
    Quick,
    RetryFailed,
    Seeds,
    Split,
    Untuned,
    Workers,
    checked,
    known_names,
    make_runner,
    run_campaign,
)
from scoreprior.cli._console import CallError, Debug, Json, NoSeed, Quiet, talking, write


def curve_command(
    env: Environments,
    method: Methods,
    tasks: Annotated[str, typer.Option(help="Numbers of training tasks with commas between; all there are: all.")],
    metric: Annotated[str, typer.Option(help="Metrics with commas between, a row of panels each.")] = "rmse,log_score",
    seeds: Seeds = 3,
    split: Split = 0,
    workers: Workers = 1,
    quick: Quick = False,
    untuned: Untuned = False,
    retry_failed: RetryFailed = False,
    limit: Limit = None,
    out: Out = Path("results/curves"),
    seed: NoSeed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Learning curves over the number of tasks: run what has no record, then write curve.md, curve.svg and curve.png.

    Example: scoreprior bench curve --env dose-response --method pooled-gp,anp --tasks 25,100,400
    """
    with talking(quiet, as_json, debug) as talk:
        from scoreprior.bench.cell import ORACLE
        from scoreprior.bench.curve import METRICS, Curves, curve_tables
        from scoreprior.bench.plan import Plan, known_among, known_numbers
        from scoreprior.bench.report.curve_figure import curve_figure
        from scoreprior.bench.report.markdown import markdown

        metrics = checked(known_among, metric, list(METRICS), "metric")
        runner = make_runner(workers, limit)
        environments, methods = known_names(env, method)
        plan = Plan(
            environments=environments,
            methods=[*(each for each in methods if each != ORACLE), ORACLE],
            seeds=seeds,
            splits=(split,),
            tasks=checked(known_numbers, tasks, environments, (split,)),
            tuned=not untuned,
            budget="quick" if quick else "full",
        )
        cells = plan.cells(out)
        ran = run_campaign(talk, out, cells, runner, workers, retry_failed=retry_failed)
        records = {cell.key: record for cell, record in ran.pairs}
        curves = Curves.of((cell, records[cell.key]) for cell in cells)
        if not curves.entries:
            raise CallError("No cell has a result, so there is nothing to draw.")
        text = markdown("Learning curves over the number of tasks", [], curve_tables(curves, metrics, seeds))
        contents = {"curve.md": text.encode()}
        contents |= {f"curve.{kind}": data for kind, data in curve_figure(curves, metrics).items()}
        paths = [out / name for name in contents]
        for path, data in zip(paths, contents.values()):
            write(path, data)
        counts = {"cells": len(ran.pairs), "computed": ran.computed, "failed": ran.failed}
        talk.result(counts | {"does_not_apply": ran.inapplicable, "files": paths}, text, *map(str, paths))
        if ran.failed:
            raise typer.Exit(1)
