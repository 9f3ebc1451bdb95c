"""The number of entries in one read: fewer if entries are large, because a read is held in memory as a whole.

Redis reports the size of a stream without reading it. If one read may take the whole stream, no entry is looked at.
`MEMORY USAGE` is exact for a stream of up to `SAMPLES` nodes; a node holds one entry or a few small ones. For more
nodes it is an estimate from the oldest nodes. If a stream is larger than one read may take, the script looks at the
next entries.
"""

from collections.abc import Mapping
from typing import Final

from redis import ResponseError
from redis.asyncio import Redis

READ_BYTES: Final = 32 * 1024 * 1024
"""About how many bytes one read takes at most. An entry that is larger is read alone."""

SAMPLES: Final = 1000
"""Nodes of a stream that are looked at."""

NOT_TOLD: Final = ("permission", "ACL failure", "can't run this command", "nknown")
"""Words in the answer of a Redis that does not tell sizes: an ACL forbids it, or a service has no `MEMORY USAGE`."""

SIZE_SCRIPT: Final = """
-- KEYS: streams. ARGV: most entries, most bytes, nodes to look at, a group or nothing, then the position in each stream
-- (without a group). Returns how many of the next entries of each stream are no more than so many bytes; 1 at least.
local most = tonumber(ARGV[1])
for i, stream in ipairs(KEYS) do
    local usage = redis.call('MEMORY', 'USAGE', stream, 'SAMPLES', ARGV[3])
    if usage and usage > tonumber(ARGV[2]) then
        local at = ARGV[4 + i]
        if ARGV[4] ~= '' then
            at = '0-0'
            for _, group in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
                local of = {}
                for j = 1, #group, 2 do of[group[j]] = group[j + 1] end
                if of['name'] == ARGV[4] then at = of['last-delivered-id'] end
            end
        end
        local count, bytes, full = 0, 0, false
        while count < most and not full do
            -- Eight at a time while entries are small: Redis copies what it looks at, so never many large ones at once.
            local some = count > 0 and 8 * bytes / count < tonumber(ARGV[2]) and 8 or 1
            local found = redis.call('XRANGE', stream, '(' .. at, '+', 'COUNT', some)
            for _, entry in ipairs(found) do
                for _, text in ipairs(entry[2]) do bytes = bytes + #text end
                full = full or (count > 0 and bytes > tonumber(ARGV[2]))
                if not full then count, at = count + 1, entry[1] end
            end
            if #found < some and not full then count = most end
        end
        count = math.min(count, most)
        most = count
    end
end
return most
"""


class ReadSize:
    """The number of entries the next read takes.

    Args:
        redis: client.
        group: consumer group that reads; None for a reader with positions of its own.
        read_bytes: about how many bytes one read takes at most.
    """

    def __init__(self, redis: Redis, group: str | None = None, *, read_bytes: int = READ_BYTES) -> None:
        self._group = group or ""
        self._read_bytes = read_bytes
        self._script = redis.register_script(SIZE_SCRIPT)
        self._told = True

    async def next(self, positions: Mapping[str, str], most: int) -> int:
        """Return how many entries of each stream the next read takes, at most `most`.

        Args:
            positions: by stream of one partition, the id after which it is read; with a group any text.
            most: entries, however small they are.

        Raises:
            redis.RedisError: Redis failed.
        """
        if not self._told:
            return most
        try:
            arguments: list[str | int] = [most, self._read_bytes, SAMPLES, self._group, *positions.values()]
            return int(await self._script(keys=list(positions), args=arguments))
        except ResponseError as error:
            if not any(words in str(error) for words in NOT_TOLD):
                raise
            self._told = False
            return most
