"""Renders a screen as HTML, with the headers that keep foreign text from doing anything."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from ragtide_runtime import __version__
from ragtide_runtime.redis.keys import parts_of_worst, rule_of_beyond
from ragtide_schemas import utc_now
from ragtide_schemas.printable import printable
from ragtide_schemas.slopes import slopes_in_words

from ..guard.headers import DONE_COOKIE, HEADERS, done_digest
from ..guard.proxy import prefix_of
from ..guard.viewers import Viewer, cookie_of
from ..look.amounts import number, seconds, usd
from ..reading.fleet import bounds, good_position, number_key, positions
from ..reading.item_lists import duration_text
from .item_address import item_address, pipeline_address
from .screen_files import Folders, template_loader

TABS: Final = {
    "Fleet": "/",
    "Alerts": "/a",
    "Traffic": "/t",
    "Experiments": "/x",
    "Judge": "/judge",
    "System": "/system",
}
"""Addresses of the screens in the head of the page."""
WITHOUT_LABORATORY: Final = {name: address for name, address in TABS.items() if name != "Experiments"}
PARTS_OF_TABS: Final = {
    "Judge": {"Judge": "/judge", "Criteria": "/criteria", "Annotate": "/label"},
    "System": {"System": "/system", "Dead letters": "/dead", "Audit log": "/system/orders"},
}
"""Addresses of the screens of a tab that has several."""
_TAB_OF: Final = {
    **{address: tab for tab, address in TABS.items()},
    **{address: tab for tab, parts in PARTS_OF_TABS.items() for address in parts.values()},
    "/i": "Traffic",
    "/p": "Fleet",
}
THEME_COOKIE: Final = "ragtide_theme"


def render(
    request: Request, viewer: Viewer | None, template: str, *, status: int = 200, **content: object
) -> HTMLResponse:
    """Return a screen.

    Args:
        request: the request.
        viewer: its user; None before a login.
        template: name of its template, such as `fleet.html`.
        status: HTTP status.
        content: values of its template by their names there; texts are escaped.
    """
    context, theme = request.app.state.context, cookie_of(request, THEME_COOKIE)
    done = request.query_params.get("done", "")
    text = (
        environment(request.app.state.folders)
        .get_template(template)
        .render(
            content,
            status=status,
            viewer=viewer,
            theme=theme if theme in ("dark", "light") else "auto",
            path=request.url.path,
            tabs=TABS if context.laboratory is not None else WITHOUT_LABORATORY,
            tab=_TAB_OF.get(f"/{request.url.path.split('/')[1]}", ""),
            parts_of_tabs=PARTS_OF_TABS,
            root=prefix_of(request),
            version=__version__,
            # Only the page that an order led to shows its sentence, never a link of somebody else.
            done=done[:200] if done and cookie_of(request, DONE_COOKIE) == done_digest(done) else "",
        )
    )
    return HTMLResponse(text, status, headers=HEADERS)


@cache
def environment(folders: Folders) -> Environment:
    """Return the templates."""
    templates = Environment(
        loader=template_loader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    filters: dict[str, Callable[..., object]] = {
        "number": number,
        "usd": usd,
        "seconds": seconds,
        "share": lambda value: f"{value:.1%}",
        "count": lambda value: f"{value:,}",
        "counted": counted,
        "title_of": title_of,
        "slopes": slopes_in_words,
        "pipeline_address": pipeline_address,
        "item_address": item_address,
        "parts_of_worst": parts_of_worst,
        "rule_of_beyond": rule_of_beyond,
        "in_short": in_short,
        "when": when,
        "lasting": duration_text,
        "seconds_long": seconds_long,
        "in_bytes": in_bytes,
        "in_code": in_code,
        "by_metric": lambda headlines: {headline.metric: headline for headline in headlines},
        "bounds": bounds,
        "positions": positions,
        "good_position": good_position,
        "number_key": number_key,
    }
    templates.filters |= filters
    templates.globals["now"] = utc_now
    return templates


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun.

    >>> counted(1, "alert"), counted(1_200, "alert"), counted(2, "entry", "entries")
    ('1 alert', '1,200 alerts', '2 entries')
    """
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"


def _visible(value: Any) -> Any:
    return printable(value, keep="\n\t") if isinstance(value, str) and not isinstance(value, Markup) else value


def title_of(metric: str) -> str:
    """Return the short title of a metric.

    >>> title_of("trace.context_relevance"), title_of("ragchecker.context_utilization")
    ('Context relevance', 'Context utilization · ragchecker')
    >>> title_of("answer.latency_s"), title_of("answer.cost_usd")
    ('Latency (s) · answer', 'Cost ($) · answer')
    """
    group, _, name = metric.rpartition(".")
    title = name.replace("_usd", " ($)") if name.endswith("_usd") else re.sub("_s$", " (s)", name)
    title = title.replace("_", " ")
    return title[:1].upper() + title[1:] + ("" if group in ("", "trace") else f" · {group}")


QUESTION_CHARS: Final = 140
"""Most characters of a question where it names an item."""


def in_short(text: str) -> str:
    """Return the beginning of a text in one line.

    >>> in_short(" May I  cancel?")
    'May I cancel?'
    """
    line = " ".join(text[: QUESTION_CHARS * 2].split())
    return line if len(line) <= QUESTION_CHARS else f"{line[: QUESTION_CHARS - 1]}…"


def when(value: datetime | None) -> Markup:
    """Return a time in UTC; a browser with JavaScript shows it in its own time zone.

    >>> when(None)
    Markup('–')
    >>> when(datetime(2026, 11, 23, 9, 5, 7, tzinfo=UTC))
    Markup('<time datetime="2026-11-23T09:05:07+00:00">2026-11-23 09:05:07 UTC</time>')
    """
    if value is None:
        return Markup("–")
    value = value.astimezone(UTC)
    return Markup('<time datetime="{}">{:%Y-%m-%d %H:%M:%S} UTC</time>').format(
        value.isoformat(timespec="seconds"), value
    )


def seconds_long(value_s: float) -> str:
    """Return a length of time in the largest unit that has two of it, so that it is off by a quarter at most.

    >>> seconds_long(30), seconds_long(119.6), seconds_long(5_400), seconds_long(7_200), seconds_long(200_000)
    ('30 s', '2 min', '90 min', '2 h', '2 d')
    """
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if round(value_s) >= 2 * size:
            return f"{value_s / size:.0f} {unit}"
    return f"{max(value_s, 0):.0f} s"


def in_bytes(count: float) -> str:
    """Return a number of bytes in a readable unit.

    >>> in_bytes(512), in_bytes(1_536), in_bytes(3 * 1024**3)
    ('512 B', '1.5 KiB', '3.0 GiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"


def in_code(text: str) -> Markup:
    """Return a text whose words in backticks are code.

    >>> in_code("a `b` < c")
    Markup('a <code>b</code> &lt; c')
    """
    parts = re.split("`([^`]*)`", text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part) for number, part in enumerate(parts)
    )
