"""`scoreprior inspect`: what is in a prior's file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import typer
from rich.table import Table as Grid

from scoreprior import diagnostics
from scoreprior.cli import _comparison
from scoreprior.cli._console import (
    FIGURES,
    Debug,
    Json,
    Quiet,
    Seed,
    Talk,
    check_input,
    check_output,
    talking,
    write_figure,
)
from scoreprior.cli._notes import Notes, choose_columns, open_prior
from scoreprior.cli._tables import need_tasks, read_tasks
from scoreprior.learners import Prior
from scoreprior.learners._function_prior import FunctionPrior
from scoreprior.tasks import InputEncoding
from scoreprior.tasks.input_kinds import DateInput


def inspect_command(
    prior: Annotated[Path, typer.Argument(metavar="PRIOR", help="A file written by `scoreprior fit`.")],
    plot: Annotated[Path | None, typer.Option(help="Figure of functions drawn from the prior.")] = None,
    data: Annotated[Path | None, typer.Option(help="Table to compare the prior with, and to draw.")] = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what is in a prior's file: columns, range of training, learned noise, held-out metrics.

    Example: scoreprior inspect gcs.prior --plot prior.png --data readings.csv
    """
    with talking(quiet, as_json, debug) as talk:
        run_inspect(talk, prior, plot=plot, data=data, seed=seed)


def run_inspect(talk: Talk, prior_file: Path, *, plot: Path | None, data: Path | None, seed: int) -> None:
    """Print what the file says of the prior; draw functions from it, over a table if one is given."""
    check_input(data)
    check_output(plot, prior_file, data, formats=FIGURES)
    opened, notes = open_prior(prior_file)
    prior = opened.unguarded
    facts = _facts(prior, notes)
    held_out = notes.header.get("extra", {}).get("held_out")
    tasks, wide = None, []
    if data is not None:
        columns = choose_columns(notes, None, None, None, prior.dim)
        tasks = need_tasks(read_tasks(data, columns, encoding=notes.encoding)[0], data)
        if not prior.is_point and _has_axis(notes):
            with talk.stage("Comparing the prior with the data"):
                stretches = diagnostics.relative_width(prior, tasks, seed)
            wide = [each for each in stretches if each.ratio >= diagnostics.WIDER]
    if plot is not None:
        from scoreprior.cli import _figures  # matplotlib takes its time

        with talk.stage("Drawing"):
            write_figure(plot, _figures.prior(prior, notes, tasks, seed, wide))
    record = {"file": prior_file, **facts, "held_out": held_out, "metrics": notes.header.get("metrics"), "plot": plot}
    record |= {"wider_than_data": [each._asdict() for each in wide]}
    target = "y" if notes.columns is None else notes.columns.target
    shown: list[Any] = [_grid(prior_file, facts)]
    shown += [_comparison.grid(held_out, target)] if held_out else ["No held-out metrics are in the file."]
    if wide:
        shown.append(_wide_words(wide, notes))
    talk.result(record, *shown)
    if plot is not None:
        talk.say(f"Figure: {plot}")


def _has_axis(notes: Notes) -> bool:
    """Whether the first input has an order along which the prior can be looked at."""
    return notes.encoding is None or notes.encoding.inputs[0].kind != "category"


def _wide_words(wide: list[diagnostics.Stretch], notes: Notes) -> str:
    """Where the prior is wider than the data, in a sentence."""
    first = "the first input" if notes.columns is None else notes.first_input(notes.columns)
    places = ", ".join(f"{each.low:.4g} to {each.high:.4g} ({each.ratio:.1f} times)" for each in wide)
    return (
        f"Before any point is known the prior is wider than the data where {first} is {places}: its 90% interval "
        "against the range that holds 90% of the targets."
    )


