"""`scoreprior bench suite`: how often a method is first, over environments and data splits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from scoreprior.cli._bench import Environments, Out, checked, known_splits
from scoreprior.cli._console import CallError, Debug, Json, NoSeed, Quiet, talking, write


def suite_command(
    env: Environments = "suite",
    method: Annotated[
        str | None, typer.Option(help="Methods with commas between; by default all that have records.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Data splits with commas between; by default all that have records.")
    ] = None,
    part: Annotated[Literal["test", "valid"], typer.Option(help="Which unseen tasks.")] = "test",
    quick: Annotated[bool, typer.Option("--quick", help="The records of the quick budget.")] = False,
    out: Out = Path("results/suite"),
    seed: NoSeed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write suite.md: on how many environments and splits a method is first, not worse, worse; from records alone.

    Example: scoreprior bench suite --out results/suite
    """
    with talking(quiet, as_json, debug) as talk:
        from scoreprior.bench.plan import known_methods, named_environments
        from scoreprior.bench.published import has_results
        from scoreprior.bench.report.markdown import markdown, markdown_table
        from scoreprior.bench.report.suite import METRICS, count_standings, methods_of, pairs_of, suite_tables

        environments = checked(named_environments, env)
        wanted = None if method is None else checked(known_methods, method)
        splits = None if split is None else known_splits(split)
        budget: Literal["quick", "full"] = "quick" if quick else "full"
        pairs = pairs_of(out, environments, splits=splits, budget=budget, part=part) if has_results(out) else []
        if not pairs:
            raise CallError(f"There are no such records in {str(out)!r}; `scoreprior bench run` makes them.")
        methods = [each for each in methods_of(pairs) if wanted is None or each in wanted]
        tables = suite_tables(pairs, methods)
        path = out / "suite.md"
        title = "Methods over environments and splits" + (", validation tasks" if part == "valid" else "")
        write(path, markdown(title, [], tables).encode())
        counts = {metric: count_standings(pairs, methods, metric) for metric in METRICS}
        talk.result({"pairs": len(pairs), "counts": counts, "files": [path]}, markdown_table(tables[0]), str(path))
