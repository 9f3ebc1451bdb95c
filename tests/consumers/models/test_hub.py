"""Models of the Hub: one commit, downloaded once, checked each time; every failure is one sentence."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.consumers.models.hub_server import Hub, hub_of
from tests.consumers.models.small_models import write
from tests.consumers.models.test_bad_models import external
from tests.consumers.models.test_model_labeler import TWO, scores

from ragtide_consumers.labelers.models import hub as hub_module
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings

COMMIT = "0123456789abcdef0123456789abcdef01234567"

NAME = f"owner/small-model@{COMMIT}"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with hub_of({NAME: write(tmp_path / "remote")}) as found:
        yield found


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "PAUSE_S", 0.0)


async def version(hub: Hub, cache: Path, place: str = NAME, **models: Any) -> str:
    given = {"support": place, "hub_url": hub.url, "cache_dir": str(cache), **models}
    settings = Settings.model_validate({"labeler": "model", "models": given})
    async with labeler_of(settings, None) as one:
        return one.version


async def test_a_model_is_downloaded_once_and_then_needs_no_network(hub: Hub, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = await version(hub, cache)
    asked = list(hub.asked)
    assert [path.rpartition("/")[2] for path in asked] == [
        "config.json",
        "tokenizer.json",
        "model.onnx",
        "calibration.json",
    ]
    hub.statuses = [500] * 100
    assert await version(hub, cache) == first
    assert hub.asked == asked
    found = await scores(None, TWO, support=NAME, hub_url="http://127.0.0.1:9", cache_dir=str(cache))
    assert found == await scores(hub.models[NAME], TWO)
    assert [path.name for path in cache.iterdir()] == [f"owner--small-model@{COMMIT}--model.onnx"]


async def test_the_cache_is_in_the_data_folder_unless_a_setting_names_another(hub: Hub, tmp_path: Path) -> None:
    given = {"support": NAME, "hub_url": hub.url}
    settings = Settings.model_validate({"labeler": "model", "models": given, "data_dir": str(tmp_path / "data")})
    async with labeler_of(settings, None):
        assert (tmp_path / "data" / "models").is_dir()


async def test_data_beside_the_model_in_an_inner_folder_is_downloaded_too(hub: Hub, tmp_path: Path) -> None:
    remote = hub.models[NAME]
    external("model.onnx_data")(remote)
    (remote / "onnx").mkdir()
    (remote / "model.onnx").rename(remote / "onnx" / "model.onnx")
    (tmp_path / "outside.bin").rename(remote / "onnx" / "model.onnx_data")
    assert await version(hub, tmp_path / "cache", support_file="onnx/model.onnx")
    assert hub.asked[-1].endswith("/onnx/model.onnx_data")


async def test_a_token_goes_to_the_hub_and_not_to_the_host_of_large_files(hub: Hub, tmp_path: Path) -> None:
    hub.elsewhere = hub.url.replace("127.0.0.1", "localhost")
    assert await version(hub, tmp_path / "cache", hub_token="secret")
    elsewhere = [token for host, token in hub.tokens if host.startswith("localhost")]
    assert elsewhere == [None]
    assert {token for host, token in hub.tokens if not host.startswith("localhost")} == {"Bearer secret"}


async def test_a_failure_is_tried_again(hub: Hub, tmp_path: Path) -> None:
    hub.statuses = [503, 500]
    assert await version(hub, tmp_path / "cache")


async def test_files_that_changed_since_the_download_are_refused(hub: Hub, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    await version(hub, cache)
    (folder,) = cache.iterdir()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "changed": True}))
    with pytest.raises(
        ConfigurationError, match=r"had [0-9a-f]{64} when it was downloaded: the files were changed, so"
    ):
        await version(hub, cache)


def content(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir()) if cache.exists() else []


async def refused(hub: Hub, cache: Path, message: str, place: str = NAME, **models: Any) -> None:
    with pytest.raises(ConfigurationError, match=message) as raised:
        await version(hub, cache, place, **models)
    assert "\n" not in str(raised.value)
    # Nothing half-finished is left.
    assert content(cache) == []


async def test_a_hub_that_cannot_be_reached_is_one_sentence(hub: Hub, tmp_path: Path) -> None:
    cannot = r"cannot be downloaded \(.*\): try again when http.* can be reached, or copy the model into a folder"
    await refused(hub, tmp_path / "cache", cannot, hub_url="http://127.0.0.1:9")
    hub.statuses = [500] * 3
    await refused(hub, tmp_path / "cache", cannot)
    hub.cut = True
    await refused(hub, tmp_path / "cache", cannot)


async def test_what_a_killed_download_left_is_removed_a_day_later(hub: Hub, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for name in ("old", "new"):
        (cache / f".partial-{name}").mkdir(parents=True)
        (cache / f".partial-{name}" / "model.onnx").write_bytes(b"half")
    for path in (cache / ".partial-old" / "model.onnx", cache / ".partial-old"):
        os.utime(path, (1e9, 1e9))
    await version(hub, cache)
    assert content(cache) == [".partial-new", f"owner--small-model@{COMMIT}--model.onnx"]


@pytest.mark.parametrize("status", [401, 403])
async def test_a_hub_that_wants_a_token_is_one_sentence(hub: Hub, tmp_path: Path, status: int) -> None:
    hub.statuses = [status]
    await refused(hub, tmp_path / "cache", rf"is refused by the Hub \(status {status}\): set models\.hub_token")


async def test_a_missing_file_and_a_missing_commit_are_named(hub: Hub, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    await refused(hub, cache, r"has no onnx/model\.onnx on the Hub: name its ONNX file", support_file="onnx/model.onnx")
    await refused(hub, cache, r"has no config\.json on the Hub", f"owner/small-model@{'f' * 40}")
    for place in ("owner/small-model", "owner/small-model@main", f"owner/small-model@{COMMIT[:12]}"):
        await refused(hub, cache, r"it has no full commit: write owner/name@ and the 40 digits of the commit", place)
    await refused(hub, cache, r"is no ONNX file of a repository: write model\.onnx", support_file="../x.onnx")


async def test_a_model_that_is_too_large_or_not_allowed_is_not_kept(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("ragtide_consumers.labelers.models.hub.MODEL_BYTES", 2000)
        await refused(hub, tmp_path / "cache", r"has more than 2,000 bytes")
    config = json.loads((hub.models[NAME] / "config.json").read_text())
    (hub.models[NAME] / "config.json").write_text(json.dumps({**config, "auto_map": {"AutoModel": "x.Y"}}))
    await refused(hub, tmp_path / "cache", r"needs code of its own \(auto_map in config\.json\)")
