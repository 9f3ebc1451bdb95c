"""The change of a metric is split by segments: `ragtide alerts explain`, and `ragtide compare --by`."""

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest
from tests.support.doc_pages import page_text
from tests.support.metric_events import START, event
from typer.testing import CliRunner, Result

from ragtide.cli.app import cli
from ragtide_aggregator.checkpoint.commit import CHECKPOINT_VERSION
from ragtide_aggregator.checkpoint.options import reader_options
from ragtide_aggregator.estimates.segment_values import measured_effects, moments_by_value, segment_names
from ragtide_aggregator.estimates.view import View, WindowSpan
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.state.state import AggregatorState
from ragtide_offline.report.explaining import NotExplainable
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Alert, MetricEvent

METRIC = "trace.adherence"
HOUR = 3_600
WHOLE = EstimateKey("shop", None, None, METRIC, "ragbench", "test", "1")
SINCE = f"{START + timedelta(hours=2):%Y-%m-%dT%H:%M:%S}"

Means = dict[str, float]


def traffic(
    seed: int, shares: Means, means: Means, *, first: float = 0, hours: float = 2, n: int = 3_000, **changes: Any
) -> Iterator[MetricEvent]:
    """Yield interactions of some hours, each in a language and on a channel that does not matter."""
    rng = np.random.default_rng(seed)
    for number in range(n):
        language = str(rng.choice(list(shares), p=list(shares.values())))
        segments = {"channel": str(rng.choice(["web", "app"])), **({"lang": language} if language != "none" else {})}
        yield event(
            int((first + hours * number / n) * HOUR),
            {METRIC: float(rng.random() < means[language]), "trace.completeness": 0.5},
            interaction_id=f"{first}-{seed}-{number}",
            segments=segments,
            **changes,
        )


def store(redis: Any, *events: Iterator[MetricEvent], settings: Settings | None = None) -> AggregatorState:
    """Leave the checkpoint of these events."""
    settings = settings or Settings()
    state = AggregatorState(reader_options(settings))
    for stream in events:
        for one in stream:
            state.apply(one)
    fields: dict[Any, Any] = {**state.take_changes().rows, "version": CHECKPOINT_VERSION}
    redis.hset(Streams(settings.prefix, 0).checkpoint, mapping=fields)
    return state


@pytest.fixture
def run(redis_url: str) -> Callable[..., Result]:
    def invoke(*arguments: str) -> Result:
        return CliRunner(env={"COLUMNS": "80"}).invoke(cli, ["--redis-url", redis_url, *arguments])

    return invoke


BEFORE, MEANS = {"en": 0.88, "de": 0.12}, {"en": 0.92, "de": 0.55}
MIX = {"en": 0.6, "de": 0.4}


def test_more_of_a_weak_segment_is_told_in_a_table_and_a_sentence(redis: Any, run: Callable[..., Result]) -> None:
    store(redis, traffic(1, BEFORE, MEANS), traffic(2, MIX, MEANS, first=2))
    found = run("explain-drift", "shop", "--metric", METRIC, "--since", SINCE)
    assert found.exit_code == 0, found.output
    assert max(len(line) for line in found.output.splitlines()) <= 80
    text = " ".join(found.output.split())
    assert "since 2026-11-21 02:00 UTC: mostly mix: more lang=de (12% to 40%)." in text
    assert "By channel:" in text
    assert text.startswith("lang share before, since mean before, since mix within")
    page = page_text("traffic-or-system")
    assert "\n".join(line.rstrip() for line in found.output.splitlines()) in page, "the output changed: paste it"


def test_a_fall_of_one_segment_names_it_and_json_has_every_number(redis: Any, run: Callable[..., Result]) -> None:
    shares = {"en": 0.5, "de": 0.3, "none": 0.2}
    means = {"en": 0.9, "de": 0.85, "none": 0.8}
    store(redis, traffic(1, shares, means), traffic(2, shares, {**means, "de": 0.4}, first=2))
    found = json.loads(run("explain-drift", "shop", "--metric", METRIC, "--since", SINCE, "--json").output)
    assert found["segment"] == "lang"
    assert found["in_words"].startswith("within lang=de (0.8")
    change = found["change"]
    assert (change["verdict"], change["spread"]) == ("within", "few")
    assert change["n"] == [3_000, 3_000]
    assert {segment["name"] for segment in change["segments"]} == {"lang=de", "lang=en", "no lang"}
    assert change["mix"]["estimate"] + change["within"]["estimate"] == pytest.approx(change["total"]["estimate"])
    assert set(found["others"]) == {"channel"}
    by_channel = json.loads(
        run("explain-drift", "shop", "--metric", METRIC, "--since", SINCE, "--by", "channel", "--json").output
    )
    assert (by_channel["segment"], by_channel["others"]) == ("channel", {})
    assert by_channel["change"]["spread"] == "all"


