"""What the Hub says about a model is known, and what cannot work is refused, before any weights are downloaded."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.consumers.models.hub_server import Hub, hub_of
from tests.consumers.models.small_models import write

from ragtide_consumers.labelers.models.files import ModelConfig
from ragtide_consumers.labelers.models.hub import HubModel, cached_model, download
from ragtide_consumers.labelers.models.hub_listing import HubListing, hub_listing
from ragtide_consumers.labelers.models.loading import check_support
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.labelers import ModelsSettings

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OWNER = "owner/small-model"
SETTING = "models.support"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with hub_of({f"{OWNER}@{COMMIT}": write(tmp_path / "remote")}) as found:
        yield found


def settings(hub: Hub, **more: Any) -> ModelsSettings:
    return ModelsSettings.model_validate({"hub_url": hub.url, **more})


async def listed(hub: Hub, place: str = OWNER, **more: Any) -> HubListing:
    return (await hub_listing(place, settings(hub, **more), SETTING))[0]


def moved(hub: Hub, *names: str) -> None:
    """Put copies of the ONNX file under other names, in place of `model.onnx`."""
    folder = hub.models[f"{OWNER}@{COMMIT}"]
    content = (folder / "model.onnx").read_bytes()
    (folder / "model.onnx").unlink()
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)


@pytest.mark.parametrize(
    ("card", "license_text"),
    [
        ({"cardData": {"license": "apache-2.0"}}, "apache-2.0"),
        ({"cardData": {"license": ["mit", "cc-by-4.0"]}}, "mit, cc-by-4.0"),
        ({"cardData": {"license": "other", "license_name": "my\nterms"}}, "my terms"),
        ({"cardData": None, "tags": ["onnx", "license:mit"]}, "mit"),
        ({}, None),
    ],
)
async def test_license_commit_and_size_are_known_and_no_weights_were_fetched(
    hub: Hub, card: Any, license_text: str | None
) -> None:
    hub.cards[OWNER] = card
    found = await listed(hub)
    folder = hub.models[f"{OWNER}@{COMMIT}"]
    model = found.model("", SETTING)
    needed = ("model.onnx", "tokenizer.json", "config.json")
    assert (found.commit, found.license, model) == (COMMIT, license_text, HubModel(OWNER, COMMIT, "model.onnx"))
    assert found.bytes_of(model) == sum((folder / name).stat().st_size for name in needed)
    assert not [path for path in hub.asked if path.endswith(".onnx")]


async def test_a_revision_may_be_named_and_a_token_is_sent(hub: Hub) -> None:
    assert (await listed(hub, f"{OWNER}@main", hub_token="secret")).commit == COMMIT
    assert {token for _, token in hub.tokens} == {"Bearer secret"}


async def test_the_usual_file_is_chosen_and_another_one_if_the_setting_names_it(hub: Hub) -> None:
    moved(hub, "onnx/model.onnx", "onnx/model_qint8.onnx")
    found = await listed(hub)
    assert found.model("", SETTING).file == "onnx/model.onnx"
    assert found.model("onnx/model_qint8.onnx", SETTING).file == "onnx/model_qint8.onnx"
    with pytest.raises(ConfigurationError, match=r"has no a\.onnx on the Hub: set models\.support_file to one of"):
        found.model("a.onnx", SETTING)


async def test_a_single_file_of_any_name_is_chosen_and_several_are_a_question(hub: Hub) -> None:
    moved(hub, "nli.onnx")
    assert (await listed(hub)).model("", SETTING).file == "nli.onnx"
    moved_again = hub.models[f"{OWNER}@{COMMIT}"]
    (moved_again / "other.onnx").write_bytes(b"x")
    with pytest.raises(ConfigurationError, match=r"has several ONNX files on the Hub: set models\.support_file"):
        (await listed(hub)).model("", SETTING)


async def test_a_repository_without_an_onnx_file_or_a_tokenizer_is_one_sentence(hub: Hub) -> None:
    folder = hub.models[f"{OWNER}@{COMMIT}"]
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ConfigurationError, match=r"has no tokenizer\.json on the Hub"):
        (await listed(hub)).model("", SETTING)
    (folder / "model.onnx").rename(folder / "model.safetensors")
    with pytest.raises(ConfigurationError, match=r"no ONNX file on the Hub, only model\.safetensors: export it"):
        (await listed(hub)).model("", SETTING)


async def refused(message: str, hub: Hub, place: str = OWNER, **more: Any) -> None:
    with pytest.raises(ConfigurationError, match=message) as raised:
        await listed(hub, place, **more)
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value)


async def test_an_unknown_model_no_network_and_another_server_are_one_sentence_each(hub: Hub) -> None:
    await refused(r"is not known to .*, or needs a token \(status 401\): correct owner", hub, "owner/other")
    await refused("cannot be looked up .*: try again when", hub, hub_url="http://127.0.0.1:9", hub_token="secret")
    hub.statuses = [500]
    await refused("cannot be looked up", hub)
    hub.cards[OWNER] = {"sha": "main"}
    await refused("is not that of a Hub: correct models.hub_url", hub)
    hub.cards.clear()
    (hub.models[f"{OWNER}@{COMMIT}"] / "config.json").write_text("{")
    await refused("its config.json cannot be read", hub)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"id2label": {"0": "LABEL_0", "1": "LABEL_1"}},
            "whose meaning is unknown: set models.support_labels",
        ),
        ({"architectures": ["T5ForConditionalGeneration"]}, "is of the architecture T5ForConditionalGeneration"),
        ({"auto_map": {"AutoModel": "x.py"}}, "needs code of its own"),
    ],
)
def test_a_model_that_cannot_decide_about_support_is_refused_by_its_config(config: Any, message: str) -> None:
    usual = {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "entailment", "1": "neutral"}}
    check_support(ModelConfig.model_validate(usual), ModelsSettings(), "m")
    with pytest.raises(ConfigurationError, match=message):
        check_support(ModelConfig.model_validate({**usual, **config}), ModelsSettings(), "m")


async def test_a_download_reports_its_bytes_and_is_known_without_a_network(hub: Hub, tmp_path: Path) -> None:
    cache, loaded = tmp_path / "cache", dict[str, int]()
    model = (await listed(hub)).model("", SETTING)
    assert cached_model(OWNER, "", cache) is None
    await download(model, settings(hub), cache, SETTING, loaded.__setitem__)
    folder = hub.models[f"{OWNER}@{COMMIT}"]
    assert loaded == {name: (folder / name).stat().st_size for name in ("config.json", "tokenizer.json", "model.onnx")}
    for place, file in ((OWNER, ""), (f"{OWNER}@{COMMIT}", ""), (OWNER, "model.onnx")):
        assert cached_model(place, file, cache) == model
    for place, file in ((OWNER, "onnx/model.onnx"), (f"{OWNER}@{'f' * 40}", ""), ("owner/small", "")):
        assert cached_model(place, file, cache) is None
