"""Texts to read: the pages of the documentation, and what a metric means."""

import atexit
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from operator import itemgetter
from os.path import normpath, relpath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markdown import Markdown, TableElement
from rich.table import Table
from rich.text import Text

from ragtide_consumers.labelers.plugins import custom_metrics
from ragtide_consumers.labelers.published import criteria_metrics, labelers_of
from ragtide_consumers.metrics.optional import optional_metrics
from ragtide_runtime.bundled_data import bundled
from ragtide_runtime.errors import RagtideError
from ragtide_schemas import METRICS, Bands, Direction, MetricDefinition
from ragtide_schemas.measured_slopes import SLOPES
from ragtide_schemas.metric_definitions import AGENT_WASTED, CRITERIA_FAMILY, definitions_of_errors
from ragtide_schemas.slopes import slopes_in_words, slopes_of
from ragtide_schemas.step_metrics import ToolMetric, tool_declaration
from ragtide_schemas.suggestions import unknown

from . import UNLIMITED, Column, folded, out
from .estimates import short_name

if TYPE_CHECKING:
    from ragtide_runtime.settings.model import Settings


_PACKED: Final = Path(__file__).parents[2] / "docs.tar.xz"


_OF_THE_TREE: Final = Path(__file__).parents[4] / "docs"


_FENCED: Final = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


_LINK: Final = re.compile(r"!?\[([^\[\]]{1,300})\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")


_COMMENT: Final = re.compile(r"^<!--.*?-->\n*", re.MULTILINE)


_TITLE: Final = re.compile(r"^# (.*)$", re.MULTILINE)


@cache
def folder() -> Path:
    """Return the folder of the pages: of the installed package, unpacked until this process ends, or of the tree."""
    of_the_tree = (_OF_THE_TREE.parent / "hatch_build.py").is_file()
    return _OF_THE_TREE if of_the_tree else unpacked(bundled(_PACKED))


def unpacked(packed: Path) -> Path:
    """Return a folder with packed pages, which is removed when this process ends."""
    import tarfile  # noqa: PLC0415 - only an installed package has packed pages

    place = TemporaryDirectory(prefix="ragtide-docs-")
    atexit.register(place.cleanup)
    with tarfile.open(packed) as archive:
        for member in archive:
            page = Path(place.name) / member.name
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_bytes(archive.extractfile(member).read())  # type: ignore[union-attr]  # no member is a folder
    return Path(place.name) / "docs"


_FOLDERS: Final = (
    "start", "connect", "scores", "live", "offline", "operate", "understand", "help", "reference", "contribute",
)  # fmt: skip
"""Folders in the order in which a reader needs them."""


def pages() -> dict[str, Path]:
    """Return every page by its name, such as `settings`, in the order in which a reader needs them.

    The first page is `index`.
    """
    place = folder()
    paths = {}
    for path in place.rglob("*.md"):
        own = path.relative_to(place)
        paths[own.parent.name if own.stem == "README" else own.stem] = path
    places = {name: number for number, name in enumerate(("docs", *_FOLDERS))}

    def order(item: tuple[str, Path]) -> tuple[int, Path]:
        return places.get(item[1].parent.name, len(places)), item[1]

    return dict(sorted(paths.items(), key=order))


def page_name(text: str) -> str:
    """Return the name of a page as a user may write it.

    >>> page_name("docs/reference/settings.md"), page_name("Settings")
    ('settings', 'settings')
    """
    return text.strip().lower().removesuffix(".md").removesuffix("/readme").rpartition("/")[2]


def title_of(page: Path) -> str:
    """Return the title of a page."""
    match = _TITLE.search(page.read_text(encoding="utf-8"))
    return page.stem if match is None else match[1].replace("`", "")


class FoundSection(NamedTuple):
    """A section of a page that has every word of a search."""

    page: str
    section: str
    """Its heading."""
    line: str
    """Its first line that has one of the words."""


def search(words: str, known: Mapping[str, Path]) -> list[FoundSection]:
    """Return the sections that have every word, in any case; those with the words in their heading come first.

    Args:
        words: separated by spaces; each may be a part of a word.
        known: every page by its name.
    """
    wanted = words.casefold().split()
    ranked = []
    for name, path in known.items():
        for section, text in _sections(path.read_text(encoding="utf-8")):
            folded = f"{section}\n{text}".casefold()
            if all(word in folded for word in wanted):
                heading = sum(word in section.casefold() for word in wanted)
                lines = [line.strip() for line in text.split("\n") if any(word in line.casefold() for word in wanted)]
                times = sum(folded.count(word) for word in wanted)
                ranked.append((-heading, -times, FoundSection(name, section, next(iter(lines), ""))))
    return [match for *_, match in sorted(ranked)]


