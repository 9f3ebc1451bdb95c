"""How soon falls are found by the local labeler alone, by a judge of a sample, and by thumbs; and what that costs.

    python benchmarks/falls.py ROWS [ROWS ...] [--runs 400] [--each 6] [--per-set 60]

Seeded. ROWS are files of labeled rows, as `ragtide trust figures` reads them. Each answer of a simulated pipeline is a
row of one set. Before the fall 90% of the answers are supported; after it .1, .2 or .4 fewer: other rows whose answers
the labels call unsupported, or the same rows spoilt in one way. `RuleEvaluator`, which the aggregator uses, takes the
values with the default rules.

- *local*: the rules on the local labeler's scores of these texts.
- *judge*: a verdict on a share of the answers, simulated from the labels: each verdict is flipped with the same
  probability, so that verdicts and labels agree to a kappa where 87% of the answers are supported, as in RAGBench's
  sets but ExpertQA. The judge sees spoilt answers, too, if documents no longer support them. A *cascade* has both; the
  verdicts of a run are drawn apart from its local scores.
- *boost*: the share is raised while the rule on the verdicts is suspicious, as the label workers do.
- *thumbs*: simulated like a judge of kappa .4 on 3% of the answers.

A run with an alarm before the fall is left out. The limit is log(run length) / KL(verdicts after || before), to which
the mean delay of the best rule tends as false alarms get rare (Lorden 1971).
"""

import argparse
import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Final

import numpy as np
from falling_pipelines import (
    BEFORE,
    FAULTS,
    NATURAL,
    QUIET,
    SUPPORTED,
    UNSUPPORTED,
    WITHIN,
    Found,
    Judge,
    LabeledSet,
    both,
    flipped_for,
    judged_falls,
    limit,
    local_falls,
    quiet_judged,
    quiet_local,
    read_sets,
    saved_by_score,
)  # fmt: skip

from ragtide_offline.runs import planned_cost
from ragtide_producers import Row
from ragtide_runtime.settings.model import Settings

FALLS: Final = (0.1, 0.2, 0.4)
KAPPAS: Final = (0.4, 0.6, 0.8)
RATES: Final = (0.05, 0.1)
BOOST: Final = 8.0
THUMBS: Final = (0.03, 0.4)
"""Share of answers with a thumb, and kappa of thumbs and labels."""
QUIET_RUNS: Final = 20
PRICED: Final = ("gpt-5-mini", {"input": 0.25, "output": 2.0})
"""The judge whose price is shown, with dollars per million tokens."""


def dollars(sets: Sequence[LabeledSet]) -> float:
    """Return the price of one judgement of the rows, by their texts and the prompts of the judge."""
    model, price = PRICED
    settings = Settings.model_validate(
        {"labeler": "judge", "judge": {"model": model, "api_key": "none", "prices": {model: price}}}
    )
    rows = [Row(number, row) for number, row in enumerate((row for given in sets for row in given.interactions), 1)]
    plan = asyncio.run(planned_cost(settings, rows, keeps_answers=False))
    return plan.calls.cost_usd / plan.rows


def judge_name(share: float, kappa: float, boost: float = 1.0) -> str:
    """Return the name of a judge in the tables."""
    return f"judge of {share:.0%}, kappa {kappa}" + (f", boost {boost:g}" if boost > 1 else "")


USUAL: Final = (judge_name(RATES[0], 0.6), judge_name(RATES[0], 0.6, BOOST), judge_name(RATES[1], 0.6))
"""The judges of the tables by fault."""


def judges() -> dict[str, Judge]:
    """Return the judges of the table, by name."""
    ways = ((RATES[0], 1.0), (RATES[0], BOOST), (RATES[1], 1.0))
    named = {
        judge_name(share, kappa, boost): Judge(share, flipped_for(kappa), boost)
        for share, boost in ways
        for kappa in KAPPAS
    }
    share, kappa = THUMBS
    named[f"thumbs on {share:.0%}"] = Judge(share, flipped_for(kappa), metric="feedback.positive", labeler="gold")
    return named


def shares(found: Found) -> str:
    """Return the shares found within the horizons, as a cell."""
    return " / ".join(f"{found.within(answers):.0%}" for answers in WITHIN)


