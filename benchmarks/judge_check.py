"""The table of `ragtide judge check` about a scripted judge with faults, for docs/scores/trust-in-the-judge.md.

    python benchmarks/judge_check.py

Seeded. The judge is a server with the chat completions protocol, so prompts, HTTP, reading and figures are the real
ones. The items are RAGBench rows of tests/data.
"""

import asyncio
import json
import random
from collections import Counter
from io import StringIO
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from ragtide.cli.printing.laboratory import check_table
from ragtide.testing import JudgePrompt, Labels, Says, ScriptedJudge
from ragtide_offline.judge_check.running import JudgeCheck, settings_of_check
from ragtide_runtime.settings.labelers import Price
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_schemas.criterion import Criterion

ROWS: Final = Path(__file__).parents[1] / "tests" / "data" / "ragbench" / "ragbench_sample.jsonl"
ITEMS: Final = 80
LONG: Final = 4
"""Response sentences from which on the judge supports everything."""
REFUSES: Final = 0.05
WRONG: Final = 0.04
"""Share of the verdicts that are the opposite."""

CRITERIA: Final = tuple(
    Criterion.model_validate({"name": name, "question": question, "scale": "yes_no"})
    for name, question in (
        ("number", "Does the response name a number?"),
        ("short", "Has the response at most three sentences?"),
    )
)


class FaultyJudge:
    """A judge that finds the whole first document relevant, supports long answers, refuses some, and errs at random."""

    def __init__(self) -> None:
        self._times = Counter[str]()

    def __call__(self, prompt: JudgePrompt) -> Says:
        """Return the answer to a prompt."""
        self._times[prompt.text] += 1
        if random.Random(prompt.question).random() < REFUSES:
            return Says("", refusal="I cannot help with that.")
        chance = random.Random(f"{prompt.text}{self._times[prompt.text]}")
        fields: dict[str, Any] = json.loads(Labels().answer(prompt))
        first = [key for key in prompt.documents if key.rstrip("abcdefghijklmnopqrstuvwxyz") == "0"]
        fields["all_relevant_sentence_keys"] = sorted({*fields["all_relevant_sentence_keys"], *first})
        for entry in fields["sentence_support_information"]:
            supported = entry["fully_supported"] or len(prompt.response) >= LONG
            if chance.random() < WRONG:
                supported = not supported
            keys = entry["supporting_sentence_keys"] or ["supported_without_sentence"]
            entry |= {"fully_supported": supported, "supporting_sentence_keys": keys if supported else []}
        fields["overall_supported"] = all(each["fully_supported"] for each in fields["sentence_support_information"])
        answers = {
            CRITERIA[0].question: any(letter.isdigit() for letter in "".join(prompt.response.values())),
            CRITERIA[1].question: len(prompt.response) <= 3,
        }
        for key, asked in prompt.criteria.items():
            fields["criteria"][key]["answer"] = "yes" if answers[asked.question] else "no"
        return Says(json.dumps(fields))


async def checked() -> JudgeCheck:
    """Return the finished check of the scripted judge."""
    with ScriptedJudge(always=FaultyJudge()) as server:
        # One call at a time: what is random depends on the order of the calls.
        settings = server.settings(max_in_flight=1, prices={"scripted": Price(input=0.25, output=2.0)})
        check = JudgeCheck(settings_of_check(settings, CRITERIA), [str(ROWS)], sample=ITEMS)
        async for _ in check.run():
            pass
    list(check.finish())
    return check


def table() -> str:
    """Return the table at 80 columns."""
    configure_logging("error")
    check = asyncio.run(checked())
    console = Console(width=80, file=StringIO(), color_system=None, markup=False, emoji=False)
    console.print(check_table(check.rows, 80, 0.95))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.splitlines())


if __name__ == "__main__":
    print(table())
