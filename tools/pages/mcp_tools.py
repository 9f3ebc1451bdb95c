"""The table of the tools of `ragtide mcp`, from the tools themselves."""

from ragtide.mcp_server.tools import tools_of
from ragtide_runtime.settings.model import Settings


def tools_part() -> str:
    """Return every tool with its arguments and the first sentence of its description, as a Markdown table."""
    lines = ["| tool | arguments | |", "|---|---|---|"]
    for tool in tools_of(Settings(), open_test=lambda *_, **__: None):
        fields = tool.arguments.model_fields.items()
        arguments = ", ".join(f"**`{name}`**" if field.is_required() else f"`{name}`" for name, field in fields)
        first = " ".join(tool.description.partition("\n\n")[0].split())
        lines.append(f"| `{tool.name}` | {arguments} | {first} |")
    return "\n".join(lines) + "\n"
