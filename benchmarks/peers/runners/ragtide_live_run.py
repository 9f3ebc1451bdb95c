"""ragtide live: interactions published to Redis, a worker, an aggregator; finished when the estimates have them all."""

import asyncio
import json

from items import arguments, finish

from ragtide import InteractionProducer, RagInteraction
from ragtide_roles.running import together
from ragtide_roles.serving import aggregate, work
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import DATA_FIELD, CheckpointField, Streams
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.settings.labelers import JudgeSettings
from ragtide_runtime.settings.model import Settings

STREAMS = Streams("ragtide", 0)


async def main() -> None:
    """Publish, label and aggregate."""
    items, url, count, folder = arguments()
    with EmbeddedRedis.open(folder / "redis") as server:
        judge = JudgeSettings(model="gpt-4o-mini", base_url=url, api_key="none", max_in_flight=count)
        settings = Settings(redis_url=server.url, labeler="judge", judge=judge, worker_concurrency=count)
        async with InteractionProducer(settings=settings) as producer:
            # An id that was published before is published once.
            await producer.apublish_many(
                [
                    RagInteraction(
                        interaction_id=item["item_id"],
                        pipeline="peers",
                        question=item["question"],
                        documents=item["documents"],
                        response=item["response"],
                    )
                    for item in items
                ]
            )
        stop = asyncio.Event()

        async def wait_for_estimates() -> None:
            async with connect_async(server.url) as redis:
                while True:
                    newest = await redis.xrevrange(STREAMS.metrics, count=1)
                    position = await redis.hget(STREAMS.checkpoint, CheckpointField.POSITION)
                    if await redis.xlen(STREAMS.metrics) >= len(items) and newest[0][0] == position:
                        break
                    await asyncio.sleep(0.05)
                events = [json.loads(fields[DATA_FIELD]) for _, fields in await redis.xrange(STREAMS.metrics)]
            finish(folder, len({event["interaction_id"] for event in events if event["scores"]}))
            stop.set()

        await together(
            work(settings, server.url, stop), aggregate(settings, server.url, stop), wait_for_estimates(), stop=stop
        )


if __name__ == "__main__":
    asyncio.run(main())
