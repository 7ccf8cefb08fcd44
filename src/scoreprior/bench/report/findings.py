"""What the records say, in sentences that are computed from them: where MARS is not first, before anything else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from scoreprior.bench.catalogue import (
    ABLATIONS,
    ALONE,
    LEARNED,
    MARS,
    MARS_LETTER,
    MARS_PAPER,
    PAPER_ENVIRONMENTS,
    RULES,
    STAND_INS,
    ablated,
    paper_figure,
    to_the_letter,
)
from scoreprior.bench.report.ranking import best_of, bold, competitors
from scoreprior.bench.report.results import Results
from scoreprior.bench.report.significance import LEVEL, worse
from scoreprior.bench.report.table import number, shown

_LEVEL = 1e-4  # relative; records keep five digits of a task
METRICS = {"rmse": "RMSE", "log_score": "log score", "pooled_calibration_error": "pooled calibration"}
_NAMES = METRICS | {"nll": "NLL"}


class Standing(NamedTuple):
    """MARS against the best of some other methods, by one metric on one environment.

    `is_bold` says that it is not significantly worse, by the test and the correction of the tables.
    """

    environment: str
    metric: str
    mars: str
    mars_mean: float
    other: str
    other_mean: float
    is_bold: bool

    @property
    def is_level(self) -> bool:
        """Two ways to the same prediction differ by round-off."""
        return abs(self.mars_mean - self.other_mean) <= _LEVEL * abs(self.other_mean)

    @property
    def is_first(self) -> bool:
        """No other method has a better mean."""
        return self.mars_mean <= self.other_mean or self.is_level

    @property
    def is_worse(self) -> bool:
        """Significantly behind the best of the others."""
        return not self.is_first and not self.is_bold

    def __str__(self) -> str:
        other, mars = number(self.other_mean), number(self.mars_mean)
        if other == mars:  # differ they do, or nothing would be said
            other, mars = f"{self.other_mean:.4g}", f"{self.mars_mean:.4g}"
        figures = f"{other} against {mars} of {self.mars}"
        return f"{_NAMES[self.metric]} on {self.environment} ({self.other}: {figures})"


def findings(results: Results) -> list[str]:
    """Paragraphs; the first says where MARS is not first."""
    return [mars_standing(results), paper_reached(results), ablations(results)]


def standings(results: Results, others: Sequence[str]) -> list[Standing]:
    """The better of the two MARS against the best of the others, wherever both compete."""
    found = []
    for environment in results.environments:
        methods = (*others, *MARS)
        for metric in ("rmse", results.log_metric(environment, methods), "pooled_calibration_error"):
            entries = competitors(results, environment, metric, methods)
            mars, rival = best_of(entries, metric, MARS), best_of(entries, metric, others)
            if mars is not None and rival is not None:
                is_bold = mars[1] in bold(results, environment, metric, methods)
                found.append(Standing(environment, metric, mars[1], mars[0], rival[1], rival[0], is_bold))
    return found


def mars_standing(results: Results) -> str:
    """Where MARS is not first among the methods that learn, and where a rule without learning does better."""
    learned, rules = standings(results, (*ALONE, *LEARNED)), standings(results, RULES)
    if not learned and not rules:
        return "MARS has not been run beside other methods yet: nothing can be said of where it stands."
    behind = [each for each in learned if not each.is_first and not each.is_worse]
    worse_than = [each for each in learned if each.is_worse]
    beaten = [each for each in rules if not each.is_first]
    level = sum(each.is_level for each in learned)
    sentences = [
        f"MARS (the better of {' and '.join(MARS)}) is first among the learned methods in "
        f"{sum(each.is_first for each in learned) - level} of {len(learned)} comparisons (environments times "
        f"{', '.join(METRICS.values())}), and level with the first in {level}."
    ]
    if worse_than:
        sentences.append(f"It is not first, and significantly worse than the best, in {_listed(worse_than)}.")
    if behind:
        sentences.append(f"It is not first, but not significantly worse, in {_listed(behind)}.")
    if clearly := [each for each in beaten if each.is_worse]:
        sentences.append(f"A rule without learning does significantly better in {_listed(clearly)}.")
    if slightly := [each for each in beaten if not each.is_worse]:
        sentences.append(f"A rule without learning does better, but not significantly, in {_listed(slightly)}.")
    if rules and not beaten:
        sentences.append(f"It is better than every rule without learning in all {len(rules)} comparisons.")
    if without := list(dict.fromkeys(each.environment for each in (*learned, *rules) if each.metric == "nll")):
        sentences.append(f"By NLL instead of the log score, which some records lack: {', '.join(without)}.")
    missing = [name for name in results.environments if all(results.get(name, method) is None for method in MARS)]
    if missing:
        sentences.append(f"It has not been run on {', '.join(missing)}.")
    compared = {each.environment for each in (*learned, *rules)}
    alone = [name for name in results.environments if name not in (*missing, *compared)]
    if alone:
        sentences.append(f"It has too few seeds to be compared on {', '.join(alone)}.")
    few = sorted({each.environment for each in learned if _tasks(results, each.environment) < 10})
    if few:
        sentences.append(f"With fewer than ten test tasks ({', '.join(few)}) a test finds only large differences.")
    return " ".join(sentences)


def paper_reached(results: Results) -> str:
    """Whether the paper's configuration, repaired or to the letter, reaches its RMSE within one standard deviation."""
    parts = []
    for environment in PAPER_ENVIRONMENTS:
        for method in (*MARS_PAPER, *MARS_LETTER) if environment not in STAND_INS else ():
            entry, paper = results.get(environment, method), paper_figure("table1", method, environment)
            ours = entry.figure("rmse") if entry is not None else None
            if paper is None or ours is None:
                parts.append(f"{method} on {environment}: {results.why_missing(environment, method)}")
                continue
            verdict = "reached" if ours.mean <= paper.mean + paper.std else "not reached"
            parts.append(f"{method} on {environment}: {verdict} ({shown(ours)}; the paper: {shown(paper)})")
    return (
        "The paper's RMSE, within one of its standard deviations, by its configuration repaired and to the letter: "
        + "; ".join(parts)
        + "."
    )


