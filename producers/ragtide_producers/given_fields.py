"""Interactions from fields that programs give: one reader for the SDK, HTTP and the bridge.

Question, documents, response and reference answer may have any form that the normalizer knows: a message, a reply of a
model service, content parts, chunks of a stream, documents of a framework, or objects of these.
"""

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ragtide_schemas import InvalidEntryError, RagInteraction, Reason, RetrievedDocument
from ragtide_schemas.limits import ENTRY_MAX_BYTES, METADATA_MAX_BYTES, STEPS_MAX
from ragtide_schemas.opaque import begins_again
from ragtide_schemas.plain_values import LeftOut, count_left_out, fields_of, unfit
from ragtide_schemas.sent import sent
from ragtide_schemas.times import utc_now

if TYPE_CHECKING:
    from .shapes.texts import Meaning

# The readers are imported when a value needs them, because they would double the start of an application.

TRANSCRIPTS: Final = ("messages", "conversation")
"""Names of a whole conversation: that of an agent's run has its calls and their results."""
ASKED: Final = ("query", "arguments")
"""Fields of a step that hold the query or the arguments of its call."""
_CHAR_BYTES: Final = 12
"""Most bytes of a character in an entry: six of its escape, twice, because a text may have its sentences beside it."""
TEXTS: Final[Mapping[str, "Meaning"]] = {"question": "question", "response": "answer", "reference_answer": "reference"}
"""What the text of each field is."""
_NOTHING: Final[Mapping["Meaning", str | None]] = {"answer": "", "reference": None}
_MAY_SPELL: Final = re.compile(
    r"\s*(?:[\[{(\"']|[A-Za-z_][\w.]*[\[(=]|\w{1,9}:[ \[{\"]|data:|\S{40}|(?:Node|Doc) ID: |> Source \(|Run\w+:\n)"
)
"""Beginning of a text that may spell a value, a stream or a medium; other texts are taken as they stand."""
_MARKS: Final = frozenset("([:=")
BEGINNING: Final = 40
"""Characters without a space that may begin a medium in base64."""
_DOCUMENT_FIELDS: Final = frozenset(RetrievedDocument.model_fields)


def interaction_of(fields: Mapping[str, Any]) -> RagInteraction:
    """Return the interaction with these fields; `left_out` of it has what was left out.

    Args:
        fields: of the interaction, by their names. Texts take no time. In place of question, documents, response,
            history and steps there may be `messages`: the transcript of the run.

    Raises:
        InvalidEntryError: the fields are no interaction; the message names field and remedy.
    """
    values = ((name, fields.get(name)) for name in (*TEXTS, "documents"))
    others: dict[str, Any] = {name: value for name, value in values if value is not None and not stands(name, value)}
    if not others and not any(name in fields for name in TRANSCRIPTS) and with_bounded_steps(fields) is fields:
        return fitted(sent(RagInteraction.from_fields, fields, utc_now()))
    left_out = LeftOut()
    for name, value in others.items():
        others[name] = _read_field(name, value, left_out)
    read = with_bounded_steps(with_transcript({**fields, **others}, left_out))
    return fitted(sent(RagInteraction.from_fields, read, utc_now()).with_left_out(left_out))


def fitted(interaction: RagInteraction) -> RagInteraction:
    """Return an interaction that is too large for an entry without what its calls were asked, then without history.

    Both are counted in `left_out`. The interaction is as it was if it has neither, or is too large without both.
    """
    if interaction.steps is None and not interaction.history:
        return interaction
    texts = [interaction.response, interaction.question, interaction.reference_answer or ""]
    chars = sum(map(len, texts)) + sum(len(document.text) for document in interaction.documents)
    metadata = sum(bool(document.metadata) for document in interaction.documents) * METADATA_MAX_BYTES
    if _CHAR_BYTES * chars + metadata < ENTRY_MAX_BYTES // 4 or len(interaction.encode()) <= ENTRY_MAX_BYTES:
        return interaction
    n_asked = sum(step.query is not None or step.arguments is not None for step in interaction.steps or ())
    steps = tuple(step.model_copy(update=dict.fromkeys(ASKED)) for step in interaction.steps or ()) or None
    smaller = interaction.model_copy(update={"steps": steps}).with_left_out(+LeftOut({"steps.arguments": n_asked}))
    if len(smaller.encode()) > ENTRY_MAX_BYTES:
        n_turns = len(interaction.history or ())
        smaller = smaller.model_copy(update={"history": None}).with_left_out(+LeftOut(history=n_turns))
    return smaller if len(smaller.encode()) <= ENTRY_MAX_BYTES else interaction


