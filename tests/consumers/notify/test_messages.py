"""What people read about alerts."""

import html
from datetime import timedelta
from typing import Any

from tests.support.alerts import alert
from tests.support.cases import for_each
from tests.support.told import BEGAN, DIAGNOSIS, FIRED, RESOLVED, drift, mix_cause, told_of

from ragtide_consumers.notify.destinations.email import html_of
from ragtide_consumers.notify.destinations.slack import blocks_of
from ragtide_consumers.notify.destinations.teams import card_of
from ragtide_consumers.notify.messages import message_text
from ragtide_schemas import Alert
from ragtide_schemas.alert_text import WorstAnswer


def test_an_alert_that_fires_says_what_changed_since_when_how_sure_and_what_to_look_at() -> None:
    text = message_text(told_of())
    assert text.title == "trace.adherence of shop fell from 0.910 to 0.712"
    assert text.sentences == (
        "The mean is 0.712 (0.680 to 0.744), 240 answers since the change.",
        "Normal is 0.910, learned from 500 answers; the rule counts below 0.833.",
        "Began about 2026-11-23 02:40 UTC, fired 2026-11-23 03:02 UTC.",
        "At most one false alarm in 10,000 answers (15 h 16 min at the pace since the change), on average.",
        f"Diagnosis: {DIAGNOSIS}",
        "Read first the worst answers since the change.",
        "Worst answer: q-17",
        "Worst answer: q-4",
    )
    assert dict(text.facts) == {
        "Pipeline": "shop",
        "Metric": "trace.adherence",
        "Rule": "adherence (page)",
        "Since the change": "0.712 (0.680 to 0.744), 240 answers",
        "Normal": "0.910, learned from 500 answers",
        "Counts below": "0.833",
        "Answers so far": "5,000 in all",
        "Began": "about 2026-11-23 02:40 UTC",
        "Fired": "2026-11-23 03:02 UTC",
        "Labeler": "judge",
    }
    assert text.link == "https://ragtide.example/a/adherence-3f2a9c"
    assert text.plain.endswith(text.link)


EVIL = "What <!channel> *costs* <b>it</b> | & why?"


def test_worst_answers_are_links_with_their_question_or_a_readable_label() -> None:
    ids = ("0123456789abcdef" * 2, "f" * 32)
    links = [f"https://ragtide.example/i?pipeline=shop&id={each}&alert=A-1" for each in ids]
    worst = (
        WorstAnswer(ids[0], EVIL, 0.031, "It says nothing of it.", links[0]),
        WorstAnswer(ids[1], None, 0.125, None, links[1]),
    )
    found = drift(worst_interaction_ids=ids)
    text = message_text(told_of(found, worst={found.alert_id: worst}))
    labels = [answer.label for answer in text.answers]
    assert labels == [f"{EVIL} (0.031)", "Worst answer 2 (0.125)"]
    words = f"{text.title} {' '.join(text.sentences)} {' '.join(labels)} {' '.join(text.answers[0])}"
    assert not any(each in words.replace(links[0], "") for each in ids), "an id is no text for people"
    assert f"{labels[0]}. The judge: It says nothing of it.\n  {links[0]}" in text.plain
    assert links[1] in text.plain
    of_slack = [block for block in blocks_of(text) if block["type"] == "rich_text"]
    shown = [section["elements"][0] for section in of_slack[0]["elements"]]
    assert [(each["type"], each["text"], each["url"]) for each in shown] == [
        ("link", label, link) for label, link in zip(labels, links, strict=True)
    ]
    mail = html_of(text)
    assert f'<a href="{html.escape(links[0])}">{html.escape(labels[0])}</a>. The judge: It says nothing' in mail
    assert "<b>it</b>" not in mail
    card = str(card_of(text))
    assert all(link in card for link in links)


