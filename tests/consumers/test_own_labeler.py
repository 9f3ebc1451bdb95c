"""The labelers of docs/scores/own-labeler.md, asked as a worker asks them."""

import asyncio
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.consumers.judge.asking import TOWER
from tests.support.conditions import until
from tests.support.doc_pages import doc_page

from ragtide.testing import Reply, ScriptedServer, Status
from ragtide.testing.sentence_labels import shared_words
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_consumers.worker.waiting import Patience
from ragtide_runtime.settings.model import Settings

pytestmark = pytest.mark.processes

PAGE = doc_page("own-labeler")


class RerankServer(ScriptedServer):
    """Speaks `/rerank`: the score of a text is its share of the words of the query, the best text first."""

    path = "/rerank"

    def usual(self, request: dict[str, Any], scripted: Reply | None) -> Any:
        wanted = shared_words(request["query"])
        scores = [len(shared_words(text) & wanted) / len(wanted) for text in request["texts"]]
        ranked = sorted(enumerate(scores), key=lambda pair: -pair[1])
        return [{"index": index, "score": score} for index, score in ranked]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RerankServer]:
    code = next(block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "open(" in block)
    (tmp_path / "my_labelers.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("my_labelers", None)
    with RerankServer() as running:
        yield running


def settings(server: RerankServer, **changes: Any) -> Settings:
    return Settings(labeler="my_labelers:Reranked", services={"rerank": {"url": server.url, **changes}})


async def test_one_file_is_a_labeler_with_cache_retries_and_a_version(server: RerankServer, async_redis: Any) -> None:
    server.script.append(Status(503, "starting"))
    for counters in ({"rerank_calls": 2, "rerank_retries": 1}, {"cache_hits": 1}):
        async with labeler_of(settings(server, model="bge"), async_redis) as labeler:
            labeling = await labeler.label(TOWER)
        assert (labeler.name, labeler.version) == ("rerank", "bge/1")
        assert labeling.scores == {"rerank.best_document": 2 / 3, "rerank.first_document": 2 / 3}
        assert labeling.counters == counters


async def test_its_interactions_wait_while_the_service_is_down(server: RerankServer) -> None:
    server.always = Status(500)
    given = settings(server, attempts=1, breaker_failures=2, breaker_pause_s=0.05)
    async with labeler_of(given, None) as labeler:
        labeling = asyncio.create_task(Patience(labeler).label(TOWER))
        await until(lambda: len(server.requests) >= 4)
        assert not labeling.done()
        server.always = None
        assert (await labeling).labeling.scores["rerank.best_document"] > 0


async def test_a_factory_gets_the_settings_and_the_services_by_the_names_of_its_parameters(
    server: RerankServer, tmp_path: Path
) -> None:
    (tmp_path / "my_factories.py").write_text(
        "from my_labelers import Reranked\n"
        "def by_name(*, services, settings, more=1):\n"
        "    assert settings.prefix == 'ragtide' and more == 1\n"
        "    return Reranked(services)\n"
        "def first(options, services=None):\n"
        "    assert options.prefix == 'ragtide'\n"
        "    return Reranked(services)\n"
    )
    for name in ("by_name", "first"):
        given = settings(server).model_copy(update={"labeler": f"my_factories:{name}"})
        async with labeler_of(given, None) as labeler:
            assert (await labeler.label(TOWER)).scores
