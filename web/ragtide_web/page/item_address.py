"""Addresses of pipelines and items: names of users may hold any character, such as `/`. Pure.

A browser takes the segments `.` and `..` out of a path, even if they are encoded; a proxy decodes `%2F` and joins
slashes. So such names go into the query.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote, urlencode

PREFIX: Final = "/i/"


def item_address(pipeline: str, interaction_id: str, query: Mapping[str, str] | None = None) -> str:
    """Return the path of an item's page.

    Args:
        query: further fields of the query, such as the list that the item is from.

    >>> item_address("shop", "a b?", {"list": "newest"})
    '/i/shop/a%20b%3F?list=newest'
    >>> item_address("shop", ".."), item_address("shop", "a/b")
    ('/i?pipeline=shop&id=..', '/i?pipeline=shop&id=a%2Fb')
    """
    fields = {name: value for name, value in (query or {}).items() if value}
    if not (_fits_a_path(pipeline) and _fits_a_path(interaction_id)):
        return f"/i?{urlencode({'pipeline': pipeline, 'id': interaction_id, **fields})}"
    path = f"{PREFIX}{quote(pipeline, safe='')}/{quote(interaction_id, safe='')}"
    return f"{path}?{urlencode(fields)}" if fields else path


def pipeline_address(pipeline: str, **query: str) -> str:
    """Return the path of a pipeline's page.

    >>> pipeline_address("shop/de", range="1h"), pipeline_address("a//b")
    ('/p/shop/de?range=1h', '/p?name=a%2F%2Fb')
    """
    is_path = all(_fits_a_path(part) for part in pipeline.split("/"))
    fields = ({} if is_path else {"name": pipeline}) | {name: value for name, value in query.items() if value}
    return f"/p{f'/{quote(pipeline)}' if is_path else ''}{f'?{urlencode(fields)}' if fields else ''}"


def _fits_a_path(name: str) -> bool:
    return name not in ("", ".", "..") and "/" not in name and "\\" not in name


def names_in(raw_path: str) -> tuple[str | None, str] | None:
    """Return the pipeline, if there is one, and the id in the path of an item's page as the browser sent it.

    Args:
        raw_path: the path with its percent signs.

    >>> names_in("/i/shop/a%2Fb"), names_in("/i/a%2Fb"), names_in("/i/a/b/c")
    (('shop', 'a/b'), (None, 'a/b'), None)
    """
    _, _, rest = raw_path.partition(PREFIX)
    names = [unquote(name) for name in rest.split("/")]
    if not all(names) or len(names) > 2:
        return None
    return (None, names[0]) if len(names) == 1 else (names[0], names[1])
