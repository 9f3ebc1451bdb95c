"""Redacts entries before they are stored, and texts before a judge reads them.

Built-in patterns come first, then a function of the user. A child process redacts (`process.py`), and is killed when an
entry takes too long. The built-in patterns take time in proportion to a text, so a role that stores few and short texts
may run them in its own process.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from pydantic_core import to_json

from ragtide_runtime.processes.user_code import function_at
from ragtide_runtime.recordings import EntryKind
from ragtide_schemas import InvalidEntryError, RagInteraction, RetrievalStep
from ragtide_schemas.base import VersionedModel, read_json_object
from ragtide_schemas.interaction import last_turns
from ragtide_schemas.limits import ENTRY_MAX_BYTES
from ragtide_schemas.specimen import REASON_CHARS

from .patterns import OF_DIGITS, PATTERNS, has_digits
from .process import RedactionError, RedactionProcess

if TYPE_CHECKING:
    from ..text.sentences import CutInteraction

Function = Callable[[str], str]

_Key = TypeVar("_Key")

_TEXTS: Mapping[EntryKind, frozenset[str]] = {
    EntryKind.INTERACTIONS: frozenset(
        {"question", "history", "documents", "steps", "response", "response_sentences", "reference_answer", "metadata"}
    ),
    EntryKind.METRICS: frozenset(),
    EntryKind.FEEDBACK: frozenset({"metadata"}),
    EntryKind.ALERTS: frozenset({"message", "diagnosis"}),
}
"""Fields of each kind that hold free text; all other fields are ids, names and numbers, and stay."""

_LISTS: Final[Mapping[str, frozenset[str]]] = {
    "documents": frozenset({"id"}),
    "history": frozenset(),
    "steps": frozenset(RetrievalStep.model_fields) - {"query", "arguments"},
}
"""Fields that are lists of objects, with the fields of these that are no free text."""


class RedactionOptions(Protocol):
    """The settings of redaction that several tables have."""

    @property
    def redact(self) -> Sequence[str]:
        """Names of the built-in patterns that are removed from texts."""

    @property
    def redact_function(self) -> str | None:
        """A function of the user from text to text, as `module:attribute`."""

    @property
    def redact_limit_s(self) -> float:
        """Seconds that redaction of one entry may take."""


class Redaction:
    """Redacts the free texts of models and the content of unreadable entries.

    Args:
        patterns: names of built-in patterns.
        function: of the user, from text to text; it runs last.
        function_name: its name in messages and in the manifest.
        process: redacts models and unreadable entries instead of this process, within a time limit.
    """

    def __init__(
        self,
        patterns: Sequence[str] = (),
        function: Function | None = None,
        function_name: str | None = None,
        process: RedactionProcess | None = None,
    ) -> None:
        self._patterns = [(name, find) for name, find in PATTERNS.items() if name in patterns]
        self._of_words = [(name, find) for name, find in self._patterns if name not in OF_DIGITS]
        self._function = function
        self._function_name = function_name or "redact_function"
        self._process = process
        self.counts: Counter[str] = Counter()
        """Number of places that were redacted, by pattern; for the function, the number of changed texts."""

    @classmethod
    def of(cls, table: str, options: RedactionOptions, *, patterns_here: bool = False) -> "Redaction":
        """Return the redaction that a table of the settings describes.

        Args:
            table: name of the table, for messages.
            options: the table.
            patterns_here: whether built-in patterns alone run in this process, without a child.

        Raises:
            ConfigurationError: the function cannot be loaded or called.
        """
        path = options.redact_function
        function = None if path is None else function_at(f"{table}.redact_function", path)
        if path is None and (patterns_here or not options.redact):
            return cls(options.redact)
        process = RedactionProcess(table, tuple(options.redact), path, limit_s=options.redact_limit_s)
        return cls(options.redact, function, path, process)

    def fresh(self) -> "Redaction":
        """Return the same redaction, in the same process, with counts of its own."""
        return Redaction([name for name, _ in self._patterns], self._function, self._function_name, self._process)

    def abort(self) -> None:
        """Stop all redaction at once, in every thread; nothing is redacted afterwards."""
        if self._process is not None:
            self._process.abort()

    def close(self) -> None:
        """End the process that redacts, if there is one."""
        if self._process is not None:
            self._process.close()

    @property
    def waits(self) -> bool:
        """Whether redaction waits for a child process."""
        return self._process is not None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the patterns and of the user's function in use, for the manifest."""
        return (*(name for name, _ in self._patterns), *([self._function_name] if self._function else []))

    def text(self, text: str) -> str:
        """Return a text without the parts that must not be stored.

        Raises:
            RedactionError: the user's function failed. The message does not hold the text.
        """
        for name, find in self._patterns if has_digits(text) else self._of_words:
            text, n_matches = find(text)
            if n_matches:
                self.counts[name] += n_matches
        if self._function is None:
            return text
        try:
            redacted = self._function(text)
        except BaseException as error:  # noqa: BLE001 - even SystemExit, without its message, which may hold the text
            kind = type(error).__name__
            raise RedactionError(
                f"{self._function_name} failed with {kind}: nothing was written; correct it and start again"
            ) from None
        if not isinstance(redacted, str):
            raise RedactionError(
                f"{self._function_name} returned {type(redacted).__name__}, not a text: nothing was written; correct it"
            )
        self.counts[self._function_name] += redacted != text
        return redacted

    def model(self, kind: EntryKind, entry_id: str, model: VersionedModel) -> VersionedModel:
        """Return a model with its free texts redacted.

        Raises:
            RedactionError: the user's function failed, or its result is not valid.
            NotRedactedError: redaction took too long, or crashed its process.
            RedactionAbortedError: the recorder stops.
        """
        if not self.names or not _TEXTS[kind]:
            return model
        dumped = model.model_dump(include=set(_TEXTS[kind]))
        redacted = self._ask({"fields": dumped})
        if redacted is None:
            return model
        try:
            return type(model).from_fields({**model.model_dump(), **redacted})
        except InvalidEntryError as error:
            where = ", ".join(redacted)
            del error  # its message may hold a part of the text
            raise RedactionError(
                f"entry {entry_id} is no longer valid after {where} was redacted (a text may be empty now): nothing "
                "was written; replace the redacted places with some text"
            ) from None

    def texts(self, value: Any) -> Any:
        """Return lists and tables of texts with every text redacted.

        Raises:
            RedactionError, NotRedactedError, RedactionAbortedError: as for `model`.
        """
        return value if not self.names else self._ask({"texts": value})

    def reasons(self, reasons: Mapping[_Key, str]) -> dict[_Key, str]:
        """Return a judge's reasons redacted, and then cut to `REASON_CHARS`: a judge may repeat any text in them.

        Empty ones are left out.

        Raises:
            RedactionError, NotRedactedError, RedactionAbortedError: as for `model`.
        """
        present = {key: reason for key, reason in reasons.items() if reason.strip()}
        # Values alone, because their names may match a pattern.
        redacted = self.texts(list(present.values())) if present else []
        kept = {key: reason.strip()[:REASON_CHARS] for key, reason in zip(present, redacted, strict=True)}
        return {key: reason for key, reason in kept.items() if reason}

    def without_texts(self, kind: EntryKind, model: VersionedModel) -> dict[str, Any]:
        """Return the fields of a model that hold no free text."""
        texts: dict[str, Any] = dict.fromkeys(_TEXTS[kind], True)
        if "steps" in texts:
            texts["steps"] = {"__all__": {"query", "arguments"}}
        return model.model_dump(mode="json", exclude=texts, exclude_none=True)

    def unreadable(self, payload: bytes) -> bytes | None:
        """Return an unreadable entry with all its texts redacted; None if it cannot be redacted.

        A payload that is not JSON may hold texts in any form, so none of it is stored. A payload that is too large for
        an entry is not stored either.

        Raises:
            RedactionError, NotRedactedError, RedactionAbortedError: as for `model`.
        """
        if not self.names:
            return payload
        try:
            text = payload.decode() if len(payload) <= ENTRY_MAX_BYTES else None
        except UnicodeDecodeError:
            text = None
        redacted = None if text is None else self._ask({"payload": text})
        return None if redacted is None else to_json(redacted)

    def answer(self, request: Mapping[str, Any]) -> Any:
        """Return the changed fields of a model, the redacted texts, or the redacted payload of an unreadable entry.

        None stands for a model without a change, and for a payload that is no JSON object.
        """
        if "texts" in request:
            return self._all(request["texts"])
        if "payload" in request:
            try:
                payload: dict[str, Any] = self._all(read_json_object(request["payload"].encode()))
            except InvalidEntryError:
                return None
            return payload
        fields: Mapping[str, Any] = request["fields"]
        redacted = {name: self._field(name, value) for name, value in fields.items()}
        return {name: value for name, value in redacted.items() if value != fields[name]} or None

    def _ask(self, request: dict[str, Any]) -> Any:
        if self._process is None:
            return self.answer(request)
        reply = self._process.ask(request)
        self.counts.update(reply["counts"])
        return reply["value"]

    def _field(self, name: str, value: Any) -> Any:
        if name not in _LISTS or value is None:
            return self._all(value)
        # The names of fields are no texts.
        kept = _LISTS[name]
        redacted = type(value)(
            {field: inner if field in kept else self._all(inner) for field, inner in item.items()} for item in value
        )
        # Redacted turns may be longer than an interaction's history may be.
        return type(value)(last_turns(redacted)) if name == "history" else redacted

    def _all(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            redacted: dict[str, Any] = {}
            for name, inner in value.items():
                key = unique = self.text(name)
                number = 1
                while unique in redacted:  # two names may have become one
                    number += 1
                    unique = f"{key} {number}"
                redacted[unique] = self._all(inner)
            return redacted
        if isinstance(value, list | tuple):
            return type(value)(self._all(inner) for inner in value)
        return value


def redact_with_sentences(
    redaction: Redaction, interaction: RagInteraction, sentences: "CutInteraction"
) -> RagInteraction:
    """Return an interaction with redacted texts and sentences; a text without sentences has lost them.

    Args:
        interaction: the interaction.
        sentences: into which it was cut.

    Raises:
        RedactionError, NotRedactedError, RedactionAbortedError: the texts could not be redacted.
    """
    documents = tuple(
        document.model_copy(update={"sentences": tuple(texts)})
        for document, texts in zip(interaction.documents, sentences.documents, strict=True)
    )
    whole = interaction.model_copy(update={"documents": documents, "response_sentences": tuple(sentences.response)})
    redacted = redaction.model(EntryKind.INTERACTIONS, interaction.interaction_id, whole)
    if not isinstance(redacted, RagInteraction):  # never: the redaction of a model returns its type
        raise TypeError(f"redaction made {type(redacted).__name__} of an interaction")
    return _drop_lost_sentences(whole, redacted)


def _drop_lost_sentences(before: RagInteraction, after: RagInteraction) -> RagInteraction:
    documents = tuple(
        new.model_copy(update={"sentences": None})
        if _has_lost_places(old.text, old.sentences, new.text, new.sentences)
        else new
        for old, new in zip(before.documents, after.documents, strict=True)
    )
    changed: dict[str, Any] = {"documents": documents}
    if _has_lost_places(before.response, before.response_sentences, after.response, after.response_sentences):
        changed["response_sentences"] = None
    return after.model_copy(update=changed)


def _has_lost_places(text: str, sentences: Sequence[str] | None, redacted: str, parts: Sequence[str] | None) -> bool:
    if text == redacted and sentences == parts:  # most texts
        return False
    return _are_in_order(text, sentences or ()) and not _are_in_order(redacted, parts or ())


def _are_in_order(text: str, sentences: Sequence[str]) -> bool:
    letters, at = "".join(text.split()), 0
    for sentence in sentences:
        wanted = "".join(sentence.split())
        start = letters.find(wanted, at)
        if start < 0:
            return False
        at = start + len(wanted)
    return True