def test_a_known_cause_says_where_the_change_is_with_shares_and_intervals() -> None:
    text = message_text(told_of(drift(status="explained", explained_at=RESOLVED, cause=mix_cause())))
    assert text.title == "Cause known: trace.adherence of shop fell from 0.910 to 0.712"
    told = " ".join(text.sentences)
    assert (
        "The traffic changed, and not the answers to the same kind of traffic (by lang): mostly mix: more lang=de"
        in told
    )
    assert (
        "lang=de is 31% of the traffic since the alert (27% to 35%), and was 12% before (10% to 14%); its mean went "
        "from 0.610 to 0.605." in told
    )
    assert "-0.100 (-0.140 to -0.060)" in told
    assert "95% sure, from 900 answers before the alert and 400 since." in told


@for_each("verdict", ["within", "both", "neither", "unresolved"])
def test_every_verdict_has_words(verdict: str) -> None:
    cause = mix_cause(verdict=verdict, carriers=("lang=de", "lang=fr", "lang=it", "lang=es"), spread="few")
    told = " ".join(message_text(told_of(drift(status="explained", cause=cause))).sentences)
    concentrated = "It is concentrated in lang=de, lang=fr, lang=it and 1 more."
    assert (concentrated in told) == (verdict in {"within", "both"})


@for_each(
    "changes, advised",
    [
        ({}, True),
        ({"observed_n": 30}, True),
        ({"observed_n": 29}, False),
        ({"observed_n": 7, "status": "explained", "cause": mix_cause()}, True),
        ({"observed_n": 7, "status": "explained", "cause": mix_cause(n_since=29)}, False),
        ({"observed_lower": 0.0, "observed_upper": 1.0}, False),
        ({"observed_lower": 0.0, "observed_upper": 0.99}, True),
        ({"metric": "own.metric", "observed_lower": 0.0, "observed_upper": 1.0}, True),
    ],
)
def test_no_advice_from_too_little_data(changes: dict[str, Any], *, advised: bool) -> None:
    found = drift(**changes)
    told = " ".join(message_text(told_of(found)).sentences)
    assert ("restrict the prompt" in told) == advised
    assert ("There is too little data for advice yet" in told) == (not advised)


def test_the_guarantee_of_a_budget_is_its_share_of_false_alarms() -> None:
    told = message_text(told_of(drift(false_discovery_rate=0.05))).sentences
    assert "At most 5% of alarms are false, on average." in told
    assert not any("10,000" in sentence for sentence in told)


def test_a_target_is_no_normal_value() -> None:
    text = message_text(
        told_of(drift(kind="threshold", baseline_source="target", baseline=0.8, normal=None, normal_n=None, limit=0.78))
    )
    assert text.title == "trace.adherence of shop fell below its target 0.800, to 0.712"
    assert text.sentences[1] == "The target is 0.800; the rule counts below 0.780."
    assert "normal" not in text.plain.lower()


def test_an_alert_that_is_over_says_so_without_advice() -> None:
    resolved = drift(status="resolved", resolved_at=RESOLVED, observed=0.85, fired_observed=0.712, n=9000)
    text = message_text(told_of(resolved, n_still_firing=2))
    assert text.title == "Resolved: trace.adherence of shop is back at 0.850, after 0.712"
    told = " ".join(text.sentences)
    assert (
        "Began about 2026-11-23 02:40 UTC, fired 2026-11-23 03:02 UTC, resolved 2026-11-23 05:30 UTC (2 h 50 min)."
        in told
    )
    assert "2 other alerts of this group still fire." in told
    assert "restrict" not in told
    assert "false alarm" not in told


def test_an_alert_that_ends_without_a_recovery_says_why_alone_and_in_a_list() -> None:
    why = "The alert on trace.adherence ends without a recovery, because its version was replaced by labeler judge 2."
    ended = tuple(drift(alert_id=name).resolve(RESOLVED, why) for name in "ab")
    alone, listed = (message_text(told_of(*alerts)) for alerts in (ended[:1], ended))
    assert alone.title == f"Resolved: shop: {why}"
    assert "back at" not in " ".join(alone.sentences)
    assert sum(why in sentence for sentence in listed.sentences) == 2


