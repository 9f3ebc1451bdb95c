"""The page of the streams, from the AsyncAPI document."""

from typing import Final

from .asyncapi import asyncapi_document
from .schema_tables import fields_table

_INTRODUCTION = """\
Every Redis stream of a deployment: its key, who writes and reads it, and every field of its messages, for programs that
use Redis themselves. `make schemas` writes this page and [asyncapi.yaml](asyncapi.yaml) (AsyncAPI 3.0) from the models;
[JSON Schemas](schemas/README.md) has each message as a file."""

_LINKS: Final = {"RagInteraction": "interaction.md", "Feedback": "interaction.md#feedback"}
"""Where messages are described that applications write."""


def streams_page() -> str:
    """Return the page of every stream and every message."""
    document = asyncapi_document()
    parts = ["# Streams", _INTRODUCTION, document["info"]["description"]]
    components = document["components"]
    for name, channel in document["channels"].items():
        address = channel["address"].replace("{prefix}", "ragtide").replace("{{partition}}", "{p}")
        lines = [f"- Key: `{address}`, a {channel['x-redis']['type']}"]
        for action, words in (("send", "Written by"), ("receive", "Read by")):
            found = [
                operation["tags"][0]["name"]
                for operation in document["operations"].values()
                if operation["action"] == action and operation["channel"]["$ref"] == f"#/channels/{name}"
            ]
            lines += [f"- {words}: {', '.join(found)}"] if found else []
        messages = [message for message in channel["messages"] if message in components["messages"]]
        links = [f"[{message}](#message-{message.lower()})" for message in messages]
        lines += [f"- Messages: {', '.join(links)}"] if links else []
        parts += [f"## {name}", channel["summary"], "\n".join(lines)]
    parts.append("## Messages")
    for name, message in components["messages"].items():
        schema = components["schemas"][name]
        described = f"[Every field]({_LINKS[name]})." if name in _LINKS else fields_table(schema, components["schemas"])
        parts += [f"### Message: {name}", message["summary"], described]
    return "\n\n".join([*parts, "Next: [Keys in Redis](redis-keys.md)"]) + "\n"
