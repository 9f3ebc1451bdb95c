"""Alert rules are read anew from the settings' file; a wrong file leaves the rules as they are."""

import asyncio
import os
import signal
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from tests.support.conditions import until

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings import watch as watch_module
from ragtide_runtime.settings.model import Settings, load_settings
from ragtide_runtime.settings.watch import CRITERIA, LABELING, RULES, SettingsWatch, with_live_settings_of_now

RULE = '[[alerts]]\nname = "floor"\nkind = "threshold"\nmetric = "trace.adherence"\ntarget = {}\n'


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "ragtide.toml"
    path.write_text(RULE.format(0.5))
    monkeypatch.setenv("RAGTIDE_CONFIG", str(path))
    return path


def write(file: Path, text: str) -> None:
    file.write_text(text)


def remove(file: Path) -> None:
    file.unlink()


def watch(counts: list[str] | None = None, **given: Any) -> SettingsWatch:
    return SettingsWatch(load_settings(**given), count=([] if counts is None else counts).append)


def targets(found: list[Settings]) -> list[list[float | None]]:
    return [[rule.target for rule in settings.alerts if rule.kind == "threshold"] for settings in found]


async def test_only_rules_and_their_budget_are_taken(file: Path) -> None:
    found, counts = list[Settings](), list[str]()
    watching = watch(counts)
    with watching.giving(found.append):
        assert await watching.read() == "unchanged"
        write(file, f"commit_interval_s = 7\n{RULE.format(0.6)}")
        assert await watching.read() == "taken"
        write(file, f"{RULE.format(0.6)}[budget]\nfalse_alarms = 1\n")
        assert await watching.read() == "taken"
    assert targets(found) == [[0.6], [0.6]]
    assert found[0].commit_interval_s == Settings().commit_interval_s
    assert found[1].budget.false_alarms == 1
    assert counts == ["unchanged", "taken", "taken"]


def test_a_process_that_starts_again_has_the_rules_of_now_or_keeps_them_if_they_are_wrong(file: Path) -> None:
    before = load_settings(partitions=3)
    write(file, f"commit_interval_s = 7\n{RULE.format(0.6)}")
    now = with_live_settings_of_now(before)
    assert targets([now]) == [[0.6]]
    assert (now.partitions, now.commit_interval_s) == (3, before.commit_interval_s)
    assert targets([with_live_settings_of_now(before.model_copy(update={"prefix": "ragtide.run.try"}))]) == [[0.5]]
    write(file, "[[alerts]\n")
    assert with_live_settings_of_now(now) == now


@pytest.mark.parametrize(
    "text", ["[[alerts]\n", RULE.format('"half"'), "unheard_of = 1\n", RULE.format(0.6) * 2, "\x00"]
)
async def test_a_wrong_file_leaves_the_rules_as_they_are(text: str, file: Path) -> None:
    found, counts = list[Settings](), list[str]()
    watching = watch(counts)
    with watching.giving(found.append):
        write(file, text)
        assert await watching.read() == "refused"
        write(file, RULE.format(0.7))
        assert await watching.read() == "taken"
    assert targets(found) == [[0.7]]
    assert counts == ["refused", "taken"]


async def test_rules_that_do_not_suit_their_metrics_are_refused(file: Path) -> None:
    def check(_: Settings) -> None:
        raise ConfigurationError("alert rule floor: no")

    watching = SettingsWatch(load_settings(), check=check)
    write(file, RULE.format(0.6))
    assert await watching.read() == "refused"


async def test_a_role_that_begins_later_gets_rules_that_are_new_already(file: Path) -> None:
    found, watching = list[Settings](), watch()
    write(file, RULE.format(0.6))
    await watching.read()
    with watching.giving(found.append):
        assert targets(found) == [[0.6]]


@pytest.mark.parametrize("by_signal", [True, False])
async def test_the_file_is_read_after_a_signal_or_when_it_has_changed(
    by_signal: bool, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", StringIO())  # not a terminal
    found, stop = list[Settings](), asyncio.Event()
    watching = watch(rules_poll_s=0 if by_signal else 0.01)
    with watching.giving(found.append):
        running = asyncio.create_task(watching.run(stop))
        await asyncio.sleep(0)
        write(file, RULE.format(0.6))
        if by_signal:
            os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: found)
        stop.set()
        await running
    assert targets(found) == [[0.6]]


