"""Reports exported to a real MLflow store, in a SQLite file."""

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.ragtide.judged_runs import METRIC, Run, plan_of, write_experiment
from typer.testing import CliRunner, Result

from ragtide.cli.app import cli
from ragtide_runtime.errors import ConfigurationError
from ragtide_schemas.experiments import RaceOptions

# MLflow's own models use what SQLAlchemy 2.1 calls deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")

ODD = """a 'b' "c" <d>, e=1"""


def export(redis_url: str, uri: str) -> Result:
    return CliRunner().invoke(cli, ["--redis-url", redis_url, "report", "may", "--mlflow", "--tracking-uri", uri])


def runs(uri: str) -> dict[str, Any]:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    found = client.get_experiment_by_name("ragtide")
    assert found is not None
    return {run.info.run_name: run for run in client.search_runs([found.experiment_id])}


@pytest.mark.heavy
def test_each_config_is_a_run_below_that_of_the_experiment_and_a_second_export_doubles_nothing(
    redis_url: str, tmp_path: Path
) -> None:
    from mlflow.tracking import MlflowClient

    write_experiment(redis_url, Run(plan_of("may", (ODD, "b")), {ODD: 0.9, "b": 0.5}, cost={"b": 0.5}))
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    done = export(redis_url, uri)
    assert done.exit_code == 0, (done.output, done.exception)
    assert "exported to MLflow as run" in done.stderr
    first = runs(uri)
    assert set(first) == {"may", ODD, "b"}
    parent, best, loser = first["may"], first[ODD], first["b"]
    assert {run.data.tags["mlflow.parentRunId"] for run in (best, loser)} == {parent.info.run_id}
    assert {run.info.status for run in first.values()} == {"FINISHED"}
    assert best.data.params == {"top_k": "2", "style": "short"}
    assert parent.data.params["order_digest"] == "o1"
    assert parent.data.tags["ragtide.leader"] == ODD
    metrics = loser.data.metrics
    assert metrics[f"{METRIC}.lower"] < metrics[METRIC] < metrics[f"{METRIC}.upper"]
    assert metrics[f"{METRIC}.n"] == metrics["n_items"] < 120
    assert metrics["cost_per_item_usd"] == 0.5
    assert metrics["latency_s_p95"] > metrics["latency_s_p50"] > 0
    assert (loser.data.tags["ragtide.status"], loser.data.tags["ragtide.stopped_by"]) == ("stopped", "race")
    assert "b is at most 0.02 better" in loser.data.tags["ragtide.reason"]
    client = MlflowClient(tracking_uri=uri)
    assert {file.path for file in client.list_artifacts(parent.info.run_id)} == {"report.html"}

    assert export(redis_url, uri).exit_code == 0
    second = runs(uri)
    assert {name: run.info.run_id for name, run in second.items()} == {
        name: run.info.run_id for name, run in first.items()
    }
    assert len(client.get_metric_history(loser.info.run_id, METRIC)) == 1


@pytest.mark.heavy
def test_an_export_while_it_runs_is_brought_up_to_date_later(redis_url: str, tmp_path: Path, redis: Any) -> None:
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    plan = plan_of("may", ("a", "b"), race=RaceOptions(enabled=False, look_every=10))
    write_experiment(redis_url, Run(plan, {"a": 0.8, "b": 0.8}, items=20))
    assert export(redis_url, uri).exit_code == 0
    assert {run.info.status for run in runs(uri).values()} == {"RUNNING"}
    # Executed items are not executed again; the other items are.
    write_experiment(redis_url, Run(plan, {"a": 0.8, "b": 0.8}))
    assert export(redis_url, uri).exit_code == 0
    found = runs(uri)
    assert len(found) == 3
    assert found["may"].info.status == "FINISHED"
    assert found["b"].data.metrics["n_items"] == 120


def test_without_mlflow_it_is_said_what_to_install(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_experiment(redis_url, Run(plan_of("may", ("a", "b")), {"a": 0.8, "b": 0.8}, items=10))
    import mlflow.tracking  # or what it imports would stay half imported

    assert mlflow.tracking is not None
    monkeypatch.setitem(sys.modules, "mlflow.tracking", None)
    done = export(redis_url, "sqlite:///mlflow.db")
    assert isinstance(done.exception, ConfigurationError)
    assert "pip install 'ragtide[mlflow]'" in str(done.exception)


def test_a_store_that_is_none_is_said_in_a_sentence(redis_url: str) -> None:
    write_experiment(redis_url, Run(plan_of("may", ("a", "b")), {"a": 0.8, "b": 0.8}, items=10))
    done = export(redis_url, "nonsense://x")
    assert isinstance(done.exception, ConfigurationError)
    assert str(done.exception).startswith("MLflow at nonsense://x refuses the export (")
    assert "\n" not in str(done.exception)
