"""The parser and the decoder of a subscriber of FastStream whose handler gets messages as the client read them."""

from typing import Any

from faststream.message import StreamMessage


async def unparsed(raw: Any) -> StreamMessage[Any]:
    """Return a message, or a batch, without reading it.

    FastStream's own parsers raise at headers that are no text: the handler never gets such a batch, and the next
    acknowledgement passes over it. They also answer a sender that asks for a reply.
    """
    return StreamMessage(raw_message=raw, body=b"")


async def undecoded(message: StreamMessage[Any]) -> Any:
    """Return a message as it is.

    Args:
        message: of `unparsed`.
    """
    return message
