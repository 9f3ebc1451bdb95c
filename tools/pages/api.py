"""The pages of the Python API, from its docstrings: a table of all names, and a page for the names of each package."""

import re
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import griffe

import ragtide

BAR: Final = "\\|"
"""A bar inside a cell of a table."""

_ROOT: Final = Path(__file__).parents[2]

_INTRODUCTION = """\
This page lists every name of `from ragtide import NAME`, which is the public Python interface, with a link to its
meaning, arguments and errors. `help(ragtide.NAME)` says the same.

A name is loaded when it is first used, so an application that only publishes loads no NumPy. Methods and modules that
these pages do not list are ragtide's own, and may change in any release ([Stability and upgrades](stability.md))."""

_ROOMS: Final[Mapping[str, tuple[str, str, str]]] = {
    "ragtide_producers": ("api-publish.md", "Publish", "python.md"),
    "ragtide_schemas": ("api-messages.md", "Messages", "interaction.md"),
    "ragtide_consumers": ("api-score.md", "Score, and receive alerts", "own-labeler.md"),
    "ragtide_aggregator": ("api-compute.md", "Read and compute", "statistics.md"),
    "ragtide_offline": ("api-offline.md", "Offline", "experiments.md"),
    "ragtide_runtime": ("api-recordings.md", "Recordings and errors", "recording.md"),
}
"""Page and title of the names of each package, and the page that explains most of them."""

_PAGES: Final[Mapping[str, str]] = {
    "Absent": "metrics.md",
    "AbsentReason": "metrics.md",
    "Alert": "alerts.md",
    "AlertSubscriber": "notify.md",
    "ClaimLabels": "own-labeler.md",
    "ConfigurationError": "settings.md",
    "CustomMetric": "metrics.md",
    "DeadLetter": "troubleshooting.md",
    "Deployment": "architecture.md",
    "Direction": "metrics.md",
    "DriftDetector": "drift.md",
    "Dropped": "python.md",
    "Elimination": "racing.md",
    "Estimate": "statistics.md",
    "GateResult": "gates.md",
    "InvalidEntryError": "troubleshooting.md",
    "Item": "files.md",
    "Kind": "metrics.md",
    "LocalLabeler": "local-labeler.md",
    "MetricDeclaration": "own-labeler.md",
    "MetricDefinition": "metrics.md",
    "MetricEvent": "delivery.md",
    "MetricScores": "metrics.md",
    "PairedComparison": "comparing.md",
    "Race": "racing.md",
    "RaceStanding": "racing.md",
    "RagtideError": "troubleshooting.md",
    "RedisUnavailable": "redis.md",
    "RetrievalStep": "metrics.md",
    "SentenceLabels": "own-labeler.md",
    "Summary": "files.md",
    "estimates": "files.md",
    "gate": "gates.md",
    "hashed_user_id": "security.md",
    "items_of": "files.md",
    "load": "files.md",
    "ragchecker_metrics": "metrics.md",
    "read_items": "files.md",
    "score": "files.md",
    "score_batches": "large-files.md",
    "summarize_batches": "engines.md",
    "trace_metrics": "metrics.md",
}
"""The page that explains a name, where it is not that of its package."""


_FIELDS: Final = {
    "AlertRule", "AnswerUsage", "EarlierTurn", "Feedback", "RagInteraction", "RetrievalStep", "RetrievedDocument",
}  # fmt: skip
"""Messages whose fields have a page of their own (interaction.md)."""

_OWN: Final[Mapping[str, frozenset[str]]] = {
    "AlertRule": frozenset({"check_definition", "definition", "given_baseline", "movements", "movements_of"}),
    "DeadLetter": frozenset({"encode_payload", "of", "payload_bytes", "truncated"}),
    "Deployment": frozenset({"endpoints", "level_watches", "series", "series_by_partition", "states", "take_rules"}),
    "DriftDetector": frozenset({"log_evidence"}),
    "Experiment": frozenset({"drive", "plan"}),
    "ExperimentControl": frozenset({"give", "state"}),
    "InteractionProducer": frozenset({"in_child"}),
    "LocalLabeler": frozenset({"label_now"}),
    "MetricDeclaration": frozenset({"definition", "measure"}),
    "PairedComparison": frozenset({"load", "to_bytes"}),
    "Race": frozenset({"copy"}),
    "RagInteraction": frozenset({"from_entry"}),
    "Recording": frozenset({"files"}),
    "RunningIntervals": frozenset({"load", "to_bytes"}),
}
"""Public methods that ragtide alone calls."""


def api_page() -> str:
    """Return the page of all public names, with a sentence and links for each."""
    parts = ["# The Python API", _INTRODUCTION]
    for package, (room, title, page) in _ROOMS.items():
        rows = [_row(name, room, page) for name in _names(package)]
        parts += [f"## {title}", "\n".join(["| name | | explained in |", "|---|---|---|", *rows])]
    return "\n\n".join([*parts, "Next: [publish](api-publish.md)"]) + "\n"


