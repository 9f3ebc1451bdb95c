"""The corruptions of interactions: what each spoils, and which metrics should see it. Pure.

A corruption takes an interaction, another interaction with another question, and a source of random numbers. The same
id, corruption and seed always give the same spoilt interaction.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from html import escape
from random import Random
from types import MappingProxyType
from typing import Any, Final, Literal

from ragtide_consumers.text.answers import words_of
from ragtide_consumers.text.languages import language_of
from ragtide_consumers.text.sentences import cut, locate_sentences, split_sentences
from ragtide_schemas import RagInteraction, RetrievedDocument
from ragtide_schemas.limits import DOCUMENTS_MAX, RESPONSE_MAX_CHARS

from .negation import negate
from .texts import change_numbers, changed_unit_or_date, names_of, swap_entity

Expected = Literal["worse", "same"]
"""What a metric should do: get worse, or stay about the same."""

Corrupt = Callable[[RagInteraction, RagInteraction | None, Random], RagInteraction | None]
"""Returns the spoilt interaction; None if the corruption cannot be applied."""


@dataclass(frozen=True, slots=True)
class Corruption:
    """One way to spoil an interaction."""

    name: str
    meaning: str
    """What is changed, as a phrase."""
    expected: Mapping[str, Expected]
    """By metric, what it should do. A metric without a word may do either."""
    corrupt: Corrupt

    @property
    def harmless(self) -> bool:
        """Whether the quality stays the same, so that no number should move."""
        return "worse" not in self.expected.values()


def without_own_sentences(interaction: RagInteraction) -> RagInteraction:
    """Return an interaction without the sentences that its producer cut, and without gold scores.

    A spoilt text has no such sentences. So that only the text differs, the clean interaction is read in the same way.
    """
    documents = [document.model_copy(update={"sentences": None}) for document in interaction.documents]
    # Steps state which documents a retriever returned; spoilt documents are others, or stand elsewhere.
    less: dict[str, Any] = {"response_sentences": None, "gold_scores": {}, "steps": None, "steps_left_out": None}
    return interaction.model_copy(update={"documents": tuple(documents), **less})


def spoil(
    corruption: Corruption, interaction: RagInteraction, others: Sequence[RagInteraction], *, seed: int = 0
) -> RagInteraction | None:
    """Return an interaction spoilt in one way, with texts only; None if the corruption cannot be applied.

    Args:
        corruption: one of `CORRUPTIONS`.
        interaction: the clean one.
        others: interactions of the same kind, from which one with another question and other documents is drawn; the
            interaction itself may be among them.
        seed: with the id and the corruption it determines every draw; which interaction is drawn depends on `others`,
            too.
    """
    clean = without_own_sentences(interaction)
    other = _drawn_other(clean, others, random_of(interaction.interaction_id, f"other of {corruption.name}", seed))
    spoilt = corruption.corrupt(clean, other, random_of(interaction.interaction_id, corruption.name, seed))
    if spoilt is None or (spoilt.response, spoilt.documents) == (clean.response, clean.documents):
        return None
    return spoilt.model_copy(update={"interaction_id": f"{interaction.interaction_id[:200]}~{corruption.name}"})


def random_of(interaction_id: str, corruption: str, seed: int) -> Random:
    """Return random numbers that depend on nothing but the arguments."""
    digest = blake2b(f"{seed}\0{corruption}\0{interaction_id}".encode(), digest_size=8).digest()
    return Random(int.from_bytes(digest, "big"))  # noqa: S311 - no secret


_TRIES: Final = 50
"""Draws of another interaction before it counts as missing."""


def _drawn_other(interaction: RagInteraction, others: Sequence[RagInteraction], rng: Random) -> RagInteraction | None:
    texts = {document.text for document in interaction.documents}
    question = _fold(interaction.question)
    for _ in range(_TRIES if others else 0):
        other = others[rng.randrange(len(others))]
        if _fold(other.question) != question and texts.isdisjoint(document.text for document in other.documents):
            return without_own_sentences(other)
    return None


def _fold(question: str) -> str:
    return " ".join(question.casefold().split())


def _with_response(interaction: RagInteraction, response: str | None) -> RagInteraction | None:
    if response is None or not interaction.response.strip():
        return None
    return interaction.model_copy(update={"response": response})


def _with_documents(interaction: RagInteraction, texts: Sequence[str]) -> RagInteraction:
    documents = [
        document.model_copy(update={"text": text}) for document, text in zip(interaction.documents, texts, strict=True)
    ]
    return interaction.model_copy(update={"documents": tuple(documents)})


def extracted_answer(question: str, documents: Sequence[str]) -> str:
    """Return the two sentences of documents that share most words with a question, in their order.

    Args:
        question: its text.
        documents: texts.
    """
    asked = {*words_of(question)}
    sentences = [sentence for text in documents for sentence in split_sentences(text)]
    shared = [len(asked.intersection(words_of(sentence))) for sentence in sentences]
    best = sorted(sorted(range(len(sentences)), key=lambda place: -shared[place])[:2])
    return " ".join(sentences[place] for place in best)


def _broken_retriever(interaction: RagInteraction, other: RagInteraction | None, _: Random) -> RagInteraction | None:
    if other is None or not other.documents:
        return None
    response = other.response
    if not response.strip():
        response = extracted_answer(interaction.question, [document.text for document in other.documents])
    return interaction.model_copy(update={"documents": other.documents, "response": response})


def _wrong_documents(interaction: RagInteraction, other: RagInteraction | None, _: Random) -> RagInteraction | None:
    if other is None or not other.documents:
        return None
    return interaction.model_copy(update={"documents": other.documents})


def _half_wrong_documents(
    interaction: RagInteraction, other: RagInteraction | None, rng: Random
) -> RagInteraction | None:
    documents = [*interaction.documents]
    if other is None or not other.documents or len(documents) < 2:
        return None
    places = rng.sample(range(len(documents)), len(documents) // 2)
    for place, document in zip(places, other.documents, strict=False):
        documents[place] = document
    return interaction.model_copy(update={"documents": tuple(documents)})


def _wrong_answer(interaction: RagInteraction, other: RagInteraction | None, _: Random) -> RagInteraction | None:
    if other is None or not other.response.strip():
        return None
    return _with_response(interaction, other.response)


def _foreign_sentence(interaction: RagInteraction, other: RagInteraction | None, rng: Random) -> RagInteraction | None:
    if other is None:
        return None
    sentences = [sentence.plain for sentence in locate_sentences(other.response, answer=True)]
    if not sentences:
        sentences = [sentence for document in other.documents for sentence in split_sentences(document.text)]
    if not sentences:
        return None
    return _with_response(interaction, f"{interaction.response.rstrip()} {rng.choice(sentences)}")


def _changed_numbers(interaction: RagInteraction, _: RagInteraction | None, rng: Random) -> RagInteraction | None:
    return _with_response(interaction, change_numbers(interaction.response, rng))


def _changed_unit_or_date(interaction: RagInteraction, _: RagInteraction | None, rng: Random) -> RagInteraction | None:
    return _with_response(interaction, changed_unit_or_date(interaction.response, rng))


def _negation(interaction: RagInteraction, _: RagInteraction | None, __: Random) -> RagInteraction | None:
    text, parts, at, count = interaction.response, [], 0, 0
    for sentence in locate_sentences(text, answer=True):
        opposite = negate(text[sentence.start : sentence.end])
        if opposite is not None:
            parts += [text[at : sentence.start], opposite]
            at, count = sentence.end, count + 1
    return _with_response(interaction, "".join([*parts, text[at:]]) if count else None)


def _swapped_entity(interaction: RagInteraction, other: RagInteraction | None, rng: Random) -> RagInteraction | None:
    names = names_of(document.text for document in interaction.documents)
    response = swap_entity(interaction.response, names, rng)
    if response is None and other is not None:
        foreign = names_of(document.text for document in other.documents)
        response = swap_entity(interaction.response, foreign, rng)
    return _with_response(interaction, response)


def _cut_documents(interaction: RagInteraction, _: RagInteraction | None, __: Random) -> RagInteraction | None:
    halves = [_first_half(document.text) for document in interaction.documents]
    return _with_documents(interaction, halves) if halves else None


def _first_half(text: str) -> str:
    middle = len(text) // 2
    end = next((place for place in range(middle, len(text)) if text[place].isspace()), len(text))
    half = text[:end] if end < len(text) else text[: max(middle, 1)]
    return half if half.strip() else text


def _reversed_documents(interaction: RagInteraction, _: RagInteraction | None, __: Random) -> RagInteraction | None:
    return interaction.model_copy(update={"documents": interaction.documents[::-1]})


def _right_document_last(interaction: RagInteraction, _: RagInteraction | None, __: Random) -> RagInteraction | None:
    if len(interaction.documents) < 2 or not interaction.response.strip():
        return None
    words = {*words_of(interaction.response), *words_of(interaction.question)}
    shared = [len(words.intersection(words_of(document.text))) for document in interaction.documents]
    right = max(range(len(shared)), key=lambda place: shared[place])
    documents = [*interaction.documents]
    documents.append(documents.pop(right))
    return interaction.model_copy(update={"documents": tuple(documents)})


def _near_duplicate(interaction: RagInteraction, _: RagInteraction | None, __: Random) -> RagInteraction | None:
    if not 0 < len(interaction.documents) < DOCUMENTS_MAX:
        return None
    first = interaction.documents[0]
    sentences = split_sentences(first.text)
    text = " ".join(sentences[:-1]) if len(sentences) > 1 else f"{first.text.rstrip()} "
    copy = first.model_copy(update={"text": text, "id": None})
    documents: tuple[RetrievedDocument, ...] = (first, copy, *interaction.documents[1:])
    return interaction.model_copy(update={"documents": documents})


_KNOWLEDGE: Final[Mapping[str, Sequence[str]]] = {
    "en": (
        "Water freezes at zero degrees Celsius.", "The Earth orbits the Sun once a year.",
        "Spiders have eight legs.", "Light travels faster than sound.", "Penguins are birds that cannot fly.",
    ),
    "ru": (
        "Вода замерзает при нуле градусов Цельсия.", "Земля обращается вокруг Солнца за один год.",
        "У пауков восемь ног.", "Свет распространяется быстрее звука.", "Пингвины не умеют летать.",
    ),
    "de": ("Wasser gefriert bei null Grad Celsius.", "Spinnen haben acht Beine.", "Licht ist schneller als Schall."),
    "fr": ("L'eau gèle à zéro degré Celsius.", "Les araignées ont huit pattes."),
    "es": ("El agua se congela a cero grados Celsius.", "Las arañas tienen ocho patas."),
}  # fmt: skip
"""Facts that everybody knows, by language."""

_REFUSALS: Final[Mapping[str, str]] = {
    "en": "I'm sorry, but I cannot answer this question based on the provided documents.",
    "ru": "К сожалению, я не могу ответить на этот вопрос по предоставленным документам.",
    "de": "Es tut mir leid, ich kann diese Frage anhand der Dokumente nicht beantworten.",
    "fr": "Je suis désolé, je ne peux pas répondre à cette question à partir des documents fournis.",
    "es": "Lo siento, no puedo responder a esta pregunta con los documentos proporcionados.",
}

_ELSEWHERE: Final[Mapping[bool, str]] = {
    False: "Это зависит от обстоятельств: сроки, стоимость и порядок описаны в правилах, которые приняты в этом году.",
    True: "It depends on the circumstances: time, price and procedure are in the rules that were adopted this year.",
}
"""An answer in Russian, and for Russian answers one in English. No document of ours supports it."""

_PADDING: Final[Mapping[str, tuple[str, str]]] = {
    "en": ("Great question!", "I hope this helps! Let me know if you have any other questions."),
    "ru": ("Отличный вопрос!", "Надеюсь, это поможет! Если у вас есть ещё вопросы, обращайтесь."),
    "de": ("Gute Frage!", "Ich hoffe, das hilft!"),
    "fr": ("Bonne question !", "J'espère que cela vous aide !"),
    "es": ("¡Buena pregunta!", "¡Espero que esto ayude!"),
}


_ENGLISH: Final = "en"


def _language(interaction: RagInteraction) -> str:
    language = language_of(interaction.response, context=[interaction.question])
    return language if language in _REFUSALS else _ENGLISH


def _general_knowledge(interaction: RagInteraction, _: RagInteraction | None, rng: Random) -> RagInteraction | None:
    claim = rng.choice(_KNOWLEDGE[_language(interaction)])
    return _with_response(interaction, f"{interaction.response.rstrip()} {claim}")


def _refusal(interaction: RagInteraction, _: RagInteraction | None, __: Random) -> RagInteraction | None:
    return _with_response(interaction, _REFUSALS[_language(interaction)])


def _another_language(interaction: RagInteraction, _: RagInteraction | None, __: Random) -> RagInteraction | None:
    return _with_response(interaction, _ELSEWHERE[_language(interaction) == "ru"])


def _padding(interaction: RagInteraction, _: RagInteraction | None, __: Random) -> RagInteraction | None:
    before, after = _PADDING[_language(interaction)]
    return _with_response(interaction, f"{before} {interaction.response.strip()}\n\n{after}")


def _repeated_answer(interaction: RagInteraction, _: RagInteraction | None, __: Random) -> RagInteraction | None:
    text = f"{interaction.response.rstrip()}\n\n{interaction.response.strip()}"
    if len(text) > RESPONSE_MAX_CHARS:
        return None
    repeated = _with_response(interaction, text)
    if repeated is None:
        return None
    # Only then each share of its sentences is what it was.
    once, twice = cut(interaction), cut(repeated)
    return repeated if [*twice.response] == [*once.response, *once.response] and twice.refuses == once.refuses else None


def _html(interaction: RagInteraction, _: RagInteraction | None, __: Random) -> RagInteraction | None:
    if not interaction.response.strip():
        return None
    pages = _with_documents(interaction, [_page(document.text) for document in interaction.documents])
    return _with_response(pages, _page(interaction.response))


def _page(text: str) -> str:
    return f'<div class="content"><p>{escape(text, quote=False)}</p></div>'


_SUPPORT: Final = ("trace.adherence", "trace.supported_fraction", "ragchecker.faithfulness", "similarity.support")
_MATCH: Final = ("retrieval.match", "similarity.match")
_RETRIEVAL: Final = (*_MATCH, "trace.context_relevance", "ragchecker.claim_recall")
_USE: Final = ("trace.context_utilization",)
_ALL: Final = (*_RETRIEVAL, *_USE, *_SUPPORT)


def _table() -> Mapping[str, Corruption]:
    def harms(*metrics: str, same: Sequence[str] = ()) -> Mapping[str, Expected]:
        worse: dict[str, Expected] = dict.fromkeys(metrics, "worse")
        return MappingProxyType({**worse, **dict.fromkeys(same, "same")})

    corruptions = (
        Corruption(
            "broken retriever",
            "documents of another question, and the answer taken from them",
            harms(*_RETRIEVAL),
            _broken_retriever,
        ),
        Corruption(
            "wrong documents",
            "documents of another question; the answer stays",
            harms(*_ALL),
            _wrong_documents,
        ),
        Corruption(
            "half wrong documents",
            "half of the documents are those of another question",
            harms(*_MATCH, "trace.context_relevance", *_USE),
            _half_wrong_documents,
        ),
        Corruption(
            "cut documents",
            "each document ends in its middle",
            harms(*_SUPPORT),
            _cut_documents,
        ),
        Corruption(
            "wrong answer",
            "the answer to another question",
            harms(*_USE, *_SUPPORT, same=_MATCH),
            _wrong_answer,
        ),
        Corruption(
            "foreign sentence",
            "a sentence of the answer to another question is added to the answer",
            harms(*_SUPPORT, same=_MATCH),
            _foreign_sentence,
        ),
        Corruption(
            "changed numbers",
            "every number of the answer is another",
            harms(*_SUPPORT, same=_MATCH),
            _changed_numbers,
        ),
        Corruption(
            "changed unit or date",
            "units, currencies, months, days and years of the answer are others",
            harms(*_SUPPORT, same=_MATCH),
            _changed_unit_or_date,
        ),
        Corruption(
            "swapped entity",
            "a name in the answer is another name of the documents",
            harms(*_SUPPORT, same=_MATCH),
            _swapped_entity,
        ),
        Corruption(
            "negation",
            "each sentence of the answer claims the opposite",
            harms(*_SUPPORT, same=_MATCH),
            _negation,
        ),
        Corruption(
            "general knowledge",
            "a well-known fact that no document has is added to the answer",
            # RAGBench counts a well-known fact as supported, RAGChecker does not.
            harms("ragchecker.faithfulness", "similarity.support", same=_MATCH),
            _general_knowledge,
        ),
        Corruption(
            "refusal",
            "the answer says that it cannot answer",
            harms(*_USE, same=_MATCH),
            _refusal,
        ),
        Corruption(
            "another language",
            "the answer is a general one in another language",
            harms(*_USE, *_SUPPORT, same=_MATCH),
            _another_language,
        ),
        Corruption(
            "reversed documents",
            "the documents in reverse order",
            harms(same=_ALL),
            _reversed_documents,
        ),
        Corruption(
            "right document last",
            "the document that shares most words with question and answer is the last",
            harms(same=_ALL),
            _right_document_last,
        ),
        Corruption(
            "near duplicate",
            "the first document follows once more, without its last sentence",
            # By their definitions, shares of the document sentences may change with a document.
            harms(same=(*_MATCH, *_SUPPORT)),
            _near_duplicate,
        ),
        Corruption(
            "padding",
            "courtesy before and after the answer",
            harms(same=_ALL),
            _padding,
        ),
        Corruption(
            "HTML",
            "documents and answer stand in tags of HTML",
            harms(same=_ALL),
            _html,
        ),
    )
    return MappingProxyType({corruption.name: corruption for corruption in corruptions})


CORRUPTIONS: Final = _table()
"""Every corruption by its name: first those that harm an interaction, then those that do not."""

REPEATED_ANSWER: Final = Corruption(
    "repeated answer", "the answer stands there twice", MappingProxyType({}), _repeated_answer
)
"""A longer answer without new content, for `ragtide judge check`; no share of sentences may move."""
