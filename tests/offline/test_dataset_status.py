"""A data set beside the traffic: only what certainly differs is named, and only what certainly expired."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from tests.support.cases import for_each

from ragtide_aggregator.statistics.comparisons.weighted_samples import WeightedSample, sample_difference
from ragtide_offline.datasets.expiry import CHANCE, DocumentSightings, RowExpiry, document_names
from ragtide_offline.datasets.traits import AnswerProfile, compare_traits, rows_to_add
from ragtide_schemas import RagInteraction
from ragtide_schemas.interaction import RetrievedDocument

NOW = datetime(2026, 11, 30, tzinfo=UTC)
SINCE = NOW - timedelta(days=30)

WORDS = [f"{first}{second}o" for first in "bdfgklmnprst" for second in "aeiou"]
FREQUENT = 1 / np.arange(1, len(WORDS) + 1)


def answers(
    rng: np.random.Generator, count: int, *, side: str, german: float = 0.25, per_session: int = 1, drawn: bool = False
) -> list[AnswerProfile]:
    """Return answers of sessions that have one language each; drawn answers have unequal weights."""
    made = []
    for number in range(count):
        if number % per_session == 0:
            lang = "de" if rng.random() < german else "en"
        if drawn:
            # English is drawn four times as often, so the weights undo it.
            lang = "de" if rng.random() < german / (german + 4 * (1 - german)) else "en"
        words = rng.choice(WORDS, size=1 + rng.poisson(6), p=FREQUENT / FREQUENT.sum())
        session = number // per_session
        made.append(
            AnswerProfile(
                ("shop", f"{side}-{number}"),
                " ".join(words),
                {"lang": lang, "plan": "abcd"[int(rng.integers(4))]},
                f"{side}-{session}",
                (4.0 if lang == "de" else 1.0) if drawn else 1.0,
                {"trace.adherence of local": float(rng.random() < 0.95), "own.tone of judge": float(rng.beta(8, 2))},
            )
        )
    return made


def certain(rows: Sequence[AnswerProfile], traffic: Sequence[AnswerProfile]) -> list[str]:
    return [gap.trait.name for gap in compare_traits(rows, traffic) if gap.is_certain]


def test_a_set_of_the_same_traffic_is_called_different_in_at_most_5_percent_whatever_is_compared() -> None:
    """Over all segment values, lengths, words and scores together, of sessions, and with unequal weights."""
    wrong, repeats = 0, 200
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        rows = answers(rng, 120, side="set", drawn=seed % 2 == 0)
        wrong += bool(certain(rows, answers(rng, 400, side="traffic", per_session=4)))
    assert wrong <= 0.05 * repeats


def test_a_gap_is_named_and_closed_by_rows_of_its_kind() -> None:
    rng = np.random.default_rng(3)
    rows, traffic = answers(rng, 200, side="set", german=0.03), answers(rng, 800, side="traffic", german=0.35)
    gaps = compare_traits(rows, traffic)
    assert {gap.trait.name for gap in gaps if gap.is_certain} == {"lang=de", "lang=en"}
    added = rows_to_add(gaps, rows, traffic)
    assert {row.answer.segments["lang"] for row in added} == {"de"}
    assert {row.answer.key for row in added} <= {answer.key for answer in traffic}
    german = compare_traits([*rows, *(row.answer for row in added)], traffic)[0]
    assert not german.is_certain
    assert german.difference.estimate == pytest.approx(0, abs=0.03)
    assert rows_to_add(gaps, [*rows, *traffic], traffic) == []


def test_rows_of_unequal_probabilities_stand_for_the_traffic() -> None:
    """Without their weights the same rows would differ."""
    rng = np.random.default_rng(5)
    rows, traffic = answers(rng, 400, side="set", drawn=True), answers(rng, 2000, side="traffic")
    assert certain(rows, traffic) == []
    once = [AnswerProfile(row.key, row.question, row.segments, row.unit, 1.0, row.scores) for row in rows]
    assert "lang=de" in certain(once, traffic)


def test_answers_of_one_session_count_as_one_where_they_depend_on_each_other() -> None:
    rng = np.random.default_rng(1)
    alone = answers(rng, 400, side="traffic", per_session=1)
    together = answers(rng, 400, side="traffic", per_session=40)
    rows = answers(rng, 400, side="set")
    widths: dict[str, list[float]] = {"lang=en": [], "plan=a": []}
    for traffic in (alone, together):
        for gap in compare_traits(rows, traffic):
            if gap.trait.name in widths:
                widths[gap.trait.name].append(gap.difference.upper - gap.difference.lower)
    assert widths["lang=en"][1] > 1.5 * widths["lang=en"][0]
    assert widths["plan=a"][1] < 1.5 * widths["plan=a"][0], "a plan is of an answer, not of its session"


@for_each("share, size", [(0.02, 60), (0.5, 60), (0.98, 200), (0.9, 30)])
def test_the_interval_of_a_difference_covers_it(share: float, size: int) -> None:
    """Also of rare values, for which the normal law fails."""
    rng = np.random.default_rng(11)
    missed, repeats = 0, 400
    for _ in range(repeats):
        first, second = (rng.random(n) < share for n in (size, 10 * size))
        samples = (WeightedSample(x.astype(float), np.ones(x.size), np.arange(x.size)) for x in (first, second))
        interval = sample_difference(*samples, confidence=0.9)
        missed += not interval.lower <= 0 <= interval.upper
    assert missed <= 0.1 * repeats


def test_words_that_may_name_a_person_are_not_compared() -> None:
    """A word of fewer than five sessions, a number, an address: a status has none of them."""
    questions = ["mail ann@shop.example card 4111111111111111 refund", "refund of miller"]
    rows = [AnswerProfile(("p", f"{n}"), questions[n > 11], {}, f"{n}", 1.0, {}) for n in range(15)]
    names = {gap.trait.name for gap in compare_traits(rows, rows) if gap.trait.kind == "word"}
    assert names == {"mail", "card", "refund"}


def interaction(number: int, time: datetime, *documents: str, session: str | None = None) -> RagInteraction:
    return RagInteraction(
        interaction_id=f"i-{number}",
        pipeline="shop",
        occurred_at=time,
        question="Where?",
        documents=tuple(RetrievedDocument(id=name, text=f"Text of {name}.") for name in documents),
        response="Here.",
        session_id=session,
    )


def expiry_of(row: RagInteraction | None, traffic: Sequence[RagInteraction]) -> RowExpiry:
    sightings = DocumentSightings({"row": row}, SINCE)
    sightings.add(traffic)
    (expiry,) = sightings.expiries()
    return expiry


def days(first: int, last: int, *documents: str, each: int = 10, sessions: bool = True) -> list[RagInteraction]:
    """Return answers of these days before the moment (negative) and after, with these documents."""
    return [
        interaction(
            1000 * (day + 100) + n,
            SINCE + timedelta(days=day, minutes=n),
            *documents,
            session=None if sessions else "s",
        )
        for day in range(first, last)
        for n in range(each)
    ]


def test_a_row_whose_document_disappeared_from_the_traffic_is_expired() -> None:
    row = interaction(1, SINCE - timedelta(days=20), "old")
    traffic = [row, *days(-20, -3, "old", "other", each=2), *days(-20, 30, "other")]
    expiry = expiry_of(row, traffic)
    assert (expiry.state, expiry.last_seen) == ("expired", SINCE + timedelta(days=-4, minutes=1))
    assert expiry.chance is not None
    assert expiry.chance < CHANCE
    again = [*traffic, interaction(2, NOW - timedelta(days=1), "old")]
    assert expiry_of(row, again).state == "in_traffic"


def test_the_same_text_with_another_id_is_the_same_document() -> None:
    row = interaction(1, SINCE - timedelta(days=20), "old")
    moved = RagInteraction(
        pipeline="shop",
        occurred_at=NOW,
        question="?",
        documents=({"id": "new", "text": "TEXT  of old."},),
        response=".",
    )
    assert expiry_of(row, [*days(-20, -3, "old"), *days(-3, 30, "other"), moved]).state == "in_traffic"


def test_what_is_too_rare_or_not_seen_is_never_called_expired() -> None:
    row = interaction(1, SINCE - timedelta(days=20), "rare")
    seen_twice = [row, *days(-20, -19, "rare", each=2), *days(-20, 30, "other")]
    assert expiry_of(row, seen_twice).state == "may_have_expired"
    own_session_aside = [row, *days(-20, -19, "rare", each=2), *days(-20, -10, "other"), *days(0, 40, "other")]
    assert expiry_of(row, own_session_aside).state == "may_have_expired", "the row is there on account of its session"
    of_one_session = [row, *days(-20, -19, "rare", each=50, sessions=False), *days(-20, 30, "other")]
    assert expiry_of(row, of_one_session).state == "may_have_expired", "one session is one sighting"
    assert expiry_of(row, days(-20, 30, "other")).state == "not_known"
    assert expiry_of(row, days(0, 30, "other")).state == "not_known", "the traffic does not reach back"
    assert expiry_of(interaction(1, NOW), [*days(-20, 30, "other")]).state == "not_known"
    assert expiry_of(None, [*days(-20, 30, "other")]).state == "not_known"


def test_a_document_that_is_as_likely_as_before_is_called_expired_in_at_most_1_percent() -> None:
    """Of documents of all shares; each row was chosen because of one of its sightings."""
    rng = np.random.default_rng(2)
    wrong = seen = 0
    for _ in range(150):
        shares = 0.1 ** rng.uniform(1, 3, size=20)
        rows: dict[str, RagInteraction] = {}
        traffic = []
        for number in range(400):
            time = SINCE + timedelta(days=(-20, 20)[number >= 200], minutes=number)
            given = [f"d-{place}" for place in np.flatnonzero(rng.random(20) < shares)]
            traffic.append(interaction(number, time, *given))
            if number < 200:
                rows |= {name: interaction(number, time, name) for name in given if name not in rows}
        sightings = DocumentSightings(rows, SINCE)
        sightings.add(traffic)
        seen += len(rows)
        wrong += sum(expiry.state == "expired" for expiry in sightings.expiries())
    assert seen > 1000
    assert wrong <= CHANCE * seen


def test_names_of_documents_do_not_depend_on_their_form() -> None:
    first, second = (document_names(RetrievedDocument(text=text)) for text in ("A  b\nC", "a B c"))
    assert first == second
    assert document_names(RetrievedDocument(text="a b d")) != first
