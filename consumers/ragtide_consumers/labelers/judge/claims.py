"""RAGChecker labels from a judge: the first call extracts claims, the second call finds all entailments.

RAGChecker asks claim by claim and chunk by chunk: 2 + ceil(N/5)(K+1) + ceil(G/5)(K+1) calls for N response claims, G
reference claims and K chunks (68 at N = G = 12, K = 10). Here the answer lists, for each claim, the sources that
entail it, so there are 2 calls for any N, G and K, plus one for every further `context_tokens` of documents.
Source: Ru et al., RAGChecker (arXiv:2408.08067); its public code for the prompts' meaning.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ragtide_schemas import ClaimLabels, Entailment, RagInteraction

from ...text.marks import readable
from ...text.splitting import parts, pieces
from ..remote.errors import ContextTooLong
from ..remote.usage import Usage
from .client import SMALLEST_BUDGET, JudgeClient
from .costs import PlannedCalls
from .prompts import Language, Prompt, claims_prompt, verdicts_prompt
from .repairing import AnswerReading, ask_until_usable
from .texts import earlier_turns
from .values import key_in, keys_in

MOST_CLAIMS: Final = 200
"""Most claims of one text; further claims are dropped and counted."""


KeyedList = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of response and reference answer."""

    response: tuple[str, ...]
    reference: tuple[str, ...]


async def judge_claims(
    client: JudgeClient, interaction: RagInteraction, language: Language, usage: Usage
) -> ClaimLabels:
    """Return the claims of an interaction and their entailment by documents, response and reference answer.

    Raises:
        EndpointUnavailable, OverBudget: the judge could not be asked.
        NoLabels, ContextTooLong: the judge gave no labels.
    """
    prompt = _prompt(client, interaction, language)
    has_reference = interaction.reference_answer is not None
    claims = await ask_until_usable(
        client, prompt, lambda fields, repairs: read_claims(fields, repairs, has_reference=has_reference), usage
    )
    verdicts = await _verdicts(client, interaction, claims, language, usage)
    documents = [f"d{index}" for index in range(len(interaction.documents))]
    return ClaimLabels(
        answer2response=_column(verdicts, "r", len(claims.response), "a") if has_reference else None,
        response2answer=_column(verdicts, "g", len(claims.reference), "r") if has_reference else None,
        retrieved2answer=_table(verdicts, "g", len(claims.reference), documents) if has_reference else None,
        retrieved2response=_table(verdicts, "r", len(claims.response), documents),
        response_claims=claims.response,
        reference_claims=claims.reference if has_reference else None,
    )


async def uncached_claim_prompts(client: JudgeClient, interaction: RagInteraction, language: Language) -> list[Prompt]:
    """Return the prompts of `judge_claims` that are known by now and have no cached answer.

    The claims are not known before the first answer. An answer that is unusable leaves the rest to ordinary calls.

    Raises:
        ContextTooLong: there is no room for documents.
    """
    first = _prompt(client, interaction, language)
    answer = await client.cached_answer(first)
    if answer is None:
        return [first]
    parsed = first.parsed(answer)
    has_reference = interaction.reference_answer is not None
    claims = None if parsed is None else read_claims(parsed.fields, Usage(), has_reference=has_reference).labels
    if claims is None:
        return []
    keyed, whole, documents = _keyed_texts(interaction, claims)
    if not keyed:
        return []
    variant = client.variant
    budget = client.document_tokens(lambda: verdicts_prompt(whole, keyed, language, variant=variant))
    prompts = [
        verdicts_prompt(run + (whole if number == 0 else []), keyed, language, variant=variant)
        for number, run in enumerate(parts(pieces(documents, budget), budget))
    ]
    return [prompt for prompt in prompts if await client.cached_answer(prompt) is None]


async def planned_claims(client: JudgeClient, interaction: RagInteraction, language: Language) -> PlannedCalls:
    """Return the calls that `judge_claims` would make, by estimate: the claims are not known before the first call.

    Each sentence of response and reference answer stands for a claim. If the first answer is cached, so are the others.

    Raises:
        ContextTooLong: there is no room for documents.
    """
    calls = await client.planned_calls(_prompt(client, interaction, language))
    if calls.cached:
        return calls
    reference = interaction.reference_answer
    claims = [("r1", readable(interaction.response)), *([] if reference is None else [("g1", reference)])]
    whole = [("R", readable(interaction.response)), *([] if reference is None else [("A", reference)])]
    variant = client.variant
    budget = client.document_tokens(lambda: verdicts_prompt(whole, claims, language, variant=variant))
    documents = [(f"D{index}", readable(document.text)) for index, document in enumerate(interaction.documents)]
    for number, run in enumerate(parts(pieces(documents, budget), budget)):
        sources = run + (whole if number == 0 else [])
        calls += await client.planned_calls(verdicts_prompt(sources, claims, language, variant=variant))
    return calls


def _prompt(client: JudgeClient, interaction: RagInteraction, language: Language) -> Prompt:
    return claims_prompt(
        interaction.question,
        readable(interaction.response),
        interaction.reference_answer,
        language,
        earlier_turns(interaction),
        variant=client.variant,
    )


Verdicts = dict[tuple[str, str], Entailment]
"""Verdicts by claim and source; every other pair is neutral."""


