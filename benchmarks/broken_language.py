"""How soon the rules of `ragtide rules template falls` see a retriever that breaks for one language.

    python benchmarks/broken_language.py [--streams 200] [--min-effect 0.05]

Rows are real questions and documents: RAGBench in English (tests/data/ragbench), and the languages of
tests/data/multilingual. From some point on every interaction of one language has the documents of another question,
and the answer is taken from them. Local labeler; every rule has 10,000 values between false alarms, on average.

Streams draw scores with replacement, the rule itself learns from clean ones and then takes broken ones
(`ragtide_offline.benchmark.delays`). Counted are interactions of the language until the alert.

- *by language*: the rule with `segment = "lang"`; median, and the number by which 95% of the streams have an alert.
- *relevance*: the same rule on `trace.context_relevance`.
- *whole pipeline*: the default rule on `retrieval.match` without a segment, in traffic of ten languages of which one
  breaks.
- *false alarms*: share of streams of the first rule that alarm within 2,000 interactions though nothing breaks.
"""

import argparse
import json
import tomllib
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from languages import rows_of
from numpy.typing import NDArray

from ragtide import AlertRule, LocalLabeler, RagInteraction
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_offline.benchmark.delays import WITHIN, Delay, simulated_delay
from ragtide_offline.corruptions.interactions import CORRUPTIONS, spoil
from ragtide_roles.rule_templates import fill_template
from ragtide_runtime.settings.alerting import DEFAULT_RULES

DATA: Final = Path(__file__).parents[1] / "tests" / "data"
RAGBENCH: Final = "en (RAGBench)"
MATCH: Final = "retrieval.match"
RELEVANCE: Final = "trace.context_relevance"
LANGUAGES: Final = 10
"""Languages of the traffic of a whole pipeline, in equal parts."""

Floats = NDArray[np.float64]


class Scores(NamedTuple):
    """Scores of the same rows before and after the retriever breaks, by metric; NaN for an absent one."""

    clean: dict[str, Floats]
    broken: dict[str, Floats]


def ragbench_rows() -> list[RagInteraction]:
    """Return the rows of RAGBench."""
    lines = (DATA / "ragbench" / "ragbench_sample.jsonl").read_text(encoding="utf-8").splitlines()
    return [
        RagInteraction(
            interaction_id=row["id"],
            pipeline="languages",
            question=row["question"],
            documents=row["documents"],
            response=row["response"],
        )
        for row in map(json.loads, lines)
    ]


def rows_by_language() -> dict[str, list[RagInteraction]]:
    """Return the rows of each language."""
    files = sorted((DATA / "multilingual").glob("*.json"))
    return {RAGBENCH: ragbench_rows(), **{path.stem: rows_of(path) for path in files}}


def scores_of(rows: list[RagInteraction]) -> Scores:
    """Return the scores of rows that have a clean match, before and after the retriever breaks."""
    labeler = LocalLabeler()
    clean, broken = [], []
    for row in rows:
        after = spoil(CORRUPTIONS["broken retriever"], row, rows)
        before = labeler.label_now(row).scores
        if after is not None and MATCH in before:
            clean.append(before)
            broken.append(labeler.label_now(after).scores)
    return Scores(
        *({m: np.array([s.get(m, np.nan) for s in found]) for m in (MATCH, RELEVANCE)} for found in (clean, broken))
    )


def template_rule() -> AlertRule:
    """Return the rule of the template on the match of each language."""
    rules = [AlertRule.model_validate(rule) for rule in tomllib.loads(fill_template("falls", "shop"))["alerts"]]
    (found,) = [rule for rule in rules if rule.metric == MATCH and rule.segment == "lang"]
    return found


def default_rule() -> AlertRule:
    """Return the default rule on the match of a whole pipeline."""
    (found,) = [rule for rule in DEFAULT_RULES if rule.metric == MATCH]
    return found


def delay_of(rule: AlertRule, clean: Floats, after: Floats, streams: int, seed: int = 0) -> Delay:
    """Return the delay of a rule whose values are drawn from scores, before and after a change."""
    there = ~np.isnan(clean)
    weights = np.full(there.sum(), 1 / there.sum())
    key = EstimateKey("shop", None, None, rule.metric, "ragbench", "local", LocalLabeler.version)
    return simulated_delay(clean[there], after[there], weights, key, seed=seed, rule=rule, runs=streams)


def whole_pipeline(language: str, found: dict[str, Scores], streams: int) -> Delay:
    """Return the delay of the default rule in traffic of some languages of which one breaks, in all interactions."""
    others = [name for name in found if name not in (language, RAGBENCH)][: LANGUAGES - 1]
    size = min(found[name].clean[MATCH].size for name in [language, *others])
    clean = [found[name].clean[MATCH][:size] for name in [language, *others]]
    after = [found[language].broken[MATCH][:size], *clean[1:]]
    return delay_of(default_rule(), np.concatenate(clean), np.concatenate(after), streams)


def delay_text(number: int | None, share: int = 1) -> str:
    """Return a delay, in interactions of a language with one part of so many of the traffic."""
    return f"over {WITHIN // share:,}" if number is None else f"{-(-number // share):,}"


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--min-effect", type=float, help="of the rule by language, in place of the template's")
    arguments = parser.parse_args()
    streams = arguments.streams
    found = {name: scores_of(rows) for name, rows in rows_by_language().items()}
    rule = template_rule()
    if arguments.min_effect is not None:
        rule = rule.model_copy(update={"min_effect": arguments.min_effect})
    relevance = rule.model_copy(update={"metric": RELEVANCE})
    print("# A retriever that breaks for one language\n\nWritten by `python benchmarks/broken_language.py`.\n")
    print(f"Interactions of the language until the alert, {streams} streams, local labeler `{LocalLabeler.version}`.\n")
    heads = ["language", "rows", "match before", "after", "by language: median", "95%", "relevance: median"]
    heads += ["whole pipeline: median", "false alarms"]
    print(f"| {' | '.join(heads)} |")
    print("|---" * len(heads) + "|")
    for name, scores in found.items():
        clean, broken = scores.clean[MATCH], scores.broken[MATCH]
        by_language = delay_of(rule, clean, broken, streams)
        cells: list[Any] = [
            name,
            clean.size,
            f"{clean.mean():.3f}",
            f"{np.nanmean(broken):.3f}",
            delay_text(by_language.median),
            delay_text(by_language.late),
            delay_text(delay_of(relevance, scores.clean[RELEVANCE], scores.broken[RELEVANCE], streams).median),
            delay_text(whole_pipeline(name, found, streams).median, LANGUAGES),
            f"{delay_of(rule, clean, clean, streams).alerted:.0%}",
        ]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
