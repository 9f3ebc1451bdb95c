"""Exports an experiment's report to MLflow: one run for the experiment, and below it one for each config.

A second export finds the runs by their tags and updates them. A changed metric gets a new value, whose step is the
number of compared items.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final, cast

from ragtide_runtime import __version__
from ragtide_runtime.errors import ConfigurationError

from ..experiments.board import BoardRow
from .content import ExperimentReport
from .findings import parameter_value

EXPERIMENT: Final = "ragtide"
"""Default name of the MLflow experiment."""

_PREFIX: Final = "ragtide."
_FORBIDDEN: Final = re.compile(r"[^\w\-. :/]")
_PARENT: Final = "mlflow.parentRunId"
_LONGEST_PARAM: Final = 6000
"""Characters of a parameter's value that MLflow keeps."""


def export(
    report: ExperimentReport, pages: Mapping[str, str], *, tracking_uri: str | None, experiment: str = EXPERIMENT
) -> str:
    """Write a report to MLflow, and return the id of the experiment's run.

    Args:
        report: the report.
        pages: files to store with the run, by name.
        tracking_uri: address of MLflow; MLflow's own setting (`MLFLOW_TRACKING_URI`) unless given.
        experiment: name of the MLflow experiment.

    Raises:
        ConfigurationError: MLflow is not installed, or refuses the export.
    """
    try:
        from mlflow.exceptions import MlflowException  # noqa: PLC0415 - an extra, imported only for an export
        from mlflow.tracking import MlflowClient  # noqa: PLC0415
    except ModuleNotFoundError:
        raise ConfigurationError("--mlflow needs MLflow: pip install 'ragtide[mlflow]'") from None
    try:
        return _Export(MlflowClient(tracking_uri=tracking_uri), report, experiment).write(pages)
    except MlflowException as error:
        reason = str(error).partition("\n")[0].strip()
        raise ConfigurationError(
            f"MLflow at {tracking_uri or 'its default address'} refuses the export ({reason}): give --tracking-uri, "
            "the address of a server or sqlite:///mlflow.db"
        ) from None


class _Export:
    """One report on its way to MLflow."""

    def __init__(self, client: Any, report: ExperimentReport, experiment: str) -> None:
        self._client = client
        self._report = report
        known = client.get_experiment_by_name(experiment)
        self._experiment = client.create_experiment(experiment) if known is None else known.experiment_id
        # A name is free again once its workspace is removed, so the time of the beginning is part of the identity.
        self._identity = f"{report.info.run} {report.info.created_at.isoformat()}"

    def write(self, pages: Mapping[str, str]) -> str:
        report, board = self._report, self._report.board
        plan = report.plan
        parent = self._run(report.info.run, config="", tags={})
        self._params(
            parent,
            {
                "target": plan.target,
                "data": plan.data,
                "data_digest": plan.data_digest,
                "population_size": plan.population_size,
                "seed": plan.seed,
                "order_digest": plan.order_digest,
                "metric": plan.metric,
                "labeler": plan.labeler,
                "race": plan.race.model_dump_json(),
                "intervals": plan.intervals.model_dump_json(),
            },
        )
        leader = board.leader
        self._tags(
            parent,
            {
                "completed": board.completed,
                "paused": board.paused or "",
                "leader": "" if leader is None else leader.name,
                "instruments": ", ".join(report.instruments),
            },
        )
        totals = {
            "cost_usd": board.cost_usd,
            "tokens": board.tokens,
            "executed": board.executed,
            "share_of_work": board.share_of_work,
        }
        self._metrics(parent, totals)
        for row in board.rows:
            self._config(parent, row)
        for name, text in pages.items():
            self._client.log_text(parent, text, name)
        self._end(parent, done=board.completed)
        return parent

    def _config(self, parent: str, row: BoardRow) -> None:
        tags = {_PARENT: parent}
        run = self._run(row.name, config=row.name, tags=tags)
        self._params(run, {name: parameter_value(value) for name, value in row.parameters.items()})
        self._tags(
            run,
            {
                "status": row.status,
                "number": row.number,
                "parent_config": row.parent or "",
                "stopped_by": row.stopped_by or "",
                "reason": row.reason or "",
                "pareto": row.pareto,
            },
        )
        values: dict[str, float | None] = {
            "n_items": row.n_items,
            "n_failed": row.n_failed,
            "n_unlabeled": row.n_unlabeled,
            "cost_usd": row.cost_usd,
            "cost_per_item_usd": row.cost_per_item_usd,
            "tokens": row.tokens,
            "latency_s": row.latency_s,
            **{f"latency_s_{name}": value for name, value in row.latency_quantiles_s.items()},
        }
        for metric, at in row.estimates.items():
            if at.estimate is not None:
                values |= {
                    metric: at.estimate,
                    f"{metric}.lower": at.lower,
                    f"{metric}.upper": at.upper,
                    f"{metric}.n": at.n,
                }
        self._metrics(run, values)
        self._end(run, done=row.status != "running" or self._report.board.completed)

    def _run(self, name: str, *, config: str, tags: Mapping[str, str]) -> str:
        key = blake2b(f"{self._identity}\0{config}".encode(), digest_size=16).hexdigest()
        runs = self._client.search_runs([self._experiment], f"tags.`{_PREFIX}id` = '{key}'", max_results=1)
        if runs:
            return cast("str", runs[0].info.run_id)
        named = {f"{_PREFIX}id": key, f"{_PREFIX}run": self._report.info.run, f"{_PREFIX}config": config}
        tags = {**named, **tags, f"{_PREFIX}version": __version__}
        created = self._client.create_run(
            self._experiment, start_time=_milliseconds(self._report.began_at), tags=tags, run_name=name
        )
        return cast("str", created.info.run_id)

    def _params(self, run: str, params: Mapping[str, Any]) -> None:
        for name, value in params.items():
            self._client.log_param(run, _key(name), str(value)[:_LONGEST_PARAM])

    def _tags(self, run: str, tags: Mapping[str, Any]) -> None:
        for name, value in tags.items():
            self._client.set_tag(run, f"{_PREFIX}{name}", str(value))

    def _metrics(self, run: str, values: Mapping[str, float | None]) -> None:
        known = self._client.get_run(run).data.metrics
        step, at = self._report.board.compared, _milliseconds(self._report.last_at or self._report.began_at)
        for name, value in values.items():
            if value is not None and known.get(_key(name)) != value:
                self._client.log_metric(run, _key(name), value, timestamp=at, step=step)

    def _end(self, run: str, *, done: bool) -> None:
        end = _milliseconds(self._report.last_at or self._report.began_at) if done else None
        if done:
            self._client.set_terminated(run, status="FINISHED", end_time=end)
        else:
            self._client.update_run(run, status="RUNNING")


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def _key(name: str) -> str:
    """Return a name without the characters that MLflow refuses.

    >>> _key("top_k"), _key("a=b")
    ('top_k', 'a_b')
    """
    return _FORBIDDEN.sub("_", name)
