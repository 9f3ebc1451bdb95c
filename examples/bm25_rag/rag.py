"""A small RAG, complete: BM25 finds passages, and the answer is the sentences in them that fit the question best.

Ragtide needs one function of a pipeline, `answer`: it takes a question and parameters, and returns documents and a
response. Yours may ask a vector store and a model instead; everything around it stays the same.
"""

import json
import logging
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import bm25s

HERE = Path(__file__).parent

WORD = re.compile(r"\w+")

ONE_AT_A_TIME = Lock()
"""Questions are answered in several threads; whoever comes first makes an index, and the others wait for it."""

logging.getLogger("bm25s").setLevel(logging.WARNING)


# Documents, cut into chunks, in an index.


@dataclass(frozen=True, slots=True)
class Chunk:
    """Sentences of one document that are found together."""

    document_id: str
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """Text that is indexed and retrieved."""
        return " ".join(self.sentences)


@dataclass(frozen=True)
class Index:
    """Chunks that can be searched, and how rare each word is among them."""

    chunks: tuple[Chunk, ...]
    bm25: bm25s.BM25
    rarity: Mapping[str, float]


def index(chunk_sentences: int) -> Index:
    """Return the documents cut into chunks of so many sentences, or whole if 0; made once and kept."""
    with ONE_AT_A_TIME:
        return made_index(chunk_sentences)


@cache
def made_index(chunk_sentences: int) -> Index:
    """Read the documents, cut them and index the chunks."""
    lines = (HERE / "documents.jsonl").read_text(encoding="utf-8").splitlines()
    chunks = tuple(chunk for line in lines for chunk in cut(json.loads(line), chunk_sentences))
    bm25 = bm25s.BM25()
    bm25.index([words(chunk.text) for chunk in chunks], show_progress=False)
    seen = Counter(word for chunk in chunks for word in set(words(chunk.text)))
    return Index(chunks, bm25, {word: math.log(1 + len(chunks) / n) for word, n in seen.items()})


def cut(document: Mapping[str, Any], chunk_sentences: int) -> list[Chunk]:
    """Return the chunks of a document; the last may be shorter."""
    sentences = document["sentences"]
    size = chunk_sentences or len(sentences)
    return [Chunk(document["id"], tuple(sentences[at : at + size])) for at in range(0, len(sentences), size)]


def words(text: str) -> list[str]:
    """Return the words of a text in lower case, cut down to their stems in the simplest way there is."""
    return [word.removesuffix("s") if len(word) > 3 else word for word in WORD.findall(text.lower())]


# Retrieve, then answer.


def answer(
    question: str, *, top_k: int, chunk_sentences: int, answer_sentences: int
) -> tuple[list[dict[str, Any]], str]:
    """Return the documents found for a question, best first, and the response made of them.

    Args:
        question: what is asked.
        top_k: how many chunks are retrieved.
        chunk_sentences: how many sentences a chunk has; 0 for whole documents.
        answer_sentences: how many sentences are said.
    """
    chunks = retrieve(question, index(chunk_sentences), top_k)
    documents = [{"id": chunk.document_id, "text": chunk.text, "score": score} for chunk, score in chunks]
    said = extract(question, [chunk for chunk, _ in chunks], answer_sentences, index(chunk_sentences).rarity)
    return documents, " ".join(said)


def retrieve(question: str, searched: Index, top_k: int) -> list[tuple[Chunk, float]]:
    """Return the chunks with the highest BM25 scores, best first, with these scores."""
    known = [word for word in words(question) if word in searched.rarity]
    scores = searched.bm25.get_scores(known) if known else [0.0] * len(searched.chunks)
    best = sorted(range(len(scores)), key=lambda at: (-scores[at], at))[:top_k]
    return [(searched.chunks[at], float(scores[at])) for at in best]


def extract(question: str, chunks: list[Chunk], count: int, rarity: Mapping[str, float]) -> list[str]:
    """Return the sentences that share the rarest words with the question, in the order in which they stand.

    A long sentence shares words by chance, so what it shares is divided by the root of its length.
    """
    asked = set(words(question))
    sentences = list(dict.fromkeys(sentence for chunk in chunks for sentence in chunk.sentences))

    def says(at: int) -> float:
        found = words(sentences[at])
        return sum(rarity.get(word, 0.0) for word in asked.intersection(found)) / math.sqrt(len(found) + 1)

    chosen = sorted(range(len(sentences)), key=lambda at: (-says(at), at))[:count]
    return [sentences[at] for at in sorted(chosen)]


# How good an answer is: metrics of our own, beside those that ragtide brings.


class Item(Protocol):
    """The fields of a question that `measure` uses; ragtide passes its own `Item`."""

    @property
    def reference_answer(self) -> str | None:
        """The right answer."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The other fields of its row in questions.jsonl."""


class Answer(Protocol):
    """The fields of an answer that `measure` uses; ragtide passes its own `Answer`."""

    @property
    def documents(self) -> Any:
        """Passages that `answer` retrieved."""

    @property
    def response(self) -> str:
        """Text of the answer."""


def measure(item: Item, answer: Answer) -> dict[str, float | None]:
    """Return how near the response is to the right answer, and how early a right document was found.

    Without a right answer the first is None: unknown, which is not 0.
    """
    gold = set(item.metadata["gold_documents"])
    found = [document["id"] for document in answer.documents]
    rank = next((place for place, name in enumerate(found, start=1) if name in gold), None)
    return {
        "token_f1": None if item.reference_answer is None else token_f1(answer.response, item.reference_answer),
        "reciprocal_rank": 0.0 if rank is None else 1 / rank,
    }


def token_f1(response: str, reference: str) -> float:
    """Return the F1 of the words of a response against those of the right answer, as in SQuAD.

    Source: Rajpurkar et al. (arXiv:1606.05250), section 6.1.
    """
    said, right = Counter(words(response)), Counter(words(reference))
    shared = (said & right).total()
    return 2 * shared / (said.total() + right.total()) if shared else 0.0
