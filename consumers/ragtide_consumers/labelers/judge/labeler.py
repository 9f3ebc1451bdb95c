"""The labeler `judge`: it scores interactions by the labels of an LLM judge."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Final

import structlog
from redis.asyncio import Redis

from ragtide_runtime.settings.labelers import JudgeSettings, PromptVariant
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.log_limit import LogLimit
from ragtide_schemas import METRICS, ClaimLabels, Labels, RagInteraction, SentenceLabels
from ragtide_schemas.metric_definitions import SELF_CONSISTENCY

from ...metrics.ragchecker import ragchecker_metrics
from ...metrics.scores import AbsentReason, MetricScores, nothing_to_label
from ...metrics.trace import SENTENCES, of_refusal, trace_metrics
from ...redaction.process import NotRedactedError, RedactionError
from ...redaction.redaction import Redaction
from ...text.sentences import SPLITTER_ID
from ..event import labeler_id
from ..profiles import check_profiles
from ..protocol import Labeler, Labeling
from ..remote.errors import ContextTooLong, NoLabels, OverBudget
from ..remote.telemetry import EndpointTelemetry
from ..remote.usage import UnfinishedUsage, Usage
from .claims import judge_claims, planned_claims, uncached_claim_prompts
from .client import JudgeClient
from .costs import BatchRequest, PlannedCalls
from .prompts import VERSIONS, Language, Prompt, name_of_prompt
from .self_consistency import ask_again, is_asked_twice, score_or_reason
from .texts import PromptRedaction, count_injections, earlier_turns
from .trace import judge_trace, planned_trace, uncached_trace_prompts

PROMPTS: Final[Mapping[str, tuple[str, ...]]] = {"trace": ("trace",), "ragchecker": ("claims", "verdicts")}
"""Prompts of each family of metrics."""

VERSION_CHARS: Final = 200
"""Most characters of a version."""

log = structlog.get_logger("ragtide.judge")


class JudgeLabeler:
    """Scores interactions by a judge's labels; without labels the metrics are absent, with the reason.

    Args:
        client: calls the judge.
        redaction: of the texts that the judge reads.
        profile: variant of the TRACe formulas.
        claim_profile: variant of the RAGChecker formulas.
        fallback: labeler that scores while a spend limit is reached; None raises `OverBudget`.
    """

    name: Final = "judge"

    def __init__(
        self,
        client: JudgeClient,
        redaction: PromptRedaction,
        *,
        profile: str = "ragbench",
        claim_profile: str = "ragchecker_strict",
        fallback: Labeler | None = None,
    ) -> None:
        settings = client.settings
        self._client = client
        self._redaction = redaction
        self._families = tuple(dict.fromkeys(settings.families))
        self.metrics = tuple(metric for family in self._families for metric in metrics_of(family))
        self._profiles = {"trace": profile, "ragchecker": claim_profile}
        self._fallback = fallback
        self._unfinished = UnfinishedUsage()
        self._no_labels = LogLimit()
        self.profile = "+".join(self._profiles[family] for family in self._families)
        self.version = _version(settings, self._families, redaction.names)

    async def label(self, interaction: RagInteraction) -> Labeling:
        """Return the scores of one interaction.

        Raises:
            EndpointUnavailable: the judge cannot be called; the event of a later try has the cost so far.
            OverBudget: a spend limit is reached, and this labeler has no fallback.
        """
        with self._unfinished.of(interaction) as usage:
            try:
                labeling = await self._label(interaction, usage)
            except OverBudget:
                if self._fallback is None:
                    raise
                usage.counters["over_budget"] += 1
                labeling = await self._fallback.label(interaction)
                labeling = replace(labeling, by=labeling.by or labeler_id(self._fallback))
        return usage.add_to(labeling)

    async def _label(self, interaction: RagInteraction, usage: Usage) -> Labeling:
        nothing = nothing_to_label(interaction)
        if nothing is not None:  # without a call, so without cost
            return Labeling({}, dict.fromkeys(self.metrics, str(nothing)))
        try:
            interaction, sentences = await self._redaction.prepare(interaction)
        except (RedactionError, NotRedactedError) as error:
            self._warn_no_labels(error)
            return Labeling({}, dict.fromkeys(self.metrics, str(AbsentReason.NOT_REDACTED)))
        language = self._language(sentences.language)
        scores: dict[str, float] = {}
        absent: dict[str, str] = {}
        labels: list[Labels] = []
        history = earlier_turns(interaction)
        texts = [document.text for document in interaction.documents] + [interaction.response]
        texts += [text for _, text in history]
        usage.counters["injection_suspected"] = count_injections(texts)
        for family in self._families:
            try:
                if family == "trace":
                    found: SentenceLabels | ClaimLabels = await judge_trace(
                        self._client, sentences, language, usage, history
                    )
                else:
                    found = await judge_claims(self._client, interaction, language, usage)
            except (NoLabels, ContextTooLong) as error:
                reason = error.reason if isinstance(error, NoLabels) else AbsentReason.CONTEXT_TOO_LONG
                self._warn_no_labels(error)
                absent |= dict.fromkeys(metrics_of(family), str(reason))
                continue
            labels.append(found)
            result = self._scores(found)
            if sentences.refuses and isinstance(found, SentenceLabels):
                result = of_refusal(result)
            usage.counters["dropped_keys"] += result.dropped_keys
            some, missing = result.by_qualified_name(f"{family}.")
            if isinstance(found, SentenceLabels):
                missing = missing | _unusable(found, missing)
            scores |= some | {SENTENCES + name: count for name, count in result.counts.items()}
            if result.defects:
                usage.counters["defects"] += len(result.defects)
                log.error("scores break their laws", interaction_id=interaction.interaction_id, laws=result.defects)
            absent |= missing
        if is_asked_twice(interaction, self._client.settings.repeat_share):
            # Last, because an outage in the calls before it repeats them all.
            first = next((found for found in labels if isinstance(found, SentenceLabels)), None)
            if first is None:
                absent[SELF_CONSISTENCY.name] = absent["trace.adherence"]
            else:
                value = await ask_again(self._client, first, sentences, language, usage, history=history)
                some, missing = score_or_reason(value)
                scores |= some
                absent |= missing
        return Labeling(
            scores,
            absent,
            labels=tuple(labels),
            splitter=sentences.splitter if "trace" in self._families else None,
            prompts=tuple(
                f"{name}.{language}.{VERSIONS[name]}"
                for names in (
                    *(_names(family, self._client.settings.prompt) for family in self._families),
                    ["history"] if history else [],
                )
                for name in names
            ),
        )

    @property
    def has_price(self) -> bool:
        """Whether the price of the model is known."""
        return self._client.has_price

    @property
    def client(self) -> JudgeClient:
        """The client, for batches."""
        return self._client

    async def uncached_requests(self, interaction: RagInteraction) -> list[BatchRequest]:
        """Return the requests of an interaction that are known by now and have no cached answer."""
        if nothing_to_label(interaction) is not None:
            return []
        found: list[Prompt] = []
        try:
            interaction, sentences = await self._redaction.prepare(interaction)
            language = self._language(sentences.language)
            if "trace" in self._families:
                found += await uncached_trace_prompts(self._client, sentences, language, earlier_turns(interaction))
            if "ragchecker" in self._families:
                found += await uncached_claim_prompts(self._client, interaction, language)
        except (RedactionError, NotRedactedError, ContextTooLong):
            pass  # such interactions are absent
        return [self._client.batch_request(prompt) for prompt in found]

    async def planned_calls(self, interaction: RagInteraction) -> PlannedCalls:
        """Return the calls that labeling an interaction would make, by estimate, and make none."""
        if nothing_to_label(interaction) is not None:
            return PlannedCalls()
        found = PlannedCalls()
        try:
            interaction, sentences = await self._redaction.prepare(interaction)
            language = self._language(sentences.language)
            if "trace" in self._families:
                once = await planned_trace(self._client, sentences, language, earlier_turns(interaction))
                found += once
                if is_asked_twice(interaction, self._client.settings.repeat_share):
                    again = self._client.without_cache()
                    found += await planned_trace(again, sentences, language, earlier_turns(interaction))
            if "ragchecker" in self._families:
                found += await planned_claims(self._client, interaction, language)
        except (RedactionError, NotRedactedError, ContextTooLong):
            return found  # such interactions are absent, and cost nothing more
        return found

    def _warn_no_labels(self, error: Exception) -> None:
        if times := self._no_labels.due():
            log.warning("the judge gave no labels", because=str(error), interactions_since_last_warning=times)

    def _scores(self, labels: SentenceLabels | ClaimLabels) -> MetricScores:
        if isinstance(labels, SentenceLabels):
            return trace_metrics(labels, profile=self._profiles["trace"])
        return ragchecker_metrics(labels, profile=self._profiles["ragchecker"])

    def _language(self, of_content: str) -> Language:
        setting = self._client.settings.language
        if setting != "auto":
            return setting
        return "ru" if of_content == "ru" else "en"

    async def aclose(self) -> None:
        """Close the judge's connections, and end the process that redacts."""
        await self._redaction.aclose()
        await self._client.aclose()


