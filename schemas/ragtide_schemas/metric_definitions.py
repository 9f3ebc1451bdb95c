"""The definitions of ragtide's own metrics, in an immutable table.

Bands are rules of thumb for tables; no decision depends on them.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from .limits import DOCUMENTS_MAX, ROUNDS_MAX, STEPS_MAX
from .metrics import Bands, DefaultRule, Direction, Kind, MetricDefinition, Pattern

_RAGBENCH: Final = "Friel et al., RAGBench (arXiv:2407.11005), section 3"
_RAGCHECKER: Final = "Ru et al., RAGChecker (arXiv:2408.08067), section 3"
_CAPSTONE: Final = "CapStoneRAG10"
_SENTENCE_BERT: Final = "Reimers and Gurevych, Sentence-BERT (arXiv:1908.10084)"

CHANGE_OF_HOURS: Final = 0.03
"""Change of a number about the words of questions and documents that other questions at night explain."""

_SENTENCES: Final = ("document sentences",)
_RESPONSE: Final = ("response sentences",)
_RELEVANT: Final = ("document sentences", "a relevant one")
_ALL_FOUR: Final = ("document sentences", "a relevant one", "response sentences")


def _trace(
    name: str,
    definition: str,
    meaning: str,
    needs: tuple[str, ...],
    bands: Bands | None = None,
    *,
    does_not_tell: str,
    related: tuple[str, ...],
    source: str = _RAGBENCH,
    default_rule: DefaultRule | None = None,
    of_context: bool = False,
) -> MetricDefinition:
    return MetricDefinition(
        f"trace.{name}", 0.0, 1.0, Direction.HIGHER, Kind.ALGEBRAIC, meaning, source, definition, needs, bands,
        does_not_tell=does_not_tell, related=related, default_rule=default_rule, from_labels=True,
        of_context=of_context,
    )  # fmt: skip


TRACE: Final = (
    _trace(
        "context_relevance",
        "|R| / T",
        "Share of the retrieved sentences relevant to the question.",
        _SENTENCES,
        Bands(0.2, 0.4, 0.7),
        does_not_tell="Whether the documents hold all that the answer needs: a single relevant sentence scores 1, and "
        "more documents lower it.",
        related=("retrieval.match", "trace.context_utilization", "ragchecker.claim_recall", "retrieval.empty"),
        default_rule=DefaultRule("relevance-drift", "!local"),
        of_context=True,
    ),
    _trace(
        "context_utilization",
        "|U| / T",
        "Share of the retrieved sentences that the response used.",
        _SENTENCES,
        Bands(0.1, 0.25, 0.5),
        does_not_tell="Whether the response is correct; a short response from long documents scores low.",
        related=("trace.context_relevance", "trace.completeness"),
        default_rule=DefaultRule("utilization-drift", min_effect=CHANGE_OF_HOURS),
        of_context=True,
    ),
    _trace(
        "completeness",
        "|R ∩ U| / |R|",
        "Share of the relevant sentences that the response used.",
        _RELEVANT,
        Bands(0.4, 0.6, 0.8),
        does_not_tell="Whether the retriever found all that was needed: only retrieved sentences count.",
        related=("trace.context_utilization", "ragchecker.recall"),
    ),
    _trace(
        "adherence",
        "1 if every response sentence is supported, else 0",
        "1 if every sentence of the response is supported by the documents (a probability from the local labeler).",
        _RESPONSE,
        Bands(0.7, 0.8, 0.9),
        does_not_tell="Whether the response is correct or complete: a copy of the documents scores high.",
        related=("trace.supported_fraction", "ragchecker.faithfulness", "response.empty"),
        default_rule=DefaultRule("adherence-drift", "!local"),
    ),
    _trace(
        "supported_fraction",
        "supported response sentences / response sentences",
        "Share of the response's sentences that are supported.",
        _RESPONSE,
        Bands(0.8, 0.9, 0.95),
        does_not_tell="Whether the response is correct, and how grave an unsupported sentence is.",
        related=("trace.adherence", "ragchecker.faithfulness"),
    ),
    _trace(
        "average",
        "mean of relevance, utilization, completeness, adherence",
        "Mean of relevance, utilization, completeness and adherence of one interaction.",
        _ALL_FOUR,
        source=_CAPSTONE,
        does_not_tell="Which of the four scores is low: read the four.",
        related=("trace.context_relevance", "trace.context_utilization", "trace.completeness", "trace.adherence"),
        of_context=True,
    ),
    MetricDefinition(
        "trace.rmse_aggregation",
        0.0,
        0.5,
        Direction.NEITHER,
        Kind.ALGEBRAIC,
        "Population standard deviation of the four TRACe scores of one interaction: their balance, not their quality.",
        f"{_CAPSTONE}; on real data it does not point to unsupported responses",
        "sqrt(mean((score - mean of the four)²))",
        _ALL_FOUR,
        # The bands of the two source documents, which contradict each other: 0.10/0.20/0.30 and 0.15/0.30.
        edges=(0.10, 0.15, 0.20, 0.30),
        does_not_tell="Quality: four equally poor scores have the value 0.",
        related=("trace.average",),
        from_labels=True,
    ),
)
"""R relevant, U utilized document sentences, of T."""


def _count(
    name: str, definition: str, meaning: str, *, does_not_tell: str, related: tuple[str, ...]
) -> MetricDefinition:
    return MetricDefinition(
        f"sentences.{name}",
        0.0,
        1000.0,
        Direction.NEITHER,
        Kind.DISTRIBUTIVE,
        meaning,
        _CAPSTONE,
        definition,
        _RESPONSE,
        does_not_tell=does_not_tell,
        related=related,
        from_labels=True,
    )


COUNTS: Final = (
    _count(
        "fully_supported",
        "response sentences with support and no verdict against it",
        "Number of fully supported sentences of the response; past 100 it says 100.",
        does_not_tell="The share of such sentences: a long response has more of every kind.",
        related=("trace.supported_fraction",),
    ),
    _count(
        "partially_supported",
        "response sentences with a supporting key and fully_supported = false",
        "Number of sentences of which only a part is supported.",
        does_not_tell="The share of such sentences: a long response has more of every kind.",
        related=("trace.supported_fraction",),
    ),
    _count(
        "unsupported",
        "response sentences without a supporting key",
        "Number of sentences that nothing supports.",
        does_not_tell="The share of such sentences: a long response has more of every kind.",
        related=("trace.supported_fraction", "trace.adherence"),
    ),
)
"""Of the response's sentences; published by a judge."""


