"""The labeler `judge`: it scores interactions by the labels of an LLM judge."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Final

import structlog
from redis.asyncio import Redis

from ragtide_runtime.settings.labelers import JudgeSettings, check_criteria
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.log_limit import LogLimit
from ragtide_schemas import METRICS, ClaimLabels, Labels, RagInteraction, SentenceLabels
from ragtide_schemas.criterion import Criterion
from ragtide_schemas.metric_definitions import SELF_CONSISTENCY

from ...metrics.ragchecker import ragchecker_metrics
from ...metrics.scores import AbsentReason, nothing_to_label
from ...metrics.trace import SENTENCES, trace_metrics, withhold_support
from ...redaction.process import NotRedactedError, RedactionError
from ...redaction.redaction import Redaction
from ...text.sentences import SPLITTER_ID, CutInteraction
from ..event import labeler_id
from ..profiles import check_profiles
from ..protocol import Labeler, Labeling
from ..remote.errors import ContextTooLong, NoLabels, OverBudget
from ..remote.spend import Spend
from ..remote.telemetry import EndpointTelemetry
from ..remote.usage import UnfinishedUsage, Usage
from .claims import judge_claims, planned_claims, uncached_claim_prompts
from .client import JudgeClient
from .costs import BatchRequest, PlannedCalls
from .criteria import (
    ChosenCriteria,
    CriteriaReading,
    calls_to_read,
    choose,
    judge_criteria,
    planned_criteria,
    reads,
    reference_of,
    scores_of,
    uncached_criteria_prompts,
)
from .prompts import VERSIONS, Language, Prompt, Variant, name_of_prompt, quote, variant_of
from .self_consistency import ask_again, is_asked_twice, score_or_reason
from .texts import PromptRedaction, conversation_of, count_injections, earlier_turns
from .trace import TraceQuestion, judge_trace, planned_trace, uncached_trace_prompts

PROMPTS: Final[Mapping[str, tuple[str, ...]]] = {"trace": ("trace",), "ragchecker": ("claims", "verdicts")}
"""Prompts of each family of metrics."""

CRITERIA: Final = "criteria"
"""Prompt that asks for criteria, and profile of a judge without families."""

VERSION_CHARS: Final = 200
"""Most characters of a version."""

log = structlog.get_logger("ragtide.judge")


class JudgeLabeler:
    """Scores interactions by a judge's labels; without labels the metrics are absent, with the reason.

    Args:
        client: calls the judge.
        profile: variant of the TRACe formulas.
        claim_profile: variant of the RAGChecker formulas.
        fallback: labeler that scores while a spend limit is reached; None raises `OverBudget`.
    """

    name: Final = "judge"
    scores_sessions: Final = True

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
        self._criteria = settings.criteria
        self._profiles = {"trace": profile, "ragchecker": claim_profile}
        self._fallback = fallback
        self._unfinished = UnfinishedUsage()
        self._no_labels = LogLimit()
        self.profile = "+".join(self._profiles[family] for family in self._families) or CRITERIA
        self.version = _version(settings, self._families, redaction.names)

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """The criteria that are asked at present."""
        return self._criteria

    def take_criteria(self, criteria: Sequence[Criterion]) -> None:
        """Ask these criteria from the next interaction on, in place of those of the settings.

        An interaction that is being labeled is not affected. The version of the labeler stays: each criterion has its
        own version, so its numbers are never mixed with those of another question.

        Raises:
            ValueError: the criteria cannot be asked together.
        """
        check_criteria(criteria)
        self._criteria = tuple(criteria)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Qualified names of the metrics that the judge gives."""
        return (*self._metrics_of_families, *(criterion.metric for criterion in self._criteria))

    @property
    def _metrics_of_families(self) -> list[str]:
        return [metric for family in self._families for metric in metrics_of(family)]

    def absent_labeling(self, interaction: RagInteraction, reason: AbsentReason) -> Labeling:
        """Return a labeling in which every metric of an interaction is absent for one reason."""
        return self._all_absent(interaction, choose(self._criteria, interaction), reason)

    def _all_absent(self, interaction: RagInteraction, chosen: ChosenCriteria, reason: AbsentReason) -> Labeling:
        families = [] if interaction.is_session else self._metrics_of_families
        absent = dict.fromkeys([*families, *chosen.metrics], str(reason))
        return _Results(absent={**absent, **chosen.absent}).labeling(chosen)

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
                if interaction.is_session:  # no other labeler scores a session
                    return usage.add_to(self.absent_labeling(interaction, AbsentReason.OVER_BUDGET))
                labeling = await self._fallback.label(interaction)
                labeling = replace(labeling, by=labeling.by or labeler_id(self._fallback))
        return usage.add_to(labeling)

    async def _label(self, interaction: RagInteraction, usage: Usage) -> Labeling:
        chosen = choose(self._criteria, interaction)
        nothing = nothing_to_label(interaction)
        families = self._families_of(interaction)
        results = _Results(absent=dict(chosen.absent))
        if not families:
            if nothing is not None and not interaction.is_session:
                results.absent |= dict.fromkeys(self._metrics_of_families, str(nothing))
            if not chosen.asked:  # without a call, so without cost
                return results.labeling(chosen)
        try:
            interaction, sentences = await self._redaction.prepare(interaction)
        except (RedactionError, NotRedactedError) as error:
            self._warn_no_labels(error)
            return self._all_absent(interaction, chosen, AbsentReason.NOT_REDACTED)
        language = self._language(sentences.language)
        texts = [document.text for document in interaction.documents] + [interaction.response]
        read = conversation_of if interaction.is_session else earlier_turns
        texts += [text for _, text in read(interaction)]
        texts += [quote(call) for _, call in calls_to_read(chosen.asked, interaction)]
        usage.counters["injection_suspected"] = count_injections(texts)
        question = self._question(interaction, sentences, language, chosen.asked if "trace" in families else ())
        for family in families:
            await self._judge_family(family, interaction, question, usage, results)
        if chosen.asked:
            await self._judge_criteria(interaction, chosen.asked, language, usage, results)
        if families and is_asked_twice(interaction, self._client.settings.repeat_share):
            # Last, because an outage in the calls before it repeats them all.
            await self._judge_again(question, usage, results)
        return replace(
            results.labeling(chosen),
            splitter=sentences.splitter if "trace" in families else None,
            prompts=self._prompts(families, language, interaction, chosen.asked),
            reasons={} if self._client.settings.reasons == "none" else results.reasons,
            answers=results.answers,
        )

    async def _judge_family(
        self, family: str, interaction: RagInteraction, question: TraceQuestion, usage: Usage, results: "_Results"
    ) -> None:
        """Add the scores of a family of metrics, or the reason why they are absent."""
        try:
            if family == "trace":
                by_trace = await judge_trace(self._client, question, usage)
                labels: SentenceLabels | ClaimLabels = by_trace.labels
                results.reasons |= by_trace.reasons
                results.criteria = by_trace.criteria
            else:
                labels = await judge_claims(self._client, interaction, question.language, usage)
        except (NoLabels, ContextTooLong) as error:
            reason = error.reason if isinstance(error, NoLabels) else AbsentReason.CONTEXT_TOO_LONG
            self._warn_no_labels(error)
            results.absent |= dict.fromkeys(metrics_of(family), str(reason))
            return
        results.labels.append(labels)
        if isinstance(labels, SentenceLabels):
            result = trace_metrics(labels, profile=self._profiles["trace"])
            if question.sentences.refuses:
                result = withhold_support(result)
        else:
            result = ragchecker_metrics(labels, profile=self._profiles["ragchecker"])
        usage.counters["dropped_keys"] += result.dropped_keys
        scores, missing = result.by_qualified_name(f"{family}.")
        if isinstance(labels, SentenceLabels):
            missing = missing | _unusable(labels, missing)
        results.scores |= scores | {SENTENCES + name: count for name, count in result.counts.items()}
        if result.defects:
            usage.counters["defects"] += len(result.defects)
            log.error("scores break their laws", interaction_id=interaction.interaction_id, laws=result.defects)
        results.absent |= missing

    async def _judge_criteria(
        self,
        interaction: RagInteraction,
        asked: tuple[Criterion, ...],
        language: Language,
        usage: Usage,
        results: "_Results",
    ) -> None:
        """Add the scores of criteria, or the reason why each is absent.

        Criteria without a usable answer in the shared call are asked again in a call of their own, so their faults
        change none of TRACe's labels.
        """
        shared = results.criteria or CriteriaReading()
        pending = asked if results.criteria is None else tuple(c for c in asked if c.metric in shared.faults)
        missing: dict[str, str] = {}
        second = CriteriaReading()
        if pending and (results.criteria is None or self._client.settings.repairs):
            second, missing = await judge_criteria(
                self._client,
                interaction,
                pending,
                language,
                usage,
                asked_before=results.criteria is not None,
                # Labels of the same interaction show that the endpoint works.
                counts_failures=not results.labels,
            )
        elif pending:
            missing = dict.fromkeys(shared.faults, str(AbsentReason.JUDGE_UNUSABLE))
        both = shared.joined(second)
        scores, undecided = scores_of(both, asked)
        results.scores |= scores
        results.absent |= missing | undecided
        results.reasons |= both.reasons
        results.answers |= {metric: answer for metric, answer in both.answers.items() if metric in scores}

    async def _judge_again(self, question: TraceQuestion, usage: Usage, results: "_Results") -> None:
        """Add the judge's self-consistency, or the reason why it is absent."""
        first = next((labels for labels in results.labels if isinstance(labels, SentenceLabels)), None)
        if first is None:
            results.absent[SELF_CONSISTENCY.name] = results.absent["trace.adherence"]
            return
        scores, missing = score_or_reason(await ask_again(self._client, first, question, usage))
        results.scores |= scores
        results.absent |= missing

    def _question(
        self, interaction: RagInteraction, sentences: CutInteraction, language: Language, asked: tuple[Criterion, ...]
    ) -> TraceQuestion:
        """Return the question about sentences, with the criteria that are asked in the same call."""
        shared = asked if self._client.settings.criteria_call == "shared" else ()
        reference, calls = reference_of(shared, interaction), calls_to_read(shared, interaction)
        return TraceQuestion(sentences, language, earlier_turns(interaction), shared, reference, calls)

    def _families_of(self, interaction: RagInteraction) -> tuple[str, ...]:
        """Return the families of metrics that an interaction has labels for; a session has none."""
        return () if interaction.is_session or nothing_to_label(interaction) is not None else self._families

    def _prompts(
        self, families: Sequence[str], language: Language, interaction: RagInteraction, asked: Sequence[Criterion]
    ) -> tuple[str, ...]:
        """Return name, language and version of the prompts of an interaction."""
        variant = self._client.variant
        names = [name for family in families for name in _names_of_prompts(family, variant)]
        names += ["session"] if interaction.is_session else ["history"] if interaction.history else []
        names += ["calls"] if any(reads(criterion, "calls") for criterion in asked) else []
        names += [name_of_prompt(CRITERIA, variant)] if asked else []
        return tuple(f"{name}.{language}.{VERSIONS[name]}" for name in names)

    @property
    def has_price(self) -> bool:
        """Whether the price of the model is known."""
        return self._client.has_price

    def without_cache(self) -> "JudgeLabeler":
        """Return a labeler with the same judge and account that neither reads nor stores cached answers.

        It shares the connections, so it is not closed.
        """
        labeler = copy(self)
        labeler._client = self._client.without_cache()
        return labeler

    @property
    def client(self) -> JudgeClient:
        """The client, for batches."""
        return self._client

    async def uncached_requests(self, interaction: RagInteraction) -> list[BatchRequest]:
        """Return the requests of an interaction that are known by now and have no cached answer."""
        asked = choose(self._criteria, interaction).asked
        families = self._families_of(interaction)
        prompts: list[Prompt] = []
        if not families and not asked:
            return []
        try:
            interaction, sentences = await self._redaction.prepare(interaction)
            language = self._language(sentences.language)
            shared = False
            if "trace" in families:
                question = self._question(interaction, sentences, language, asked)
                prompts, shared = await uncached_trace_prompts(self._client, question)
            if asked and not shared:
                prompts += await uncached_criteria_prompts(self._client, interaction, asked, language)
            if "ragchecker" in families:
                prompts += await uncached_claim_prompts(self._client, interaction, language)
        except (RedactionError, NotRedactedError, ContextTooLong):
            pass  # such interactions are absent
        return [self._client.batch_request(prompt) for prompt in prompts]

    async def planned_calls(self, interaction: RagInteraction) -> PlannedCalls:
        """Return the calls that labeling an interaction would make, by estimate, and make none."""
        asked = choose(self._criteria, interaction).asked
        families = self._families_of(interaction)
        calls = PlannedCalls()
        if not families and not asked:
            return calls
        try:
            interaction, sentences = await self._redaction.prepare(interaction)
            language = self._language(sentences.language)
            shared = False
            if "trace" in families:
                question = self._question(interaction, sentences, language, asked)
                calls, shared = await planned_trace(self._client, question)
                if is_asked_twice(interaction, self._client.settings.repeat_share):
                    repeated, _ = await planned_trace(self._client.without_cache(), question)
                    calls += repeated
            if asked and not shared:
                calls += await planned_criteria(self._client, interaction, asked, language)
            if "ragchecker" in families:
                calls += await planned_claims(self._client, interaction, language)
        except (RedactionError, NotRedactedError, ContextTooLong):
            return calls  # such interactions are absent, and cost nothing more
        return calls

    def _warn_no_labels(self, error: Exception) -> None:
        if times := self._no_labels.due():
            log.warning("the judge gave no labels", because=str(error), interactions_since_last_warning=times)

    def _language(self, detected: str) -> Language:
        setting = self._client.settings.language
        if setting != "auto":
            return setting
        return "ru" if detected == "ru" else "en"

    async def aclose(self) -> None:
        """Close the judge's connections, and end the process that redacts."""
        await self._redaction.aclose()
        await self._client.aclose()


