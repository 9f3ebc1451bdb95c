"""Tokens and dollars of TRACe alone and with 1, 5 and 20 criteria, with and without reasons, in one call or two.

    python benchmarks/criteria_cost.py [--items 100]

The prompts are the real ones, for the demo's interactions (RAGBench). The answers are written as a judge would write
them, with a sentence of fixed length as each reason. Tokens are those of ragtide's estimate. Printed as Markdown.
"""

import argparse
import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, cast

from ragtide import RagInteraction
from ragtide.testing import JudgePrompt, Labels
from ragtide_consumers.labelers.judge.labeler import JudgeLabeler
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_consumers.text.splitting import estimated_tokens
from ragtide_runtime.settings.model import Settings
from ragtide_schemas.criterion import BUILT_IN

ROWS: Final = Path(__file__).parents[1] / "offline" / "ragtide_offline" / "data" / "demo_interactions.jsonl"
PRICE: Final = {"input": 0.25, "output": 2.0}
"""Dollars per million tokens: the list price of gpt-5-mini in genai-prices 0.2.3."""

REASON: Final = "The second document states the year and the place, and no document supports the rest of the sentence."
COUNTS: Final = (1, 5, 20)

QUESTIONS: Final = (
    "Does the response ask a clarifying question when the user's question is ambiguous?",
    "Does the response name the source of each fact that it states?",
    "Is the tone of the response polite and free of irony?",
    "Does the response keep to the language of the question?",
)
SCALES: Final[tuple[dict[str, Any], ...]] = (
    {"scale": "yes_no"},
    {"scale": "1-5"},
    {"values": {"good": 1.0, "partly": 0.5, "bad": 0.0}},
)

HEADER: Final = """# What criteria cost

Written by `python benchmarks/criteria_cost.py`: the real prompts for {items} interactions of the demo (RAGBench;
{documents:.1f} documents each; the response is also the reference answer), and answers of the form that is asked for,
in which each reason is a sentence of {words} words. A model may write shorter or longer reasons, and reasoning models
think before they answer. Tokens are those of ragtide's estimate, which is rather too high. Dollars are at ${input:g}
and ${output:g} per million tokens of prompt and answer (list price of gpt-5-mini, genai-prices 0.2.3), without the
discount for cached prompts, though the rules with the criteria are the same in every prompt. The first criterion is
`answer.relevance`, and the first four are the built-in ones; the others are questions of one sentence on three scales.
All figures are for 1,000 interactions.

| criteria | reasons | call | calls | prompt tokens | answer tokens | dollars | beside TRACe alone |
|---|---|---|---|---|---|---|---|"""


@dataclass(frozen=True, slots=True)
class Cost:
    """Means per 1,000 interactions."""

    calls: float
    prompt_tokens: float
    answer_tokens: float

    @property
    def usd(self) -> float:
        """Dollars."""
        return (self.prompt_tokens * PRICE["input"] + self.answer_tokens * PRICE["output"]) / 1e6


def criteria(count: int) -> list[dict[str, Any]]:
    """Return criteria: the built-in ones first."""
    built_in = [{"name": name} for name in islice(BUILT_IN, count)]
    own = [
        {"name": f"own_{number}", "question": QUESTIONS[number % len(QUESTIONS)], **SCALES[number % len(SCALES)]}
        for number in range(count - len(built_in))
    ]
    return built_in + own


def answer_to(prompt: JudgePrompt) -> str:
    """Return an answer with reasons of a usual length, if the prompt asks for reasons."""
    reasons = {asked.question: REASON for asked in prompt.criteria.values()}
    text = Labels(reasons=reasons).answer(prompt)
    fields = json.loads(text)
    if "relevance_explanation" in json.dumps(prompt.body["response_format"]):
        return text.replace("shared words", REASON)
    for name in ("relevance_explanation", "overall_supported_explanation"):
        fields.pop(name, None)
    for entry in fields.get("sentence_support_information", []):
        entry.pop("explanation", None)
    return json.dumps(fields)


async def cost_of(rows: Sequence[RagInteraction], **changes: Any) -> Cost:
    """Return the cost of judging interactions with changes of the judge's settings."""
    judge = {"model": "m", "base_url": "http://127.0.0.1:9/v1", "cache_ttl_s": 0.0, "language": "en", **changes}
    calls = prompt_tokens = answer_tokens = 0
    async with labeler_of(Settings.model_validate({"labeler": "judge", "judge": judge}), None) as found:
        labeler = cast("JudgeLabeler", found)
        for row in rows:
            prompt_tokens += (await labeler.planned_calls(row)).prompt_tokens
            requests = await labeler.uncached_requests(row)
            calls += len(requests)
            answer_tokens += sum(estimated_tokens(answer_to(JudgePrompt(request.body))) for request in requests)
    return Cost(1000 * calls / len(rows), 1000 * prompt_tokens / len(rows), 1000 * answer_tokens / len(rows))


async def measure(rows: Sequence[RagInteraction]) -> list[tuple[int, str, str, Cost]]:
    """Return number of criteria, reasons, call and cost of each case."""
    found = []
    for reasons in ("kept", "none"):
        found.append((0, reasons, "shared", await cost_of(rows, reasons=reasons)))
        for count in COUNTS:
            for call in ("shared", "own"):
                cost = await cost_of(rows, reasons=reasons, criteria=criteria(count), criteria_call=call)
                found.append((count, reasons, call, cost))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=100)
    options = parser.parse_args()
    with ROWS.open(encoding="utf-8") as file:
        decoded = [RagInteraction.decode(line.encode()) for line in islice(file, options.items)]
    rows = [row.model_copy(update={"reference_answer": row.response}) for row in decoded]
    documents = sum(len(row.documents) for row in rows) / len(rows)
    print(HEADER.format(items=len(rows), documents=documents, words=len(REASON.split()), **PRICE))
    alone: dict[str, Cost] = {}
    for count, reasons, call, cost in asyncio.run(measure(rows)):
        base = alone.setdefault(reasons, cost)
        with_reasons = "yes" if reasons == "kept" else "no"
        shown = call if count else "TRACe alone"
        more = f"{cost.usd / base.usd:.2f} times" if count else ""
        print(
            f"| {count} | {with_reasons} | {shown} | {cost.calls:,.0f} | {cost.prompt_tokens:,.0f} "
            f"| {cost.answer_tokens:,.0f} | {cost.usd:.3f} | {more} |"
        )


if __name__ == "__main__":
    main()