def _claims(
    name: str,
    definition: str,
    meaning: str,
    needs: tuple[str, ...],
    bands: Bands | None = None,
    *,
    does_not_tell: str,
    related: tuple[str, ...],
    direction: Direction = Direction.HIGHER,
    of_context: bool = False,
) -> MetricDefinition:
    return MetricDefinition(
        f"ragchecker.{name}", 0.0, 1.0, direction, Kind.ALGEBRAIC, meaning, _RAGCHECKER, definition, needs, bands,
        does_not_tell=does_not_tell, related=related, from_labels=True, of_context=of_context,
    )  # fmt: skip


_OF_RESPONSE: Final = ("response claims", "reference answer")
_OF_REFERENCE: Final = ("reference claims",)
_BOTH: Final = ("response claims", "reference claims")

RAGCHECKER: Final = (
    _claims(
        "precision",
        "mean over response claims of [entailed by the reference]",
        "Share of the response's claims that are correct.",
        _OF_RESPONSE,
        Bands(0.5, 0.6, 0.75),
        does_not_tell="Whether the response says enough: a single correct claim scores 1.",
        related=("ragchecker.recall", "ragchecker.hallucination"),
    ),
    _claims(
        "recall",
        "mean over reference claims of [entailed by the response]",
        "Share of the reference answer's claims that the response makes.",
        _OF_REFERENCE,
        Bands(0.4, 0.5, 0.7),
        does_not_tell="Whether the other claims of the response are wrong.",
        related=("ragchecker.precision", "ragchecker.claim_recall"),
    ),
    _claims(
        "f1",
        "2 precision recall / (precision + recall)",
        "Harmonic mean of precision and recall of one interaction.",
        _BOTH,
        Bands(0.4, 0.5, 0.7),
        does_not_tell="Whether claims are wrong or missing: read precision and recall.",
        related=("ragchecker.precision", "ragchecker.recall"),
    ),
    _claims(
        "claim_recall",
        "mean over reference claims of [entailed by any document]",
        "Retriever: share of the reference answer's claims that the documents hold.",
        _OF_REFERENCE,
        Bands(0.6, 0.75, 0.9),
        does_not_tell="Whether the response uses the claims.",
        related=("ragchecker.recall", "ragchecker.context_utilization", "retrieval.empty"),
    ),
    _claims(
        "context_precision",
        "mean over documents of [entails any reference claim]",
        "Retriever: share of the documents that hold a claim of the reference answer.",
        ("reference claims", "documents"),
        Bands(0.3, 0.5, 0.7),
        does_not_tell="Whether the documents together hold all that the answer needs.",
        related=("ragchecker.claim_recall", "trace.context_relevance"),
        of_context=True,
    ),
    _claims(
        "context_utilization",
        "recalled reference claims in the response / recalled reference claims",
        "Generator: share of the claims the documents hold that the response makes.",
        ("reference claims", "documents", "a recalled claim"),
        Bands(0.5, 0.6, 0.75),
        does_not_tell="Whether the response also has wrong claims.",
        related=("ragchecker.claim_recall", "ragchecker.precision"),
    ),
    _claims(
        "noise_sensitivity_in_relevant",
        "mean over response claims of [wrong and entailed by a relevant document]",
        "Generator: share of its claims that are wrong and come from a relevant document.",
        _BOTH,
        Bands(0.35, 0.25, 0.15),
        direction=Direction.LOWER,
        does_not_tell="Whether the response says enough: a response with few claims scores well.",
        related=("ragchecker.precision", "ragchecker.noise_sensitivity_in_irrelevant"),
    ),
    _claims(
        "noise_sensitivity_in_irrelevant",
        "mean over response claims of [wrong and entailed by irrelevant documents only]",
        "Generator: share of its claims that are wrong and come from irrelevant documents.",
        _BOTH,
        Bands(0.1, 0.05, 0.02),
        direction=Direction.LOWER,
        does_not_tell="Whether the response says enough: a response with few claims scores well.",
        related=("ragchecker.precision", "ragchecker.noise_sensitivity_in_relevant"),
    ),
    _claims(
        "hallucination",
        "mean over response claims of [wrong and entailed by no document]",
        "Generator: share of its claims that are wrong and made up.",
        _OF_RESPONSE,
        Bands(0.15, 0.1, 0.05),
        direction=Direction.LOWER,
        does_not_tell="Whether claims from the documents are wrong: noise sensitivity counts those.",
        related=("ragchecker.faithfulness", "ragchecker.precision", "trace.adherence"),
    ),
    _claims(
        "self_knowledge",
        "mean over response claims of [correct and entailed by no document]",
        "Generator: share of its claims that are correct and from its own knowledge.",
        _OF_RESPONSE,
        direction=Direction.NEITHER,
        does_not_tell="Whether knowledge beyond the documents is welcome: your application decides.",
        related=("ragchecker.faithfulness", "ragchecker.hallucination"),
    ),
    _claims(
        "faithfulness",
        "mean over response claims of [entailed by any document]",
        "Generator: share of its claims that the documents hold.",
        ("response claims",),
        Bands(0.8, 0.9, 0.95),
        does_not_tell="Whether the claims are correct: the documents may be wrong.",
        related=("ragchecker.hallucination", "trace.adherence"),
    ),
)
"""Claims of response and reference answer, and the texts that entail them."""


