"""The model calls that led to an answer, and the retrieved documents that stand in their prompts."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from ..shapes.given_texts import given_texts
from ..shapes.literals import UnreadableError
from ..shapes.prompts import marks_context
from .grouping import SpanGroup
from .reading import if_readable
from .tree import Node

CALLS_MAX: Final = 100
"""Most calls whose prompts are searched for the texts of earlier calls."""
LONG_CHARS: Final = 1_000
LONGEST_MAX: Final = 8
"""Characters from which a text of a prompt is not searched twice, and most such texts: a limit of the time."""
_VERDICTS: Final = frozenset(
    ("yes", "no", "true", "false", "relevant", "irrelevant", "supported", "unsupported", "useful", "useless", "correct",
     "incorrect", "good", "bad", "ok", "none", "pass", "fail", "continue", "stop", "end", "retry", "generate",
     "retrieve", "grounded", "ungrounded", "faithful", "unfaithful", "hallucinated")
)  # fmt: skip
"""Replies of a grader or a router: a word that also stands in prompts."""


def calls_behind(
    group: SpanGroup,
    question: str | None,
    answer: str | None,
    documents: Sequence[str] = (),
    *,
    all_texts: bool = False,
) -> list[Node]:
    """Return the model calls that led to an answer, by time.

    They are the call that wrote it, and those before it whose text stands in the prompt of one of them, as in refine,
    map and reduce, or an agent. Such a call got a question or a query, or results of tools: a text that a call made of
    documents alone, such as a summary, is a document itself. Graders, routers and writers of queries are none. If there
    are only such calls, the application wrote the answer itself.

    Args:
        group: spans of the interaction.
        question: its question.
        answer: its answer.
        documents: texts that retrievals returned: the place of one in a prompt is not that of a call that quotes it.
        all_texts: whether calls without a question count, too.

    Raises:
        UnreadableError: too many calls may have led to the answer.
    """
    texts = {call: text for call in group.calls if (text := _reply_text(call))}
    queries = {_words(if_readable(partial(getattr, retrieval, "query"), None) or "") for retrieval in group.retrievals}
    others = {call: text for call, text in texts.items() if _words(text) not in queries and not is_verdict(text)}
    may_write = [call for call in group.calls if call not in texts or call in others]
    writers = _writers(texts, others, answer) or may_write[-1:]
    questions = {_words(question or ""), *queries} - {""}
    # The application may ask its models in other words: then no prompt has the question.
    any_text = all_texts or not any(_answers(writer, questions) for writer in writers)
    behind = dict.fromkeys(writers)
    waiting = list(writers)
    searched = 0
    while waiting:
        later = waiting.pop()
        earlier = [call for call in others if call not in behind and call.span.start_ns < later.span.start_ns]
        if not earlier:
            continue
        searched += 1
        if searched > CALLS_MAX:
            raise UnreadableError(
                f"more than {CALLS_MAX} model calls led to the answer: set the attribute ragtide.documents"
            )
        prompts = (message.text for message in later.prompt)
        standing = given_texts(prompts, [others[call] for call in earlier], documents)
        new = [earlier[number] for number in standing if any_text or _answers(earlier[number], questions)]
        behind |= dict.fromkeys(new)
        # Of an agent the later prompt has all messages of the earlier one, and so the texts that stand in it.
        waiting += [call for call in new if not _goes_on(later, call)]
    return [call for call in group.calls if call in behind]


def _answers(call: Node, asked: Iterable[str]) -> bool:
    text = _words(" ".join(message.text for message in call.prompt))
    return any(message.author == "tool" for message in call.prompt) or any(question in text for question in asked)


def _writers(texts: dict[Node, str], others: dict[Node, str], answer: str | None) -> list[Node]:
    words = _words(answer or "")
    same = [call for call, text in texts.items() if _words(text) == words]
    if same or not words:
        return same[-1:]
    calls = list(others)
    inside = given_texts([answer or ""], list(others.values()))
    whole = [calls[number] for number in sorted(inside) if inside[number] == others[calls[number]]]
    if inside and not whole:
        return [calls[max(inside, key=lambda number: (len(inside[number]), number))]]
    return whole or [*islice((call for call in reversed(calls) if given_texts([others[call]], [answer or ""])), 1)]


def _reply_text(call: Node) -> str | None:
    return if_readable(lambda: call.generated or "\n".join(call.called_with), None)


def _words(text: str) -> str:
    return " ".join(text.split())


def is_verdict(text: str) -> bool:
    """Whether a text is the reply of a grader or a router."""
    word = text.strip("\"'`*.!:() \n").lower()
    return word in _VERDICTS or (word.isdecimal() and len(word) <= 2)


def _goes_on(later: Node, earlier: Node) -> bool:
    messages = earlier.prompt
    return later.prompt[: len(messages)] == messages


def prompt_of(call: Node, question: str | None = None) -> tuple[list[str], list[str]]:
    """Return the texts that a model call got but for those of the assistant: of the present turn, and of earlier ones.

    The present turn begins with the last message of the user that has the question, else with the last of the user.

    Args:
        call: the model call.
        question: the question of the interaction.
    """
    messages = call.prompt
    asked = _words(question or "")
    users = [number for number, message in enumerate(messages) if message.author == "user"]
    with_question = [number for number in users if asked and asked in _words(messages[number].text)]
    start = (with_question or users or [0])[-1]
    given = [(message, number >= start or message.author == "system") for number, message in enumerate(messages)]
    texts = [(message.text, is_present) for message, is_present in given if message.author != "assistant"]
    earlier = [text for text, is_present in texts if not is_present]
    return [text for text, is_present in texts if is_present], earlier


class GivenTexts(NamedTuple):
    """Which of some texts stand in the prompts that led to an answer."""

    texts: dict[int, str]
    """The texts by their numbers, in the order of the prompts, each as far as it stands there."""
    prompts: list[str] | None
    """The texts of the prompts, without those of earlier turns; None if what the model got is not known, or not all."""


def given_in(group: SpanGroup, question: str | None, answer: str | None, texts: Sequence[str]) -> GivenTexts:
    """Return which texts stand in the prompts of the calls that led to an answer.

    Args:
        group: spans of the interaction.
        question: its question.
        answer: its answer.
        texts: texts that retrievals returned, without repeats.

    Raises:
        UnreadableError: too many calls may have led to the answer.
    """
    strict = _given_to(calls_behind(group, question, answer, texts), question, texts)
    if strict.texts or not strict.prompts or any(map(marks_context, strict.prompts)):
        return strict
    loose = _given_to(calls_behind(group, question, answer, texts, all_texts=True), question, texts)
    return loose if loose.texts else strict


def _given_to(calls: Sequence[Node], question: str | None, texts: Sequence[str]) -> GivenTexts:
    kept = [call for place, call in enumerate(calls) if not any(_goes_on(later, call) for later in calls[place + 1 :])]
    turns = [prompt_of(call, question) for call in kept]
    prompts = [text for present, _ in turns for text in present]
    others = [question] if question else []
    searched = [text for turn in turns for part in turn for text in part]
    standing = given_texts(searched, texts, others)
    if not standing:  # the instructions of the system may be a parameter of the call
        standing = given_texts([_cut_out(call.all_inputs, searched) for call in kept], texts, others)
    whole = sum(texts[number] == text for number, text in standing.items())
    if whole < len(texts) and any(call.prompt_is_cut for call in kept):
        return GivenTexts({}, None)  # what is missing may stand in what was cut
    is_known = all(
        call.states_prompt
        and (call.states_request or _words(" ".join(message.text for message in call.prompt)) != _words(question or ""))
        for call in kept
    )
    return GivenTexts(standing, prompts if standing or is_known else None)


def _cut_out(inputs: str, searched: Iterable[str]) -> str:
    long = [text for text in dict.fromkeys(searched) if len(text) >= LONG_CHARS]
    for text in sorted(long, key=len, reverse=True)[:LONGEST_MAX]:
        inputs = inputs.replace(text, "\n")
    return inputs
