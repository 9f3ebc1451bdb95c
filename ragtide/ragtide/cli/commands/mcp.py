"""`ragtide mcp`: tools with which a language model reads a deployment."""

from typing import Annotated

import typer

from ..command import command
from ..options import given


@command(
    "ragtide mcp",
    "ragtide mcp --url https://ragtide.example.com",
    "ragtide mcp --recording recording",
)
def mcp(
    context: typer.Context,
    url: Annotated[
        str | None,
        typer.Option(help="Address of ragtide serve; default: http://127.0.0.1:8080 [RAGTIDE_MCP_ENDPOINT]."),
    ] = None,
    recording: Annotated[
        str | None, typer.Option(help="Folder or URL of a recording, on which the model may test alert rules.")
    ] = None,
) -> None:
    """Let a language model read a deployment, over MCP.

    A program with a model starts this command and speaks with it over standard input and output. It reads a ragtide
    serve with the token in RAGTIDE_MCP_TOKEN, and changes nothing.
    """
    import asyncio
    import signal

    from ragtide_runtime.errors import ConfigurationError

    try:
        from ragtide.mcp_server.serving import serve_stdio, service_of
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name.startswith("ragtide"):
            raise
        raise ConfigurationError(f"ragtide mcp needs {name}: pip install 'ragtide[mcp]'") from None
    from ragtide.mcp_server.tools import tools_of

    settings = given(context).settings()
    address = settings.mcp if url is None else settings.mcp.model_copy(update={"endpoint": url})
    serving = serve_stdio(service_of(address), tools_of(settings, recording))
    # A thread waits for standard input and cannot be interrupted. There is nothing to finish, so signals end at once.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    asyncio.run(serving)
