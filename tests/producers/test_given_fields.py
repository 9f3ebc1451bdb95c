"""The SDK, HTTP and the bridge read the forms of clients by one function, and never run what is handed over."""

from dataclasses import dataclass, field
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest
from pydantic import BaseModel

from ragtide import InteractionProducer, InvalidEntryError, RetrievedDocument
from ragtide_producers.given_fields import interaction_of
from ragtide_runtime.settings.model import Settings

GOOD: dict[str, Any] = {"pipeline": "shop", "question": "q", "documents": ["d"], "response": "r"}
NOWHERE = "redis://127.0.0.1:1"


class Document(BaseModel):
    """As LangChain has it."""

    id: str | None = None
    metadata: dict[str, Any] = {}
    page_content: str
    type: str = "Document"


class TextNode(BaseModel):
    id_: str = "n"
    text: str
    metadata: dict[str, Any] = {}


class NodeWithScore(BaseModel):
    """As LlamaIndex has it."""

    node: TextNode
    score: float = 0.5


@dataclass
class Choice:
    message: dict[str, Any]
    index: int = 0


@dataclass
class Completion:
    choices: list[Choice] = field(default_factory=list)


def stream() -> Any:
    raise AssertionError("no generator may run")
    yield


async def later() -> str:
    raise AssertionError("it is never awaited")


def test_texts_and_documents_of_the_schema_are_taken_as_they_stand() -> None:
    texts = [
        "A note.",
        "[1] A note.",
        '"Yes," it said.',
        "f(x) = 1",
        "(see below)",
        "東京は日本の首都です。" * 9,
        " x\n",
    ]
    for text in texts:
        found = interaction_of({**GOOD, "response": text, "question": text})
        assert (found.question.strip(), found.response.strip()) == (text.strip(), text.strip())
    documents = [{"text": "a", "id": "1", "metadata": {"page": 4}}, RetrievedDocument(text="b", score=0.5)]
    assert interaction_of({**GOOD, "documents": documents}).documents == (
        RetrievedDocument(text="a", id="1", metadata={"page": 4}),
        RetrievedDocument(text="b", score=0.5),
    )


def test_objects_of_frameworks_are_read() -> None:
    found = interaction_of(
        {
            **GOOD,
            "question": [{"role": "system", "content": "s"}, {"role": "user", "content": "When?"}],
            "documents": [Document(page_content="It opened in 1889.", id="tower")],
            "response": Completion([Choice({"role": "assistant", "content": "In 1889."})]),
        }
    )
    assert (found.question, found.response) == ("When?", "In 1889.")
    assert found.documents == (RetrievedDocument(text="It opened in 1889.", id="tower"),)
    nodes = interaction_of({**GOOD, "documents": [NodeWithScore(node=TextNode(text="Built."))]}).documents
    assert [(node.text, node.score) for node in nodes] == [("Built.", 0.5)]


@pytest.mark.parametrize("name", ["question", "documents", "response", "reference_answer"])
def test_what_is_no_text_is_refused_by_name_and_never_runs(name: str) -> None:
    promised = later()
    for value in (stream(), promised, MagicMock(), AsyncMock(), object(), print, {"unknown": 1}, {"a"} | {"b"}, [7, 8]):
        with pytest.raises(InvalidEntryError, match=name) as caught:
            interaction_of({**GOOD, name: value})
        assert len(caught.value.detail) < 500
    promised.close()


def test_what_is_left_out_of_an_answer_is_counted_by_name() -> None:
    parts = [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "In 1889."}]
    found = interaction_of({**GOOD, "response": parts, "metadata": {"bad": object()}})
    assert found.response == "In 1889."
    assert found.left_out == {"response.reasoning": 1, "metadata.bad": 1}


def test_submit_counts_what_it_left_out_and_logs_each_name_once(caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings.model_validate({"redis_url": NOWHERE, "producer": {"flush_s": 0.0}})
    with InteractionProducer(settings=settings) as producer:
        for _ in range(3):
            assert producer.submit(GOOD, metadata={"trace": object()}, segments={"beta": True, "x": [1]})
        assert not producer.submit(GOOD, response=stream())
        assert producer.counts.left_out == {"metadata.trace": 3, "segments.x": 3}
    logged = [record.getMessage() for record in caplog.records]
    assert sum("left out" in message and "metadata.trace" in message for message in logged) == 1
    assert sum("response" in message and "generator" in message for message in logged) == 1
