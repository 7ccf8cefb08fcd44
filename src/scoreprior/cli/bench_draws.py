"""`scoreprior bench draws`: draws of learned priors against true functions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scoreprior.cli._bench import Environments, Methods, Out, Split, checked, known_names
from scoreprior.cli._console import CallError, Debug, Json, NoSeed, Quiet, talking, write


def draws_command(
    env: Environments,
    method: Methods,
    tasks: Annotated[int | None, typer.Option(min=1, help="Number of training tasks; otherwise the usual.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds 0, 1, ... of every fit.")] = 1,
    points: Annotated[int, typer.Option(min=1, help="Points of a set.")] = 10,
    draws: Annotated[int, typer.Option(min=2, help="Functions of either sample.")] = 200,
    sets: Annotated[int, typer.Option(min=2, help="Sets of points, each with new functions.")] = 50,
    split: Split = 0,
    out: Out = Path("results/draws"),
    seed: NoSeed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Energy distance between prior draws and true functions, with the methods' defaults; writes records and draws.md.

    Example: scoreprior bench draws --env sawtooth --method hierarchical-gp,mars-gp
    """
    with talking(quiet, as_json, debug) as talk:
        from scoreprior.bench.cell import ORACLE
        from scoreprior.bench.draws import Comparison, NoDrawsError, draws_table, measure, true_family
        from scoreprior.bench.plan import tasks_of_cell
        from scoreprior.bench.report.markdown import markdown, markdown_table

        environments, names = known_names(env, method)
        records = []
        try:
            for name in environments:
                true_family(name)
            for name in environments:
                number = checked(tasks_of_cell, name, split, tasks)
                for each in [each for each in names if each != ORACLE]:
                    for one in range(seeds):
                        wanted = Comparison(name, each, one, split, number, points, draws, sets)
                        records.append(measure(wanted, out))
                        talk.say(f"{each} on {name}, seed {one}: done")
        except NoDrawsError as error:
            raise CallError(str(error)) from error
        if not records:
            raise CallError("Name at least one method that learns: two true samples are compared with any.")
        table = draws_table(records)
        path = out / "draws.md"
        write(path, markdown("Prior draws", [], [table]).encode())
        result = {"records": records, "files": [path]}
        talk.result(result, markdown_table(table), str(path))