SIMILARITY_SUPPORT: Final = MetricDefinition(
    "similarity.support",
    0.0,
    1.0,
    Direction.HIGHER,
    Kind.ALGEBRAIC,
    "How close in meaning the response's sentences are to sentences of the documents, by a sentence model.",
    _SENTENCE_BERT,
    "mean over response sentences of max(0, largest cosine with a document sentence)",
    needs=(*_SENTENCES, *_RESPONSE),
    does_not_tell="Whether documents support a sentence: changed numbers, other names and negations hardly move it.",
    related=("trace.supported_fraction", "trace.adherence", "similarity.match"),
    from_labels=True,
    given_by="model with models.similarity",
)

SIMILARITY_MATCH: Final = MetricDefinition(
    "similarity.match",
    0.0,
    1.0,
    Direction.HIGHER,
    Kind.ALGEBRAIC,
    "How close in meaning the question is to the closest sentence of the documents, by a sentence model.",
    _SENTENCE_BERT,
    "max(0, largest cosine of the question with a document sentence)",
    needs=_SENTENCES,
    does_not_tell="Whether the documents answer the question: a sentence that repeats the question scores 1.",
    related=("trace.context_relevance", "similarity.support", "retrieval.empty"),
    from_labels=True,
    given_by="model with models.similarity",
)

