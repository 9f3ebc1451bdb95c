"""An agent whose search breaks, and the alert of ragtide that names the tool. No key, no model, no network.

    python examples/agentic_rag/main.py [--fault timeout|nothing] [--open]

It runs `ragtide up`, asks the agent 1,000 questions, restarts its MCP server with a fault, and goes on.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from agent import answered
from mcp import Client, StdioServerParameters
from server import FAULTS

from ragtide import AlertSubscriber, InteractionProducer

HERE = Path(__file__).parent
RUNS = 1_000  # before the fault


@contextmanager
def running(folder: Path, *, page: bool) -> Iterator[None]:
    """Run ragtide's roles beside this process, with the Redis in RAGTIDE_REDIS_URL, or one of their own."""
    os.environ["RAGTIDE_DATA_DIR"] = str(folder)
    with (folder / "ragtide.log").open("w") as log:
        command = [sys.executable, "-m", "ragtide", "up", "--open" if page else "--no-page"]
        process = subprocess.Popen(command, stderr=log)  # noqa: S603 - a command of this file
        try:
            yield
        finally:
            process.terminate()
            process.wait()


def question_at(number: int, topics: list[str]) -> str:
    """Return the question of a run: every second is about an article, the others are about loans."""
    if number % 2 == 0:
        return topics[number // 2 % len(topics)]
    loan = number % 499 + 1
    return (
        f"When are loans {loan} and {loan + 1} due?" if number % 4 == 1 else f"Please remind the reader of loan {loan}."
    )


async def publish(fault: str | None, numbers: range, producer: InteractionProducer) -> None:
    """Ask the agent questions, and publish the messages of each run; its tools are in a process of their own."""
    lines = (HERE.parent / "bm25_rag" / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    topics = [json.loads(line)["question"] for line in lines]
    arguments = [str(HERE / "server.py"), *([fault] if fault else [])]
    async with Client(StdioServerParameters(command=sys.executable, args=arguments)) as tools:
        for number in numbers:
            producer.submit(pipeline="library", messages=await answered(question_at(number, topics), tools))


async def main(fault: str) -> None:
    """Break the search after the first runs, and print the alerts until one says which tool moved."""
    meaning, more = FAULTS[fault]
    async with InteractionProducer() as producer:
        await publish(None, range(RUNS), producer)
        print(f"{RUNS:,} runs are answered. The MCP server restarts with a broken search_articles: {meaning}.")
        await publish(fault, range(RUNS, RUNS + more), producer)
    print(f"{more:,} more runs are answered. The alerts:")
    async with AlertSubscriber(pipeline="library", from_start=True) as alerts:
        async for alert in alerts:
            print(f"\n[{alert.severity}, {alert.status}] {alert.message}")
            if alert.moved_step is not None and alert.moved_step.moved:
                print("\nWhat moved:", ", ".join(step.step for step in alert.moved_step.moved))
                break


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--fault", choices=FAULTS, default="timeout", help="how search_articles breaks")
    parser.add_argument("--open", action="store_true", help="show the page in a browser, until Enter")
    given = parser.parse_args()
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder, running(Path(folder), page=given.open):
        asyncio.run(main(given.fault))
        if given.open:
            input("The page shows the runs until you press Enter.")
