from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.cases import for_each

from ragtide import AlertSubscriber, ConfigurationError, InteractionProducer
from ragtide_runtime.settings.application import ApplicationSettings
from ragtide_runtime.settings.environment import FIXED
from ragtide_runtime.settings.model import Settings, load_settings
from ragtide_schemas.printable import printable

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
    assert load_settings().alerts[-1].name == "floor"


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "secrets"
    folder.mkdir()
    monkeypatch.setenv("RAGTIDE_SECRETS_DIR", str(folder))
    return folder


def test_a_file_of_the_folder_of_secrets_is_read_as_the_variable_of_its_name(secrets: Path) -> None:
    (secrets / "ragtide_redis_password").write_text("p@ss\n")
    (secrets / "RAGTIDE_JUDGE_API_KEY").write_text("sk-secret")
    (secrets / "ragtide_serve_tokens").write_text("one,two\n")
    (secrets / "ragtide_notify_destinations").write_text('[{"name": "a", "kind": "slack", "url": "https://x.example"}]')
    (secrets / "ragtide_user_id_salt").write_text("")  # sets nothing
    (secrets / "tls.crt").write_text("of another program")
    (secrets / "..data").mkdir()  # of Kubernetes
    settings = load_settings(redis_url="redis://host/0")
    assert settings.redis_address == "redis://:p%40ss@host/0"
    assert settings.judge.api_key is not None
    assert settings.judge.api_key.get_secret_value() == "sk-secret"
    assert [token.token.get_secret_value() for token in settings.serve.tokens if token.token] == ["one", "two"]
    assert settings.notify.destinations[0].name == "a"
    assert settings.user_id_salt is None


def test_secrets_are_weaker_than_the_environment_and_stronger_than_the_file(
    secrets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ragtide.toml").write_text('prefix = "file"\n[judge]\nmodel = "m"\napi_key = "file"\n')
    (secrets / "ragtide_judge_api_key").write_text("secret")
    (secrets / "ragtide_prefix").write_text("secret")
    monkeypatch.setenv("RAGTIDE_PREFIX", "environment")
    settings = load_settings()
    assert (settings.prefix, settings.judge.model) == ("environment", "m")
    assert settings.judge.api_key is not None
    assert settings.judge.api_key.get_secret_value() == "secret"


@for_each(
    "name, text, words",
    [
        (
            "ragtide_redis_pasword",
            b"s3cret",
            "ragtide_redis_pasword is no setting: did you mean RAGTIDE_REDIS_PASSWORD",
        ),
        ("ragtide_worker_batch", b"s3cret", "ragtide_worker_batch: worker_batch"),
        ("ragtide_serve_tokens", b'["s3cret"', "RAGTIDE_SERVE_TOKENS cannot be read as JSON"),
        ("ragtide_redis_password", b"s3cret\xff", "ragtide_redis_password cannot be read: save it as UTF-8"),
    ],
)
def test_a_wrong_secret_is_a_clear_error(secrets: Path, name: str, text: bytes, words: str) -> None:
    (secrets / name).write_bytes(text)
    with pytest.raises(ConfigurationError, match=words):
        load_settings()
    (secrets / name).unlink()


def test_a_missing_folder_of_secrets_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTIDE_SECRETS_DIR", "/nowhere")
    with pytest.raises(ConfigurationError, match=r"RAGTIDE_SECRETS_DIR names /nowhere, .*No such file.* correct it"):
        load_settings()


def test_rules_may_come_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "RAGTIDE_ALERTS", '[{"name": "d", "kind": "drift", "metric": "trace.adherence", "baseline": 0.8}]'
    )
    assert load_settings().alerts[-1].baseline == 0.8


def test_without_rules_the_usual_ones_watch_for_drift() -> None:
    rules = load_settings().alerts
    of_counts = {"agent-rounds", "agent-wasted"}
    assert {(rule.kind, rule.baseline) for rule in rules if rule.name not in of_counts} == {("drift", "earlier")}
    assert {rule.name for rule in rules if rule.movements == ("rise",)} == {
        "empty-retrieval-rise", "empty-response-rise", *of_counts, "agent-gave-up", "tools-failed", "tools-empty",
    }  # fmt: skip
    assert {rule.severity for rule in rules if rule.name.startswith(("agent", "tools"))} == {"info"}
    # A number of local that does not move when answers stop being supported is watched by no default rule.
    assert {rule.name for rule in rules if not rule.watches_labeler("local")} == {
        "relevance-drift", "adherence-drift", "agent-wasted", "tools-used",
    }  # fmt: skip
    assert all(rule.watches_labeler("judge") for rule in rules)


