"""Calls and tokens of the judge for an agent's runs with 1, 4 and 16 calls of tools, alone and with criteria.

    python benchmarks/call_costs.py [--items 50]

The prompts are the real ones, the client and HTTP are the real ones, and the judge is scripted. Documents are made of
the sentences of the demo's documents (RAGBench). Tokens are those of ragtide's estimate. Printed as Markdown.
"""

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

from ragtide import RagInteraction
from ragtide.testing import ScriptedJudge
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_consumers.text.sentences import cut
from ragtide_consumers.text.splitting import estimated_tokens

ROWS: Final = Path(__file__).parents[1] / "offline" / "ragtide_offline" / "data" / "demo_interactions.jsonl"
CALLS: Final = (0, 1, 4, 16)
"""Calls of a run; 0 stands for the same documents as those of one call, without a call."""
DOCUMENTS: Final = 5
"""Documents of a call."""
WORDS: Final = 120
"""Words from which on a document ends with its sentence."""
TOOLS: Final = ("search_handbook", "order_status", "search_letters", "fetch_page")
PARALLEL: Final = 2
"""Calls of a round."""

PLAIN: Final = {
    "name": "polite",
    "question": "Is the tone of the response polite and free of irony?",
    "scale": "yes_no",
}
OF_CALLS: Final = {
    "name": "looked_up",
    "question": "Was everything that the response promises looked up before?",
    "scale": "yes_no",
    "parts": ["question", "calls", "answer"],
}
CASES: Final[dict[str, list[dict[str, Any]]]] = {
    "none": [],
    "one": [PLAIN],
    "one, and one that reads the calls": [PLAIN, OF_CALLS],
}
"""Criteria that are asked, by their names in the table."""

HEADER: Final = """# What a run with calls costs a judge

Written by `make callcosts`: {items} runs of each kind. A call returns {documents} documents of about {words} words, and
two calls make a round. All sentences of all calls are labeled in one answer of the judge. The judge is scripted and
answers at once, without faults, so nothing is asked again; a judge whose answers have faults is asked more often.
Tokens are those of ragtide's estimate, which is rather too high.

| calls of a run | documents | criteria | calls of the judge | prompt tokens | answer tokens |
|---|---|---|---|---|---|"""


@dataclass(frozen=True, slots=True)
class CallCost:
    """Means of a run."""

    judge_calls: float
    prompt_tokens: float
    answer_tokens: float


def runs(calls: int, items: int) -> list[RagInteraction]:
    """Return runs with a number of calls each, made of the demo's questions, answers and documents."""
    with ROWS.open("rb") as file:
        rows = [RagInteraction.decode(line) for line in file]
    sentences = cycle([sentence for row in rows for document in cut(row).documents for sentence in document])

    def document() -> str:
        text: list[str] = []
        while sum(len(sentence.split()) for sentence in text) < WORDS:
            text.append(next(sentences))
        return " ".join(text)

    made = []
    for number, row in enumerate(islice(cycle(rows), items)):
        steps = [
            {
                "name": TOOLS[call % len(TOOLS)],
                "kind": "tool",
                "round": 1 + call // PARALLEL,
                "query": row.question[:120],
                "documents": list(range(DOCUMENTS * call, DOCUMENTS * (call + 1))),
                "returned": DOCUMENTS,
                "latency_s": 0.2,
            }
            for call in range(calls)
        ]
        fields = {
            "interaction_id": f"run-{number}",
            "pipeline": "agent",
            "question": row.question,
            "documents": [document() for _ in range(DOCUMENTS * max(calls, 1))],
            "response": row.response,
            "steps": steps or None,
        }
        made.append(RagInteraction.model_validate(fields))
    return made


async def cost_of(interactions: Sequence[RagInteraction], criteria: Sequence[dict[str, Any]]) -> CallCost:
    """Return what it costs to label runs."""
    with ScriptedJudge() as judge:
        settings = judge.settings(criteria=criteria, cache_ttl_s=0.0, language="en")
        async with labeler_of(settings, None) as labeler:
            for interaction in interactions:
                labeling = await labeler.label(interaction)
                if not labeling.labels:
                    raise SystemExit(f"a run has no labels: {labeling.absent}")
        n = len(interactions)
        prompts = sum(
            estimated_tokens(str(message["content"])) for body in judge.requests for message in body["messages"]
        )
        answers = sum(estimated_tokens(judge.labels.answer(prompt)) for prompt in judge.prompts)
        return CallCost(len(judge.requests) / n, prompts / n, answers / n)


async def measure(items: int, counts: Sequence[int] = CALLS) -> list[tuple[int, str, CallCost]]:
    """Return calls of a run, criteria, and costs of each case; without calls no criterion reads them."""
    measured = []
    for calls in counts:
        interactions = runs(calls, items)
        for name, criteria in CASES.items():
            if calls or OF_CALLS not in criteria:
                measured.append((calls, name, await cost_of(interactions, criteria)))
    return measured


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=50)
    options = parser.parse_args()
    print(HEADER.format(items=options.items, documents=DOCUMENTS, words=WORDS))
    for calls, criteria, cost in asyncio.run(measure(options.items)):
        print(
            f"| {calls or 'no run'} | {DOCUMENTS * max(calls, 1)} | {criteria} | {cost.judge_calls:.2f} "
            f"| {cost.prompt_tokens:,.0f} | {cost.answer_tokens:,.0f} |"
        )


if __name__ == "__main__":
    main()
