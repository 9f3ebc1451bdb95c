"""Metrics and labelers of the user's own: by entry point and by settings."""

import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from ragtide import ConfigurationError, CustomMetric, Direction, Kind, Labeling, MetricDefinition, RagInteraction
from ragtide_consumers.labelers import plugins
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_runtime.settings.model import Settings

MODULE = """
from ragtide import Absent, AbsentReason, CustomMetric, Direction, Kind, Labeling, MetricDefinition

def definition(name, upper=100.0):
    return MetricDefinition(name, 0.0, upper, Direction.NEITHER, Kind.DISTRIBUTIVE, "Words.", "us", "number of words")

words = CustomMetric(definition("mine.words"), lambda interaction, labels: len(interaction.response.split()))
fails = CustomMetric(definition("mine.fails"), lambda interaction, labels: 1 / 0)
too_much = CustomMetric(definition("mine.too_much"), lambda interaction, labels: 1e9)
unknown = CustomMetric(definition("mine.unknown"), lambda interaction, labels: None)
without = CustomMetric(definition("mine.without"), lambda interaction, labels: Absent("no_citations"))
no_reference = CustomMetric(
    definition("mine.no_reference"), lambda interaction, labels: AbsentReason.NO_REFERENCE_ANSWER
)
no_word = CustomMetric(definition("mine.no_word"), lambda interaction, labels: Absent("No, sir"))
labeled = CustomMetric(definition("mine.labeled"), lambda interaction, labels: len(labels))
words_again = CustomMetric(definition("mine.words"), lambda interaction, labels: 0.0)

class Constant:
    name, version, profile = "constant", "1", "mine"
    def __init__(self, settings):
        self.prefix = settings.prefix
    async def label(self, interaction):
        return Labeling({"mine.constant": 0.5})

class Plain:
    name, version, profile = "constant", "1", "mine"
    async def label(self, interaction):
        return Labeling({"mine.constant": 0.5})

def made():
    return Plain()

class Slow(Constant):
    async def label(self, interaction):
        import asyncio
        await asyncio.sleep(60)

instance = Constant(__import__("types").SimpleNamespace(prefix="x"))
nothing = 5
"""
CLASH = """
from my_metrics import CustomMetric, definition

clash = CustomMetric(definition("trace.adherence"), lambda interaction, labels: 0.0)
"""
ONE = RagInteraction(pipeline="p", question="When?", documents=["In 1889."], response="Built in 1889.")


@pytest.fixture(autouse=True)
def _a_module_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_metrics.py").write_text(MODULE)
    (tmp_path / "my_clash.py").write_text(CLASH)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("my_metrics", None)


def installed(monkeypatch: pytest.MonkeyPatch, group: str, **points: str) -> None:
    def entry_points(*, group: str) -> Sequence[EntryPoint]:
        return [EntryPoint(name, value, group) for name, value in points.items()] if group == wanted else []

    wanted = group
    monkeypatch.setattr(plugins, "entry_points", entry_points)


async def label(**settings: Any) -> tuple[Any, Labeling]:
    async with labeler_of(Settings(**settings), None) as labeler:
        return labeler, await labeler.label(ONE)


async def test_a_metric_named_in_the_settings_is_on_every_event_with_its_declaration() -> None:
    labeler, labeling = await label(metrics=("my_metrics:words", "my_metrics:labeled"))
    assert labeling.scores["mine.words"] == 3.0
    assert labeling.scores["mine.labeled"] == 1.0
    assert labeling.scores["trace.adherence"] > 0
    assert labeling.declared["mine.words"].measure == ("1", 0.0, 100.0, Direction.NEITHER, Kind.DISTRIBUTIVE)
    assert labeler.name == "local"


async def test_a_metric_of_an_installed_package_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, plugins.METRICS, words="my_metrics:words")
    _, labeling = await label()
    assert labeling.scores["mine.words"] == 3.0


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("fails", "metric_failed"),
        ("too_much", "metric_failed"),
        ("unknown", "undefined"),
        ("without", "no_citations"),
        ("no_reference", "no_reference_answer"),
        ("no_word", "metric_failed"),
    ],
)
async def test_a_metric_that_has_no_value_is_absent_with_the_reason_and_stops_nothing(name: str, reason: str) -> None:
    _, labeling = await label(metrics=(f"my_metrics:{name}", "my_metrics:words"))
    assert labeling.absent[f"mine.{name}"] == reason
    assert labeling.scores["mine.words"] == 3.0


@pytest.mark.parametrize(
    "name", ["my_metrics:Constant", "my_metrics:Plain", "my_metrics:made", "my_metrics:instance", "constant"]
)
async def test_a_labeler_is_found_by_module_or_by_entry_point(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, plugins.LABELERS, constant="my_metrics:Constant")
    labeler, labeling = await label(labeler=name)
    assert (labeler.name, labeler.version, labeler.profile) == ("constant", "1", "mine")
    assert labeling.scores == {"mine.constant": 0.5}


async def test_a_labeler_that_takes_for_ever_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragtide_consumers.labelers.registry.LABEL_TIMEOUT_S", 0.05)
    with pytest.raises(TimeoutError):
        await label(labeler="my_metrics:Slow")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"metrics": ("my_metrics:absent",)}, "metrics: my_metrics:absent cannot be loaded"),
        ({"metrics": ("no_such_module:x",)}, "no module no_such_module"),
        ({"metrics": ("my_metrics",)}, "module:attribute"),
        ({"metrics": ("my_metrics:nothing",)}, "must be a ragtide.CustomMetric"),
        ({"metrics": ("my_metrics:words", "my_metrics:words_again")}, "another metric named mine.words"),
        ({"metrics": ("my_clash:clash",)}, "trace.adherence is one of ragtide's own metrics"),
        ({"labeler": "my_metrics:nothing"}, "cannot be loaded"),
        ({"labeler": "nobody"}, "there is no labeler 'nobody'"),
    ],
)
async def test_what_cannot_be_loaded_is_named_with_what_to_do(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        await label(**settings)


def test_a_metric_can_be_made_in_python() -> None:
    definition = MetricDefinition("mine.python", 0.0, 1.0, Direction.HIGHER, Kind.ALGEBRAIC, "m", "s")
    assert CustomMetric(definition, lambda interaction, labels: 1.0).compute(ONE, ()) == 1.0
