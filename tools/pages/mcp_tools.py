"""The table of the tools of `ragtide mcp`, from the tools themselves."""

from inspect import getdoc

from ragtide.mcp_server.answers import arguments_of
from ragtide.mcp_server.tools import tools_of
from ragtide_runtime.settings.model import Settings


def tools_part() -> str:
    """Return every tool with its arguments and the first sentence of its description, as a Markdown table."""
    lines = ["| tool | arguments | |", "|---|---|---|"]
    for tool in tools_of(Settings(), open_test=lambda *_, **__: None):
        fields = arguments_of(tool).model_fields.items()
        arguments = ", ".join(f"**`{name}`**" if field.is_required() else f"`{name}`" for name, field in fields)
        first = " ".join((getdoc(tool) or "").partition("\n\n")[0].split())
        lines.append(f"| `{tool.__name__}` | {arguments} | {first} |")
    return "\n".join(lines) + "\n"