SIMILARITY: Final = (SIMILARITY_SUPPORT, SIMILARITY_MATCH)
"""Of the labeler `model` with a sentence encoder. Levels depend on the encoder, so there are no bands."""


MATCH: Final = MetricDefinition(
    "retrieval.match",
    0.0,
    1.0,
    Direction.HIGHER,
    Kind.ALGEBRAIC,
    "Share of the question's words that a document has; rare words count more. The response is not read.",
    "ragtide",
    "mean over documents of weight of the question's words in the document / weight of the question's words",
    needs=("question words", "documents"),
    does_not_tell="Whether the documents answer the question, or say the same in other words. More documents lower it.",
    related=("trace.context_relevance", "retrieval.empty", "similarity.match"),
    default_rule=DefaultRule("match-drift", min_effect=CHANGE_OF_HOURS),
    # In twenty data sets its mean was 0.22 to 0.61, and 0.01 to 0.11 with documents of other questions
    # (benchmarks/measured/broken_language.md).
    diagnosis_bands=Bands(0.1, 0.2, 0.5),
    from_labels=True,
    of_context=True,
    given_by="local",
)
"""The level depends on the length of the documents and their number, so there are no bands."""


def _outcome(
    name: str,
    definition: str,
    meaning: str,
    *,
    does_not_tell: str,
    related: tuple[str, ...],
    poor: Pattern,
    default_rule: str,
) -> MetricDefinition:
    return MetricDefinition(
        name,
        0.0,
        1.0,
        Direction.LOWER,
        Kind.ALGEBRAIC,
        meaning,
        "ragtide",
        definition,
        needs=("nothing",),
        bands=Bands(0.2, 0.1, 0.02),
        does_not_tell=does_not_tell,
        related=related,
        default_rule=DefaultRule(default_rule),
        patterns=(poor,),
    )


EMPTY_RETRIEVAL: Final = _outcome(
    "retrieval.empty",
    "1 if there is no document, else 0",
    "Share of the interactions for which nothing was retrieved.",
    does_not_tell="Whether the retrieved documents are relevant.",
    related=("retrieval.match", "trace.context_relevance", "response.empty"),
    default_rule="empty-retrieval-rise",
    poor=Pattern(
        "nothing_retrieved",
        {"retrieval.empty": "poor"},
        "The retriever finds nothing",
        "look at the filters, the threshold of scores and the index, and whether these questions are meant for it",
    ),
)

EMPTY_RESPONSE: Final = _outcome(
    "response.empty",
    "1 if the response is empty or only white space, else 0",
    "Share of the interactions without a response, such as refusals and errors of tools.",
    does_not_tell="Why a response is empty: refusals, errors and timeouts count alike.",
    related=("retrieval.empty",),
    default_rule="empty-response-rise",
    poor=Pattern(
        "no_response",
        {"response.empty": "poor"},
        "The pipeline gives no response",
        "look for errors and timeouts of the generator and its tools, and for refusals",
    ),
)


def _usage(
    name: str,
    upper: float,
    definition: str,
    meaning: str,
    *,
    needs: str,
    does_not_tell: str,
    related: tuple[str, ...],
    direction: Direction = Direction.LOWER,
    edges: tuple[float, ...] = (),
) -> MetricDefinition:
    return MetricDefinition(
        name, 0.0, upper, direction, Kind.DISTRIBUTIVE, meaning, "ragtide", definition, (needs,), edges=edges,
        does_not_tell=does_not_tell, related=related,
    )  # fmt: skip


_ITS_QUALITY: Final = ("trace.adherence", "trace.completeness")

ANSWER_LATENCY: Final = _usage(
    "answer.latency_s",
    300.0,
    "min(usage.latency_s, 300)",
    "Seconds from the question to the whole response; past 300 it says 300.",
    needs="usage.latency_s",
    edges=(1.0, 3.0, 10.0, 30.0),
    does_not_tell="When the first words appear, for a response that is streamed.",
    related=("retrieval.latency_s", "answer.completion_tokens", *_ITS_QUALITY),
)

