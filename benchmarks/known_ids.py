"""Memory and time that known interaction ids cost Redis: `python benchmarks/known_ids.py [--count 200000]`.

The same ids are written twice to the same server: in two keys an interaction, and in buckets.
Both are written as publishing and delivering write them, the owner for the dedupe window and the event for the feedback
window; bytes are the growth of used_memory. Then it says what a deployment comes to at several rates.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ragtide_roles.doctor.server import projected_bytes
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.keys import Streams, interaction_digest, known_digest
from ragtide_runtime.redis.known_ids import REMEMBER, find_id, remember_id
from ragtide_runtime.redis.scripts import run_scripts_blocking
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.settings.model import Settings

STREAMS = Streams("ragtide", 0)
AT_ONCE = 500


def in_keys(pipe: Any, identity: tuple[str, str], entry: str, settings: Settings) -> None:
    digest = interaction_digest(*identity)
    pipe.set(f"ragtide:{{0}}:owner:{digest}", entry, px=int(settings.dedupe_window_s * 1000))
    pipe.set(f"ragtide:{{0}}:scored:{digest}", entry, px=int(settings.feedback_window_s * 1000))


def measure(client: Any, count: int, write: Callable[[Any, tuple[str, str], str], None]) -> tuple[float, float]:
    """Return bytes and microseconds of the server an interaction."""
    client.execute_command("FLUSHALL", "SYNC")
    client.config_resetstat()
    before = client.info("memory")["used_memory"]
    for start in range(0, count, AT_ONCE):
        with client.pipeline(transaction=False) as pipe:
            for number in range(start, min(start + AT_ONCE, count)):
                write(pipe, ("shop", f"id-{number}"), f"{1_700_000_000_000 + number}-0")
            pipe.execute()
    took = client.info("memory")["used_memory"] - before
    stats = client.info("commandstats")
    spent = sum(stats.get(f"cmdstat_{name}", {}).get("usec", 0) for name in ("evalsha", "set"))
    if "cmdstat_evalsha" in stats:  # in which the rest happens
        spent = stats["cmdstat_evalsha"]["usec"]
    return took / count, spent / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200_000)
    count = parser.parse_args().count
    settings = Settings()
    with tempfile.TemporaryDirectory() as name, EmbeddedRedis.open(Path(name)) as server, connect(server.url) as client:
        # A flush of Redis keeps its scripts.
        client.script_load(REMEMBER.text)

        def in_buckets(pipe: Any, identity: tuple[str, str], entry: str) -> None:
            digest = known_digest(*identity)
            for keys, window_s in (
                (STREAMS.owner_keys(*identity), settings.dedupe_window_s),
                (STREAMS.event_keys(*identity), settings.feedback_window_s),
            ):
                pipe.execute_command(*remember_id(keys, digest, entry, int(window_s * 1000)).command())

        print(f"{server.binary}, {count:,} interactions: bytes, microseconds of the server an interaction")
        for title, write in (
            ("two keys", lambda pipe, identity, entry: in_keys(pipe, identity, entry, settings)),
            ("buckets", in_buckets),
        ):
            took, spent = measure(client, count, write)
            print(f"{title:<12}{took:>8.1f}{spent:>8.1f}")
        started = time.perf_counter()
        for number in range(0, count, max(count // 2000, 1)):
            identity = ("shop", f"id-{number}")
            if run_scripts_blocking(client, [find_id(STREAMS.owner_keys(*identity), known_digest(*identity))]) == [
                None
            ]:
                raise SystemExit(f"{identity} is not known")
        print(f"a lookup, with its round trip: {(time.perf_counter() - started) / 2000 * 1e6:.0f} microseconds")
        print("steady state with the default windows:")
        for rate in (1, 10, 100, 586, 5000):
            print(f"{rate:>7,} a second: {projected_bytes(rate, settings) / 2**30:8.2f} GiB")


if __name__ == "__main__":
    main()
