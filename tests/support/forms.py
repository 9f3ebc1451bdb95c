"""What clients and frameworks hand over for a question, an answer or documents: one list of cases for every door.

Each form stands with the place where it was seen. A test of a door takes the forms that can arrive there.
"""

from typing import Any, Final, Literal, NamedTuple

QUESTION: Final = "How often is the pump serviced?"
ANSWER: Final = "The pump is serviced every 6 months."
THOUGHT: Final = "Perhaps every 9 months."
DOCUMENTS: Final = (ANSWER, "The filter is cleaned with warm water.")

REFUSED: Final = "<refused>"
"""The value must be refused by name: it cannot be read without guessing."""
NOTHING: Final = "<nothing>"
"""The value holds no text, as null or a call of a tool: no text may come out; a refusal is right, too."""

Door = Literal["files", "sdk", "http", "traces"]
JSON: Final[tuple[Door, ...]] = ("files", "sdk", "http", "traces")
PYTHON: Final[tuple[Door, ...]] = ("sdk",)
"""Objects that only a program can hand over."""


class Form(NamedTuple):
    """One form of a value."""

    name: str
    seen_in: str
    """Repository and file in which the form is made, or the public page that shows it."""
    value: Any
    expected: str | tuple[str, ...]
    """The text; texts of documents; or `REFUSED` or `NOTHING`."""
    meaning: Literal["question", "answer", "reference", "documents"] = "answer"
    doors: tuple[Door, ...] = JSON
    """Doors at which the form can arrive."""
    left_out: tuple[str, ...] = ()
    """Names of what is left out on purpose, such as `image`."""


FORMS: Final = (
    Form("text", "every door", ANSWER, ANSWER),
    Form(
        "chat completion",
        "openai/openai-python src/openai/types/chat/chat_completion.py",
        {
            "object": "chat.completion",
            "choices": [
                {"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"},
            ],
        },
        ANSWER,
    ),
    Form("printed generator", "mem0ai/mem0#260", "<generator object App.stream at 0x7f7a9a8b3890>", REFUSED),
    Form("printed coroutine", "openlayer-ai/openlayer-python PR 500", "<coroutine object f at 0x7f7a9a>", REFUSED),
)
