from pathlib import Path

import pytest
from tests.support.conditions import wait_until
from tests.support.redis_processes import servers
from tests.support.roles import command, estimates, interactions, running

from ragtide import InteractionProducer


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
