"""The page of the streams, from the AsyncAPI document; and that document."""

from typing import Final

import yaml

from ragtide_web.routes.asyncapi import DROPPED, STREAMS, asyncapi_document, key_of

from .schema_tables import fields_table

_INTRODUCTION = """\
Every Redis stream of a deployment: its key, who writes and reads it, and every field of its messages, for programs that
use Redis themselves. [asyncapi.yaml](asyncapi.yaml) is the same as AsyncAPI 3.0; `ragtide serve` answers it at
`/asyncapi.json`, and shows it at `/asyncapi`.
[JSON Schemas](schemas/README.md) has each message as a file."""

_LINKS: Final = {"RagInteraction": "interaction.md", "Feedback": "interaction.md#feedback"}
"""Where messages are described that applications write."""


def streams_page() -> str:
    """Return the page of every stream and every message."""
    document = asyncapi_document()
    parts = ["# Streams", _INTRODUCTION, document["info"]["description"]]
    for name, stream in {**STREAMS, "dropped": DROPPED}.items():
        lines = [f"- Key: `{key_of(name)}`, a {'hash' if name == 'dropped' else 'stream'}"]
        for words, components in (("Written by", stream.written_by), ("Read by", stream.read_by)):
            lines += [f"- {words}: {', '.join(components)}"] if components else []
        links = [f"[{message.__name__}](#message-{message.__name__.lower()})" for message in stream.messages]
        lines += [f"- Messages: {', '.join(links)}"] if links else []
        parts += [f"## {name}", stream.summary, "\n".join(lines)]
    parts.append("## Messages")
    schemas = document["components"]["schemas"]
    for name, message in document["components"]["messages"].items():
        described = f"[Every field]({_LINKS[name]})." if name in _LINKS else fields_table(schemas[name], schemas)
        parts += [f"### Message: {name}", message["summary"], described]
    return "\n\n".join([*parts, "Next: [Keys in Redis](redis-keys.md)"]) + "\n"


def asyncapi_text() -> str:
    """Return the document as YAML."""
    text: str = yaml.safe_dump(asyncapi_document(), sort_keys=False, allow_unicode=True, width=120)
    return f"# Made from the models by `make schemas`.\n{text}"