def _facts(prior: Prior, notes: Notes) -> dict[str, Any]:
    """What a person may ask of a prior, by name."""
    header, columns, domain = notes.header, notes.columns, notes.domain
    training = header.get("extra", {}).get("training") or {}
    noise = noise_std(prior)
    names: Sequence[str] = [f"input {at + 1}" for at in range(prior.dim)]
    if columns is not None:
        names = columns.inputs
    elif notes.encoding is not None:
        names = notes.encoding.columns
    return {
        "method": header.get("method") or type(prior).__name__,
        "quick": header.get("extra", {}).get("quick"),
        "task column": None if columns is None else columns.task,
        "inputs": list(names),
        "target": None if columns is None else columns.target,
        "kind of target": None if prior.standardizer.warp.is_identity else prior.standardizer.kind.words,
        "input kinds": _kinds(notes, names),
        "range of training": None if domain is None else _ranges(domain, names, notes.encoding),
        "range of target": training.get("target"),
        "tasks": training.get("tasks") or header.get("extra", {}).get("tasks"),
        "points per task": training.get("points_per_task"),
        "noise": noise,
        "inference": prior.inference.describe() if isinstance(prior, FunctionPrior) else None,
        "weights": header.get("extra", {}).get("weights"),
        "versions": header.get("versions"),
        "bytes": header.get("bytes"),
    }


def _kinds(notes: Notes, names: Sequence[str]) -> dict[str, str] | None:
    """What the columns that are no numbers are taken for."""
    inputs = () if notes.encoding is None else notes.encoding.inputs
    return {name: each.words() for name, each in zip(names, inputs) if each.kind != "number"} or None


def _ranges(domain: np.ndarray, names: Sequence[str], encoding: InputEncoding | None) -> dict[str, list[Any]]:
    """Lowest and highest value of every column but categories; dates as text."""
    if encoding is None:
        return {name: [low, high] for name, low, high in zip(names, domain[0], domain[1])}
    found: dict[str, list[Any]] = {}
    for at, (name, each) in enumerate(zip(names, encoding.inputs)):
        low, high = domain[:, encoding.sources.index(at)]
        if each.kind != "category":
            found[name] = each.texts([low, high]) if isinstance(each, DateInput) else [low, high]
    return found


def noise_std(prior: Prior) -> float | None:
    """The learned standard deviation of the noise (of a naive rule: of its error) in the target's units.

    None for a target that is not real: its noise has no one size in these units.
    """
    if not prior.standardizer.warp.is_identity:
        return None
    found: dict[str, Any] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(prior):
        if np.size(leaf) == 1 and isinstance(leaf, (jax.Array, np.ndarray)):
            found.setdefault(str(getattr(path[-1], "name", "")), leaf)  # of an average, the first member's
    value = found.get("noise_std", found.get("width"))
    return None if value is None else float(np.ravel(value)[0]) * float(prior.standardizer.y_std)


def _grid(path: Path, facts: dict[str, Any]) -> Grid:
    table = Grid(title=str(path), title_justify="left", show_header=False, box=None, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for name, value in facts.items():
        if value is not None and value is not False:
            table.add_row(name, _words(name, value))
    return table


def _words(name: str, value: Any) -> str:
    if name == "range of training":
        ends = {
            column: [each if isinstance(each, str) else f"{each:.6g}" for each in pair]
            for column, pair in value.items()
        }
        return "; ".join(f"{column}: {low} to {high}" for column, (low, high) in ends.items())
    if name == "input kinds":
        return "; ".join(f"{column}: {words}" for column, words in value.items())
    if name == "range of target":
        return f"{value[0]:.6g} to {value[1]:.6g}"
    if name == "points per task":
        return f"{value[0]} to {value[2]}, median {value[1]:g}"
    if name == "noise":
        return f"{value:.4g} (standard deviation, in the target's units)"
    if name == "quick":
        return "yes: trained on a small budget"
    if name == "weights":
        return ", ".join(f"{method} {weight:.3f}" for method, weight in value.items())
    if name == "versions":
        return ", ".join(f"{package} {version}" for package, version in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else f"{value:,}" if name == "bytes" else str(value)
