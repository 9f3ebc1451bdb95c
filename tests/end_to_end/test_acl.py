import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from redis.exceptions import NoPermissionError
from tests.support.conditions import wait_until
from tests.support.doc_pages import page_text
from tests.support.redis_processes import servers
from tests.support.roles import command, estimates, interactions, running

from ragtide import InteractionProducer
from ragtide_consumers.labelers.protocol import Labeling
from ragtide_consumers.worker.criteria_watch import CriteriaWatch
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.scripts import FOLDER
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.stored_criteria import StoredCriterion, read_stored_criteria, remove_criterion, store_criterion
from ragtide_runtime.telemetry.outages import Outage
from ragtide_schemas import RagInteraction, utc_now
from ragtide_schemas.criterion import Criterion

RIGHTS = ("~ragtide:*", "~ragtide.run.*", "+@all", "-@dangerous", "+info")
"""The rights that the page asks for."""

ASKS_BACK = ("--question", "Does the response ask back?", "--scale", "yes_no")


@pytest.mark.heavy
def test_everything_works_with_the_rights_that_the_documentation_asks_for(tmp_path: Path) -> None:
    with servers(tmp_path / "redis", 1, "appendonly yes") as (server,):
        server.client.execute_command("ACL SETUSER", "ragtide", "on", ">secret", *RIGHTS)
        server.client.execute_command("ACL SETUSER", "default", "resetpass", "off")
        url = f"redis://ragtide:secret@127.0.0.1:{server.port}/0"
        log = tmp_path / "up.log"
        with running("up", url, log, {"RAGTIDE_SERVE_PORT": "0"}), InteractionProducer(url) as producer:
            producer.publish_many(interactions(30))
            assert producer.submit(interactions(31)[30])
            wait_until(lambda: [e for e in estimates(url) if e["n"] == 31])
        assert b"NOPERM" not in log.read_bytes()
        reads = (("doctor",), ("alerts",), ("items", "--sample"), ("dead-letters",), ("watch", "--once"))
        criteria = (("criteria", "add", "asks_back", *ASKS_BACK), ("criteria", "list"), ("explain", "asks_back"))
        for arguments in (*reads, *criteria, ("criteria", "remove", "asks_back"), ("capacity", "repartition", "2")):
            done = command(url, *arguments)
            assert done.returncode == 0, done.stdout + done.stderr
            assert "secret" not in done.stdout + done.stderr


LISTED = set(page_text("redis").partition("**Commands.**")[2].partition("\n- **")[0].replace("`", " ").split())
"""The commands that the page names."""


class _Judge:
    """A labeler that remembers the criteria that it is given."""

    name = "judge"
    version = "1"
    profile = "ragbench"

    def __init__(self) -> None:
        self.given: list[list[str]] = []

    async def label(self, interaction: RagInteraction) -> Labeling:
        raise NotImplementedError

    def take_criteria(self, criteria: Sequence[Criterion]) -> None:
        self.given.append([criterion.name for criterion in criteria])


@pytest.mark.processes
async def test_stored_criteria_need_no_more_rights_and_commands_than_the_page_names(tmp_path: Path) -> None:
    criterion = Criterion(name="short", question="Is the response short?", scale="yes_no")
    stored = StoredCriterion(criterion=criterion, by="ann", at=utc_now())
    listed = [f"+{name.lower()}" for name in sorted(LISTED) if name.isalpha() and name.isupper()]
    with servers(tmp_path / "redis", 1) as (server,):
        for user, rights in (("ragtide", RIGHTS), ("listed", ("~ragtide:*", "-@all", "+client", "+hello", *listed))):
            server.client.execute_command("ACL SETUSER", user, "on", ">secret", *rights)
            judge = _Judge()
            watch = CriteriaWatch(Settings(), judge, Outage("Redis"))
            async with connect_async(f"redis://{user}:secret@127.0.0.1:{server.port}/0") as redis:
                await store_criterion(redis, "ragtide", stored)
                await watch.look(redis)
                assert (await read_stored_criteria(redis, "ragtide")).criteria == (stored,)
                assert await remove_criterion(redis, "ragtide", "short")
                await watch.look(redis)
                assert judge.given == [["short"], []], user
                with pytest.raises(NoPermissionError):
                    await store_criterion(redis, "another", stored)


def test_the_page_about_redis_lists_every_command_of_the_scripts() -> None:
    scripts = "".join(path.read_text(encoding="utf-8") for path in FOLDER.rglob("*.lua"))
    used = {name.upper() for name in re.findall(r"redis\.p?call\(\s*'([A-Za-z]+)'", scripts)}
    assert len(used) > 30
    assert used <= LISTED, sorted(used - LISTED)


@pytest.mark.heavy
def test_the_page_about_redis_lists_every_command_that_a_deployment_uses(tmp_path: Path) -> None:
    extra = {
        "RAGTIDE_SERVE_PORT": "0",
        "RAGTIDE_RECORDER_URL": str(tmp_path / "recording"),
        "RAGTIDE_NOTIFY_ALLOW_PRIVATE": "true",
        "RAGTIDE_NOTIFY_DESTINATIONS": '[{"name":"x","kind":"webhook","url":"http://127.0.0.1:1/"}]',
    }
    with servers(tmp_path / "redis", 1, "appendonly yes") as (server,):
        log = tmp_path / "up.log"
        with running("up", server.url, log, extra), InteractionProducer(server.url) as producer:
            producer.publish_many(interactions(30))
            assert producer.submit(interactions(31)[30])
            producer.submit_feedback(interaction_id="i-00000", pipeline="shop", gold_scores={"trace.adherence": 1.0})
            assert producer.flush(60)
            server.client.xadd("ragtide:{0}:interactions", {"data": "garbage"})
            wait_until(lambda: [e for e in estimates(server.url) if e["n"] == 31])
            for arguments in (
                ("doctor",),
                ("alerts",),
                ("items", "--sample"),
                ("dead-letters",),
                ("dead-letters", "retry", "--all"),
                ("trace", "i-00000"),
                ("watch", "--once"),
                ("criteria", "add", "asks_back", *ASKS_BACK),
                ("criteria", "list"),
                ("criteria", "remove", "asks_back"),
                ("capacity", "repartition", "2"),
            ):
                command(server.url, *arguments)
        used = {name.removeprefix("cmdstat_").split("|")[0].upper() for name in server.client.info("commandstats")}
    ours = {"CLIENT", "HELLO", "SELECT"}  # redis-py's own; it goes on without them
    assert used - ours <= LISTED, sorted(used - ours - LISTED)
