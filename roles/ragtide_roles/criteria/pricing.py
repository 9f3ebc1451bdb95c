"""The price of criteria before they are asked: tokens and dollars by the judge's own planner, without a call."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from pydantic import SecretStr

from ragtide_consumers.labelers.judge.costs import PlannedCalls
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import RagInteraction
from ragtide_schemas.criterion import Criterion

from .sessions import CollectedSessions

if TYPE_CHECKING:
    from ragtide_consumers.labelers.judge.labeler import JudgeLabeler

PER: Final = 1000
"""Answers of a price."""

TYPICAL: Final = 20
"""Interactions by whose texts the tokens of a price are estimated."""

TYPICAL_TURNS: Final = 4
"""Turns of a typical session, if the interactions have none."""

NO_MODEL: Final = "model"
"""Name of the model while the settings have none: tokens can be counted without one."""


@dataclass(frozen=True, slots=True)
class CriterionPrice:
    """Tokens and dollars of 1,000 answers to criteria, beyond those of what the judge is asked anyway.

    Of criteria about whole sessions they are those of 1,000 sessions.
    """

    name: str
    """Name of the criterion; empty for all together."""
    prompt_tokens: float
    completion_tokens: float
    cost_usd: float | None
    """None if the price of the model is not known."""
    calls: float
    """Calls beyond those that are made anyway: 0 if the criteria ride in the call of TRACe."""
    completion_tokens_bare: float
    """The same without reasons (`judge.reasons = "none"`)."""
    cost_usd_bare: float | None
    unit: Literal["answer", "session"] = "answer"


@dataclass(frozen=True, slots=True)
class CriteriaPrices:
    """The prices of criteria."""

    model: str
    """Empty if the settings have no model."""
    items: int
    """Interactions by whose texts the tokens are estimated."""
    each: tuple[CriterionPrice, ...]
    """Each criterion alone."""
    together: CriterionPrice | None
    """All criteria about answers in one call; None without any."""
    sessions: int = 0
    """Sessions by whose texts the tokens of criteria about sessions are estimated."""
    together_of_session: CriterionPrice | None = None
    """All criteria about sessions in one call; None without any."""

    def as_dict(self) -> dict[str, Any]:
        """Return the prices, for programs."""
        return asdict(self)


async def criteria_prices(
    settings: Settings, criteria: Sequence[Criterion], interactions: Sequence[RagInteraction]
) -> CriteriaPrices:
    """Return the prices of criteria, each asked of every interaction, whatever its `rate`.

    Args:
        settings: model, prices and prompts of the judge.
        criteria: to price; they can be asked together.
        interactions: whose texts are typical; if none has a session, four after each other are one.

    Raises:
        ConfigurationError: a setting of the judge is wrong.
    """
    of_answers = [criterion for criterion in criteria if not criterion.is_of_session]
    of_sessions = [criterion for criterion in criteria if criterion.is_of_session]
    sessions = _typical_sessions(of_sessions, interactions, settings.clusters.quiet_s)
    together, each = await _prices(settings, of_answers, interactions)
    together_of_session, each_of_session = await _prices(settings, of_sessions, sessions)
    return CriteriaPrices(
        model=settings.judge.model or "",
        items=len(interactions),
        each=(*each, *each_of_session),
        together=together,
        sessions=len(sessions),
        together_of_session=together_of_session,
    )


def _typical_sessions(
    criteria: Sequence[Criterion], interactions: Sequence[RagInteraction], quiet_s: float
) -> list[RagInteraction]:
    if not criteria:
        return []
    criterion = criteria[0].asked_of_all()
    own = CollectedSessions([criterion], quiet_s)
    typical = CollectedSessions([criterion], quiet_s)
    for place, interaction in enumerate(interactions):
        own.add(interaction)
        fields = {"session_id": str(place // TYPICAL_TURNS), "occurred_at": interactions[0].occurred_at, "turn": place}
        typical.add(interaction.model_copy(update={**fields, "pipeline": "typical"}))
    return list(own.sessions()) or list(typical.sessions())


async def _prices(
    settings: Settings, criteria: Sequence[Criterion], interactions: Sequence[RagInteraction]
) -> tuple[CriterionPrice | None, list[CriterionPrice]]:
    if not criteria:
        return None, []
    asked = [criterion.asked_of_all() for criterion in criteria]
    kept, has_price = await _plans(settings, asked, interactions, reasons=True)
    bare, _ = await _plans(settings, asked, interactions, reasons=False)
    names = ["", *(criterion.name for criterion in criteria)]
    together, *each = (
        _price(name, plan, plan_bare, len(interactions), has_price=has_price, unit=criteria[0].unit)
        for name, plan, plan_bare in zip(names, kept, bare, strict=True)
    )
    return together, each


async def _plans(
    settings: Settings, criteria: Sequence[Criterion], interactions: Sequence[RagInteraction], *, reasons: bool
) -> tuple[list[PlannedCalls], bool]:
    judge = settings.judge
    changes = {
        "model": judge.model or NO_MODEL,
        "api_key": judge.api_key or SecretStr("none"),  # no call is made
        "reasons": ("kept" if judge.reasons == "none" else judge.reasons) if reasons else "none",
        "criteria": tuple(criteria),
    }
    planned = settings.with_labeler("judge").model_copy(
        update={"metrics": (), "judge": judge.model_copy(update=changes)},
    )
    from ragtide_consumers.labelers.registry import labeler_of  # noqa: PLC0415 - the page shows prices seldom

    async with labeler_of(planned, None, patient=False) as labeler:
        judge_labeler = cast("JudgeLabeler", labeler)
        totals = []
        for asked in ((), criteria, *((criterion,) for criterion in criteria)):
            judge_labeler.take_criteria(asked)
            total = PlannedCalls()
            for interaction in interactions:
                total += await judge_labeler.planned_calls(interaction)
            totals.append(total)
        has_price = judge.model is not None and judge_labeler.has_price
    base, *totals = totals
    further = [
        PlannedCalls(
            total.calls - base.calls,
            0,
            total.prompt_tokens - base.prompt_tokens,
            total.completion_tokens - base.completion_tokens,
            total.cost_usd - base.cost_usd,
        )
        for total in totals
    ]
    return further, has_price


def _price(
    name: str,
    plan: PlannedCalls,
    bare: PlannedCalls,
    items: int,
    *,
    has_price: bool,
    unit: Literal["answer", "session"],
) -> CriterionPrice:
    scale = PER / max(items, 1)
    return CriterionPrice(
        name=name,
        prompt_tokens=plan.prompt_tokens * scale,
        completion_tokens=plan.completion_tokens * scale,
        cost_usd=plan.cost_usd * scale if has_price else None,
        calls=plan.calls * scale,
        completion_tokens_bare=bare.completion_tokens * scale,
        cost_usd_bare=bare.cost_usd * scale if has_price else None,
        unit=unit,
    )