def _names(package: str) -> list[str]:
    public = [name for name in ragtide.__all__ if name != "__version__"]
    return sorted((name for name in public if _object(name).package.name == package), key=str.lower)


def _row(name: str, room: str, page: str) -> str:
    found = _object(name)
    shown = f"{name}()" if found.is_function else name
    meaning = _summary(found).replace("|", BAR)
    page = _PAGES.get(name, page)
    return f"| [`{shown}`]({room}#{name.lower()}) | {meaning} | [{page}]({page}) |"


def room_page(package: str) -> str:
    """Return the page of the public names of a package."""
    _, title, _ = _ROOMS[package]
    names = _names(package)
    lines = [
        f"# API: {title.partition(',')[0]}",
        f"{_INTRODUCTIONS[package]}",
    ]
    for name in names:
        lines += [f"## {name}", *_described(name)]
    rooms = [*_ROOMS.values(), ("stability.md", "Stability and upgrades", "")]
    following, title, _ = rooms[list(_ROOMS).index(package) + 1]
    return "\n\n".join([*lines, f"Next: [{title[0].lower()}{title[1:]}]({following})"]) + "\n"


_INTRODUCTIONS: Final[Mapping[str, str]] = {
    "ragtide_producers": "How an application publishes interactions and feedback from Python.",
    "ragtide_schemas": """\
The messages that applications, workers and aggregators exchange, as Python values. Each message is a frozen Pydantic
model: wrong fields raise an error that names them, `encode()` returns its JSON, and the class method `decode(data)`
reads it.""",
    "ragtide_consumers": "Labelers and metrics of your own, the formulas, and alerts in your code.",
    "ragtide_aggregator": "A running deployment's numbers from Python, and the statistics without a deployment.",
    "ragtide_offline": "Files scored in scripts and notebooks, gates, and experiments.",
    "ragtide_runtime": "Recordings read from Python, and the errors of every part of ragtide.",
}

API_PAGES: Final = {"api.md": api_page} | {
    room: partial(room_page, package) for package, (room, _, _) in _ROOMS.items()
}
"""What writes each page."""


@cache
def _package(name: str) -> griffe.Module:
    folder = _ROOT / name.removeprefix("ragtide_")
    found = griffe.load(name, search_paths=[folder], docstring_parser="google", resolve_aliases=False)
    if not isinstance(found, griffe.Module):
        raise TypeError(f"{name} is no package")
    return found


def _object(name: str) -> Any:
    """Return the definition of a public name, as its source states it."""
    value = getattr(ragtide, name)
    package, _, module = value.__module__.partition(".")
    return _package(package)[f"{module}.{value.__qualname__}" if module else value.__qualname__]


def _summary(found: Any) -> str:
    text = found.docstring.value if found.docstring else ""
    return _linked(text.partition("\n\n")[0].replace("\n", " "))


def _described(name: str) -> Iterator[str]:
    """Yield the parts of the description of a name: signature, meaning, arguments, errors, fields, methods, source."""
    found = _object(name)
    if found.is_function:
        yield _signature(found, name)
    elif not _is_record(found) and "__init__" in found.members:
        yield _signature(found.members["__init__"], name)
    yield from _meaning(found)
    if found.is_class:
        yield from _members(found, name)
    path = found.filepath.relative_to(_ROOT).as_posix()
    yield f"Defined in `{path}`."


def _is_record(found: Any) -> bool:
    """Return whether a class is a message, a dataclass or an enumeration: its fields are its arguments."""
    decorated = any("dataclass" in str(decorator.value) for decorator in found.decorators)
    return decorated or any(str(base).endswith(("Model", "Enum")) for base in found.bases)


def _members(found: Any, name: str) -> Iterator[str]:
    hidden = _OWN.get(name, frozenset())
    members = [
        (member, inner)
        for member, inner in found.members.items()
        if not (member.startswith("_") or member in hidden or "ClassVar" in str(getattr(inner, "annotation", "")))
    ]
    if name in _FIELDS:
        yield "[interaction.md](interaction.md) has its fields."
    else:
        stated = [section for section in _sections(found) if section.kind is griffe.DocstringSectionKind.attributes]
        known = {attribute.name for section in stated for attribute in section.value}
        shown = [
            (member, inner)
            for member, inner in members
            if inner.is_attribute and (inner.docstring or (_is_record(found) and member not in known))
        ]
        if shown:
            rows = [_field(member, inner, found) for member, inner in shown]
            yield "\n".join(["| name | type | meaning |", "|---|---|---|", *rows])
    for member, inner in members:
        if inner.is_function and inner.docstring:
            yield f"### {name}.{member}"
            yield _signature(inner, member)
            yield from _meaning(inner)


