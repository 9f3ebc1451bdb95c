import re
from pathlib import Path

import pytest
from tests.support.conditions import wait_until
from tests.support.redis_processes import servers
from tests.support.roles import command, estimates, interactions, running

from ragtide import InteractionProducer
from ragtide_runtime.redis.scripts import FOLDER


@pytest.mark.heavy
def test_everything_works_with_the_rights_that_the_documentation_asks_for(tmp_path: Path) -> None:
    with servers(tmp_path / "redis", 1, "appendonly yes") as (server,):
        rights = ("~ragtide:*", "~ragtide.run.*", "+@all", "-@dangerous", "+info")
        server.client.execute_command("ACL SETUSER", "ragtide", "on", ">secret", *rights)
        server.client.execute_command("ACL SETUSER", "default", "resetpass", "off")
        url = f"redis://ragtide:secret@127.0.0.1:{server.port}/0"
        log = tmp_path / "up.log"
        with running("up", url, log, {"RAGTIDE_SERVE_PORT": "0"}), InteractionProducer(url) as producer:
            producer.publish_many(interactions(30))
            assert producer.submit(interactions(31)[30])
            wait_until(lambda: [e for e in estimates(url) if e["n"] == 31])
        assert b"NOPERM" not in log.read_bytes()
        reads = (("doctor",), ("alerts",), ("items", "--sample"), ("dead-letters",), ("watch", "--once"))
        for arguments in (*reads, ("repartition", "2")):
            done = command(url, *arguments)
            assert done.returncode == 0, done.stdout + done.stderr
            assert "secret" not in done.stdout + done.stderr


LISTED = set(
    (Path(__file__).parents[2] / "docs" / "redis.md")
    .read_text(encoding="utf-8")
    .partition("**Commands.**")[2]
    .partition("\n- **")[0]
    .replace("`", " ")
    .split()
)
"""The commands that the page names."""


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
                ("repartition", "2"),
            ):
                command(server.url, *arguments)
        used = {name.removeprefix("cmdstat_").split("|")[0].upper() for name in server.client.info("commandstats")}
    ours = {"CLIENT", "HELLO", "SELECT"}  # redis-py's own; it goes on without them
    assert used - ours <= LISTED, sorted(used - ours - LISTED)
