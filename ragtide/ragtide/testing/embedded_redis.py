"""A Redis for one test: started on an empty directory, and ended with everything in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from ragtide_runtime.redis.server.embedded import EmbeddedRedis


@contextmanager
def embedded_redis() -> Iterator[str]:
    """Yield the URL of an empty Redis that ends with the `with` block; it needs `ragtide[embedded]`.

    Raises:
        RedisUnavailable: no server can be started.
    """
    # A short path, because the path of a Unix socket has at most about 100 characters.
    with TemporaryDirectory(prefix="ragtide-") as directory, EmbeddedRedis.open(Path(directory) / "data") as server:
        yield server.url
