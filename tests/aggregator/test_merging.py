import pytest
from tests.support.metric_events import adherence, beta

from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.tables.panes import Panes
from ragtide_aggregator.statistics.tables.windows import window
from ragtide_runtime.redis.layout import Layout
from ragtide_schemas import MetricEvent

OPTIONS = StateOptions(panes=Panes((window("1h"),), 3_600_000))


def state_of(events: list[MetricEvent]) -> AggregatorState:
    state = AggregatorState(OPTIONS)
    for event in events:
        state.apply(event)
    return state


@pytest.mark.parametrize("parts", [2, 5])
def test_a_pipeline_split_over_partitions_reads_as_if_it_were_not(parts: int) -> None:
    events = adherence(beta(0.8, 700, 7))
    layout = Layout("ragtide", 8, {events[0].pipeline: parts})
    of: dict[int, list[MetricEvent]] = {}
    for event in events:
        of.setdefault(layout.of(event.pipeline, event.interaction_id).partition, []).append(event)
    assert len(of) == parts
    assert set(of) == {streams.partition for streams in layout.all_of(events[0].pipeline)}
    whole = estimates(state_of(events), confidence=0.95)
    together = estimates(AggregatorState.merged([state_of(part) for part in of.values()], OPTIONS), confidence=0.95)
    by_key = {(one.metric, one.window): one for one in together}
    assert len(by_key) == len(whole)
    for one in whole:
        other = by_key[one.metric, one.window]
        assert (other.n, other.n_absent, other.minimum, other.maximum) == (
            one.n,
            one.n_absent,
            one.minimum,
            one.maximum,
        )
        assert other.estimate == one.estimate, "sums are exact"
        assert other.standard_deviation == pytest.approx(one.standard_deviation, abs=1e-12)
        assert other.quantiles == one.quantiles
        if one.lower is None or one.estimate is None:  # what has no highest value has no interval
            assert other.lower is None
            continue
        # Intrinsic time depends on the order; of the parts together it is hardly more.
        assert other.lower == pytest.approx(one.lower, abs=0.02)
        assert other.upper == pytest.approx(one.upper, abs=0.02)


def test_an_interaction_and_what_is_about_it_are_in_one_partition_and_others_stay_where_they_were() -> None:
    plain, split = Layout("ragtide", 16), Layout("ragtide", 16, {"shop": 4})
    assert [plain.of("desk", f"i-{n}") for n in range(50)] == [split.of("desk", f"i-{n}") for n in range(50)]
    found = [split.of("shop", f"i-{n}").partition for n in range(400)]
    counts = [found.count(partition) for partition in sorted(set(found))]
    assert len(counts) == 4
    assert min(counts) > 60
    assert split.all_of("shop")[0] == plain.of("shop", "any")


def test_alerts_of_the_parts_have_ids_of_their_own() -> None:
    from dataclasses import replace

    from ragtide import AlertRule

    rule = AlertRule(name="floor", kind="threshold", metric="trace.adherence", target=0.7)
    ids = []
    for origin in ("", "0 ", "1 "):
        state = AggregatorState(replace(OPTIONS, rules=(rule,), origin=origin))
        for event in adherence(beta(0.3, 100, 2)):
            state.apply(event)
        ids += [alert.alert_id for alert in state.take_changes().alerts]
    assert len(set(ids)) == 3