def test_an_alert_without_statistics_tells_its_own_message() -> None:
    behind = "Labeling is behind: the oldest interaction has waited 900 s."
    stalled = alert("stall-1", message=behind, pipeline="*", fired_at=FIRED)
    text = message_text(told_of(stalled))
    assert text.title == "all pipelines: Labeling is behind: the oldest interaction has waited 900 s."
    assert text.sentences == (f"Fired {FIRED:%Y-%m-%d %H:%M} UTC.",)
    long = message_text(told_of(alert("stall-2", message="Word. " * 60)))
    assert long.title.endswith("...")
    assert long.sentences[0].startswith("Word. Word.")


def group(n: int, **changes: Any) -> tuple[Alert, ...]:
    names = ("adherence", "completeness", "context_relevance", "context_utilization", "average")
    return tuple(
        drift(
            alert_id=f"a{place}",
            metric=f"trace.{names[place % 5]}",
            fired_at=FIRED + timedelta(minutes=place),
            **changes,
        )
        for place in range(n)
    )


def test_a_group_is_one_message_with_one_guarantee() -> None:
    text = message_text(told_of(*group(3), key="group-1"))
    assert text.title == "3 metrics of shop fell since 03:02 UTC"
    assert text.sentences == (
        f"The first change began about {BEGAN:%Y-%m-%d %H:%M} UTC.",
        "- trace.adherence of shop fell from 0.910 to 0.712",
        "- trace.completeness of shop fell from 0.910 to 0.712",
        "- trace.context_relevance of shop fell from 0.910 to 0.712",
        "For each rule: at most one false alarm in 10,000 answers, on average.",
        f"Diagnosis: {DIAGNOSIS}",
        "Read first the worst answers since the change.",
        "Worst answer: q-17",
        "Worst answer: q-4",
    )
    assert text.facts == ()


def test_a_group_of_different_news_and_a_long_one() -> None:
    mixed = (*group(2), alert("stall-1", fired_at=FIRED))
    assert message_text(told_of(*mixed)).title == "3 alerts of shop fire since 03:02 UTC"
    assert "- and 5 more" in message_text(told_of(*group(15))).sentences
    over = message_text(told_of(*group(2, status="resolved", resolved_at=RESOLVED)))
    assert over.title == "Resolved: 2 alerts of shop"


def test_repetitions_summaries_and_tests_say_what_they_are() -> None:
    assert message_text(told_of(repeat=2)).title.startswith("Still firing: ")
    assert "This was sent 2 times before." in message_text(told_of(repeat=2)).sentences
    summary = message_text(told_of(*group(2), status="summary", n_withheld=31))
    assert summary.title == "31 messages about shop withheld"
    assert message_text(told_of(status="test", alerts=())).title == "Test of ragtide's notifications: no alert fires"


def test_control_characters_and_long_names_are_bounded() -> None:
    stalled = alert("stall-1", message="one\r\nBcc: all@example.org\x1b[2J" + "x" * 5000)
    text = message_text(told_of(stalled, url=None))
    assert all(character not in text.plain + text.title for character in "\r\x1b")
    assert len(text.plain) < 2000
    named = message_text(told_of(drift(segment="s=" + "v" * 300)))
    assert len(named.title) <= 150


def test_no_name_is_an_address_that_a_reader_could_follow() -> None:
    names = ("https://evil.example/p", "see HTTP://evil.example", "[click](https://evil.example)", "WWW.evil.example")
    for name in names:
        for field in ("pipeline", "segment", "rule", "labeler"):
            text = message_text(told_of(drift(**{field: name})))
            for part in (text.title, *text.sentences, *(value for _, value in text.facts)):
                assert "://" not in part
                assert "www." not in part.lower()
        told = message_text(told_of(drift(kind="stall", observed=None, message=name)))
        assert "://" not in told.plain.replace(told.link or "", "")