def alert_of(alert_id: str, began: datetime, **changes: Any) -> Alert:
    fields: dict[str, Any] = {
        "status": "firing", "rule": "adherence", "kind": "drift", "pipeline": "shop", "metric": METRIC,
        "profile": "ragbench", "labeler": "test", "labeler_version": "1", "direction": "fall", "fired_at": began,
        "began_at": began, "baseline": 0.88, "baseline_source": "learned", "observed": 0.75, "observed_n": 100,
        "observed_lower": 0.7, "observed_upper": 0.8, "log_evidence": 9.3, "run_length": 10_000, "n": 4_000,
        "message": "It fell.",
    }  # fmt: skip
    return Alert(alert_id=alert_id, **{**fields, **changes})


def test_an_alert_states_the_time_and_the_metric(redis: Any, run: Callable[..., Result]) -> None:
    store(redis, traffic(1, BEFORE, MEANS), traffic(2, MIX, MEANS, first=2))
    began = START + timedelta(hours=2)
    one = alert_of("a-1", began)
    others = [
        one.model_copy(update={"alert_id": "a-2", "segment": "lang=de", "fired_at": began + timedelta(hours=1)}),
        one.model_copy(update={"alert_id": "a-3", "quantity": "rmse", "fired_at": began + timedelta(hours=1)}),
    ]
    for alert in (one, *others):
        redis.xadd(Streams("ragtide", 0).alerts, {DATA_FIELD: alert.encode()})
    for options in ([], ["--alert", "a-1"], ["--metric", METRIC]):
        found = json.loads(run("explain-drift", "shop", *options, "--json").output)
        assert (found["alert_id"], found["metric"], found["change"]["verdict"]) == ("a-1", METRIC, "mix")
    for options, said in (
        (["--alert", "a-3"], "is about the rmse"),
        (["--alert", "a-4"], "there is no alert 'a-4'"),
        (["--alert", "a-1", "--metric", "trace.completeness"], "name these"),
        (["--metric", "trace.completeness"], "give --since TIME"),
    ):
        with pytest.raises(NotExplainable, match=said):
            raise run("explain-drift", "shop", *options).exception or AssertionError


def test_scores_of_the_pane_that_holds_the_change_are_neither_before_nor_since(
    redis: Any, run: Callable[..., Result]
) -> None:
    """The means fall at 01:30, and panes are an hour long."""
    fallen = {name: mean - 0.5 for name, mean in MEANS.items()}
    store(
        redis,
        traffic(1, BEFORE, MEANS, hours=1, n=400),
        traffic(2, BEFORE, MEANS, first=1, n=300, hours=0.5),
        traffic(3, BEFORE, fallen, first=1.5, n=300, hours=0.5),
    )
    options = ("explain-drift", "shop", "--metric", METRIC, "--since", "2026-11-21T01:30")
    with pytest.raises(NotExplainable, match=r"too early .* again when there are scores after 2026-11-21 02:00 UTC"):
        raise run(*options).exception or AssertionError
    store(
        redis,
        traffic(1, BEFORE, MEANS, hours=1, n=400),
        traffic(2, BEFORE, MEANS, first=1, n=300, hours=0.5),
        traffic(3, BEFORE, fallen, first=1.5, n=900, hours=1.5),
    )
    found = json.loads(run(*options, "--json").output)
    assert (found["change"]["n"], found["since"]) == ([400, 600], "2026-11-21T02:00:00+00:00")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["shop", "--metric", METRIC, "--since", "2026-11-21T09:00"], "has no scores since"),
        (["shop", "--metric", METRIC, "--since", "2026-11-20"], "from 2026-11-21 01:00 UTC to 2026-11-21 04:00 UTC"),
        (["shop", "--metric", METRIC, "--since", SINCE, "--by", "language"], "there is no segment 'language'"),
        (["shop", "--metric", "trace.adherance", "--since", SINCE], "did you mean 'trace.adherence'"),
        (["shop", "--metric", METRIC, "--since", SINCE, "--labeler", "judge"], "there is no labeler 'judge'"),
        (["shpo", "--metric", METRIC, "--since", SINCE], "there is no pipeline 'shpo'"),
    ],
)
def test_a_change_that_cannot_be_explained_says_why(
    redis: Any, run: Callable[..., Result], options: list[str], said: str
) -> None:
    store(redis, traffic(1, BEFORE, MEANS, n=60), traffic(2, MIX, MEANS, first=2, n=60))
    with pytest.raises(NotExplainable, match=said):
        raise run("explain-drift", *options).exception or AssertionError


