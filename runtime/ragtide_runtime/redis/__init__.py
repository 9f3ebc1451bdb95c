"""Access to Redis: addresses, clients, scripts, streams, the embedded server, and the names of all keys."""

from typing import TYPE_CHECKING

from ragtide_schemas.lazy_imports import late

if TYPE_CHECKING:
    from redis import RedisError as RedisError

    from .failures import explained as explained

__getattr__ = late(
    __name__,
    {
        "redis": "RedisError",
        ".failures": "explained",
    },
)