DEFAULTS = [
    "relevance-drift",
    "utilization-drift",
    "adherence-drift",
    "match-drift",
    "empty-retrieval-rise",
    "empty-response-rise",
    "agent-rounds",
    "agent-wasted",
    "agent-gave-up",
    "thumbs-drift",
    "tools-failed",
    "tools-empty",
    "tools-used",
]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", DEFAULTS),
        (RULE, [*DEFAULTS, "floor"]),
        (RULE.replace("floor", "tools-used"), [*DEFAULTS[:-1], "tools-used"]),
        ("alert_defaults = false\n" + RULE, ["floor"]),
        ("alert_defaults = false\n", []),
        ("alerts = []\n", DEFAULTS),
    ],
)
def test_rules_are_added_to_the_default_rules_and_replace_those_of_their_name(
    text: str, names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(text)
    monkeypatch.setenv("RAGTIDE_CONFIG", str(file))
    found = load_settings().alerts
    assert [rule.name for rule in found] == names
    assert [rule.name for rule in found if rule.kind == "threshold"] == names[-1:] * text.count("[[alerts]]")


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
        ("[prometheus]\nwindows = ['7d']\n", "prometheus.windows has '7d', which is neither 'all' nor in windows"),
        (RULE + RULE, "two rules named 'floor'"),
        (RULE.replace("target = 0.7", ""), "needs target"),
        (RULE.replace("target", "goal"), "goal"),
    ],
)
def test_a_wrong_file_is_a_clear_error(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "ragtide.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=words):
        load_settings()


@for_each(
    "name, value, words",
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


@for_each(
    "settings",
    [
        {"RAGTIDE_JUDGE_MODEL": "m", "RAGTIDE_JUDGE_SPEND_PER_DAY_USD": "-1", "RAGTIDE_JUDGE_API_KEY": "sk-secret"},
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


@for_each(
    "name, kind",
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


@for_each(
    "name, said",
    [
        ("RAGTIDE_LABELLER", "RAGTIDE_LABELLER is no setting: did you mean RAGTIDE_LABELER?"),
        ("ragtide_labeller", "ragtide_labeller is no setting: did you mean RAGTIDE_LABELER?"),
        ("RAGTIDE_JUDGE_MODLE", "did you mean RAGTIDE_JUDGE_MODEL?"),
        ("RAGTIDE_JUDGE__MODEL", "write one underscore between table and name, as in RAGTIDE_JUDGE_MODEL"),
        ("RAGTIDE_REDIS", "RAGTIDE_REDIS is no setting: did you mean RAGTIDE_REDIS_URL?"),
        ("RAGTIDE_PASSWORD", "did you mean RAGTIDE_REDIS_PASSWORD?"),
        ("RAGTIDE_TOKENS", "did you mean RAGTIDE_SERVE_TOKENS?"),
        ("RAGTIDE_URL", "did you mean RAGTIDE_REDIS_URL?"),
    ],
)
def test_a_misspelt_variable_is_an_error_with_what_was_meant(
    name: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "judge")
    with pytest.raises(ConfigurationError) as caught:
        load_settings()
    assert said in str(caught.value)


def test_a_variable_of_the_user_is_named_once_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own = ("RAGTIDE_CHART", "RAGTIDE_ENV", "RAGTIDE_IMAGE", "RAGTIDE_ODD\x1b[2J", "RAGTIDE_ROOT")
    for name in own:
        monkeypatch.setenv(name, "secret")
    for _ in range(2):
        load_settings()
    said = [record.getMessage() for record in caplog.records]
    assert [line.partition(" ")[0] for line in said] == [printable(name) for name in own]
    assert "secret" not in caplog.text
    assert "\x1b" not in caplog.text


def test_in_an_application_an_unknown_variable_is_a_warning_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("RAGTIDE_PREFFIX", "shop")
    for make in (InteractionProducer, AlertSubscriber, InteractionProducer):
        make("redis://127.0.0.1:1/0")
    (record,) = caplog.records
    assert record.name == "ragtide.settings"
    assert "RAGTIDE_PREFFIX is no setting: did you mean RAGTIDE_PREFIX?" in record.getMessage()


@for_each(
    "text",
    [
        "worker_batch = 'many'\n",
        "[notify]\nmost_per_day = 'many'\n",
        "[judge]\nmodle = 'm'\n",
        RULE.replace("target = 0.7", ""),
    ],
)
def test_a_wrong_setting_of_a_role_stops_roles_and_no_application(tmp_path: Path, text: str) -> None:
    (tmp_path / "ragtide.toml").write_text("prefix = 'shop'\n" + text)
    assert ApplicationSettings.of_application().prefix == "shop"
    with pytest.raises(ConfigurationError):
        load_settings()


@for_each(
    "text, said",
    [
        ("[notifi]\n", "line 1: notifi is no setting: did you mean notify?"),
        ("worker_bach = 3\n", "line 1: worker_bach is no setting: did you mean worker_batch?"),
        ("[producer]\npolcy = 'block'\n", "line 2: producer.polcy is no setting: did you mean policy?"),
        ("partitions = 0\n", "line 1: partitions"),
    ],
)
def test_a_name_that_no_process_knows_and_a_wrong_setting_of_its_own_stop_an_application(
    tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "ragtide.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=said):
        InteractionProducer("redis://127.0.0.1:1/0")


def test_an_application_reads_what_all_settings_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ragtide.toml").write_text("partitions = 4\nsplits = { shop = 2 }\n[producer]\nqueue = 7\n")
    monkeypatch.setenv("RAGTIDE_PRODUCER_POLICY", "drop_new")
    monkeypatch.setenv("RAGTIDE_JUDGE_MODEL", "m")
    own, all_ = ApplicationSettings.of_application(), load_settings()
    assert (own.producer.queue, own.producer.policy) == (7, "drop_new")
    assert {name: getattr(all_, name) for name in ApplicationSettings.model_fields} == dict(own)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RAGTIDE_SERVICE_HOST", "10.0.0.1"),
        ("RAGTIDE_REDIS_SERVICE_PORT", "6379"),
        ("RAGTIDE_REDIS_SERVICE_PORT_HTTP", "80"),
        ("RAGTIDE_REDIS_PORT", "tcp://10.0.0.1:6379"),
        ("RAGTIDE_REDIS_PORT_6379_TCP", "tcp://10.0.0.1:6379"),
        ("RAGTIDE_REDIS_PORT_6379_TCP_ADDR", "10.0.0.1"),
        ("RAGTIDE_SERVE_PORT", "tcp://10.0.0.1:8080"),
        ("RAGTIDE_SERVE_SERVICE_HOST", "10.0.0.1"),
        ("RAGTIDE_WEB_PORT_80_TCP", "tcp://10.0.0.1:80"),
        ("RAGTIDE_HTTP_PORT", "tcp://10.0.0.1:80"),
        ("RAGTIDE_METRICS_PORT", "tcp://10.0.0.1:80"),
    ],
)
def test_what_kubernetes_sets_for_a_service_changes_no_setting(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = load_settings()
    monkeypatch.setenv(name, value)
    assert load_settings() == without


@for_each("name, value", [("RAGTIDE_CONFIG", "empty.toml"), ("RAGTIDE_SPLITS_shop", "1")])
def test_a_variable_that_is_no_setting_by_itself_is_no_mistake(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty.toml").write_text("")
    monkeypatch.setenv(name, value)
    # Only the names are looked at here.
    monkeypatch.setattr(Settings, "__init__", lambda self, **_: None)
    monkeypatch.setattr(Settings, "with_loaded", lambda self, _: self)
    load_settings()


@for_each(
    "name, value, read",
    [
        ("RAGTIDE_JUDGE_FAMILIES", "trace", lambda s: s.judge.families == ("trace",)),
        ("RAGTIDE_JUDGE_FAMILIES", "trace, ragchecker", lambda s: s.judge.families == ("trace", "ragchecker")),
        ("RAGTIDE_JUDGE_FAMILIES", '["trace"]', lambda s: s.judge.families == ("trace",)),
        ("RAGTIDE_METRICS", "my:metric", lambda s: s.metrics == ("my:metric",)),
        ("RAGTIDE_METRICS", "my:metric,my:other", lambda s: s.metrics == ("my:metric", "my:other")),
        ("RAGTIDE_RECORDER_REDACT", "email,card", lambda s: s.recorder.redact == ("email", "card")),
        ("RAGTIDE_WINDOWS", "1h,24h/1h", lambda s: s.windows == ("1h", "24h/1h")),
        ("RAGTIDE_CASCADE_BELOW", "trace.adherence=0.3", lambda s: s.cascade.below == {"trace.adherence": 0.3}),
        ("RAGTIDE_CASCADE_SEGMENT_RATES", "lang=ru=0.5", lambda s: s.cascade.segment_rates == {"lang=ru": 0.5}),
        ("RAGTIDE_CASCADE_SEGMENT_RATES", '{"lang=ru": 0.5}', lambda s: s.cascade.segment_rates == {"lang=ru": 0.5}),
        ("RAGTIDE_METRICS", "", lambda s: s.metrics == ()),
        ("RAGTIDE_SERVE_TOKENS", "", lambda s: s.serve.tokens == ()),
        ("RAGTIDE_SERVE_TOKENS", "one,two", lambda s: len(s.serve.tokens) == 2),
        ("RAGTIDE_SERVE_TOKENS", '[{"name": "a", "token": "b"}]', lambda s: s.serve.tokens[0].name == "a"),
    ],
)
def test_lists_and_pairs_in_the_environment_may_be_written_with_commas(
    name: str, value: str, read: Callable[[Settings], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert read(load_settings())


@for_each(
    "name, value, said",
    [
        ("RAGTIDE_ALERTS", "{not json", "RAGTIDE_ALERTS cannot be read as JSON"),
        ("RAGTIDE_JUDGE", "gpt-5", "RAGTIDE_JUDGE cannot be read as JSON"),
        ("RAGTIDE_JUDGE_FAMILIES", '["trace"', "RAGTIDE_JUDGE_FAMILIES cannot be read as JSON"),
        ("RAGTIDE_JUDGE_FAMILIES", "tracer", "RAGTIDE_JUDGE_FAMILIES: judge.families"),
        ("RAGTIDE_CASCADE_BELOW", "0.3", "RAGTIDE_CASCADE_BELOW holds pairs: write pairs such as name=0.5"),
        ("RAGTIDE_CASCADE_BELOW", "a=low", "RAGTIDE_CASCADE_BELOW: cascade.below"),
        ("RAGTIDE_WORKER_BATCH", "many", "RAGTIDE_WORKER_BATCH: worker_batch"),
        ("RAGTIDE_PREFIX", "with space", "RAGTIDE_PREFIX: prefix may have letters, digits"),
        ("RAGTIDE_WINDOWS", "1 hour", "RAGTIDE_WINDOWS: windows is no window: write 1h"),
        ("RAGTIDE_BUDGET_PERIOD", "week", "RAGTIDE_BUDGET_PERIOD: budget.period is no duration: write one such as 30m"),
        (
            "RAGTIDE_ALERTS",
            '[{"name": "d", "kind": "drift", "metric": "adherence"}]',
            "RAGTIDE_ALERTS, rule 'd': metric is no metric with its family: write trace.adherence (got 'adherence')",
        ),
    ],
)
def test_a_mistake_in_the_environment_names_the_variable_and_shows_the_form(
    name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError) as caught:
        load_settings()
    assert said in str(caught.value)
    assert "^" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[judge\nmodel = 1\n", "ragtide.toml cannot be read: it is not TOML: "),
        ("partitions = 1\nthis is not toml\n", "line 2"),
        ("partitions = 1\nprefx = 'typo'\n", "ragtide.toml, line 2: prefx is no setting: did you mean prefix?"),
        ("[[alert]]\nname = 'x'\n", "ragtide.toml, line 1: alert is no setting: did you mean alerts?"),
        ("[judge]\nmodel = 'm'\nfamlies = ['trace']\n", "line 3: judge.famlies is no setting: did you mean families?"),
        (
            "[[notify.destinations]]\nname = 'm'\nkind = 'email'\nfrom = 'a@example.org'\n",
            "notify.destinations.from is no setting: did you mean sender?",
        ),
        (RULE.replace("target", "traget"), "line 6, rule 'floor': traget is no setting: did you mean target?"),
        (RULE.replace("trace.adherence", "adherence"), "line 5, rule 'floor': metric is no metric with"),
        (RULE.replace("target = 0.7", ""), "rule 'floor': a threshold rule needs target"),
        (RULE + RULE.replace("floor", "second").replace("0.7", "'high'"), "line 12, rule 'second': target"),
        (RULE.replace('name = "floor"', ""), "rule number 1: name is missing: add it"),
        (RULE + "baseline_window = 'long'\n", "rule 'floor': baseline_window is no duration"),
        ("[budget]\nfalse_alarms = 1\nfalse_discovery_rate = 0.1\n",
         "budget: false_discovery_rate is 0.1 and false_alarms is 1"),
        ("[budget]\nfalse_discovery_rate = 10\n", "line 2: budget.false_discovery_rate"),
        ("alert_defaults = false\n" + RULE + "run_length = 500\n[budget]\nfalse_discovery_rate = 0.1\n",
         "budget.false_discovery_rate is 0.1, but every rule has a run_length of its own, so it bounds"),
        ("wholly_unknown = 1\n", "wholly_unknown is no setting: correct its name or remove it"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_file_names_file_line_and_rule(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "ragtide.toml").write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load_settings()
    assert said in str(caught.value)
    assert "metadata" not in str(caught.value)
    assert "^" not in str(caught.value)


CRITERION = """
[[judge.criteria]]
name = "asks_back"
question = "Does it ask back?"
scale = "yes_no"
"""


def test_criteria_are_read_from_the_file_and_built_in_ones_by_their_name(tmp_path: Path) -> None:
    (tmp_path / "ragtide.toml").write_text(f'{CRITERION}rate = 0.2\n[[judge.criteria]]\nname = "answer.refused"\n')
    asks_back, refused = load_settings().judge.criteria
    assert (asks_back.metric, asks_back.rate, refused.metric) == ("criteria.asks_back", 0.2, "answer.refused")
    assert dict(refused.answers) == {"yes": 1.0, "no": 0.0}


@for_each(
    "text, said",
    [
        (CRITERION * 2, "two criteria have the name asks_back"),
        (f'{CRITERION}unit = "session"\n[producer]\nsample = 0.5\n', "set producer.sample_by"),
        (f'partitions = 2\nsplits = {{ shop = 2 }}\n{CRITERION}unit = "session"\n', "splits divides the turns"),
        (f'{CRITERION}unit = "session"\nneeds = ["documents"]\n', "names documents, and a whole session has its turns"),
        ("[judge]\nfamilies = []\n", "families is empty and there are no criteria"),
    ],
)
def test_criteria_that_cannot_be_asked_are_refused_with_a_remedy(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "ragtide.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=said):
        load_settings()


def test_a_judge_may_answer_criteria_alone(tmp_path: Path) -> None:
    (tmp_path / "ragtide.toml").write_text(f"[judge]\nfamilies = []\n{CRITERION}")
    assert load_settings().judge.families == ()


@pytest.mark.parametrize("name", FIXED)
def test_a_setting_that_is_fixed_now_says_so_in_a_file_and_in_the_environment(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, _, leaf = name.rpartition(".")
    monkeypatch.setenv("RAGTIDE_CONFIG", str(tmp_path / "ragtide.toml"))
    (tmp_path / "ragtide.toml").write_text(f"[{table}]\n{leaf} = 1\n" if table else f"{leaf} = 1\n")
    with pytest.raises(ConfigurationError, match=f"{leaf} is no setting any more: it is fixed at"):
        load_settings()
    (tmp_path / "ragtide.toml").write_text("")
    monkeypatch.setenv(f"RAGTIDE_{name.replace('.', '_').upper()}", "1")
    with pytest.raises(ConfigurationError, match=r"is no setting any more: it is fixed at .*; unset it"):
        load_settings()
