"""A person answers questions about kept items, sentence by sentence, and sees no score."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import typer
from pydantic import ValidationError
from redis.asyncio import Redis
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ragtide_consumers.text.keys import letters
from ragtide_producers import InteractionProducer
from ragtide_roles.kept.annotations import Annotation, StoredAnnotations
from ragtide_roles.kept.questions import RATINGS, WHOLE, ItemQuestion, questions
from ragtide_roles.kept.queue import ItemSource, ItemToAnnotate, annotation_of, store
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.url import RedisHandle
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Feedback, Specimen, utc_now
from ragtide_schemas.base import describe
from ragtide_schemas.printable import printable
from ragtide_schemas.suggestions import unknown

from .printing import out
from .running.redis import with_redis

SKIP: Final = "s"


BACK: Final = "b"


QUIT: Final = "q"


NextKey = Callable[[], str | None]
"""Waits for a key and returns it; None at the end of the input."""


class AnnotationSession:
    """One person's answers, item after item. An item is stored once the next one is finished, so one can go back.

    Args:
        settings: of the deployment.
        producer: publishes feedback.
        annotator: the person.
        rated: metrics to rate.
        next_key: waits for a key.
    """

    def __init__(
        self,
        settings: Settings,
        producer: InteractionProducer,
        annotator: str,
        rated: Sequence[str],
        next_key: NextKey,
    ) -> None:
        self._settings, self._producer, self._annotator = settings, producer, annotator
        self._rated, self._next_key = rated, next_key
        self._waiting: tuple[Annotation, ItemToAnnotate] | None = None
        self._counts: Counter[str] = Counter()

    def run(self, items: Sequence[ItemToAnnotate]) -> None:
        """Ask about items, until the last one or until the person quits."""
        place = 0
        while place < len(items):
            if out.is_terminal:
                out.clear()
            out.print(item_to_annotate(items[place].specimen, place + 1, len(items)), width=min(out.width, WIDEST))
            answer = self._ask(items[place])
            if answer == QUIT:
                return
            if answer == BACK:
                if self._waiting is None:
                    out.print("The item before is stored and cannot be changed.", style="yellow")
                else:
                    self._waiting = None
                    place -= 1
                continue
            self.finish()
            skipped = annotation_of(items[place], self._annotator, skipped=True)
            self._waiting = answer if isinstance(answer, Annotation) else skipped, items[place]
            place += 1

    def finish(self) -> None:
        """Store the item that waits, and publish its answers if they count."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return
        annotation, item = waiting

        async def body(redis: Redis, _: RedisHandle) -> str:
            stored = StoredAnnotations(redis, self._settings.prefix)
            try:
                return await store(stored, annotation, item, self._publish)
            except ValueError as error:
                raise ConfigurationError(str(error)) from None

        self._counts[with_redis(self._settings, body)] += 1

    async def _publish(self, feedback: Feedback) -> None:
        await asyncio.to_thread(self._producer.publish_feedback, [feedback])

    def summary(self, total: int) -> str:
        """Return the numbers of items in words.

        Args:
            total: items that were to be annotated before the session.
        """
        counts = self._counts
        annotated = counts["published"] + counts["selected"] + counts["second"] + counts["graded"]
        parts = [f"{annotated:,} annotated"]
        parts += [f"{counts['published']:,} of the sample, published as feedback"] * bool(counts["published"])
        parts += [f"{counts['second']:,} of the sample that another person annotated first"] * bool(counts["second"])
        parts += [f"{counts['graded']:,} of the sample that came with gold scores"] * bool(counts["graded"])
        parts += [f"{counts['selected']:,} selected, in no estimate"] * bool(counts["selected"])
        parts += [f"{counts['skipped']:,} skipped"] * bool(counts["skipped"])
        return f"{'; '.join(parts)}; {total - counts.total():,} left for you"

    def _ask(self, item: ItemToAnnotate) -> Annotation | str:
        """Return the answers about an item, or the key with which the person left it."""
        asked = questions(item.specimen, self._rated)
        answers: list[str] = []
        while len(answers) < len(asked):
            key = self._answer(asked[len(answers)], repeat=len(asked) > 1)
            if key in (SKIP, QUIT):
                return key
            if key == BACK:
                if not answers:
                    return BACK
                answers.pop()
            else:
                answers.append(key)
        supported = {
            question.name: key == "y"
            for question, key in zip(asked, answers, strict=True)
            if question.name not in RATINGS
        }
        ratings = {
            question.name: int(key) for question, key in zip(asked, answers, strict=True) if question.name in RATINGS
        }
        return annotation_of(item, self._annotator, supported=supported, ratings=ratings)

    def _answer(self, question: ItemQuestion, *, repeat: bool) -> str:
        rating, whole = question.name in RATINGS, question.name == WHOLE
        if repeat and not rating and not whole:
            out.print(Text(" ".join(question.text.split()), style="bold"), width=min(out.width, WIDEST))
        while True:
            out.print(question_line(question, rating=rating, whole=whole), end="")
            key = self._next_key()
            if key is None:
                out.print()
                return QUIT
            out.print(Text(key))
            if key in (*question.keys, SKIP, BACK, QUIT):
                return key
            out.print(Text(f"Keys: {', '.join(question.keys)}; {HELP}.", style="yellow"))