def with_transcript(fields: Mapping[str, Any], left_out: LeftOut) -> Mapping[str, Any]:
    """Return fields with those that the transcript of a run has in place of it; a field that is given stays.

    Args:
        fields: by their names; `messages` or `conversation` has the transcript.
        left_out: takes the counts of what is left out.

    Raises:
        InvalidEntryError: the transcript has no messages, or no run.
    """
    name = next((name for name in fields if name in TRANSCRIPTS and fields[name] is not None), None)
    rest = {key: value for key, value in fields.items() if key not in TRANSCRIPTS}
    if name is None:
        return rest
    from .shapes.literals import UnreadableError  # noqa: PLC0415 - see above
    from .shapes.transcripts import fields_of_transcript  # noqa: PLC0415 - see above

    try:
        return {**rest, **fields_of_transcript(fields[name], name, left_out, rest)}
    except UnreadableError as error:
        raise InvalidEntryError(Reason.INVALID, f"{name} cannot be read: {_remedy(fields[name], str(error))}") from None


def with_bounded_steps(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return fields with the first 64 steps if there are more, of which all are calls, and the count of the others."""
    steps, before = fields.get("steps"), fields.get("steps_left_out")
    if not isinstance(steps, list | tuple) or len(steps) <= STEPS_MAX or not isinstance(before, int | None):
        return fields
    kinds = (step.get("kind") if isinstance(step, Mapping) else getattr(step, "kind", None) for step in steps)
    if any(kind != "tool" for kind in kinds):
        return fields
    return {**fields, "steps": steps[:STEPS_MAX], "steps_left_out": (before or 0) + len(steps) - STEPS_MAX}


def stands(name: str, value: Any) -> bool:
    """Return whether the value of a field is taken as it stands: a text, or documents of the schema.

    Args:
        name: of a text, or `documents`.
    """
    return _documents_stand(value) if name == "documents" else isinstance(value, str) and _text_stands(value)


def _text_stands(text: str) -> bool:
    """Whether a text is taken as it stands, because it can spell no value, no stream and no medium."""
    head = text[:BEGINNING]
    if begins_again(text):
        return False
    # Nearly every text has such a beginning, and a search with the pattern would take longer.
    if " " in head and head[0].isalpha() and _MARKS.isdisjoint(head):
        return True
    return _MAY_SPELL.match(text) is None


def _read_field(name: str, value: Any, left_out: LeftOut) -> Any:
    from .shapes.replies import document_fields  # noqa: PLC0415 - see above
    from .shapes.texts import UnreadableError, text_in  # noqa: PLC0415 - see above

    meaning = TEXTS.get(name)
    counts: Counter[str] = Counter()
    read: Any
    try:
        read = document_fields(value, counts) if meaning is None else text_in(value, meaning, left_out=counts)
    except UnreadableError as error:
        raise InvalidEntryError(Reason.INVALID, f"{name} cannot be read: {_remedy(value, str(error))}") from None
    for kind, number in counts.items():
        count_left_out(left_out, f"{name}.{kind}", number)
    if meaning is None:  # A document that has the fields of the schema keeps its metadata.
        items = value if isinstance(value, list) and len(value) == len(read) else read
        return [item if _is_document(item) else new for item, new in zip(items, read, strict=True)]
    if read is not None:
        return read
    is_text = isinstance(value, str) and bool(value.strip())
    if is_text and meaning in _NOTHING:
        return _NOTHING[meaning]  # such as a reply whose answer is null
    if isinstance(value, str | int | float | bytes) and not is_text:
        return value
    raise InvalidEntryError(Reason.INVALID, f"{name} has no text: {_remedy(value, 'give its text')}")


def _remedy(value: Any, otherwise: str) -> str:
    known = isinstance(value, str | bytes | int | float | list | tuple | set) or fields_of(value) is not None
    return otherwise if known else f"it {unfit(value)}"


def _documents_stand(documents: Any) -> bool:
    if type(documents) is not list and type(documents) is not tuple:
        return False
    for item in documents:
        if isinstance(item, str):
            if not _text_stands(item) or not item or item.isspace():
                return False
        elif not _is_document(item):
            return False
    return True


def _is_document(item: Any) -> bool:
    if isinstance(item, dict):
        text = item.get("text")
        if not isinstance(text, str) or not _DOCUMENT_FIELDS.issuperset(item):
            return False
        if " " in text[:BEGINNING]:
            return True
        from .shapes.parts import medium_of  # noqa: PLC0415 - see above

        return medium_of(text) is None
    return isinstance(item, RetrievedDocument)