def test_a_pipeline_with_scores_of_one_pane_waits_for_the_next(redis: Any, run: Callable[..., Result]) -> None:
    store(redis, traffic(1, BEFORE, MEANS, hours=1, n=60))
    with pytest.raises(
        NotExplainable, match=r"one pane of a window.* when there are scores after 2026-11-21 01:00 UTC"
    ):
        raise run("explain-drift", "shop", "--metric", METRIC, "--since", "2026-11-21").exception or AssertionError


@pytest.mark.parametrize(
    "options",
    [["--since", SINCE], ["--since", SINCE, "--alert", "a"], ["--metric", METRIC, "--since", SINCE, "--before", "x"]],
)
def test_options_that_do_not_fit_are_refused(run: Callable[..., Result], options: list[str]) -> None:
    assert run("explain-drift", "shop", *options).exit_code == 2


def test_the_stretch_before_may_be_shorter(redis: Any, run: Callable[..., Result]) -> None:
    store(
        redis,
        traffic(1, BEFORE, MEANS, hours=1, n=500),
        traffic(3, MIX, MEANS, first=1, hours=1, n=400),
        traffic(2, MIX, MEANS, first=2, n=600),
    )
    options = ("explain-drift", "shop", "--metric", METRIC, "--since", SINCE, "--json")
    assert json.loads(run(*options).output)["change"]["n"] == [900, 600]
    short = json.loads(run(*options, "--before", "1h").output)
    assert short["change"]["n"] == [400, 600]
    assert short["before_since"] == "2026-11-21T01:00:00+00:00"
    # No more is kept than the first hours, so no more is said.
    assert json.loads(run(*options, "--before", "7d").output)["before_since"] == "2026-11-21T00:00:00+00:00"


def test_an_alert_about_a_segment_value_states_the_time_for_the_whole_pipeline(
    redis: Any, run: Callable[..., Result]
) -> None:
    store(redis, traffic(1, BEFORE, MEANS), traffic(2, MIX, MEANS, first=2))
    began = START + timedelta(hours=2)
    redis.xadd(Streams("ragtide", 0).alerts, {DATA_FIELD: alert_of("a-2", began, segment="lang=de").encode()})
    for options in ([], ["--alert", "a-2"]):
        found = json.loads(run("explain-drift", "shop", *options, "--json").output)
        assert (found["alert_id"], found["segment"], found["change"]["verdict"]) == ("a-2", "lang", "mix")


def test_a_segment_value_that_ended_long_ago_is_no_part_of_the_mix_before(
    redis: Any, run: Callable[..., Result]
) -> None:
    days = 24 * 2
    store(
        redis,
        traffic(1, {"fr": 1.0}, {"fr": 0.1}, hours=1, n=200),
        traffic(2, BEFORE, MEANS, first=days, n=300),
        traffic(3, MIX, MEANS, first=days + 2, n=300),
    )
    since = f"{START + timedelta(hours=days + 2):%Y-%m-%dT%H:%M:%S}"
    found = json.loads(
        run("explain-drift", "shop", "--metric", METRIC, "--since", since, "--by", "lang", "--json").output
    )
    kept = {segment["name"]: segment for segment in found["change"]["segments"]}
    assert found["before_since"] >= "2026-11-22"
    assert "lang=fr" not in kept or kept["lang=fr"]["share_before"] == 0


def test_moments_by_value_are_those_of_the_interactions(redis: Any) -> None:
    shares, means = {"en": 0.5, "de": 0.3, "none": 0.2}, {"en": 0.9, "de": 0.6, "none": 0.3}
    events = [*traffic(1, shares, means, n=500), *traffic(2, shares, means, first=2, n=400)]
    state = store(redis, iter(events))
    names = segment_names(state, WHOLE)
    assert names == {"channel": ["channel=app", "channel=web"], "lang": ["lang=de", "lang=en"]}
    start = int(START.timestamp() * 1000)
    for span, part in ((None, events), (WindowSpan(start, start + 2 * HOUR * 1000, 0), events[:500])):
        found = moments_by_value(View(state, span=span), WHOLE, names["lang"])
        assert found is not None
        for place, language in enumerate(("de", "en", None)):
            scores = np.array([one.scores[METRIC] for one in part if one.segments.get("lang") == language])
            assert found.n[place] == scores.size
            assert found.mean[place] == pytest.approx(scores.mean())
            assert found.m2[place] == pytest.approx(scores.var() * scores.size)
    assert moments_by_value(View(state, span=WindowSpan(0, HOUR, 0)), WHOLE, names["lang"]) is None