def number(value: float) -> str:
    """Return a number of answers, as a cell."""
    return f"over {WITHIN[-1]:,}" if value == inf else f"{value:,.0f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def report(sets: Sequence[LabeledSet], runs: int, each: int) -> Iterator[str]:
    """Yield the parts of the page."""
    rng, price = np.random.default_rng(0), dollars(sets)
    found = {name: [judged_falls(judge, fall, runs) for fall in FALLS] for name, judge in judges().items()}
    local = {fault: [local_falls(sets, fault, fall, each) for fall in FALLS] for fault in FAULTS}
    quiet = quiet_local(sets, each)
    horizons = " / ".join(f"{answers:,}" for answers in WITHIN)
    yield (
        f"{runs} runs of each judge, {each} of each of {len(sets)} sets on local scores: a share of runs has a standard"
        f" error of at most {0.5 / runs**0.5:.1%} and {0.5 / (each * len(sets)) ** 0.5:.1%}. Below the"
        f" first row the local labeler's rules count, too. Dollars are those of {PRICED[0]} for these texts."
        " A fault after which an answer may be as well supported as before moves no verdict: its row is that of the "
        "local labeler."
    )
    yield f"## Answers that are no longer supported: share found within {horizons} answers"
    rows = [["local labeler alone", *map(shares, local[NATURAL]), f"{quiet[0]:.1f}", "0.00"]]
    for name, judge in judges().items():
        cost = price * found[name][0].calls if judge.labeler == "judge" else 0.0
        cells = [shares(both(*pair, rng)) for pair in zip(found[name], local[NATURAL], strict=True)]
        rows.append([name, *cells, f"{quiet_judged(judge, QUIET_RUNS)[0] + quiet[0]:.1f}", f"{cost:.2f}"])
    after = [f"{SUPPORTED:.0%} to {SUPPORTED - fall:.0%}" for fall in FALLS]
    yield table(["", *after, f"false alarms in {QUIET:,}", "dollars for 10,000 answers"], rows)
    yield from _faults(local, found, rng, horizons)
    yield "## Beside the limit"
    yield table(
        ["judge", "answers before", "fall", "median", "90%", "95%", "judged, median", "limit", "ratio"],
        _beside_limit(runs),
    )
    yield "## Judging more while a pipeline is suspected"
    yield table(["judge", "judged of 10,000 without a fall", *[f"median, {name}" for name in after]], _boosts(found))
    yield (
        f"The rules on local scores raise the share, too: without a fall they are suspicious at {quiet[1]:.1%} of the "
        "answers.\n\nA share that follows the local labeler's doubt about each answer saves little: judging answers by "
        "the spread of the labels in their fifth of the local scores, instead of evenly, gives the mean with the same "
        f"precision for at most {saved_by_score(sets):.0%} fewer calls."
    )


def _faults(
    local: Mapping[str, Sequence[Found]], found: Mapping[str, Sequence[Found]], rng: np.random.Generator, horizons: str
) -> Iterator[str]:
    for place, fall in enumerate(FALLS):
        rows = []
        for fault, alone in local.items():
            cells = [shares(alone[place])]
            for name in USUAL:
                judged = found[name][place]
                cells.append(shares(both(judged, alone[place], rng) if fault in UNSUPPORTED else alone[place]))
            rows.append([fault, *cells])
        yield f"## {fall:.0%} of the answers with a fault: share found within {horizons} answers"
        yield table(["fault", "local labeler alone", *(f"and a {name}" for name in USUAL)], rows)


def _beside_limit(runs: int) -> Iterator[Sequence[str]]:
    for kappa in KAPPAS:
        judge = Judge(RATES[-1], flipped_for(kappa))
        for before in (2_000, BEFORE):
            for fall in FALLS:
                found, least = judged_falls(judge, fall, runs, before=before, seed=1), limit(judge, fall)
                # The median of the answers that a judge saw has no meaning if half of the runs found nothing.
                judged = float(np.median(found.judged)) if found.within(WITHIN[-1]) > 0.5 else inf
                ratio = "" if judged == inf else f"{judged / least:.2f}"
                yield (
                    f"{judge.share:.0%}, kappa {kappa}", f"{before:,}", f"{SUPPORTED:.0%} to {SUPPORTED - fall:.0%}",
                    *(number(found.quantile(share)) for share in (0.5, 0.9, 0.95)),
                    "" if judged == inf else f"{judged:,.0f}", f"{least:,.0f}", ratio,
                )  # fmt: skip


def _boosts(found: Mapping[str, Sequence[Found]]) -> Iterator[Sequence[str]]:
    for name, of_falls in found.items():
        if "kappa 0.6" in name:
            yield name, f"{of_falls[0].calls:,.0f}", *(number(given.quantile(0.5)) for given in of_falls)


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path, nargs="+")
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--each", type=int, default=6)
    parser.add_argument("--per-set", type=int, default=60)
    given = parser.parse_args()
    sets = read_sets(given.rows, given.per_set)
    print("# Falls, and when they are found\n\nWritten by `make falls ROWS=FILES` (`benchmarks/falls.py`).\n")
    print("\n\n".join(report(sets, given.runs, given.each)))


if __name__ == "__main__":
    main()