@dataclass(slots=True)
class _Results:
    """What is known so far about one interaction."""

    scores: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    labels: list[Labels] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    criteria: CriteriaReading | None = None
    """Answers to criteria in TRACe's call; None if they were not asked there."""

    def labeling(self, chosen: ChosenCriteria) -> Labeling:
        return Labeling(
            self.scores,
            self.absent,
            labels=tuple(self.labels),
            declared=chosen.declared,
            rates=chosen.rates,
        )


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
    # Criteria are no part of it: each has a version of its own, and a new question must not end TRACe's estimates
    # (decisions/0036-a-criterion-has-its-own-version.md).
    variant = variant_of(settings)
    names = [name for family in families for name in _names_of_prompts(family, variant)]
    prompts = [f"{name}.{VERSIONS[name]}" for name in names or [name_of_prompt(CRITERIA, variant)]]
    language = [] if settings.language == "auto" else [settings.language]
    splitter = [SPLITTER_ID] if "trace" in families else []
    redacted = [f"redact.{'+'.join(redacted_by)}"] if redacted_by else []
    whole = "/".join([settings.model or "", *prompts, *language, *splitter, *redacted])
    if len(whole) <= VERSION_CHARS:
        return whole
    # Two long names may differ in their ends alone.
    digest = blake2b(whole.encode(), digest_size=8).hexdigest()
    return f"{whole[: VERSION_CHARS - len(digest) - 1]}~{digest}"


def _names_of_prompts(family: str, variant: Variant) -> list[str]:
    return [name_of_prompt(name, variant) for name in PROMPTS[family]]


def make_judge(
    settings: Settings,
    redis: Redis | None,
    telemetry: EndpointTelemetry,
    *,
    fallback: Labeler | None,
    answers: Path | None = None,
    account: Spend | None = None,
) -> JudgeLabeler:
    """Return the judge; the caller closes it.

    Args:
        redis: holds cache, spend and state for all processes; without it each process has its own.
        telemetry: counts calls.
        fallback: labeler that scores while a spend limit is reached; None makes interactions wait.
        answers: without Redis, a file that caches answers for later processes; None caches in memory.
        account: counts the dollars of this run, beside the account of the deployment.

    Raises:
        ConfigurationError: the model or the key is missing, a profile is unknown, or the function that redacts cannot
            be loaded.
    """
    check_profiles(settings)
    redaction = PromptRedaction(Redaction.of("judge", settings.judge, patterns_here=True))
    client = JudgeClient(settings, redis, telemetry, answers, account)
    return JudgeLabeler(
        client,
        redaction,
        profile=settings.profile,
        claim_profile=settings.claim_profile,
        fallback=fallback,
    )
