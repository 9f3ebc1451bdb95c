"""`make core`: everything but the laboratory and the command line works without the laboratory."""

from importlib import import_module

import pytest
from tests.support.http_service import http_service
from tests.support.modules import ROOT, product_files

APART = ("ragtide_offline", "ragtide.cli", "ragtide.__main__", "ragtide.mcp_server")
"""The laboratory, and the command line, which hands it over."""


def test_every_other_module_is_imported() -> None:
    names = []
    for path in product_files():
        parts = path.relative_to(ROOT).with_suffix("").parts[1:]
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if not any(name == apart or name.startswith(f"{apart}.") for apart in APART):
            names.append(name)
    assert len(names) > 500
    for name in names:
        import_module(name)
    with pytest.raises(ModuleNotFoundError):
        import_module("ragtide_offline")


async def test_the_page_has_no_screen_of_it(redis_url: str) -> None:
    async with http_service(redis_url) as service:
        for path, status in (("/", 200), ("/a", 200), ("/i", 200), ("/x", 404), ("/static/look.css", 200)):
            async with service.session.get(service.url + path) as reply:
                text = await reply.text()
                assert (path, reply.status) == (path, status), text
                assert path != "/" or "/x" not in _links(text)


def _links(text: str) -> list[str]:
    return [part.partition('"')[0] for part in text.split('href="')[1:]]
