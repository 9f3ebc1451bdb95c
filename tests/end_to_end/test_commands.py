import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from tests.support.conditions import wait_until
from tests.support.roles import (
    STREAMS,
    command,
    environment,
    estimates,
    interactions,
    running,
    wait_for_aggregation,
    wait_for_events,
)

from ragtide_offline.demo import demo_interactions

SAMPLE = Path(__file__).parents[1] / "data" / "ragbench" / "ragbench_sample.jsonl"


def demo(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ragtide", "demo", "--fast", *options],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
        check=False,
    )


def test_the_demo_fires_an_alert_when_quality_falls_and_ends_well(tmp_path: Path) -> None:
    done = demo(tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["published"], result["scored"], result["dead_letters"]) == (480, 480, 0)
    assert 0 < result["first_alert_s"] <= result["duration_s"] < 60
    alerts = {alert["rule"]: alert for alert in result["alerts"]}
    drift = alerts["adherence-drift"]
    # Its cause may be known before the demo ends.
    assert (drift["status"] in ("firing", "explained"), drift["kind"]) == (True, "drift")
    # The first half is as it should be: no alarm before the answers are swapped.
    assert all(int(name.removeprefix("demo-")) >= 240 for name in drift["worst_interaction_ids"])
    assert "trace.adherence of demo fell" in drift["message"]
    overall = {e["metric"]: e for e in result["estimates"] if e["segment"] is None}
    assert overall["trace.context_utilization"]["n"] == 480


@pytest.mark.heavy
def test_the_demo_for_people_ends_with_a_summary(tmp_path: Path) -> None:
    done = demo(tmp_path)
    assert done.returncode == 0, done.stderr
    for words in ("ragtide demo on", "swapped between questions", "adherence", "FIRING", "480 interactions published"):
        assert words in done.stdout


@pytest.mark.heavy
def test_what_the_demo_keeps_can_be_looked_into(tmp_path: Path) -> None:
    done = demo(tmp_path, "--json", "--keep")
    data_dir = json.loads(done.stdout)["data_dir"]
    assert data_dir in done.stderr
    shown = subprocess.run(
        [sys.executable, "-m", "ragtide", "--data-dir", data_dir, "alerts", "--json"],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert {json.loads(line)["rule"] for line in shown.stdout.splitlines()} >= {"adherence-drift"}


@pytest.mark.heavy
def test_the_page_of_the_demo_stays_until_a_signal(tmp_path: Path) -> None:
    log = tmp_path / "demo.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "ragtide", "demo", "--fast", "--open", "--json"],
            stdout=file,
            stderr=file,
            cwd=tmp_path,
            env=os.environ | {"BROWSER": "true"},  # the program that does nothing
        )
    try:
        wait_until(lambda: process.poll() is not None or b"The page stays at " in log.read_bytes())
        found = re.search(r"The page stays at (\S+) until", log.read_text())
        assert found is not None, log.read_text()
        with urlopen(found[1], timeout=60) as reply:
            assert "480" in reply.read().decode()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    assert '"published": 480' in log.read_text()


def test_a_file_is_published_scored_estimated_and_watched(redis: Any, redis_url: str, tmp_path: Path) -> None:
    published = command(redis_url, "publish", str(SAMPLE), "--json")
    assert json.loads(published.stdout) == {"published": 80, "duplicates": 0, "dropped": 0, "bad": 0}
    again = command(redis_url, "publish", str(SAMPLE), "--json")
    assert json.loads(again.stdout) == {"published": 0, "duplicates": 80, "dropped": 0, "bad": 0}
    with running("up", redis_url, tmp_path / "up.log"):
        wait_for_events(redis, 80)
        wait_for_aggregation(redis)
        found = {(e["segment"], e["metric"]): e for e in estimates(redis_url)}
        assert found[None, "trace.context_utilization"]["n"] == 80
        assert found["dataset=hagrid", "trace.context_utilization"]["n"] == 40
        assert found[None, "rmse.trace.adherence"]["estimate"] > 0
        named = {"pipeline", "segment", "metric", "n", "estimate", "lower", "upper", "strategy", "confidence", "window"}
        assert named <= set(found[None, "trace.adherence"])
        screen = command(redis_url, "watch", "--once", extra={"COLUMNS": "140"}).stdout
        for words in ("ragbench", "adherence", "●", "━", "80", "No alerts."):
            assert words in screen
        narrow = command(redis_url, "watch", "--once", "--segments", extra={"COLUMNS": "80"}).stdout
        assert "ragbench · dataset=hagrid" in narrow
        assert all(len(line) <= 80 for line in narrow.splitlines())
        table = command(redis_url, "estimates", "--metric", "trace.adherence", "--strategy", "asymptotic").stdout
        assert "adherence" in table
        assert "completeness" not in table


def test_a_run_closes_its_interval_when_all_of_it_is_scored(redis: Any, redis_url: str, tmp_path: Path) -> None:
    done = command(redis_url, "publish", str(SAMPLE), "--run", "nightly", "--json")
    assert json.loads(done.stdout)["published"] == 80
    with running("up", redis_url, tmp_path / "up.log"):
        wait_for_events(redis, 80)
        wait_for_aggregation(redis)
    shown = command(redis_url, "estimates", "--run", "nightly", "--strategy", "running", "--json")
    (whole,) = [
        e for e in json.loads(shown.stdout) if e["segment"] is None and e["metric"] == "trace.context_utilization"
    ]
    assert (whole["n"], whole["population_size"]) == (80, 80)
    assert whole["lower"] == pytest.approx(whole["estimate"], abs=1e-12)


