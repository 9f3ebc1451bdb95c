"""The plan of a replay: stored with its workspace, compared when the replay continues, and turned into settings."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from redis.asyncio import Redis

from ragtide_consumers.labelers.judge.costs import price_of
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_runtime.settings.alerting import StallSettings, rules_in_force
from ragtide_runtime.settings.errors import Explainer
from ragtide_runtime.settings.labelers import JudgeSettings
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.toml_file import read_toml
from ragtide_runtime.workspaces import find_workspace, register_workspace, settings_of_workspace
from ragtide_schemas import AlertRule, Workspace
from ragtide_schemas.base import describe
from ragtide_schemas.criterion import Criterion

from .selection import Selection

_RULES = TypeAdapter(tuple[AlertRule, ...])

_KEPT = ("windows", "lateness_s", "segments", "quantiles", "feedback_window_s", "keys_cap", "partition_keys_cap")
"""Settings on which the numbers of a replay depend."""

_LABELING = ("labeler", "profile", "claim_profile")

_OF_EVALUATOR = {"name", "labeler", "pipelines", "segments", "rate", "model"}
"""Settings of an evaluator by which a continued replay is compared with what it began as."""


class _Options(BaseModel):
    """The stored options of a replay from which its settings are made."""

    model_config = ConfigDict(protected_namespaces=(), hide_input_in_errors=True)

    rules: tuple[AlertRule, ...] = ()
    windows: tuple[str, ...] | None = None
    labeler: str | None = None
    profile: str | None = None
    claim_profile: str | None = None
    judge_model: str | None = None
    criteria: tuple[Criterion, ...] = ()


def open_recording(url: str, settings: Settings) -> Recording:
    """Return the recording in a folder or at a URL.

    Raises:
        ConfigurationError: there is none.
    """
    place = str(Path(url).expanduser().absolute()) if "://" not in url else url
    return Recording.open(place, storage_options=settings.recorder.storage_options)


def rules_of(file: Path) -> tuple[AlertRule, ...]:
    """Return the alert rules that a TOML file puts in force: its `[[alerts]]` tables, and the default rules.

    The file decides with `alert_defaults` whether the default rules are in force.

    Raises:
        ConfigurationError: the file cannot be read, or a rule is wrong.
    """
    if not file.is_file():
        raise ConfigurationError(f"{file} cannot be read: give a TOML file with [[alerts]] tables")
    text, content = read_toml(file)
    if not content.get("alerts"):
        raise ConfigurationError(f"{file} has no rules: write each as a table [[alerts]]")
    defaults = content.get("alert_defaults", True)
    if not isinstance(defaults, bool):
        raise ConfigurationError(f"{file}: alert_defaults is {defaults!r}: write true or false")
    try:
        own = _RULES.validate_python(content["alerts"])
    except ValidationError as error:
        explainer = Explainer(Settings, file, text, environment={}, inside=("alerts",))
        raise ConfigurationError(explainer.explain(error)) from None
    return rules_in_force(own, defaults=defaults)


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """A replay: its recording, the selected part, and the labeler."""

    run: str
    recording: Recording
    selection: Selection
    relabel: bool = False
    rules: tuple[AlertRule, ...] = ()
    labeling: dict[str, str] = field(default_factory=dict)
    """`labeler`, `profile` and `judge_model`, if they differ from the settings."""
    criteria: tuple[Criterion, ...] = ()
    """Criteria that the judge is asked, and nothing else; empty for what the labeler gives."""
    in_parts: bool = False
    """Whether interactions are labeled in parts first, and their metric events replayed then."""

    @property
    def redacted(self) -> int:
        """Number of recorded interactions of the selected pipelines whose texts were redacted before recording."""
        return self.recording.redacted(EntryKind.INTERACTIONS, pipelines=self.selection.pipelines)

    def info(self, settings: Settings, population_size: int) -> Workspace:
        """Return the workspace of the replay, with its options.

        Raises:
            ConfigurationError: its name is not valid.
        """
        options: dict[str, Any] = {
            "replays": "interactions" if self.relabel else "metric events",
            **self.selection.as_options(),
            "rules": [json.loads(rule.definition) for rule in self.rules],
            "budget": settings.budget.model_dump(mode="json"),
        }
        for name in _KEPT:
            value = getattr(settings, name)
            options[name] = list(value) if isinstance(value, tuple) else value
        if self.relabel:
            options |= {name: getattr(settings, name) for name in _LABELING}
            options["judge_model"] = settings.judge.model
            if settings.evaluators and "labeler" not in self.labeling and not self.criteria:
                options["labeler"] = None
                options["evaluators"] = [
                    evaluator.model_dump(mode="json", include=_OF_EVALUATOR, exclude_none=True)
                    for evaluator in settings.evaluators
                ]
            options |= self.labeling
            if self.criteria:
                options["criteria"] = [criterion.model_dump(mode="json") for criterion in self.criteria]
            if self.in_parts:
                options["in_parts"] = True
        # Workers of the workspace label interactions in one partition. Metric events stay in their partitions.
        published = self.relabel and not self.in_parts
        try:
            return Workspace(
                run=self.run,
                kind="replay",
                source=self.recording.url,
                population_size=population_size,
                redacted=self.redacted if self.relabel else None,
                partitions=1 if published else max(self.recording.partitions) + 1,
                splits={} if published else dict(settings.splits),
                options=options,
            )
        except ValueError:
            raise ConfigurationError(
                f"--workspace {self.run!r} is not a name: use 1 to 48 letters, digits, _ and -"
            ) from None


async def begin(redis: Redis, settings: Settings, info: Workspace) -> Workspace:
    """Register the workspace of a replay, or check that the registered one has the same options, and return it.

    Raises:
        ConfigurationError: an experiment, or a replay with other options, has this name.
    """
    known = await find_workspace(redis, settings, info.run)
    if known is None:
        known = await register_workspace(redis, settings, info)
    other = (
        "give the new one another name with --workspace, or remove the old one: ragtide replay workspaces remove "
        f"{info.run}"
    )
    if known.kind != info.kind:
        raise ConfigurationError(f"workspace {info.run!r} is an {known.kind}: {other}")
    for name in ("source", "partitions", "splits"):
        before, now = getattr(known, name), getattr(info, name)
        if before != now:
            raise ConfigurationError(f"workspace {info.run!r} began with {name} {before}, and not {now}: {other}")
    for name in sorted(known.options.keys() | info.options.keys()):
        before, now = known.options.get(name), info.options.get(name)
        if before != now:
            problem = f"workspace {info.run!r} began with {name} {_option_text(before)}, and not {_option_text(now)}"
            raise ConfigurationError(f"{problem}: continue with the same options, or {other}")
    return known


def _option_text(value: Any) -> str:
    if value is None:
        return "not given"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) < 80 else f"{text[:80]}..."


def check_cost_limit(settings: Settings, max_cost_usd: float | None) -> None:
    """Check that the cost of labeling is known, if it is limited.

    Args:
        max_cost_usd: the limit; None for no limit.

    Raises:
        ConfigurationError: the price of the judge's model is not known.
    """
    if max_cost_usd is not None and "judge" in settings.labelers and price_of(settings.judge) is None:
        raise ConfigurationError(
            f"--max-cost-usd needs the price of {settings.judge.model}: add it under judge.prices in ragtide.toml"
        )


def settings_of_replay(settings: Settings, info: Workspace) -> Settings:
    """Return the settings of a deployment with the keys, the labeler and the rules of a replay of interactions.

    The process that began the replay, workers that join it, and readers use these settings. The options are read from
    Redis, so `ragtide.trusted` checks the names in them before a process uses them.

    Raises:
        ConfigurationError: the options cannot be read.
    """
    own = settings_of_workspace(settings, info)
    if info.kind != "replay":
        return own
    try:
        stored = _Options.model_validate(info.options)
    except ValidationError as error:
        raise ConfigurationError(
            f"the options of workspace {info.run!r} cannot be read ({describe(error)}): remove it with ragtide "
            f"workspaces remove {info.run}"
        ) from None
    changes: dict[str, Any] = {
        "alerts": stored.rules,
        "windows": own.windows if stored.windows is None else stored.windows,
        # A replay that waits or is complete must not raise a pipeline health alert.
        "stall": StallSettings.none(),
    }
    labeling = {name: getattr(stored, name) for name in _LABELING}
    changes |= {name: value for name, value in labeling.items() if value is not None}
    if stored.labeler is not None:
        changes["evaluators"] = ()
    if "judge_model" in stored.model_fields_set:
        changes["judge"] = own.judge.model_copy(update={"model": stored.judge_model})
    if stored.criteria:
        judge: JudgeSettings = changes.get("judge", own.judge)
        # What another labeler would give over budget is no answer to a criterion.
        only = {"families": (), "criteria": stored.criteria, "over_budget": "wait"}
        changes |= {"labeler": "judge", "metrics": (), "judge": judge.model_copy(update=only)}
    return own.model_copy(update=changes)