ANSWER_PROMPT_TOKENS: Final = _usage(
    "answer.prompt_tokens",
    200_000.0,
    "min(usage.prompt_tokens, 200000)",
    "Tokens that the model calls of an answer read; past 200,000 it says 200,000.",
    needs="usage.prompt_tokens",
    does_not_tell="How many of them the response needed: read context relevance and utilization.",
    related=("retrieval.documents", "answer.cost_usd", "trace.context_utilization"),
)

ANSWER_COMPLETION_TOKENS: Final = _usage(
    "answer.completion_tokens",
    50_000.0,
    "min(usage.completion_tokens, 50000)",
    "Tokens that the model calls of an answer wrote; past 50,000 it says 50,000.",
    needs="usage.completion_tokens",
    direction=Direction.NEITHER,
    does_not_tell="The length of the response: tokens of reasoning and of calls that prepare it count, too.",
    related=("answer.latency_s", "answer.cost_usd"),
)

ANSWER_COST: Final = _usage(
    "answer.cost_usd",
    5.0,
    "min(usage.cost_usd, 5)",
    "US dollars of the model calls of an answer; past 5 it says 5.",
    needs="usage.cost_usd",
    does_not_tell="The cost of retrieval, embeddings and hosting, or of scoring (`labeling.cost_usd`).",
    related=("answer.prompt_tokens", "answer.completion_tokens", *_ITS_QUALITY),
)

RETRIEVAL_LATENCY: Final = _usage(
    "retrieval.latency_s",
    60.0,
    "min(usage.retrieval_latency_s, 60)",
    "Seconds in which at least one retriever or reranker of an answer worked; past 60 it says 60.",
    needs="usage.retrieval_latency_s",
    does_not_tell="Whether the user waited so long: retrieval may run beside other steps.",
    related=("answer.latency_s", "retrieval.documents"),
)

RETRIEVAL_DOCUMENTS: Final = _usage(
    "retrieval.documents",
    float(DOCUMENTS_MAX),
    "number of documents",
    "Number of retrieved documents of an interaction.",
    needs="nothing",
    direction=Direction.NEITHER,
    does_not_tell="Whether they are relevant, or how long they are.",
    related=("retrieval.empty", "trace.context_relevance", "answer.prompt_tokens"),
)

USAGE: Final[Mapping[str, MetricDefinition]] = MappingProxyType(
    {
        "latency_s": ANSWER_LATENCY,
        "prompt_tokens": ANSWER_PROMPT_TOKENS,
        "completion_tokens": ANSWER_COMPLETION_TOKENS,
        "cost_usd": ANSWER_COST,
        "retrieval_latency_s": RETRIEVAL_LATENCY,
    }
)
"""The metric of each field of the usage of an answer (`AnswerUsage`)."""


def _agent(
    quantity: str,
    definition: str,
    meaning: str,
    *,
    does_not_tell: str,
    needs: tuple[str, ...] = ("calls",),
    related: tuple[str, ...],
    ends: tuple[float, float] = (0.0, float(STEPS_MAX)),
    direction: Direction = Direction.LOWER,
    kind: Kind = Kind.DISTRIBUTIVE,
    from_labels: bool = False,
    default_rule: DefaultRule | None = None,
) -> MetricDefinition:
    return MetricDefinition(
        f"agent.{quantity}", *ends, direction, kind, meaning, "ragtide", definition, needs,
        does_not_tell=does_not_tell, related=related, from_labels=from_labels, default_rule=default_rule,
    )  # fmt: skip


AGENT_CALLS: Final = _agent(
    "calls",
    "min(calls of tools, 64)",
    "Number of calls of a run; past 64 it says 64.",
    direction=Direction.NEITHER,
    does_not_tell="Whether they were needed: read agent.wasted.",
    related=("agent.rounds", "agent.wasted", "answer.cost_usd"),
)

AGENT_ROUNDS: Final = _agent(
    "rounds",
    "largest round",
    "Number of rounds of a run: the calls of one round do not know the results of each other.",
    needs=("calls", "their rounds"),
    ends=(0.0, float(ROUNDS_MAX)),
    does_not_tell="Whether a later round was needed: read agent.sufficient_at.",
    default_rule=DefaultRule("agent-rounds", min_effect=0.5, severity="info", baseline=None),
    related=("agent.calls", "agent.sufficient_at", "answer.latency_s"),
)

