"""The Python interface of experiments: `Experiment(...).run()`."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragtide_producers.files.items import Item, items_of, read_items
from ragtide_roles.start_check import check_start
from ragtide_roles.workspaces import settings_of_experiment
from ragtide_runtime.processes.waiting import blocking
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.url import resolve_redis
from ragtide_runtime.settings.model import Settings, settings_of_application
from ragtide_runtime.telemetry.logs import keep_logs_apart
from ragtide_schemas import RagInteraction
from ragtide_schemas.criterion import Criterion
from ragtide_schemas.experiments import Config, Plan
from ragtide_schemas.known_labelers import KNOWN

from .board import Board
from .control import ExperimentControl
from .drafts import Draft, draft_of, plan_of, read_draft
from .driver import begin, drive
from .errors import ExperimentError
from .targets import MeasureFunction, check_parameters, function_of

Data = str | Path | Iterable[str | Mapping[str, Any] | RagInteraction]
"""A data set: a file, a Hugging Face data set, or the questions themselves."""


class Experiment:
    """Compares configs over a data set while they run; the race stops each config that has surely lost.

    Args:
        name: of the experiment; running an interrupted experiment again continues it.
        target: a function `question, **parameters -> (documents, response)`, sync or async, its `module:function`, or
            the URL of an endpoint.
        data: the questions.
        metric: metric of the race: a metric of the labeler, or one of `metrics`.
        configs: parameters by name of the config, or a list of configs.
        grid: values by parameter: every combination is a config.
        measure: function for the experiment's own metrics, `item, answer -> {name: value}`.
        metrics: declarations of own metrics, such as `{"f1": {"is_algebraic": True, "value_range": (0, 1)}}`.
        redis_url: Redis to use; by default that of the settings.
        settings: all settings at once, instead of the URL and the environment.
        options: other settings of an experiment, listed in docs/offline/experiments.md.

    Raises:
        ExperimentError: an argument is missing or wrong.
    """

    def __init__(
        self,
        name: str,
        target: str | Callable[..., Any],
        *,
        data: Data,
        metric: str,
        configs: Mapping[str, Mapping[str, Any]] | Sequence[Config] = (),
        grid: Mapping[str, Sequence[Any]] | None = None,
        measure: MeasureFunction | str | None = None,
        metrics: Mapping[str, Any] | None = None,
        redis_url: str | None = None,
        settings: Settings | None = None,
        **options: Any,
    ) -> None:
        self._settings = settings or settings_of_application(**({} if redis_url is None else {"redis_url": redis_url}))
        fields: dict[str, Any] = {"name": name, "metric": metric, **options}
        module, function = getattr(target, "__module__", "?"), getattr(target, "__qualname__", type(target).__name__)
        fields["target"] = target if isinstance(target, str) else f"{module}:{function}"
        if isinstance(data, str | Path):
            fields["data"] = str(data)
        if isinstance(configs, Mapping):
            fields["configs"] = [
                {"name": config, "parameters": dict(parameters)} for config, parameters in configs.items()
            ]
        else:
            fields["configs"] = [config.model_dump() for config in configs]
        fields["grid"] = {parameter: list(values) for parameter, values in (grid or {}).items()}
        fields["metrics"] = dict(metrics or {})
        if isinstance(measure, str):
            fields["measure"] = measure
        self._target = target
        self._measure = function_of(measure, None, "measure") if isinstance(measure, str) else measure
        items = read_items(data) if isinstance(data, str | Path) else items_of(data)
        self._plan, self._items = _plan_of(draft_of(fields), items, self._settings, self._settings.judge.criteria)
        self._folder: Path | None = None
        self._file: Path | None = None

    @classmethod
    def from_file(
        cls, file: Path, settings: Settings, *, name: str | None = None, criteria: Iterable[Criterion] | None = None
    ) -> "Experiment":
        """Return the experiment that a TOML file describes.

        Args:
            file: path of the TOML file; `target`, `measure` and `data` are beside it.
            settings: of the deployment; by default from the environment and `ragtide.toml`.
            name: name that the experiment must have.
            criteria: that the metric may be one of; those of the settings unless given.

        Raises:
            ExperimentError: the file has an error, or describes an experiment with another name.
        """
        self, draft = cls.__new__(cls), read_draft(file)
        if name not in (None, draft.name):
            raise ExperimentError(
                f"{file} describes the experiment {draft.name!r}, not {name!r}: give the file of {name}"
            )
        self._settings, self._target = settings, draft.target
        self._file, self._folder = file.absolute(), file.absolute().parent
        self._measure = None if draft.measure is None else function_of(draft.measure, self._folder, "measure")
        known = settings.judge.criteria if criteria is None else criteria
        self._plan, self._items = _plan_of(draft, read_items(draft.data), settings, known)
        return self

    def __repr__(self) -> str:
        """Return name, size and metric."""
        plan = self._plan
        return f"Experiment({plan.run!r}, {len(plan.configs)} configs x {plan.population_size:,} items, {plan.metric})"

    @property
    def plan(self) -> Plan:
        """The plan of the experiment."""
        return self._plan

    @property
    def items(self) -> Sequence[Item]:
        """The items, in the order in which they are run."""
        return self._items

    @property
    def control(self) -> ExperimentControl:
        """Commands to this experiment."""
        return ExperimentControl(self._plan.run, settings=self._settings)

    def run(self, *, roles: bool = True) -> Board:
        """Begin or continue, run until the end, and return the leaderboard.

        Args:
            roles: whether this process also labels and aggregates; otherwise workers of the workspace must be running.

        Raises:
            ExperimentError: another process drives the experiment, or a replay has this name.
        """
        return blocking(self.run_async(roles=roles))

    async def run_async(self, *, roles: bool = True, stop: asyncio.Event | None = None) -> Board:
        """Run as `run` does, or until `stop` is set.

        Args:
            roles: whether to label and aggregate in this process, too.
            stop: ends the run when it is set.
        """
        settings = self._settings
        keep_logs_apart()
        await asyncio.to_thread(self.check, roles=roles)
        handle = await asyncio.to_thread(resolve_redis, settings.redis_address, settings.data_dir, convert=True)
        try:
            await self.drive(handle.url, stop or asyncio.Event(), roles=roles)
            return await asyncio.to_thread(self.control.board)
        finally:
            await asyncio.to_thread(handle.close)

    def check(self, *, roles: bool = True) -> None:
        """Load the target and the labeler, so that a mistake shows before the experiment makes anything.

        Args:
            roles: whether this process also labels.

        Raises:
            ExperimentError: the target is no function, or has other parameters than the configs.
            ConfigurationError: the labeler cannot be built.
        """
        function = self._function()
        if function is not None:
            known = check_parameters(function, self._plan.configs)
            self._plan = self._plan.model_copy(update={"target_parameters": known})
        if roles:
            check_start(settings_of_experiment(self._settings, self._plan), ("worker",))

    async def drive(self, url: str, stop: asyncio.Event, *, roles: bool = True, beside: Sequence[Any] = ()) -> None:
        """Begin or continue after `check`, and run until the end, or until `stop` is set."""
        async with connect_async(url) as redis:
            await begin(redis, self._settings, self._plan, file=self._file)
        await drive(
            self._settings,
            url,
            self._plan,
            self._items,
            target=self._target,
            measure=self._measure,
            stop=stop,
            folder=self._folder,
            roles=roles,
            beside=beside,
        )

    def _function(self) -> Callable[..., Any] | None:
        if not isinstance(self._target, str):
            return self._target
        is_endpoint = self._target.startswith(("http://", "https://"))
        return None if is_endpoint else function_of(self._target, self._folder, "target")


def _plan_of(
    draft: Draft, items: Sequence[Item], settings: Settings, criteria: Iterable[Criterion]
) -> tuple[Plan, list[Item]]:
    plan, ordered = plan_of(draft, items, labeler=settings.one_labeler, criteria=criteria)
    known = KNOWN.get(plan.labeler)
    no_answers = (known is not None and not known.answers_criteria) or (
        plan.labeler == "local" and settings.local.model is None
    )
    if plan.criterion is not None and no_answers:
        raise ExperimentError(
            f"metric is {plan.metric}, a criterion, and labeler is {plan.labeler}, which answers none: set "
            'labeler = "judge"'
        )
    return plan, ordered
