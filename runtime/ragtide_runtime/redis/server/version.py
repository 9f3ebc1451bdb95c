"""Versions of Redis and Valkey servers, and the rules by which a server reads another's data.

A server writes its data in a format that older servers refuse. Three families of formats exist:

    shared    Redis 6.2 (format 9), 7.0 (10) and 7.2 (11), Valkey 7.2 and 8 (11); later servers of both kinds read it
    redis     Redis 7.4 and later; Valkey cannot read it
    valkey    Valkey 9 and later; Redis cannot read it

Redis 7 and later also keep the append-only file in several files below a folder; Redis 6.2 sees none of them.
docs/decisions/0015-the-embedded-server-is-the-newest.md has the table this was measured with.
"""

from dataclasses import dataclass
from typing import Literal

Version = tuple[int, int, int]
ServerKind = Literal["redis", "valkey"]
Format = tuple[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class ServerVersion:
    """Kind and version of a server, such as Valkey 9.1.2."""

    kind: ServerKind
    version: Version

    def __str__(self) -> str:
        return f"{self.kind.capitalize()} {dotted(self.version)}"

    def reads(self, writer: "ServerVersion") -> bool:
        """Return whether this server reads the data that the other one wrote.

        >>> valkey, redis = ServerVersion("valkey", (9, 1, 2)), ServerVersion("redis", (7, 0, 15))
        >>> valkey.reads(redis), redis.reads(valkey)
        (True, False)
        """
        own_family, own_number = self._format()
        family, number = writer._format()
        if family == own_family:
            return own_number >= number
        return family == "shared"

    def converts(self, writer: "ServerVersion") -> bool:
        """Return whether the writer can no longer read its data after this server has used them."""
        return not writer.reads(self)

    def _format(self) -> Format:
        minor = self.version[:2]
        if self.kind == "valkey":
            return ("shared", (11, 0)) if minor < (9, 0) else ("valkey", minor)
        if minor < (7, 0):
            return "shared", (9, 0)
        if minor < (7, 4):
            return "shared", (10 if minor < (7, 2) else 11, 0)
        return "redis", minor


def dotted(version: Version) -> str:
    """Return a version as it is written: `9.1.2`."""
    return ".".join(map(str, version))