async def _verdicts(
    client: JudgeClient, interaction: RagInteraction, claims: Claims, language: Language, usage: Usage
) -> Verdicts:
    keyed, whole, documents = _keyed_texts(interaction, claims)
    if not keyed:
        return {}
    budget = client.document_tokens(lambda: verdicts_prompt(whole, keyed, language, variant=client.variant))
    while True:
        try:
            verdicts: Verdicts = {}
            for number, run in enumerate(parts(pieces(documents, budget), budget)):
                sources = run + (whole if number == 0 else [])
                for (claim, source), verdict in (await _ask_verdicts(client, sources, keyed, language, usage)).items():
                    pair = claim, source.partition(".")[0]  # parts of one document are one source
                    if verdicts.get(pair) != "Entailment":
                        verdicts[pair] = verdict
        except ContextTooLong:
            # The refusal may have named the window.
            room = client.document_tokens(lambda: verdicts_prompt(whole, keyed, language, variant=client.variant))
            budget = min(budget // 2, room)
            if budget < SMALLEST_BUDGET:
                raise
            usage.counters["context_split"] += 1
        else:
            return verdicts


def _keyed_texts(interaction: RagInteraction, claims: Claims) -> tuple[KeyedList, KeyedList, KeyedList]:
    keyed = [
        *((f"r{index + 1}", claim) for index, claim in enumerate(claims.response)),
        *((f"g{index + 1}", claim) for index, claim in enumerate(claims.reference)),
    ]
    whole = [("R", readable(interaction.response))]
    if interaction.reference_answer is not None:
        whole.append(("A", interaction.reference_answer))
    return (
        keyed,
        whole,
        [(f"D{index}", readable(document.text)) for index, document in enumerate(interaction.documents)],
    )


async def _ask_verdicts(
    client: JudgeClient,
    sources: Sequence[tuple[str, str]],
    claims: Sequence[tuple[str, str]],
    language: Language,
    usage: Usage,
) -> Verdicts:
    known = [key.lower() for key, _ in sources]
    keys = [key for key, _ in claims]
    return await ask_until_usable(
        client,
        verdicts_prompt(sources, claims, language, variant=client.variant),
        lambda fields, repairs: read_verdicts(fields, keys, known, repairs),
        usage,
    )


def read_claims(fields: Mapping[str, object], repairs: Usage, *, has_reference: bool) -> AnswerReading[Claims]:
    """Return the claims in a judge's answer, each once, and its faults."""
    complaints = []
    lists: list[tuple[str, ...]] = []
    for name in ("response_claims", *(["reference_claims"] if has_reference else [])):
        value = fields.get(name)
        if not isinstance(value, list) or not all(isinstance(claim, str) for claim in value):
            complaints.append(f"{name} is missing or not a list of claims")
            continue
        claims = [claim.strip() for claim in value]
        unique = list(dict.fromkeys(claim for claim in claims if claim))
        repairs.counters["duplicate_claims"] += len(claims) - len(unique)
        repairs.counters["dropped_claims"] += max(len(unique) - MOST_CLAIMS, 0)
        lists.append(tuple(unique[:MOST_CLAIMS]))
    if complaints:
        return AnswerReading(None, tuple(complaints))
    return AnswerReading(Claims(lists[0], lists[1] if has_reference else ()))


def read_verdicts(
    fields: Mapping[str, object], claims: Sequence[str], sources: Sequence[str], repairs: Usage
) -> AnswerReading[Verdicts]:
    """Return the verdicts in a judge's answer, and its faults.

    A claim without a verdict is a fault; it never counts as neutral, so an answer with this fault is unusable. A source
    that both entails and contradicts a claim is a fault; it counts as neutral if later answers repeat the fault. Keys
    of sources that do not exist are dropped and counted; a list of nothing else is none.
    """
    value = fields.get("verdicts")
    complaints = [] if isinstance(value, list) else ["verdicts is missing or not a list"]
    seen: dict[str, tuple[set[str], set[str]]] = {}
    unclear: set[str] = set()
    for entry in value if isinstance(value, list) else []:
        claim = key_in(entry.get("claim", ""), claims) if isinstance(entry, dict) else None
        if claim is None:
            repairs.counters["dropped_keys"] += 1
            continue
        entailed, contradicted = (
            _named_sources(entry.get(name), sources, repairs) for name in ("entailed_by", "contradicted_by")
        )
        if entailed is None or contradicted is None:
            continue
        if claim in seen:
            repairs.counters["duplicate_keys"] += 1
        if seen.setdefault(claim, (entailed, contradicted)) != (entailed, contradicted):
            unclear.add(claim)
    verdicts: Verdicts = {}
    for claim, (entailed, contradicted) in seen.items():
        complaints += [
            f"source {source.upper()} both entails and contradicts claim {claim}"
            for source in sorted(entailed & contradicted)
        ]
        verdicts |= {(claim, source): "Entailment" for source in entailed - contradicted}
        verdicts |= {(claim, source): "Contradiction" for source in contradicted - entailed}
    complaints += [f"claim {claim} has two entries that differ" for claim in sorted(unclear)[:20]]
    missing = [claim for claim in claims if claim not in seen]
    if missing:
        complaints.append(f"claims {', '.join(missing[:20])} have no entry with both lists")
    return AnswerReading(None if missing or unclear else verdicts, tuple(complaints))


def _named_sources(value: object, known: Sequence[str], repairs: Usage) -> set[str] | None:
    listed = keys_in(value, known)
    if listed is None:
        return None
    named = set(listed)
    repairs.counters["dropped_keys"] += len(named - set(known))
    return None if named and named.isdisjoint(known) else named & set(known)


def _column(verdicts: Verdicts, side: str, n: int, source: str) -> tuple[Entailment, ...]:
    return tuple(verdicts.get((f"{side}{index + 1}", source), "Neutral") for index in range(n))


def _table(verdicts: Verdicts, side: str, n: int, sources: Sequence[str]) -> tuple[tuple[Entailment, ...], ...]:
    return tuple(
        tuple(verdicts.get((f"{side}{index + 1}", source), "Neutral") for source in sources) for index in range(n)
    )
