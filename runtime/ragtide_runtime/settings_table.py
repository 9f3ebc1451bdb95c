"""The table of settings in the documentation: `python -m ragtide_runtime.settings_table` prints it."""

from ragtide_schemas import AlertRule

from .settings import Settings


def settings_table() -> str:
    """Return every setting with its default and meaning as a Markdown table."""
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        # The one default that is computed is a path of the user's.
        default = _shown(field.default) if field.default_factory is None else "`~/.local/share/ragtide`"
        lines.append(f"| `{name}` | {default} | {' '.join((field.description or '').split())} |")
    return "\n".join(lines) + "\n"


def _shown(default: object) -> str:
    if default is None:
        return ""
    if isinstance(default, tuple):
        return ", ".join(rule.name for rule in default if isinstance(rule, AlertRule))
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


if __name__ == "__main__":
    print(settings_table(), end="")  # noqa: T201 - that is its purpose