def test_sessions_make_the_intervals_wider(redis: Any, run: Callable[..., Result]) -> None:
    def sessions(first: int, shares: Means) -> Iterator[MetricEvent]:
        rng = np.random.default_rng(first)
        for number, one in enumerate(traffic(first + 5, shares, MEANS, first=first, n=3_000)):
            if number % 5 == 0:
                score, segments = one.scores[METRIC], one.segments
            again = rng.random() < 0.5
            yield one.model_copy(
                update={
                    "session_id": f"{first}-{number // 5}",
                    "segments": segments,
                    "scores": {METRIC: score if again else one.scores[METRIC]},
                }
            )

    state = store(redis, sessions(0, BEFORE), sessions(2, MIX))
    effects = measured_effects(View(state), WHOLE)
    assert effects.segments == pytest.approx(5, abs=0.2)
    assert effects.scores > 1.3
    assert measured_effects(View(state), WHOLE, blocks=True).segments == effects.scores
    options = ("explain-drift", "shop", "--metric", METRIC, "--since", SINCE, "--by", "lang", "--json")
    wide = json.loads(run(*options).output)["change"]["mix"]
    redis.flushdb()
    store(redis, traffic(5, BEFORE, MEANS), traffic(7, MIX, MEANS, first=2))
    narrow = json.loads(run(*options).output)["change"]["mix"]
    assert wide["upper"] - wide["lower"] > 1.25 * (narrow["upper"] - narrow["lower"])


def test_two_pipelines_differ_by_their_mix(redis: Any, run: Callable[..., Result]) -> None:
    store(redis, traffic(1, MIX, MEANS, pipeline="new"), traffic(2, BEFORE, MEANS, pipeline="old"))
    found = run("compare", "new", "old", "--by", "lang")
    assert found.exit_code == 0, found.output
    assert max(len(line) for line in found.output.splitlines()) <= 80
    assert "trace.adherence: mostly mix: more lang=de (1" in found.output
    constant, one = json.loads(run("compare", "new", "old", "--by", "lang", "--json").output)
    assert (constant["metric"], constant["in_words"].partition(":")[0]) == ("trace.completeness", "neither")
    assert (one["metric"], one["segment"], one["change"]["verdict"]) == (METRIC, "lang", "mix")
    assert one["change"]["total"]["estimate"] < 0
    window = json.loads(run("compare", "new", "old", "--by", "lang", "--window", "1h", "--json").output)[0]
    assert sum(window["change"]["n"]) == pytest.approx(3_000, abs=2)
    assert run("compare", "new", "--labeler", "a", "--labeler", "b", "--by", "lang").exit_code == 2
    with pytest.raises(NotExplainable, match="there is no segment 'long'; did you mean 'lang'"):
        raise run("compare", "new", "old", "--by", "long").exception or AssertionError
    missing = run("compare", "new", "odl", "--by", "lang")
    assert (missing.exit_code, "did you mean 'old'" in missing.output) == (1, True)


def test_a_comparison_states_the_sessions_of_each_pipeline(redis: Any, run: Callable[..., Result]) -> None:
    sessions = [
        one.model_copy(update={"session_id": f"s-{number // 5}"})
        for number, one in enumerate(traffic(1, BEFORE, MEANS, pipeline="new", n=500))
    ]
    store(redis, iter(sessions), traffic(2, BEFORE, MEANS, pipeline="old", n=300))
    # No session fills a cluster, so those are closed that were quiet for ten minutes.
    last = {session.session_id: session.occurred_at for session in sessions}
    closed = sum(sessions[-1].occurred_at - time >= timedelta(minutes=10) for time in last.values())
    assert 0 < closed < len(last)
    compared = json.loads(run("compare", "new", "old", "--json").output)
    [found] = [one for one in compared if (one["metric"], one["segment"]) == (METRIC, None)]
    assert (found["n"], found["n_clusters"]) == ([500, 300], [closed, None])
    shown = json.loads(run("estimates", "--json").output)
    counts = {(one["pipeline"], one["segment"]): one["n_clusters"] for one in shown if one["metric"] == METRIC}
    assert (counts["new", None], counts["old", None]) == (closed, None)
