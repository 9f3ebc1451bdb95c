"""`ragtide annotate`: a person answers questions about kept items, sentence by sentence, and sees no score."""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Final

import typer
from pydantic import ValidationError
from redis.asyncio import Redis
from rich.text import Text

from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_offline.annotation.annotations import Annotation, StoredAnnotations
from ragtide_offline.annotation.questions import ADHERENCE, RATINGS, WHOLE, ItemQuestion, questions
from ragtide_offline.annotation.queue import ItemSource, ItemToAnnotate, QueueOptions, left, queue_of
from ragtide_offline.annotation.storing import annotation_of, store
from ragtide_producers import InteractionProducer
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.url import RedisHandle, resolve_redis
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Feedback, utc_now
from ragtide_schemas.base import describe
from ragtide_schemas.suggestions import unknown

from .annotate_views import HELP, WIDEST, item_to_annotate, question_line
from .common import PipelineOption, given
from .console import err, out, warn
from .keyboard import typed_keys
from .silence import user_name
from .with_redis import with_redis

SKIP: Final = "s"
BACK: Final = "b"
QUIT: Final = "q"

NextKey = Callable[[], str | None]
"""Waits for a key and returns it; None at the end of the input."""


def annotate(
    context: typer.Context,
    annotator: Annotated[
        str | None, typer.Option(help="Your name; default: the user of this machine. You are asked once about an item.")
    ] = None,
    sources: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            help="Source of items: sample, disputed or worst; may be repeated. Default: all. Only the sample counts.",
        ),
    ] = None,
    share: Annotated[
        float,
        typer.Option(
            min=0.001, max=1, help="Share of the sample that you are asked about, chosen by a hash of the id."
        ),
    ] = 1.0,
    rate: Annotated[
        list[str] | None,
        typer.Option(help="Rate this metric from 1 to 5, too: context_relevance, context_utilization or completeness."),
    ] = None,
    pipeline: PipelineOption = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Most items of this session.")] = None,
) -> None:
    """Annotate kept items: sentence by sentence, blind to the scores.

    Answers about the uniform sample are published as feedback with their probability, so estimates use them. Answers
    about disputed items and the worst are stored and count in no estimate. Keys: y, n, 1 to 5, s skips an item, b goes
    back, q quits.
    """
    settings = given(context).settings()
    rated = [_rated(name) for name in rate or ()]
    options = QueueOptions(
        _sources(sources or list(ItemSource)), share, (ADHERENCE, *rated), tuple(rated), settings.feedback_window_s
    )
    name = annotator or user_name()
    _check(name)

    async def load(redis: Redis, _: RedisHandle) -> list[ItemToAnnotate]:
        kept = KeptSpecimens(redis, settings.layout)
        queue = await queue_of(kept, await kept.pipelines() if pipeline is None else [pipeline], options)
        warn(*filter(None, [kept.unreadable.warning()]))
        return left(queue, await StoredAnnotations(redis, settings.prefix).read(), name)

    # An embedded server runs as long as the session.
    with resolve_redis(settings.redis_address, settings.data_dir):
        items = with_redis(settings, load)
        if not items:
            err.print(
                "There is no item for you to annotate: you answered them, they came with gold scores, or they are too "
                "old to count; ragtide items counts those that are kept"
            )
            return
        with InteractionProducer(settings=settings) as producer, typed_keys(sys.stdin) as next_key:
            session = AnnotationSession(settings, producer, name, rated, next_key)
            total = len(items) if limit is None else min(limit, len(items))
            # Ctrl-C quits like the key: finished items are stored.
            with suppress(KeyboardInterrupt):
                session.run(items[:total])
            session.finish()
    err.print(session.summary(len(items)), markup=False, highlight=False, soft_wrap=True)


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
        supported = {one.name: key == "y" for one, key in zip(asked, answers, strict=True) if one.name not in RATINGS}
        ratings = {one.name: int(key) for one, key in zip(asked, answers, strict=True) if one.name in RATINGS}
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


def _sources(names: Sequence[str]) -> tuple[ItemSource, ...]:
    known = [one.value for one in ItemSource]
    wrong = [name for name in names if name not in known]
    if wrong:
        raise typer.BadParameter(unknown("source", wrong[0], known), param_hint="--from")
    return tuple(ItemSource(name) for name in names)


def _rated(name: str) -> str:
    metric = name if name.startswith("trace.") else f"trace.{name}"
    if metric not in RATINGS:
        raise typer.BadParameter(unknown("metric", name, list(RATINGS)), param_hint="--rate")
    return metric


def _check(annotator: str) -> None:
    """Check that a name can be stored.

    Raises:
        typer.BadParameter: the name is empty, too long, or has control characters.
    """
    try:
        Annotation(pipeline="p", interaction_id="i", annotator=annotator, given_at=utc_now())
    except ValidationError as error:
        raise typer.BadParameter(describe(error), param_hint="--annotator") from None