def ablations(results: Results) -> str:
    """On how many environments an ablation is worse than MARS in pooled calibration or log score, as in the paper."""
    parts = []
    for name in ("mars-ssge", *to_the_letter(ABLATIONS)):
        base = ablated(name) or ""
        compared = [_worse_by(results, environment, name, base) for environment in PAPER_ENVIRONMENTS]
        known = [p for p in compared if p is not None]
        clearly = sum(p < LEVEL for p in known)
        verdict = f"worse on {sum(p < 1 for p in known)} of {len(known)}, significantly on {clearly}"
        parts.append(f"{name}: {verdict if known else 'not run'}")
    return (
        f"Ablations, worse than the method they are made from (with the same seeds) in pooled calibration or log score "
        f"on so many of the paper's {len(PAPER_ENVIRONMENTS)} environments: " + "; ".join(parts) + "."
    )


def _worse_by(results: Results, environment: str, ablation: str, base: str) -> float | None:
    """The p-value of "no worse in either"; 1 where its means are no worse.

    By the seeds that both have: an ablation that changes nothing is not worse because it had fewer.
    """
    part, whole = (results.get(environment, name) for name in (ablation, base))
    seeds = set() if part is None or whole is None else {*part.seeds} & {*whole.seeds}
    if part is None or whole is None or not seeds:
        return None
    part, whole = part.only(seeds), whole.only(seeds)
    p = [1.0]
    for metric in ("pooled_calibration_error", results.log_metric(environment, (ablation, base))):
        one, other = part.figure(metric), whole.figure(metric)
        if one is not None and other is not None and one.mean > other.mean:
            p.append(min(2 * worse(whole.values(metric), part.values(metric)), 1 - 1e-9))  # one of two tests
    return min(p)


def _tasks(results: Results, environment: str) -> int:
    entries = (results.get(environment, name) for name in MARS)
    return min(int(entry.records[0]["summary"]["n_tasks"]) for entry in entries if entry is not None)


def _listed(standings: Sequence[Standing]) -> str:
    return "; ".join(map(str, standings))