def _field(member: str, inner: Any, found: Any) -> str:
    is_member = any(str(base).endswith("Enum") for base in found.bases)
    kind = "" if is_member or inner.annotation is None else f"`{_one_line(inner.annotation)}`"
    has_value = _is_record(found) and inner.value is not None and "ield(" not in str(inner.value)
    value = f" = `{inner.value}`" if has_value else ""
    meaning = _linked(" ".join(inner.docstring.value.split())) if inner.docstring else ""
    cells = (f"`{member}`{value}", kind, meaning)
    return f"| {' | '.join(cell.replace('|', BAR) for cell in cells)} |"


def _one_line(annotation: Any) -> str:
    return " ".join(str(annotation).split())


def _signature(function: Any, name: str) -> str:
    """Return a signature as a block of code; one that is long has a line for each parameter."""
    shown: list[str] = []
    kinds = griffe.ParameterKind
    starred = False
    parameters = [parameter for parameter in function.parameters if parameter.name not in ("self", "cls")]
    for place, parameter in enumerate(parameters):
        text = {kinds.var_positional: "*", kinds.var_keyword: "**"}.get(parameter.kind, "") + parameter.name
        text += f": {_one_line(parameter.annotation)}" if parameter.annotation is not None else ""
        if parameter.default is not None and parameter.kind not in (kinds.var_positional, kinds.var_keyword):
            text += f" = {parameter.default}" if parameter.annotation is not None else f"={parameter.default}"
        starred = starred or parameter.kind is kinds.var_positional
        if parameter.kind is kinds.keyword_only and not starred:
            shown.append("*")
            starred = True
        shown.append(text)
        following = parameters[place + 1].kind if place + 1 < len(parameters) else None
        if parameter.kind is kinds.positional_only and following is not kinds.positional_only:
            shown.append("/")
    returned = "" if function.name == "__init__" or function.returns is None else f" -> {_one_line(function.returns)}"
    begin = "async " if "async" in function.labels else ""
    line = f"{begin}{name}({', '.join(shown)}){returned}"
    if len(line) > 100:
        body = "".join(f"    {part},\n" for part in shown)
        line = f"{begin}{name}(\n{body}){returned}"
    return f"```py\n{line}\n```"


_DOCTEST: Final = re.compile(r"(?:^>>> .*(?:\n(?!\s*$).*)*\n?)+", re.MULTILINE)
_STATED: Final = re.compile(r"^(Assumes|Raises|Source): (.*(?:\n(?:    .*|(?=\S)(?![A-Z]\w*:|>>> ).+))*)", re.MULTILINE)
"""A part of a docstring that is one paragraph, whose further lines may be indented."""
_PAGE: Final = re.compile(r"`?docs/(?:[\w-]+/)*([\w-]+\.md)`?")


def _sections(found: Any) -> list[Any]:
    """Return the parts of a docstring, whose paragraphs such as `Source: ...` are text."""
    if found.docstring is None:
        return []
    text = _STATED.sub(
        lambda stated: f"\n**{stated[1]}.** {re.sub(r'(?m)^    ', '', stated[2])}", found.docstring.value
    )
    sections: list[Any] = griffe.Docstring(text, parent=found, parser="google").parsed
    return sections


def _meaning(found: Any) -> Iterator[str]:
    """Yield the parts of a docstring as Markdown."""
    for section in _sections(found):
        match section.kind:
            case griffe.DocstringSectionKind.text:
                yield _text(section.value)
            case griffe.DocstringSectionKind.parameters:
                yield "Arguments:\n\n" + "\n".join(_item(f"`{each.name}`", each.description) for each in section.value)
            case griffe.DocstringSectionKind.attributes:
                yield "Attributes:\n\n" + "\n".join(_item(f"`{each.name}`", each.description) for each in section.value)
            case griffe.DocstringSectionKind.raises:
                yield "Raises:\n\n" + "\n".join(
                    _item(f"`{each.annotation}`", each.description) for each in section.value
                )
            case griffe.DocstringSectionKind.returns | griffe.DocstringSectionKind.yields:
                yield "\n".join(f"Returns {_linked(each.description)}" for each in section.value)
            case griffe.DocstringSectionKind.admonition:
                yield _text(f"**{section.title}.** {section.value.contents}")
            case other:
                raise ValueError(f"{found.path}: a section of a docstring of kind {other} has no form on a page")


def _item(name: str, description: str) -> str:
    return f"- {name}: {_linked(description)}".replace("\n", "\n  ")


def _text(text: str) -> str:
    shown = _DOCTEST.sub(lambda found: f"\0{found[0].rstrip()}\n\0\n", text)
    parts = shown.split("\0")
    return "".join(f"```pycon\n{part}```" if part.startswith(">>> ") else _linked(part) for part in parts).strip()


def _linked(text: str) -> str:
    return _PAGE.sub(lambda found: f"[{found[1]}]({found[1]})", text)