def _sections(text: str) -> Iterator[tuple[str, str]]:
    heading, lines, code = "", list[str](), False
    for line in text.split("\n"):
        code ^= line.startswith("```")
        if line.startswith("#") and not code:
            yield heading, "\n".join(lines)
            heading, lines = line.lstrip("#").strip().replace("`", ""), []
        else:
            lines.append(line)
    yield heading, "\n".join(lines)


def for_terminal(text: str, name: str, known: dict[str, Path]) -> str:
    """Return a page without comments, whose links to other pages name them: a terminal cannot follow a relative link.

    Args:
        text: the page, in Markdown.
        known: every page by its name.
    """
    parts = _FENCED.split(text)
    parts[::2] = [_LINK.sub(lambda link: _named(link, name, known), _COMMENT.sub("", part)) for part in parts[::2]]
    return "".join(parts)


def _named(link: re.Match[str], name: str, known: dict[str, Path]) -> str:
    words, target, section = link.groups()
    if not target:
        return words
    place = normpath(known[name].parent / target)
    page = next((page for page, path in known.items() if normpath(path) == place), None)
    if page is None:
        return f"{words} (`{relpath(place, folder().parent)}`, in the source)"
    own = words in (Path(target).name, page)
    if section:
        return f'{"" if own else f"{words}: "}`{page}`, "{section.replace("-", " ")}"'
    return f"`{page}`" if own else f"{words} (`{page}`)"


TEXT_WIDTH: Final = 100
"""Most columns of a page on a terminal."""


