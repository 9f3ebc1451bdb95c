"""A request to the judge, read: which labels it asks for, and of which sentences."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from ragtide_consumers.labelers.judge.prompts import LANGUAGES, rules

PromptKind = Literal["trace", "claims", "verdicts", "criteria", "other"]

_SECTIONS: Final = (
    "QUESTION",
    "DOCUMENT SENTENCES",
    "RESPONSE SENTENCES",
    "TEXTS",
    "SOURCES",
    "CLAIMS",
    "EARLIER TURNS",
    "CONVERSATION",
    "DOCUMENTS",
    "RESPONSE",
    "REFERENCE ANSWER",
    "CALLS",
)


@dataclass(frozen=True)
class AskedCriterion:
    """A criterion in a prompt."""

    question: str
    answers: tuple[str, ...]
    """Possible answers, `cannot_tell` last."""
    texts: tuple[str, ...] = ()
    """Parts of the data by which it is decided; empty for all."""


@dataclass(frozen=True)
class JudgePrompt:
    """The prompt of one request of the chat completions protocol."""

    body: Mapping[str, Any]
    """The whole request: model, messages, parameters."""

    @property
    def kind(self) -> PromptKind:
        """What is asked for: TRACe, perhaps with criteria; claims; verdicts on claims; criteria alone; or others."""
        if "RESPONSE SENTENCES" in self._sections:
            return "trace"
        if "TEXTS" in self._sections:
            return "claims"
        if "CLAIMS" in self._sections:
            return "verdicts"
        return "criteria" if self.criteria else "other"

    @property
    def in_lines(self) -> bool:
        """Whether the answer is asked for in lines of keys (`judge.prompt = "keys"`), and not as JSON."""
        if self.kind == "criteria":
            return self._has_rules("keys-criteria")
        return self.kind != "other" and any(
            self._system.startswith(rules(f"keys-{self.kind}", language)) for language in LANGUAGES
        )

    @property
    def wants_reasons(self) -> bool:
        """Whether a reason is asked for before each answer to a criterion."""
        return self._has_rules("criteria")

    @cached_property
    def criteria(self) -> Mapping[str, AskedCriterion]:
        """The criteria by key, `K1` for the first; empty if none are asked."""
        if not any(self._has_rules(name) for name in ("criteria", "short-criteria", "keys-criteria")):
            return {}
        *_, listed = self._system.partition("\nCRITERIA\n")
        by_key = {}
        for line in listed.splitlines():
            key, _, fields = line.partition(": ")
            if not _KEY.fullmatch(key):
                break
            stated = json.loads(fields)
            by_key[key] = AskedCriterion(stated["question"], tuple(stated["answers"]), tuple(stated.get("texts", ())))
        return by_key

    @property
    def _system(self) -> str:
        return str(self.body["messages"][0]["content"])

    def _has_rules(self, name: str) -> bool:
        return any(rules(name, language) in self._system for language in LANGUAGES)

    @cached_property
    def text(self) -> str:
        """The first message of the user: the data, without the rules and without later corrections."""
        return next((str(message["content"]) for message in self.body["messages"] if message["role"] == "user"), "")

    @property
    def question(self) -> str:
        """The question of the interaction; empty in a prompt for verdicts, which has none."""
        return self._sections.get("QUESTION", {}).get("Q") or self.texts.get("QUESTION", "")

    @property
    def history(self) -> Mapping[str, str]:
        """The earlier turns by key, `T1Q` and `T1R` for the first; empty for an interaction without a history."""
        return self._sections.get("EARLIER TURNS", {})

    @property
    def conversation(self) -> Mapping[str, str]:
        """The turns of a whole session by key, as in `history`; empty in a prompt about one answer."""
        return self._sections.get("CONVERSATION", {})

    @property
    def documents(self) -> Mapping[str, str]:
        """The document sentences by key, such as `0a`, in a prompt for TRACe."""
        return self._sections.get("DOCUMENT SENTENCES", {})

    @property
    def whole_texts(self) -> Mapping[str, str]:
        """The whole texts of a prompt for criteria by key: documents `D0`, ..., response `R`, reference answer `A`."""
        titles = ("DOCUMENTS", "RESPONSE", "REFERENCE ANSWER")
        return {key: text for title in titles for key, text in self._sections.get(title, {}).items()}

    @property
    def calls(self) -> Mapping[str, str]:
        """The calls of a run by key, `C1` for the first, as JSON; empty without a criterion that reads them."""
        return self._sections.get("CALLS", {})

    @property
    def response(self) -> Mapping[str, str]:
        """The response sentences by key, such as `a`, in a prompt for TRACe."""
        return self._sections.get("RESPONSE SENTENCES", {})

    @property
    def texts(self) -> Mapping[str, str]:
        """The texts to split into claims: `QUESTION`, `RESPONSE` and perhaps `REFERENCE`."""
        return self._sections.get("TEXTS", {})

    @property
    def sources(self) -> Mapping[str, str]:
        """The sources by key in a prompt for verdicts: documents `D0`, ..., reference answer `A`, response `R`."""
        return self._sections.get("SOURCES", {})

    @property
    def claims(self) -> Mapping[str, str]:
        """The claims by key in a prompt for verdicts: `r1`, ... of the response, `g1`, ... of the reference answer."""
        return self._sections.get("CLAIMS", {})

    @cached_property
    def _sections(self) -> Mapping[str, Mapping[str, str]]:
        # Each text is JSON on one line, so an empty line ends a section whatever the texts say.
        sections = {}
        for section in self.text.split("\n\n"):
            title, *lines = section.split("\n")
            if title in _SECTIONS:
                sections[title] = dict(_keyed(line) for line in lines)
        return sections


_KEY: Final = re.compile(r"K[0-9]+")


def _keyed(line: str) -> tuple[str, str]:
    key, _, text = line.partition(": ")
    try:
        return key, text if text.startswith("{") else str(json.loads(text))
    except ValueError:
        return key, text
