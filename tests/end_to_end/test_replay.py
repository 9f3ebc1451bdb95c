"""A recording of live roles, replayed by the command line: metric events, and interactions labeled anew."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.support.conditions import wait_until
from tests.support.roles import begin, command, estimates, kill, running, wait_for_aggregation
from tests.support.transcripts import as_run

from ragtide import InteractionProducer
from ragtide_offline.demo import traffic
from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_runtime.redis.keys import Streams
from ragtide_schemas import RagInteraction

RUN = Streams("ragtide.run.again", 0)
CONFIG = """
[[alerts]]
name = "adherence-drift"
kind = "drift"
metric = "trace.adherence"
learn_n = 100
"""
STRICTER = """
alert_defaults = false
[[alerts]]
name = "floor"
kind = "threshold"
metric = "trace.adherence"
target = 0.3
"""


def recorded() -> list[RagInteraction]:
    """Return what two pipelines did: one got worse, and the other has runs of an agent."""
    rows = list(traffic())
    good = [row.model_copy(update={"interaction_id": f"g-{n}", "pipeline": "good"}) for n, row in enumerate(rows[:60])]
    return rows + [as_run(row) for row in good]


@pytest.fixture
def place(redis: Any, redis_url: str, tmp_path: Path) -> Path:
    """Return the recording of a live deployment, which is still there, its roles ended."""
    place = tmp_path / "recording"
    Path("ragtide.toml").write_text(CONFIG)
    extra = {"RAGTIDE_RECORDER_URL": str(place), "RAGTIDE_RECORDER_ROLL_S": "0.2"}
    # With specimens, live alerts name only interactions that are kept.
    extra["RAGTIDE_SPECIMENS_ENABLED"] = "false"
    with running("up", redis_url, tmp_path / "up.log", extra):
        with InteractionProducer(redis_url) as producer:
            producer.publish_many(recorded())

        def all_there() -> bool:
            return place.exists() and Recording.open(str(place)).count(EntryKind.METRICS) == len(recorded())

        wait_until(lambda: redis.xlen("ragtide:{0}:metrics") == len(recorded()))
        wait_for_aggregation(redis)
        wait_until(all_there)
        wait_until(lambda: Recording.open(str(place)).count(EntryKind.ALERTS) > 0)
    return place


def replay(url: str, place: Path, *arguments: str) -> dict[str, Any]:
    done = command(url, "replay", str(place), "--workspace", "again", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def of_run(url: str, *arguments: str) -> list[dict[str, Any]]:
    done = command(url, "estimates", "--workspace", "again", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def alerts(url: str, *arguments: str) -> list[str]:
    return command(url, "alerts", "--json", *arguments).stdout.splitlines()


def without_run(found: list[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {(one["pipeline"], one["segment"], one["metric"], one["profile"]): one for one in found}


def test_metric_events_are_replayed_to_the_bit_beside_live_numbers(redis_url: str, place: Path, tmp_path: Path) -> None:
    live = estimates(redis_url), alerts(redis_url)
    assert any(one["metric"] == "tool.handbook.used" and one["n"] for one in live[0])
    found = replay(redis_url, place)
    assert (found["n"], found["population_size"], found["complete"], found["refused"]) == (540, 540, True, 0)
    assert found["rules"]["adherence-drift"]["replay"] == found["rules"]["adherence-drift"]["production"] > 0
    for mine, its in zip(of_run(redis_url, "--ongoing"), live[0], strict=True):
        assert mine == its
    assert alerts(redis_url, "--workspace", "again") == live[1]
    for one in of_run(redis_url):
        if one["metric"].startswith("trace.") and one["n"]:
            assert one["lower"] == one["estimate"] == one["upper"]
            assert one["population_size"] == one["n"] + one["n_absent"]
    rules = tmp_path / "rules.toml"
    rules.write_text(STRICTER)
    back_test = command(redis_url, "replay", str(place), "--workspace", "floor", "--rules", str(rules), "--json")
    tested = json.loads(back_test.stdout)["rules"]
    assert tested["floor"]["production"] == 0
    assert tested["floor"]["replay"] == len(tested["floor"]["fired_at"])
    assert tested["adherence-drift"]["replay"] == 0 < tested["adherence-drift"]["production"]
    as_test = command(redis_url, "rules", "test", str(rules), "--recording", str(place), "--json")
    assert json.loads(as_test.stdout)["rules"] == tested, as_test.stderr
    shown = command(redis_url, "rules", "test", str(rules), "--recording", str(place))
    assert shown.returncode == 0
    assert "floor" in shown.stdout
    assert "540 metric events" in shown.stderr
    assert (estimates(redis_url), alerts(redis_url)) == live
    compared = command(redis_url, "compare", "demo", "--workspace", "again", "--workspace", "floor", "--json")
    assert compared.returncode == 0, compared.stderr
    assert {one["difference"]["estimate"] for one in json.loads(compared.stdout)} == {0.0}
    assert {one["method"] for one in json.loads(compared.stdout)} == {"unpaired"}
    assert "--recording" in compared.stderr
    assert str(place) in compared.stderr.replace("\n", "")
    by_item = ("--workspace", "again", "--workspace", "floor", "--recording", str(place), "--json")
    paired = command(redis_url, "compare", "demo", *by_item)
    assert {one["method"] for one in json.loads(paired.stdout)} == {"paired"}
    assert paired.stderr == ""
    assert [one["run"] for one in json.loads(command(redis_url, "workspaces", "--json").stdout)] == ["again", "floor"]
    assert command(redis_url, "workspaces", "remove", "floor").returncode == 0
    assert [one["run"] for one in json.loads(command(redis_url, "workspaces", "--json").stdout)] == ["again"]
    assert (estimates(redis_url), alerts(redis_url)) == live


@pytest.mark.heavy
def test_interactions_are_labeled_anew_though_the_replay_is_killed(
    redis: Any, redis_url: str, place: Path, tmp_path: Path
) -> None:
    live = without_run(estimates(redis_url))
    arguments = ["replay", str(place), "--workspace", "again", "--relabel"]
    process = begin(redis_url, tmp_path / "replay.log", *arguments)
    wait_until(lambda: redis.hlen(RUN.checkpoint) > 3 or process.poll() is not None)
    kill(process)
    found = replay(redis_url, place, "--relabel")
    assert (found["n"], found["published"], found["duplicates"], found["dead_letters"]) == (540, 540, 0, {})
    again = without_run(of_run(redis_url))
    assert {key for key in again if "labeling" not in key[2]} == {key for key in live if "labeling" not in key[2]}
    for key, one in live.items():
        assert again[key]["run"] == "again"
        assert again[key]["n"] == one["n"]
        assert again[key]["estimate"] == pytest.approx(one["estimate"], abs=1e-12)
        if one["n"] and one["pipeline"] == "good" and one["segment"] is None and key[2].startswith("trace."):
            assert again[key]["lower"] == again[key]["upper"] == again[key]["estimate"]
    # The same labels of the same interactions, once as recorded and once anew.
    back = command(redis_url, "replay", str(place), "--workspace", "back", "--json")
    assert back.returncode == 0, back.stderr
    runs = ("--workspace", "back", "--workspace", "again", "--recording", str(place))
    compared = command(redis_url, "compare", "good", *runs, "--json")
    assert compared.returncode == 0, compared.stderr
    for one in json.loads(compared.stdout):
        assert (one["method"], one["strategy"]) == ("paired", "closed")
        difference = one["difference"]
        assert difference["lower"] == difference["upper"] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.heavy
def test_ctrl_c_ends_a_replay_cleanly_and_it_goes_on(redis: Any, redis_url: str, place: Path, tmp_path: Path) -> None:
    arguments = ["replay", str(place), "--workspace", "again", "--speed", "0.001x"]
    process = begin(redis_url, log := tmp_path / "replay.log", *arguments)
    wait_until(lambda: redis.hexists(RUN.checkpoint, "replay") or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    assert process.wait(300) == 130
    said = log.read_text()
    assert "Traceback" not in said
    assert "of 540 are kept in the workspace" in said.replace("\n", " ")
    assert "give the same command with --workspace again" in said.replace("\n", " ")
    other = command(redis_url, "replay", str(place), "--workspace", "again", "--pipeline", "good")
    assert other.returncode == 1
    assert "began with pipelines not given, and not good" in other.stderr
    killed = begin(redis_url, log, *arguments)
    steps = redis.hget(RUN.checkpoint, "steps")
    wait_until(lambda: redis.hget(RUN.checkpoint, "steps") != steps or killed.poll() is not None)
    kill(killed)
    assert replay(redis_url, place)["n"] == 540
    assert of_run(redis_url, "--ongoing") == estimates(redis_url)
    assert alerts(redis_url, "--workspace", "again") == alerts(redis_url)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--speed", "fast"], "--speed 'fast' is unknown: use original, max, or how many times faster, as in 10x"),
        (["--since", "yesterday"], "--since 'yesterday' is not a time"),
        (["--since", "2026-11-02", "--until", "2026-11-01"], "--until 2026-11-01 is not after --since 2026-11-02"),
        (["--segment", "lang"], "--segment 'lang' has no value"),
        (["--labeler", "judge"], "need --relabel: add it"),
        (["--rules", "nowhere.toml"], "nowhere.toml cannot be read"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: list[str], said: str, redis_url: str, tmp_path: Path) -> None:
    done = command(redis_url, "replay", str(tmp_path), *arguments)
    assert done.returncode == 1
    assert said in done.stderr or "holds no recording" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [["alerts"], ["watch", "--once"], ["dead-letters"], ["compare", "a", "b"], ["worker"], ["workspaces", "remove"]],
)
def test_an_unknown_run_is_named(arguments: list[str], redis_url: str) -> None:
    name = ["nowhere"] if arguments[-1] == "remove" else ["--workspace", "nowhere"]
    done = command(redis_url, *arguments, *name)
    assert done.returncode == 1
    assert "there is no workspace 'nowhere'" in done.stderr