def item_sources(names: Sequence[str]) -> tuple[ItemSource, ...]:
    """Return the sources of items by their names."""
    known = [source.value for source in ItemSource]
    wrong = [name for name in names if name not in known]
    if wrong:
        raise typer.BadParameter(unknown("source", wrong[0], known), param_hint="--from")
    return tuple(ItemSource(name) for name in names)


def rated_metric(name: str) -> str:
    """Return the whole name of a metric that people can rate."""
    metric = name if name.startswith("trace.") else f"trace.{name}"
    if metric not in RATINGS:
        raise typer.BadParameter(unknown("metric", name, list(RATINGS)), param_hint="--rate")
    return metric


def check_annotator(annotator: str) -> None:
    """Check that a name can be stored.

    Raises:
        typer.BadParameter: the name is empty, too long, or has control characters.
    """
    try:
        Annotation(pipeline="p", interaction_id="i", annotator=annotator, given_at=utc_now())
    except ValidationError as error:
        raise typer.BadParameter(describe(error), param_hint="--annotator") from None


WIDEST: Final = 80
"""Most columns of an item."""


HELP: Final = "s skip the item, b back, q quit; every finished item is stored"


def item_to_annotate(specimen: Specimen, number: int, total: int) -> RenderableType:
    """Return an item as lines: its place in the queue, question, documents and response."""
    one = specimen.interaction
    parts: list[RenderableType] = [Text(f"item {number:,} of {total:,}", style="bright_black"), Text()]
    parts += [_part_title("question"), _text(one.question)]
    for place, document in enumerate(one.documents):
        parts += [Text(), _part_title(f"document {place}")]
        if document.sentences is None:
            parts.append(_text(document.text))
        else:
            parts.append(_sentences((f"{place}{letters(at)}", text) for at, text in enumerate(document.sentences)))
    if not one.documents:
        parts += [Text(), _part_title("no documents")]
    parts += [Text(), _part_title("response")]
    if one.response_sentences:
        parts.append(_sentences((letters(at), text) for at, text in enumerate(one.response_sentences)))
    else:
        parts.append(_text(one.response))
    return Group(*parts, Text())


def question_line(question: ItemQuestion, *, rating: bool, whole: bool) -> Text:
    """Return the line that asks a question; the answer follows on the same line.

    Args:
        question: to ask.
        rating: whether it asks for a rating.
        whole: whether it is about the whole response.
    """
    if rating:
        return Text(f"{question.text} 1 nothing, 3 half, 5 everything: ")
    subject = "Is every fact of the response" if whole else f"{question.name}  Is every fact of this sentence"
    return Text(f"{subject} in the documents? y/n: ")


def _sentences(sentences: Iterable[tuple[str, str]]) -> RenderableType:
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True, style="bright_black")
    table.add_column(overflow="fold")
    for key, text in sentences:
        table.add_row(key, Text(printable(" ".join(text.split()))))
    return table


def _part_title(text: str) -> Text:
    return Text(text, style="bold")


def _text(text: str) -> Text:
    return Text(printable(text, keep="\n"))