def test_a_hugging_face_data_set_is_published_as_a_run_of_known_size(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    (tmp_path / "test.jsonl").write_bytes(b"\n".join(each.encode() for each in demo_interactions()[:7]))
    done = command(redis_url, "publish", f"hf:{tmp_path}?split=test", "--run", "nightly", "--json")
    assert json.loads(done.stdout) == {"published": 7, "duplicates": 0, "dropped": 0, "bad": 0}
    entries = redis.xrange(STREAMS.interactions)
    sizes = {json.loads(fields[b"data"])["population_size"] for _, fields in entries}
    assert (len(entries), sizes) == (7, {7})


def test_bad_rows_are_named_with_file_and_line_and_the_others_published(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    good = demo_interactions()[0].encode()
    file = tmp_path / "rows.jsonl"
    file.write_bytes(good + b"\nnot json\n\n" + b'{"pipeline": "p"}\n')
    done = command(redis_url, "publish", str(file), "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout) == {"published": 1, "duplicates": 0, "dropped": 0, "bad": 2}
    assert f"{file}:2: the entry is not valid JSON" in done.stderr
    assert f"{file}:4: question is missing" in done.stderr
    assert "Traceback" not in done.stderr
    assert redis.xlen(STREAMS.interactions) == 1


def test_alerts_are_followed_as_they_come(redis: Any, redis_url: str, tmp_path: Path) -> None:
    good = interactions(300)
    worse = [
        one.model_copy(
            update={"interaction_id": f"w-{number}", "response": good[(number + 7) % 300].response, "gold_scores": {}}
        )
        for number, one in enumerate(good)
    ]
    follower = subprocess.Popen(
        [sys.executable, "-m", "ragtide", "alerts", "--follow", "--json"],
        env=environment(redis_url),
        stdout=subprocess.PIPE,
        text=True,
    )
    with follower, running("up", redis_url, tmp_path / "up.log"):
        for one in [*good, *worse]:
            redis.xadd(STREAMS.interactions, {"data": one.encode()})
        assert follower.stdout is not None
        alert = json.loads(follower.stdout.readline())
        assert (alert["pipeline"], alert["status"]) == ("shop", "firing")
        follower.send_signal(signal.SIGINT)
        assert follower.wait(20) == 0
    listed = [json.loads(line) for line in command(redis_url, "alerts", "--json").stdout.splitlines()]
    assert alert["alert_id"] in {one["alert_id"] for one in listed}
    assert "FIRING" in command(redis_url, "alerts", "--firing").stdout


def test_doctor_says_what_is_wrong_and_what_to_do(redis: Any, redis_url: str, tmp_path: Path) -> None:
    for interaction in interactions(5):
        redis.xadd(STREAMS.interactions, {"data": interaction.encode()})
    alone = command(redis_url, "doctor", "--json")
    assert alone.returncode == 1
    idle = {finding["subject"]: finding for finding in json.loads(alone.stdout)}
    assert idle["roles"]["found"] == "no worker and no aggregator is running; 5 entries wait"
    assert idle["durability"]["level"] == "ok"
    assert idle["partition 0: labeling"]["advice"] == "start one: ragtide worker"
    for role in ("worker", "aggregator"):
        assert command(redis_url, "doctor", "--role", role).returncode == 1
    with running("up", redis_url, tmp_path / "up.log"):
        wait_for_events(redis, 5)
        wait_for_aggregation(redis)
        for role in ("worker", "aggregator"):
            assert command(redis_url, "doctor", "--role", role).returncode == 0
        well = command(redis_url, "doctor")
        assert well.returncode == 0
        assert "0 waiting (0 taken), 1 worker seen" in well.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("publish", "nowhere.jsonl"), "give the path of a file of interactions"),
        (("estimates", "--strategy", "bayes"), "auto, running, asymptotic"),
        (("dead-letters", "retry"), "give ids"),
        (("--prefix", "no spaces", "estimates"), "prefix"),
    ],
)
def test_a_users_mistake_is_one_sentence_without_a_stack_trace(
    redis_url: str, arguments: tuple[str, ...], words: str
) -> None:
    done = command(redis_url, *arguments)
    assert done.returncode in {1, 2}
    assert words in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr


def test_a_redis_that_is_not_there_is_one_sentence_without_its_password() -> None:
    for arguments in (("estimates",), ("alerts",), ("doctor",), ("watch", "--once")):
        done = command("redis://user:s3cret@127.0.0.1:1/0", *arguments)
        assert done.returncode == 1
        assert "127.0.0.1:1" in done.stderr
        assert "s3cret" not in done.stderr
        assert "Traceback" not in done.stderr


def test_an_unknown_labeler_is_a_clear_error(redis_url: str) -> None:
    done = command(redis_url, "worker", extra={"RAGTIDE_LABELER": "oracle"})
    assert done.returncode == 1
    assert "there is no labeler 'oracle'" in done.stderr
    assert "Traceback" not in done.stderr


def test_two_processes_without_a_url_share_one_redis(tmp_path: Path) -> None:
    extra = {"RAGTIDE_DATA_DIR": str(tmp_path / "shared")}
    done = command("", "publish", str(SAMPLE), "--json", extra=extra)
    assert json.loads(done.stdout)["published"] == 80
    with running("up", "", tmp_path / "up.log", extra):
        wait_until(lambda: _n_scored(extra) == 80)
    assert _n_scored(extra) == 80


def _n_scored(extra: dict[str, str]) -> int:
    found = json.loads(command("", "estimates", "--json", extra=extra).stdout)
    return max((e["n"] for e in found if e["metric"] == "trace.context_utilization"), default=0)