AGENT_WASTED: Final = _agent(
    "wasted",
    "sum over the calls: 1 if it failed, or brought documents that are neither relevant nor used, or none; else 0",
    "Number of calls of a run that failed, or brought nothing relevant and nothing used.",
    needs=("calls", "relevance and use of document sentences"),
    does_not_tell="Which tool it was: read tool.NAME.wasted.",
    default_rule=DefaultRule("agent-wasted", "!local", min_effect=0.5, severity="info", baseline=None),
    related=("agent.calls", "trace.context_relevance", "trace.context_utilization"),
    from_labels=True,
)

AGENT_SUFFICIENT_AT: Final = _agent(
    "sufficient_at",
    "smallest r so that calls of the rounds up to r returned every used document sentence that calls returned",
    "The round after which the evidence sufficed, of supported answers.",
    needs=("calls", "their rounds", "used document sentences", "support of every response sentence"),
    ends=(1.0, float(ROUNDS_MAX)),
    does_not_tell="Whether less evidence would have done: it counts what the answer used.",
    related=("agent.rounds", "trace.adherence"),
    from_labels=True,
)

AGENT_GAVE_UP: Final = _agent(
    "gave_up",
    "1 if the response is empty, refuses, or is the notice of a framework that stopped the agent, else 0",
    "Share of the runs that end without an answer.",
    ends=(0.0, 1.0),
    kind=Kind.ALGEBRAIC,
    does_not_tell="Whether giving up was right: the evidence may not have been there.",
    default_rule=DefaultRule("agent-gave-up", severity="info"),
    related=("response.empty", "agent.rounds", "retrieval.empty"),
)

AGENT: Final = (AGENT_CALLS, AGENT_ROUNDS, AGENT_WASTED, AGENT_SUFFICIENT_AT, AGENT_GAVE_UP)
"""Of runs: interactions with calls of tools."""

SELF_CONSISTENCY: Final = MetricDefinition(
    "judge.self_consistency",
    0.0,
    1.0,
    Direction.HIGHER,
    Kind.ALGEBRAIC,
    "Share of the response's sentences with the same verdict when the judge is asked a second time.",
    "Cohen (1960), A Coefficient of Agreement for Nominal Scales: the observed agreement",
    "response sentences that both answers call supported, or both not / response sentences",
    needs=("two answers of the judge", "response sentences"),
    does_not_tell="Whether the judge is right: a judge that repeats its mistakes scores 1.",
    related=("trace.adherence", "trace.supported_fraction"),
)
"""Of the interactions about which the judge was asked twice (`judge.repeat_share`)."""

SENTINEL_UNLIKE_SHARE: Final = 0.1
"""Share of the answers to sentinels that are unlike the earlier ones by chance, of a judge that has not changed."""

SENTINEL_UNLIKE: Final = MetricDefinition(
    "judge.sentinel_unlike",
    0.0,
    1.0,
    Direction.LOWER,
    Kind.ALGEBRAIC,
    "Share of the judge's answers to sentinels that are among the tenth least like the other answers to the same "
    "sentinel.",
    "Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World (2005), section 8.2",
    "1 if at most a tenth of the answers to the sentinel are more unusual, ties broken by a draw, else 0",
    needs=("sentinels", "nine earlier answers"),
    does_not_tell="Which is right, the judge before or the judge now. Without a change the mean is 0.1.",
    related=("judge.sentinel_agreement", "judge.self_consistency"),
)

SENTINEL_AGREEMENT: Final = MetricDefinition(
    "judge.sentinel_agreement",
    0.0,
    1.0,
    Direction.HIGHER,
    Kind.ALGEBRAIC,
    "How well the judge's answers to sentinels agree with its earlier answers to the same sentinel.",
    "ragtide",
    "mean over the earlier answers: facts of both answers / facts of either; facts are supported, relevant and used "
    "sentences, and values of further metrics",
    needs=("sentinels", "nine earlier answers"),
    does_not_tell="Whether a change is more than chance: judge.sentinel_unlike does.",
    related=("judge.sentinel_unlike", "judge.self_consistency"),
)