class _WholeTable(TableElement):
    """A table that folds a long word and cuts none."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in super().__rich_console__(console, options):
            if isinstance(part, Table):
                for column in part.columns:
                    column.overflow = "fold"
            yield part


class DocumentationPage(Markdown):
    """A page in Markdown for a terminal."""

    elements = {**Markdown.elements, "table_open": _WholeTable}  # noqa: RUF012 - a table of Rich's own class


PAGE_COLUMNS: Final[Sequence[Column[tuple[str, Path]]]] = (
    Column("page", itemgetter(0)),
    Column("title", lambda page: title_of(page[1])),
    Column("about", lambda page: page[1].parent.name if page[1].parent.name in _FOLDERS else ""),
)


def found_lines(sections: Sequence[FoundSection], words: str, width: int) -> Iterator[Text]:
    """Yield two lines a section that a search found: its page and heading, and the part of its line with a word."""
    wanted = words.casefold().split()
    for section in sections:
        yield Text.assemble((section.page, "bold cyan"), f"  {section.section}")
        plain = " ".join(_LINK.sub(r"\1", section.line).strip("| -*").replace("`", "").split())
        first = min((plain.casefold().find(word) for word in wanted if word in plain.casefold()), default=0)
        begin = max(0, min(first - width // 3, len(plain) - width + 4))
        line = Text(f"  {'…' * bool(begin)}{plain[begin:]}", style="bright_black", no_wrap=True)
        line.truncate(width, overflow="ellipsis")
        yield line


LINE_WIDTH: Final = 110
"""Most characters of a line of a long text on a terminal."""


def full_name(metric: str, known: Mapping[str, MetricDefinition]) -> str | None:
    """Return the qualified name of a metric that is named as in tables or without its family; None if it is unknown.

    A name of several families is the metric of the first family in the registry.
    """
    if metric in known:
        return metric
    short = next((name for name in known if short_name(name) == metric), None)
    return short or next((name for name in known if name.rpartition(".")[2] == metric), None)


@dataclass(frozen=True, slots=True)
class KnownMetrics:
    """The metrics that this process can explain."""

    listed: Mapping[str, MetricDefinition]
    """By qualified name."""
    own: Mapping[str, MetricDefinition]
    """Those that the settings or installed packages name."""
    optional: Mapping[str, MetricDefinition]
    """Those that exist only if the setting `metrics` names them."""

    @classmethod
    def of(cls, settings: "Settings", asked: str | None = None) -> "KnownMetrics":
        """Return the metrics of ragtide, and those of the settings.

        Args:
            settings: of the deployment.
            asked: a metric that is known, too, if it is one of a tool: tools have any name.

        Raises:
            ConfigurationError: a metric that the settings name cannot be loaded.
        """
        own = {custom.definition.name: custom.definition for custom in custom_metrics(settings)}
        optional = {name: plugin.definition for name, plugin in optional_metrics().items()}
        tool = ToolMetric.read(asked or "")
        tools = {} if tool is None else {tool.name: tool_declaration(tool).definition(tool.name)}
        return cls({**METRICS, **criteria_metrics(settings), **optional, **own, **tools}, own, optional)

    @property
    def known(self) -> Mapping[str, MetricDefinition]:
        """All of them, and the errors against gold scores."""
        return {**self.listed, **definitions_of_errors(METRICS)}

    def knows(self, metric: str) -> bool:
        """Return whether there is a metric that is named as in tables or without its family."""
        return full_name(metric, self.known) is not None

    def named(self, metric: str) -> str:
        """Return the qualified name of a metric that is named as in tables or without its family.

        Raises:
            UnknownMetricError: there is none of this name.
        """
        known = self.known
        name = full_name(metric, known)
        if name is None:
            if metric.startswith(f"{CRITERIA_FAMILY}."):
                criteria = [criterion for criterion in known if criterion.startswith(f"{CRITERIA_FAMILY}.")]
                message = unknown("criterion", metric, criteria, listed_by="ragtide criteria list")
                raise UnknownMetricError(f"{message}; to add it: ragtide criteria add")
            raise UnknownMetricError(unknown("metric", metric, known if "." in metric else map(short_name, known)))
        return name

    def fields(self, name: str) -> dict[str, object]:
        """Return the definition of a metric as values that JSON can hold."""
        metric = self.known[name]
        bands = metric.bands
        return {
            "metric": metric.name,
            "meaning": metric.meaning,
            "formula": metric.definition,
            "range": [metric.lower, metric.upper],
            "direction": metric.direction.value,
            "kind": metric.kind.value,
            "bands": None
            if bands is None
            else {"acceptable": bands.minimum, "good": bands.good, "excellent": bands.excellent},
            "needs": list(metric.needs),
            "labelers": given_by(metric.name, self.own, self.optional),
            "slopes": {
                labeler: [asdict(slope) for slope in slopes_of(labeler, metric.name)]
                for labeler, of_metrics in SLOPES.items()
                if metric.name in of_metrics
            },
            "does_not_tell": metric.does_not_tell,
            "related": list(metric.related),
            "source": metric.source,
        }


class UnknownMetricError(RagtideError):
    """There is no metric of this name."""


def given_by(name: str, own: Mapping[str, object], optional: Mapping[str, object]) -> list[str]:
    """Return the sources of a metric, in words."""
    if name in own:
        return ["every labeler, because the settings or an installed package name it"]
    if name in optional:
        return ["judge or labels stored in a file, if the setting metrics names it"]
    return labelers_of(name if ToolMetric.read(name) is None else AGENT_WASTED.name) or [
        "every labeler, for interactions with gold scores"
    ]


def explanation(metric: MetricDefinition, labelers: list[str]) -> RenderableType:
    """Return the definition of a metric as lines with names."""
    rows = (
        ("meaning", metric.meaning),
        ("formula", metric.definition),
        ("range", f"{metric.lower:g} to {metric.upper:g}"),
        ("better", metric.direction.in_words),
        ("bands", "" if metric.bands is None else bands_in_words(metric.bands, metric.direction)),
        ("needs", ", ".join(metric.needs)),
        ("given by", ", ".join(labelers)),
        *((labeler, slopes_in_words(labeler, metric.name)) for labeler in SLOPES),
        ("does not tell", metric.does_not_tell),
        ("read also", ", ".join(metric.related)),
        ("source", metric.source),
    )
    columns: list[Column[tuple[str, str]]] = [
        Column("", lambda row: Text(row[0], style="bright_black")),
        Column("", itemgetter(1), folds=LINE_WIDTH if out.is_terminal else UNLIMITED),
    ]
    return Group(Text(metric.name, style="bold"), folded(columns, [row for row in rows if row[1]]))


def bands_in_words(bands: Bands, direction: Direction) -> str:
    """Return the limits of the three levels of quality.

    >>> bands_in_words(Bands(0.15, 0.1, 0.05), Direction.LOWER)
    'acceptable up to 0.15, good up to 0.1, excellent up to 0.05; rules of thumb, which decide nothing'
    """
    limit = "up to" if direction is Direction.LOWER else "from"
    levels = (("acceptable", bands.minimum), ("good", bands.good), ("excellent", bands.excellent))
    return f"{', '.join(f'{name} {limit} {value:g}' for name, value in levels)}; rules of thumb, which decide nothing"


METRIC_COLUMNS: Final[Sequence[Column[MetricDefinition]]] = (
    Column("metric", lambda metric: metric.name, yields=3, shortest=20),
    Column("reading", lambda metric: metric.rule),
    Column("meaning", lambda metric: metric.meaning, yields=1),
)