async def test_a_file_behind_links_that_kubernetes_exchanges_is_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", StringIO())  # not a terminal
    for name, target in (("old", 0.5), ("new", 0.6)):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "ragtide.toml", RULE.format(target))
    # As a mounted ConfigMap: ragtide.toml leads to ..data/ragtide.toml, and ..data is exchanged at once.
    (tmp_path / "..data").symlink_to("old")
    (tmp_path / "ragtide.toml").symlink_to("..data/ragtide.toml")
    monkeypatch.setenv("RAGTIDE_CONFIG", str(tmp_path / "ragtide.toml"))
    found, stop = list[Settings](), asyncio.Event()
    watching = watch(rules_poll_s=0.01)
    with watching.giving(found.append):
        running = asyncio.create_task(watching.run(stop))
        await asyncio.sleep(0)
        (tmp_path / "..data_tmp").symlink_to("new")
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")
        await until(lambda: found)
        stop.set()
        await running
    assert targets(found) == [[0.6]]


async def test_a_file_that_is_being_written_is_read_when_it_is_whole(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", StringIO())  # not a terminal
    found, stop = list[Settings](), asyncio.Event()
    watching = watch(rules_poll_s=0.01)
    looks, digest = list[bytes | None](), watch_module._digest

    def look() -> bytes | None:
        if looks:  # an editor has emptied the file at the first look, and writes it before the second
            write(file, RULE.format(0.6))
        looks.append(digest())
        return looks[-1]

    write(file, "")
    monkeypatch.setattr(watch_module, "_digest", look)
    with watching.giving(found.append):
        running = asyncio.create_task(watching.run(stop))
        await until(lambda: found)
        stop.set()
        await running
    assert targets(found) == [[0.6]]


@pytest.mark.parametrize("named", [True, False])
async def test_a_removed_file_leaves_the_rules_as_they_are(
    named: bool, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not named:
        monkeypatch.delenv("RAGTIDE_CONFIG")
        monkeypatch.chdir(file.parent)
    found, counts = list[Settings](), list[str]()
    watching = watch(counts)
    with watching.giving(found.append, (*RULES, *LABELING)):
        before = load_settings()
        remove(file)
        assert await watching.read() == "refused"
        assert targets([with_live_settings_of_now(before)]) == [[0.5]]
        write(file, RULE.format(0.7))
        assert await watching.read() == "taken"
    assert targets(found) == [[0.7]]
    assert counts == ["refused", "taken"]


EVALUATOR = '[[evaluators]]\nname = "{}"\nlabeler = "local"\n'
CRITERION = '[[judge.criteria]]\nname = "asks_back"\nquestion = "Does it ask back?"\nscale = "yes_no"\n'


async def test_each_taker_gets_the_changes_of_its_settings_only(file: Path) -> None:
    rules, evaluators = list[Settings](), list[Settings]()
    watching = watch()
    with watching.giving(rules.append), watching.giving(evaluators.append, (*LABELING, *CRITERIA)):
        write(file, RULE.format(0.5) + EVALUATOR.format("one"))
        assert await watching.read() == "taken"
        write(file, RULE.format(0.6) + EVALUATOR.format("one"))
        assert await watching.read() == "taken"
        write(file, RULE.format(0.6) + EVALUATOR.format("one") + CRITERION)
        assert await watching.read() == "taken"
        write(file, 'labeler = "nli"\n' + RULE.format(0.6))
        assert await watching.read() == "taken"
    assert targets(rules) == [[0.6]]
    assert [[one.name for one in found.evaluators] for found in evaluators] == [["one"], ["one"], []]
    assert [len(found.judge.criteria) for found in evaluators] == [0, 1, 0]
    assert [found.labeler for found in evaluators] == ["local", "local", "nli"]


async def test_wrong_evaluators_leave_all_as_it_is(file: Path) -> None:
    found, counts = list[Settings](), list[str]()
    watching = watch(counts)
    with watching.giving(found.append, LABELING):
        for wrong in (EVALUATOR.format("A B"), EVALUATOR.format("a") * 2, 'labeler = "nli"\n' + EVALUATOR.format("a")):
            write(file, wrong)
            assert await watching.read() == "refused"
    assert found == []
    assert set(counts) == {"refused"}


async def test_a_process_that_was_started_for_one_labeler_takes_no_evaluators(file: Path) -> None:
    found = list[Settings]()
    watching = watch(labeler="local")
    with watching.giving(found.append, LABELING):
        write(file, RULE.format(0.5) + EVALUATOR.format("one"))
        assert await watching.read() == "unchanged"
    assert found == []
