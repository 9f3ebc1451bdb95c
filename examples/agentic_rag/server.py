"""The tools of the agent: an MCP server over standard input and output, with BM25 and SQLite.

    python examples/agentic_rag/server.py [timeout|nothing]

The fault is that of `search_articles`, and of no other tool.
"""

import json
import logging
import sqlite3
import sys
from pathlib import Path

import bm25s
from mcp.server import MCPServer

ARTICLES = Path(__file__).parents[1] / "bm25_rag" / "documents.jsonl"
FAULTS = {
    "timeout": ("it does not answer in time", 1_000),
    "nothing": ("it finds nothing", 3_400),
}
"""The meaning of each fault, and the number of runs that are answered with it."""
TITLES = ("Rivers of Africa", "A Garden in Winter", "The Clockmaker")
READERS = ("Ada Brown", "Ivan Petrov", "Mary Okafor", "Luis Romero")

server = MCPServer("library")
fault: str | None = None


class Passages:
    """Passages of two sentences, with an index."""

    def __init__(self, articles: list[str]) -> None:
        self.passages: list[dict[str, str]] = []
        for article in map(json.loads, articles):
            for at in range(0, len(article["sentences"]), 2):
                text = " ".join(article["sentences"][at : at + 2])
                self.passages.append({"id": f"{article['id']}-{at}", "text": text})
        self.bm25 = bm25s.BM25()
        texts = [passage["text"] for passage in self.passages]
        self.bm25.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)

    def search(self, query: str, limit: int) -> list[dict[str, str]]:
        """Return the passages with the highest scores, best first."""
        tokens = bm25s.tokenize(query, show_progress=False)
        return [self.passages[at] for at in self.bm25.retrieve(tokens, k=limit, show_progress=False).documents[0]]


def loans() -> sqlite3.Connection:
    """Return a database of 500 loans."""
    database = sqlite3.connect(":memory:", check_same_thread=False)
    database.execute("CREATE TABLE loans (number INTEGER PRIMARY KEY, reader TEXT, title TEXT, due TEXT)")
    database.execute("CREATE TABLE reminders (number INTEGER)")
    rows = [(at, READERS[at % 4], TITLES[at % 3], f"2027-0{at % 9 + 1}-{at % 28 + 1:02}") for at in range(1, 501)]
    database.executemany("INSERT INTO loans VALUES (?, ?, ?, ?)", rows)
    return database


@server.tool()
def search_articles(query: str, limit: int = 2) -> list[dict[str, str]]:
    """Search the articles by words, best first."""
    if fault == "timeout":
        raise TimeoutError("the index timed out")
    return [] if fault == "nothing" else index.search(query, limit)


@server.tool()
def find_loan(number: int) -> str:
    """Look up a loan by its number."""
    row = database.execute("SELECT reader, title, due FROM loans WHERE number = ?", (number,)).fetchone()
    return f"Loan {number} is the book {row[1]}, which {row[0]} has. Loan {number} is due on {row[2]}."


@server.tool()
def send_reminder(number: int) -> dict[str, str]:
    """Remind the reader of a loan."""
    database.execute("INSERT INTO reminders VALUES (?)", (number,))
    return {"status": "ok"}


if __name__ == "__main__":
    fault = sys.argv[1] if sys.argv[1:] else None
    logging.disable()
    index, database = Passages(ARTICLES.read_text(encoding="utf-8").splitlines()), loans()
    server.run()
