"""`ragtide dataset` writes what workers kept as a data set, which an experiment reads."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.ragtide.test_items import STREAMS, keep
from tests.support.alerts import alert
from tests.support.in_process import run_command

from ragtide import Experiment
from ragtide.testing import interaction
from ragtide_producers.files.items import read_items
from ragtide_runtime.redis.keys import interaction_digest

UNLIKE = ["The tower was built in 1889.", "It may be so.", "Cats eat fish at night."]


@pytest.fixture(autouse=True)
def _here(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_worst_become_a_data_set_with_their_scores(
    redis_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(redis_url, *(interaction(number, response=text) for number, text in enumerate(UNLIKE)), sample=0.0)
    path = tmp_path / "worst.jsonl"
    options = ("dataset", "from-worst", "--metric", "adherence", "--labeler", "local", "--output", str(path))
    done = run_command(capsys, *options)
    assert (done.code, done.stdout) == (0, ""), done.stderr
    assert "3 rows of pipeline shop, answered from 20" in done.stderr
    assert "redacted by email, card, phone" in done.stderr
    reasons = [row["metadata"]["ragtide"]["chosen"][0] for row in read(path)]
    assert [reason["place"] for reason in reasons] == [1, 2, 3]
    assert [reason["score"] for reason in reasons] == sorted(reason["score"] for reason in reasons)
    assert {reason["list"] for reason in reasons} == {"worst:trace.adherence:local"}
    assert [item.item_id for item in read_items(path)] == [row["interaction_id"] for row in read(path)]
    again = run_command(capsys, *options)
    assert (again.code, "exists" in again.stderr, "--force" in again.stderr) == (1, True, True)
    few = run_command(capsys, *options, "--force", "--limit", "50")
    told = " ".join(few.stderr.split())
    assert ("3 items are kept" in told, "(specimens.worst_n;" in told) == (True, True), told
    assert run_command(capsys, *options, "--force", "--limit", "1").code == 0
    assert len(read(path)) == 1


def test_the_sample_has_its_probability_and_expired_items_are_told(
    redis_url: str, redis: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [interaction(number, sampling_probability=0.5) for number in range(3)]
    keep(redis_url, *given, interaction(0, pipeline="help"))
    redis.delete(STREAMS.specimen(interaction_digest("shop", "i-1")))
    done = run_command(capsys, "dataset", "from-sample", "--pipeline", "shop")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert {one["interaction_id"] for one in found} == {"i-0", "i-2"}
    chosen = {"list": "sample", "inclusion_probability": 0.5}
    assert [one["metadata"]["ragtide"]["chosen"] for one in found] == [[chosen], [chosen]]
    assert not any("sampling_probability" in one for one in found)
    assert "1 item of these lists had expired" in done.stderr
    both = run_command(capsys, "dataset", "from-sample").stdout.splitlines()
    assert len({json.loads(line).get("item_id") for line in both}) == 3, "one id in two pipelines has two item ids"


def test_the_items_of_an_alert_come_in_its_order(
    redis_url: str, redis: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(redis_url, interaction(0), interaction(1))
    ids = ("i-1", "i-9", "i-0")
    redis.xadd(STREAMS.alerts, {"data": alert("a-1", pipeline="shop", worst_interaction_ids=ids).encode()})
    path = tmp_path / "alert.jsonl"
    done = run_command(capsys, "dataset", "from-alert", "a-1", "--output", str(path))
    assert (done.code, "No longer kept, so not in the data set: i-9" in done.stderr) == (0, True)
    assert [one["interaction_id"] for one in read(path)] == ["i-1", "i-0"]
    assert {one["metadata"]["ragtide"]["chosen"][0]["alert"] for one in read(path)} == {"a-1"}
    unknown = run_command(capsys, "dataset", "from-alert", "a-2")
    assert (unknown.code, "There is no alert a-2" in unknown.stderr) == (1, True)


def test_without_items_there_is_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.jsonl"
    done = run_command(capsys, "dataset", "from-worst", "--output", str(path))
    assert (done.code, "nothing was written" in done.stderr, path.exists()) == (1, True, False)


def test_an_experiment_runs_on_the_data_set(redis_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(redis_url, *(interaction(number, response=text) for number, text in enumerate(UNLIKE)))
    path = tmp_path / "sample.jsonl"
    assert run_command(capsys, "dataset", "from-sample", "--output", str(path)).code == 0

    def target(question: str, long: bool) -> tuple[list[str], str]:
        return ["The tower was built in 1889."], UNLIKE[0] if long else "It may be so."

    grid = {"long": [True, False]}
    board = Experiment("again", target, data=path, metric="trace.adherence", grid=grid, redis_url=redis_url).run()
    assert sum(row.n_items for row in board.rows) >= 3


def versions_of(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.with_suffix(".versions.json").read_text())["versions"]
    return found


def test_every_written_set_has_its_versions_beside_it(
    redis_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(redis_url, *(interaction(number, response=text) for number, text in enumerate(UNLIKE)))
    path = tmp_path / "golden.jsonl"
    words = ("dataset", "from-sample", "--output", str(path), "--force")
    assert run_command(capsys, *words).code == 0
    assert run_command(capsys, *words, "--limit", "1").code == 0
    first, second = versions_of(path)
    assert (first["n_rows"], len(first["added"]), first.get("parent")) == (3, 3, None)
    assert (second["n_rows"], second["added"], second["parent"]) == (1, {}, first["digest"])
    assert {*second["removed"], read(path)[0]["interaction_id"]} == set(first["added"])
    assert "--limit 1" in second["command"]
    assert {name.partition(" ")[0] for name in second["labeled_by"]["labelers"]} == {"local", "judge"}
    path.write_text(path.read_text().replace("Cats", "Dogs").replace("1889", "1887").replace("may", "might"))
    assert run_command(capsys, *words).code == 0
    *_, by_hand, last = versions_of(path)
    assert (by_hand.get("command"), by_hand["n_rows"], last["n_rows"]) == (None, 1, 3)
    assert by_hand["removed"] == list(by_hand["added"])
    path.with_suffix(".versions.json").write_text("no versions")
    damaged = run_command(capsys, *words)
    assert (damaged.code, "golden.versions.json" in damaged.told) == (1, True)
