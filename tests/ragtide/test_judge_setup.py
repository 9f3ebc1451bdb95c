"""A judge in one step: its endpoint, the test item, what each rate costs and sees, and the written settings."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from tests.support.in_process import run_command

from ragtide.testing import Labels, Says, ScriptedJudge, Status
from ragtide_roles.judge_setup.endpoints import JudgeEndpoint, choose_model, find_endpoint
from ragtide_roles.judge_setup.own_traffic import OwnTraffic
from ragtide_roles.judge_setup.setting_up import ITEM, judge_sights, plan_setup, rules_to_add
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.labelers import AZURE_KEY, JudgeSettings, Price
from ragtide_runtime.settings.model import Settings, load_settings
from ragtide_schemas import RagInteraction

SECRET = "sk-judge-setup-0123456789"


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ScriptedJudge]:
    """Return the judge that the environment names, in a folder without settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGTIDE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with ScriptedJudge(Labels(prompt_tokens=1000, completion_tokens=100)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        yield server


def test_one_command_writes_all_that_a_judge_needs_and_no_secret(
    judge: ScriptedJudge, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run_command(capsys, "judge", "setup", "--yes", "--price", "1/10", "--rate", "0.1")
    assert done.code == 0, done.told
    settings = load_settings()
    assert settings.labelers == ("local", "judge")
    assert (settings.cascade.rate, settings.judge.model, settings.judge.base_url) == (0.1, "scripted", judge.url)
    assert settings.judge.prices["scripted"] == Price(input=1, output=10)
    assert settings.judge.spend_per_day_usd == 5.0
    assert len(judge.requests) == 1
    assert judge.headers[0]["authorization"] == f"Bearer {SECRET}"
    assert SECRET not in (tmp_path / "ragtide.toml").read_text() + done.stdout + done.stderr
    assert "$0.00200" in done.stdout
    assert not rules_to_add(settings.alerts)


def test_a_preview_is_json_and_writes_nothing(
    judge: ScriptedJudge, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run_command(capsys, "judge", "setup", "--json")
    setup = json.loads(done.stdout)
    assert (setup["written"], setup["rate"], setup["key_variable"]) == (False, 0.05, "OPENAI_API_KEY")
    # An unknown price is no price of 0.
    assert (setup["usd_per_answer"], setup["price_source"], setup["spend_per_day_usd"]) == (None, None, None)
    assert [option["usd_a_day"] for option in setup["rates"]] == [None, None, None]
    assert not (tmp_path / "ragtide.toml").exists()
    assert SECRET not in done.stdout


def test_the_file_that_ragtide_config_names_is_made(
    judge: ScriptedJudge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAGTIDE_CONFIG", str(tmp_path / "of-the-shop.toml"))
    assert run_command(capsys, "judge", "setup", "--yes").code == 0
    assert load_settings().labeler == "cascade"
    assert not (tmp_path / "ragtide.toml").exists()


def test_setting_up_again_changes_the_rate_and_nothing_else(
    judge: ScriptedJudge, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ragtide.toml"
    file.write_text("# ours\nprefix = 'shop'\n")
    run_command(capsys, "judge", "setup", "--yes")
    first = file.read_text()
    run_command(capsys, "judge", "setup", "--yes", "--rate", "0.2")
    assert file.read_text() == first.replace("rate = 0.05", "rate = 0.2")
    assert first.startswith("# ours\nprefix = 'shop'\n")


@pytest.mark.parametrize(
    "reply", [Status(401, "wrong key " + SECRET), Status(404, "no such model"), Says("I like lighthouses.")]
)
def test_an_endpoint_that_does_not_score_the_item_changes_nothing(
    reply: Status | Says, judge: ScriptedJudge, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judge.always = reply
    done = run_command(capsys, "judge", "setup", "--yes")
    assert done.code == 1
    assert "scripted" in done.told
    assert SECRET not in done.stderr
    assert not (tmp_path / "ragtide.toml").exists()


def test_a_setting_of_the_environment_that_is_stronger_is_named(
    judge: ScriptedJudge, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAGTIDE_LABELER", "local")
    assert "RAGTIDE_LABELER" in run_command(capsys, "judge", "setup", "--yes").told
    # One that already says the same is no obstacle, and is not repeated in the file.
    monkeypatch.setenv("RAGTIDE_LABELER", "cascade")
    assert run_command(capsys, "judge", "setup", "--yes").code == 0
    assert load_settings().labelers == ("local", "judge")


async def test_no_endpoint_is_one_sentence_with_what_to_set() -> None:
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        await find_endpoint(JudgeSettings(), {})


async def test_a_server_of_this_machine_is_free_and_gets_no_key() -> None:
    with ScriptedJudge() as server:
        closed = "http://127.0.0.1:9/v1"
        endpoint = await find_endpoint(JudgeSettings(), {"vLLM": closed, "Ollama": server.url})
        assert (endpoint.source, endpoint.models, endpoint.is_free) == ("Ollama", ("scripted",), True)
        setup = await plan_setup(Settings(), endpoint, OwnTraffic({"shop": 1000.0}))
        assert "sk-" not in server.headers[0]["authorization"]
    assert (setup.usd_per_answer, setup.price_source, setup.spend_per_day_usd) == (0.0, "own machine", None)
    assert [(option.usd_a_day, option.usd_per_1000) for option in setup.rates] == [(0.0, 0.0)] * 3
    assert setup.settings["judge.base_url"] == server_url(endpoint)


def server_url(endpoint: JudgeEndpoint) -> str:
    """Return the address of an endpoint that has one."""
    assert endpoint.url is not None
    return endpoint.url


async def test_a_gateway_of_this_machine_has_no_known_price() -> None:
    with ScriptedJudge() as server:
        endpoint = await find_endpoint(JudgeSettings(), {"LiteLLM": server.url})
        setup = await plan_setup(Settings(), endpoint, OwnTraffic({"shop": 1000.0}))
    assert (endpoint.is_free, setup.usd_per_answer) == (False, None)


async def test_a_public_endpoint_without_a_price_is_not_asked() -> None:
    endpoint = JudgeEndpoint("OPENAI_BASE_URL", "https://judge.example.com/v1", models=("mine",))
    with pytest.raises(ConfigurationError, match="--price"):
        await plan_setup(Settings(), endpoint, OwnTraffic())


async def test_the_spend_limit_is_twice_the_price_of_a_day() -> None:
    with ScriptedJudge(Labels(prompt_tokens=1_000_000, completion_tokens=0)) as server:
        endpoint = JudgeEndpoint("OPENAI_BASE_URL", server.url, models=("scripted",))
        price = Price(input=0.02, output=1)

        async def limit(rate: float | None = None, spend_per_day_usd: float | None = None) -> float | None:
            traffic = OwnTraffic({"shop": 1000.0, "docs": 500.0})
            setup = await plan_setup(
                Settings(), endpoint, traffic, price=price, rate=rate, spend_per_day_usd=spend_per_day_usd
            )
            return setup.spend_per_day_usd

        assert await limit() == 3.0
        assert await limit(rate=0.1) == 6.0
        assert await limit(spend_per_day_usd=0.5) == 0.5


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (Settings(labeler="judge"), "every answer"),
        (Settings.model_validate({"evaluators": [{"name": "a", "labeler": "local"}]}), "evaluators"),
        (Settings.model_validate({"labeler": "cascade", "cascade": {"reference": "model"}}), "reference"),
    ],
)
async def test_settings_that_score_otherwise_stay(settings: Settings, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        await plan_setup(settings, JudgeEndpoint("Ollama", "http://127.0.0.1:9/v1", models=("m",)), OwnTraffic())


async def test_the_labeler_of_now_becomes_the_proxy() -> None:
    with ScriptedJudge() as server:
        endpoint = JudgeEndpoint("Ollama", server.url, models=("scripted",))
        setup = await plan_setup(Settings(labeler="model"), endpoint, OwnTraffic())
    assert (setup.settings["labeler"], setup.settings["cascade.proxy"]) == ("cascade", "model")


async def test_an_address_with_a_password_stays_in_the_environment() -> None:
    with ScriptedJudge() as server:
        secret = server.url.replace("http://", "http://me:s3cret@")
        setup = await plan_setup(
            Settings(), JudgeEndpoint("OPENAI_BASE_URL", secret, models=("scripted",)), OwnTraffic()
        )
    assert "s3cret" not in json.dumps(setup.as_dict())


def test_the_model_is_one_that_answers_questions() -> None:
    local = JudgeEndpoint("Ollama", "http://127.0.0.1:1/v1", models=("nomic-embed-text", "qwen3:8b", "llama3"))
    assert choose_model(local, None) == "qwen3:8b"
    assert choose_model(local, "llama3") == "llama3"
    hosted = JudgeEndpoint("OPENAI_API_KEY", None, "OPENAI_API_KEY", ("gpt-9-huge", "gpt-4o-mini"))
    assert choose_model(hosted, None) == "gpt-4o-mini"
    # Of a hosted list no unknown model is chosen, which may cost any price.
    with pytest.raises(ConfigurationError, match="--model"):
        choose_model(JudgeEndpoint("OPENAI_API_KEY", None, "OPENAI_API_KEY", ("gpt-9-huge",)), None)


async def test_azure_needs_address_key_and_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://shop.openai.azure.com/")
    with pytest.raises(ConfigurationError, match=AZURE_KEY):
        await find_endpoint(JudgeSettings(), {})
    monkeypatch.setenv(AZURE_KEY, SECRET)
    endpoint = await find_endpoint(JudgeSettings(), {})
    assert endpoint.url == "https://shop.openai.azure.com/openai/v1"
    with pytest.raises(ConfigurationError, match="--model"):
        choose_model(endpoint, None)
    monkeypatch.setenv("AZURE_OPENAI_DEPLOYMENT", "small")
    assert choose_model(endpoint, None) == "small"
    assert JudgeSettings(base_url=endpoint.url).key == SECRET
    assert JudgeSettings(base_url="http://127.0.0.1:1/v1").key is None


def test_a_higher_rate_costs_more_and_sees_sooner() -> None:
    rates = judge_sights({"shop": 900.0, "docs": 100.0}, 0.01)
    assert [option.usd_a_day for option in rates] == pytest.approx([0.1, 0.5, 1.0])
    for first, second in pairwise(rates):
        for slow, fast in zip(first.falls, second.falls, strict=True):
            assert slow.hours is not None
            assert fast.hours is not None
            assert slow.hours > fast.hours
    small, large = rates[1].falls
    assert small.answers is not None
    assert large.answers is not None
    assert small.answers > large.answers
    assert small.hours == pytest.approx(24 * small.answers / 900)
    # A judge that agrees less needs longer.
    worse = judge_sights({}, None, kappa=0.3)[1].falls[0]
    assert worse.answers is not None
    assert worse.answers > small.answers
    assert worse.hours is None
    # Without traffic there is no price a day, and still one for each answer.
    unused = judge_sights({}, 0.01)[0]
    assert unused.usd_a_day is None
    assert unused.usd_per_1000 == pytest.approx(0.1)


async def test_missing_drift_rules_on_the_judge_are_added() -> None:
    with ScriptedJudge() as server:
        endpoint = JudgeEndpoint("Ollama", server.url, models=("scripted",))
        usual = await plan_setup(Settings(), endpoint, OwnTraffic())
        bare = await plan_setup(Settings(alert_defaults=False), endpoint, OwnTraffic())
    assert usual.added_rules == ()
    added = {rule["metric"]: (rule["kind"], rule["baseline"], rule["labeler"]) for rule in bare.added_rules}
    assert added == dict.fromkeys(("trace.adherence", "trace.context_relevance"), ("drift", "earlier", "judge"))
    assert len(usual.rules) == len(bare.rules) == 2


async def test_the_price_is_that_of_own_texts_where_some_are_kept() -> None:
    long = ITEM.model_copy(update={"documents": ITEM.documents * 40})
    with ScriptedJudge(Labels(prompt_tokens=1000, completion_tokens=100)) as server:
        endpoint = JudgeEndpoint("OPENAI_BASE_URL", server.url, models=("scripted",))

        async def usd(*items: RagInteraction) -> float:
            traffic = OwnTraffic({"shop": 1000.0}, items)
            setup = await plan_setup(Settings(), endpoint, traffic, price=Price(input=1, output=10))
            assert setup.priced_items == len(items)
            assert setup.usd_per_answer is not None
            return setup.usd_per_answer

        assert await usd() == pytest.approx(0.002)
        assert await usd(ITEM) == pytest.approx(0.002)
        assert await usd(long) > 1.2 * 0.002
        assert await usd(long, ITEM) == pytest.approx((await usd(long) + 0.002) / 2)
    assert len(server.requests) == 5