SENTINELS: Final = (SENTINEL_UNLIKE, SENTINEL_AGREEMENT)
"""Of the answers to sentinels (`judge.sentinels`), never of traffic."""

SENTINEL_PIPELINE: Final = "ragtide-sentinels"
"""Pipeline of the events of sentinels."""

POSITIVE_FEEDBACK: Final = MetricDefinition(
    "feedback.positive",
    0.0,
    1.0,
    Direction.HIGHER,
    Kind.ALGEBRAIC,
    "Share of the rated answers with a thumb up.",
    "ragtide",
    "1 for a thumb up, 0 for a thumb down",
    needs=("feedback",),
    does_not_tell="What people without feedback think: unhappy people rate more often.",
    related=("trace.adherence", "response.empty"),
    default_rule=DefaultRule("thumbs-drift"),
)

FROM_PEOPLE: Final = (POSITIVE_FEEDBACK,)
"""Metrics that people give as gold scores, whether or not a labeler scored the interaction."""

PEOPLES_METRICS: Final = frozenset(metric.name for metric in FROM_PEOPLE)
"""Their names. Their gold scores are values themselves, with `gold` as their labeler."""

PER_ANSWER: Final = EMPTY_RESPONSE.name
"""A metric that has exactly one value for each scored answer, so its values count the answers."""

CLOSED_FAMILIES: Final = ("trace", "ragchecker", "sentences")
"""Families whose metrics are all known: a metric of the user's own has another family."""

CRITERIA_FAMILY: Final = "criteria"
"""Family of the metrics of users' criteria, which a judge answers (`criterion.py`)."""

OUTCOMES: Final = (
    EMPTY_RETRIEVAL,
    RETRIEVAL_DOCUMENTS,
    RETRIEVAL_LATENCY,
    EMPTY_RESPONSE,
    ANSWER_LATENCY,
    ANSWER_PROMPT_TOKENS,
    ANSWER_COMPLETION_TOKENS,
    ANSWER_COST,
)
"""Whichever labeler scored the interaction: they need no labels. Numbers of the usage need that it was given."""

RAGTIDE_METRICS: Final = (
    *TRACE,
    *COUNTS,
    *RAGCHECKER,
    MATCH,
    *SIMILARITY,
    SELF_CONSISTENCY,
    *SENTINELS,
    *OUTCOMES,
    *AGENT,
    *FROM_PEOPLE,
)
"""Every metric ragtide computes itself, in the order of tables."""

METRICS: Final[Mapping[str, MetricDefinition]] = MappingProxyType({metric.name: metric for metric in RAGTIDE_METRICS})
"""The same by qualified name. Metrics of the user's own are not in it: events declare them (`declared.py`)."""


def definitions_of_errors(metrics: Mapping[str, MetricDefinition]) -> Mapping[str, MetricDefinition]:
    """Return the definitions of the errors against gold scores: of each metric, and of each family of scores."""
    definitions = [
        _error(
            f"rmse.{metric.name}",
            f"Root mean squared error of {metric.name} against gold scores.",
            "sqrt(mean((score - gold score)²))",
            (metric.name, f"rmse.{metric.family}"),
            upper=metric.upper - metric.lower,
        )
        for metric in metrics.values()
        if metric.family in _SCORED
    ]
    for family in _SCORED:
        consistency, errors = f"consistency_score.{family}", f"rmse.{family}"
        together = f"Error of the metrics of {family} against gold scores, together."
        agreeing = f"Agreement of the metrics of {family} with gold scores."
        definitions += [
            _error(errors, together, "sqrt(mean(RMSE²)) over the metrics with gold scores", (consistency,)),
            _error(consistency, agreeing, f"1 - {errors}", (errors,), direction=Direction.HIGHER),
        ]
    return {metric.name: metric for metric in definitions}


_SCORED: Final = ("trace", "ragchecker")


def _error(
    name: str,
    meaning: str,
    definition: str,
    related: tuple[str, ...],
    *,
    upper: float = 1.0,
    direction: Direction = Direction.LOWER,
) -> MetricDefinition:
    return MetricDefinition(
        name,
        0.0,
        upper,
        direction,
        Kind.ALGEBRAIC,
        meaning,
        _CAPSTONE,
        definition,
        ("gold scores",),
        does_not_tell="Whether the scores are too high or too low: ragtide trust agreement shows the mean error.",
        related=related,
    )