def metrics_of(family: str) -> list[str]:
    """Return the qualified names of a family's metrics."""
    return [name for name in METRICS if name.startswith(f"{family}.")]


def _unusable(labels: SentenceLabels, absent: Mapping[str, str]) -> dict[str, str]:
    """Return the metrics that are absent because a list of the judge's answer was missing or malformed."""
    needed: set[str] = set()
    if labels.relevant is None:
        needed |= {"trace.context_relevance", "trace.completeness"}
    if labels.utilized is None:
        needed |= {"trace.context_utilization", "trace.completeness"}
    if not labels.support:
        needed |= {"trace.adherence", "trace.supported_fraction"}
    reason = str(AbsentReason.JUDGE_UNUSABLE)
    return {name: reason for name in needed if absent.get(name) == AbsentReason.INCOMPLETE_LABELS}


def _version(settings: JudgeSettings, families: tuple[str, ...], redacted_by: Sequence[str]) -> str:
    prompts = [f"{name}.{VERSIONS[name]}" for family in families for name in _names(family, settings.prompt)]
    language = [] if settings.language == "auto" else [settings.language]
    splitter = [SPLITTER_ID] if "trace" in families else []
    redacted = [f"redact.{'+'.join(redacted_by)}"] if redacted_by else []
    whole = "/".join([settings.model or "", *prompts, *language, *splitter, *redacted])
    if len(whole) <= VERSION_CHARS:
        return whole
    # Two long names may differ in their ends alone.
    digest = blake2b(whole.encode(), digest_size=8).hexdigest()
    return f"{whole[: VERSION_CHARS - len(digest) - 1]}~{digest}"


def _names(family: str, variant: PromptVariant) -> list[str]:
    return [name_of_prompt(name, variant) for name in PROMPTS[family]]


def judge_of(
    settings: Settings,
    redis: Redis | None,
    telemetry: EndpointTelemetry,
    *,
    fallback: Labeler | None,
    answers: Path | None = None,
) -> JudgeLabeler:
    """Return the judge; the caller closes it.

    Args:
        settings: of the process.
        redis: holds cache, spend and state for all processes; without it each process has its own.
        telemetry: counts calls.
        fallback: labeler that scores while a spend limit is reached; None makes interactions wait.
        answers: without Redis, a file that caches answers for later processes; None caches in memory.

    Raises:
        ConfigurationError: the model or the key is missing, a profile is unknown, or the function that redacts cannot
            be loaded.
    """
    check_profiles(settings)
    redaction = PromptRedaction(Redaction.of("judge", settings.judge, patterns_here=True))
    client = JudgeClient(settings, redis, telemetry, answers)
    return JudgeLabeler(
        client,
        redaction,
        profile=settings.profile,
        claim_profile=settings.claim_profile,
        fallback=fallback,
    )
