"""`scoreprior bench`: run methods on environments, tune them, and write the report."""

from __future__ import annotations

import json
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from scoreprior.cli._bench import (
    RESULTS,
    Environments,
    Limit,
    Methods,
    Out,
    Quick,
    RetryFailed,
    Seeds,
    Split,
    Splits,
    Untuned,
    Workers,
    checked,
    known_names,
    known_splits,
    make_runner,
    run_campaign,
)
from scoreprior.cli._console import INTERRUPTED, CallError, Debug, Json, NoSeed, Quiet, Talk, talking
from scoreprior.cli.bench_curve import curve_command
from scoreprior.cli.bench_draws import draws_command
from scoreprior.cli.bench_suite import suite_command

bench_app = typer.Typer(help="Every method on every environment: run, tune, report.", no_args_is_help=True)

bench_app.command("curve")(curve_command)
bench_app.command("suite")(suite_command)
bench_app.command("draws")(draws_command)


@bench_app.command("run")
def run_command(
    env: Environments,
    method: Methods,
    seeds: Seeds = 5,
    split: Splits = "0",
    tasks: Annotated[
        str | None, typer.Option(help="Numbers of training tasks with commas between, or all; otherwise the usual.")
    ] = None,
    workers: Workers = 1,
    part: Annotated[Literal["test", "valid"], typer.Option(help="Which unseen tasks.")] = "test",
    settings: Annotated[list[str] | None, typer.Option("--set", help="NAME=JSON, a setting of all methods.")] = None,
    quick: Quick = False,
    untuned: Untuned = False,
    paper_protocol: Annotated[
        bool, typer.Option("--paper-protocol", help="Also every configuration that was tried in tuning.")
    ] = False,
    retry_failed: RetryFailed = False,
    limit: Limit = None,
    out: Out = RESULTS,
    seed: NoSeed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Compute the cells that have no record yet. Stop it at any moment: the same command continues.

    Example: scoreprior bench run --env sinusoid --method last-value,pooled-gp --seeds 2
    """
    with talking(quiet, as_json, debug) as talk:
        from scoreprior.bench.plan import Plan, check_settings, known_numbers

        runner = make_runner(workers, limit)
        environments, methods = known_names(env, method)
        splits = known_splits(split)
        overrides = _settings(settings or [])
        checked(check_settings, methods, overrides)
        plan = Plan(
            environments=environments,
            methods=methods,
            seeds=seeds,
            splits=splits,
            tasks=(None,) if tasks is None else checked(known_numbers, tasks, environments, splits),
            part=part,
            overrides=overrides,
            tuned=not untuned,
            budget="quick" if quick else "full",
            paper_protocol=paper_protocol,
        )
        ran = run_campaign(talk, out, plan.cells(out), runner, workers, retry_failed=retry_failed)
        counts = {"cells": len(ran.pairs), "computed": ran.computed}
        talk.result(
            counts | {"failed": ran.failed, "does_not_apply": ran.inapplicable, "out": out}, ran.progress.table()
        )
        if ran.failed:
            raise typer.Exit(1)


@bench_app.command("tune")
def tune_command(
    env: Environments,
    method: Methods,
    trials: Annotated[int, typer.Option(min=1, help="Configurations per method, the defaults included.")] = 30,
    mode: Annotated[Literal["random", "efficient"], typer.Option(help="random: the paper's protocol.")] = "random",
    metric: Annotated[
        Literal["log_score", "nll", "rmse", "crps"], typer.Option(help="What decides, on validation tasks.")
    ] = "log_score",
    iterations: Annotated[float, typer.Option(min=0.001, max=1.0, help="Share of the iterations of a trial.")] = 1.0,
    split: Split = 0,
    workers: Workers = 1,
    limit: Limit = None,
    out: Out = RESULTS,
    seed: NoSeed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Select configurations on meta-validation tasks; test tasks are not read. The same command continues.

    Example: scoreprior bench tune --env sinusoid --method vanilla-bnn --trials 30
    """
    with talking(quiet, as_json, debug) as talk:
        from scoreprior.bench.cell import ORACLE
        from scoreprior.bench.selected import save_selection
        from scoreprior.bench.tuning import NothingToTuneError, NoTrialSucceededError, Protocol, Study, run_off, tune
        from scoreprior.bench.watch import outcome

        runner = make_runner(workers, limit, keep=True)
        environments, names = known_names(env, method)
        methods = [each for each in names if each != ORACLE]  # the truth has nothing to tune
        protocol = Protocol(mode=mode, metric=metric, iterations=iterations, split=split)
        selections, paths = [], []
        with ExitStack() as stack:
            studies = []
            for name, each in product(environments, methods):
                try:
                    studies.append(Study(out, name, each, trials, protocol))
                except NothingToTuneError as error:
                    talk.say(str(error))
                else:
                    stack.callback(studies[-1].close)
            try:
                for study in studies:  # one after the other, so that trials share compiled code
                    where = f"{study.method} on {study.environment}"
                    for record in tune(study, runner, max(1, workers)):
                        talk.say(f"{where}: {len(study.counted)} of {trials} trials; the last: {outcome(record)}")
                    try:
                        selection = run_off(out, study.select(), runner)
                    except NoTrialSucceededError as error:
                        talk.warn(str(error))
                        continue
                    paths.append(save_selection(out, selection))
                    selections.append(selection)
            except KeyboardInterrupt:
                talk.say("Stopped. The same command continues.")
                raise typer.Exit(INTERRUPTED) from None
        _tell_selections(talk, selections, paths)
        if len(selections) < len(studies):
            raise typer.Exit(1)


@bench_app.command("report")
def report_command(
    out: Out = RESULTS,
    quick: Annotated[bool, typer.Option("--quick", help="Report the records of the quick budget.")] = False,
    split: Split = 0,
    paper_protocol: Annotated[
        bool, typer.Option("--paper-protocol", help="Also the best configuration on test, in its own columns.")
    ] = False,
    into: Annotated[
        Path | None, typer.Option(dir_okay=False, exists=True, help="Markdown page whose tables to fill in.")
    ] = None,
    seed: NoSeed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write report.md, report.tex and report.html beside the records, from nothing but the records.

    Example: scoreprior bench report --out results/bench
    """
    with talking(quiet, as_json, debug) as talk:
        from scoreprior.bench.published import has_results
        from scoreprior.bench.report import write_report

        if not has_results(out):
            raise CallError(f"There are no records in {str(out)!r}; `scoreprior bench run` makes them.")
        budget: Literal["quick", "full"] = "quick" if quick else "full"
        paths, found = write_report(out, budget=budget, split=split, paper_protocol=paper_protocol, into=into)
        talk.result({"files": paths, "findings": found}, *found, *map(str, paths))


@bench_app.command("pack")
def pack_command(
    out: Out = RESULTS, seed: NoSeed = 0, quiet: Quiet = False, as_json: Json = False, debug: Debug = False
) -> None:
    """Fold working files into one archive per environment, to publish; reports and runs read both.

    Example: scoreprior bench pack --out results/bench
    """
    with talking(quiet, as_json, debug) as talk:
        from scoreprior.bench.published import pack

        if not out.is_dir():
            raise CallError(f"There is no directory {str(out)!r}.")
        paths = pack(out)
        talk.result({"files": paths}, *(map(str, paths) if paths else ["There is nothing to pack."]))


def _settings(pairs: list[str]) -> dict[str, Any]:
    from scoreprior.bench.cell import thaw

    found = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        try:
            found[name] = thaw(json.loads(text))
        except ValueError:
            raise CallError(f"--set needs NAME=JSON, such as training.steps=500, not {pair!r}.") from None
    return found


def _tell_selections(talk: Talk, selections: list[Any], paths: list[Path]) -> None:
    lines = [
        f"{each.method} on {each.environment}: {each.protocol['metric']} {each.value:.4g}"
        + (f" (defaults {each.default_value:.4g})" if each.default_value is not None else "")
        + f", {len(each.trials)} trials in {each.seconds:.0f} s{_in_full(each.protocol)}: {json.dumps(each.settings)}"
        for each in selections
    ]
    record = {f"{each.environment}, {each.method}": each.settings for each in selections}
    talk.result({"selected": record, "files": paths}, *lines, *map(str, paths))


def _in_full(protocol: dict[str, Any]) -> str:
    if "in_full" not in protocol:
        return ""
    best, defaults = (
        "failed" if protocol["in_full"][name] is None else f"{protocol['in_full'][name]:.4g}"
        for name in ("selected", "defaults")
    )
    return f"; with all iterations {best} against {defaults} of the defaults"
