from pathlib import Path

import pytest

from ragtide import ConfigurationError
from ragtide_runtime.settings import Settings, load_settings

RULE = """
[[alerts]]
name = "floor"
kind = "threshold"
metric = "trace.adherence"
target = 0.7
"""


def test_environment_wins_over_the_file_and_the_file_over_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ragtide.toml").write_text("prefix = 'file'\npartitions = 3\n")
    monkeypatch.setenv("RAGTIDE_PREFIX", "environment")
    settings = load_settings()
    assert (settings.prefix, settings.partitions, settings.labeler) == ("environment", 3, "local")
    assert load_settings(prefix="argument").prefix == "argument"


def test_another_file_is_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other.toml").write_text(RULE)
    monkeypatch.setenv("RAGTIDE_CONFIG", str(tmp_path / "other.toml"))
    assert [rule.name for rule in load_settings().alerts] == ["floor"]


def test_rules_may_come_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "RAGTIDE_ALERTS", '[{"name": "d", "kind": "drift", "metric": "trace.adherence", "baseline": 0.8}]'
    )
    assert load_settings().alerts[0].baseline == 0.8


def test_without_rules_the_usual_ones_watch_for_drift() -> None:
    assert {(rule.kind, rule.movements) for rule in load_settings().alerts} == {("drift", ("fall",))}


def test_the_data_directory_follows_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAGTIDE_DATA_DIR")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert load_settings().data_dir == tmp_path / "ragtide"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prefx = 'typo'\n", "prefx"),
        ("partitions = 0\n", "partitions"),
        ("prefix = 'with space'\n", "prefix"),
        ("this is not toml", "cannot be read"),
        (RULE + RULE, "two rules named 'floor'"),
        (RULE.replace("target = 0.7", ""), "needs target"),
        (RULE.replace("target", "goal"), "goal"),
    ],
)
def test_a_wrong_file_is_a_clear_error(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "ragtide.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=words):
        load_settings()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("RAGTIDE_WORKER_BATCH", "many", "worker_batch"),
        ("RAGTIDE_ALERTS", "{not json", "cannot be read"),
        ("RAGTIDE_LOG_LEVEL", "loud", "log_level"),
        ("RAGTIDE_CONFIG", "/nowhere/ragtide.toml", "not a file"),
    ],
)
def test_a_wrong_variable_is_a_clear_error(monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str) -> None:
    monkeypatch.setenv(name, value)
    monkeypatch.setenv("RAGTIDE_REDIS_URL", "redis://user:s3cret@host/0")
    with pytest.raises(ConfigurationError, match=words) as caught:
        load_settings()
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"RAGTIDE_JUDGE_MODEL": "m", "RAGTIDE_JUDGE_SPEND_PER_DAY_USD": "1", "RAGTIDE_JUDGE_API_KEY": "sk-secret"},
        {"RAGTIDE_JUDGE": '{"api_key": ["sk-secret"]}'},
        {"RAGTIDE_JUDGE": '"sk-secret"'},
        {"RAGTIDE_RECORDER_STORAGE_OPTIONS": '["sk-secret"]'},
        {"RAGTIDE_RECORDER": '{"storage_options": "sk-secret"}'},
        {"RAGTIDE_JUDGE": '{"api_key": "sk-secret"'},
        {"RAGTIDE_JUDGE_API_KEY": "sk-secret", "RAGTIDE_JUDGE_TEMPERATURE": "9"},
        {"RAGTIDE_JUDGE_API_KEY": "sk-secret", "RAGTIDE_CASCADE_RATE": "9"},
    ],
)
def test_no_mistake_in_the_settings_shows_the_judges_key(
    settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError) as caught:
        load_settings()
    assert "sk-secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_the_judges_settings_come_from_the_environment_or_a_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "ragtide.toml").write_text(
        '[judge]\nmodel = "a"\nbase_url = "http://x"\nfamilies = ["ragchecker"]\n[cascade]\nrate = 0.2\n'
    )
    monkeypatch.setenv("RAGTIDE_JUDGE_MODEL", "b")
    monkeypatch.setenv("RAGTIDE_JUDGE_API_KEY", "sk-secret")
    monkeypatch.setenv("RAGTIDE_CASCADE_SEGMENT_RATES", '{"lang=ru": 0.5}')
    settings = load_settings()
    assert (settings.judge.model, settings.judge.base_url, settings.judge.families) == (
        "b",
        "http://x",
        ("ragchecker",),
    )
    assert (settings.cascade.rate, settings.cascade.segment_rates) == (0.2, {"lang=ru": 0.5})
    assert "sk-secret" not in repr(settings) + str(settings) + settings.model_dump_json()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (name, type(field.default))
        for name, field in Settings.model_fields.items()
        if isinstance(field.default, bool | int | float)
    ],
)
def test_every_plain_setting_can_be_set_in_the_environment(
    name: str, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that begins with that of a table would be taken for a field of the table."""
    text = {bool: "false", int: "3", float: "0.5"}[kind]
    monkeypatch.setenv(f"RAGTIDE_{name.upper()}", text)
    assert getattr(load_settings(), name) == {"false": False, "3": 3, "0.5": 0.5}[text]


def test_an_entry_is_not_taken_over_before_a_judge_has_had_its_time() -> None:
    assert Settings().worker_min_idle_s > Settings().judge.timeout_s
