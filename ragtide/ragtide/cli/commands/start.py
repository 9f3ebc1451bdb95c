"""The commands of the first day: `demo`, `doctor` and `docs`."""

from pathlib import Path
from typing import Annotated, Final

import typer

from ..command import command
from ..console import err, out, print_json, warn
from ..options import JsonOption, Role, given


@command("ragtide demo", "ragtide demo --fast --json", exits="1 if no alert fires")
def demo(
    fast: Annotated[bool, typer.Option("--fast", help="As fast as possible, without the live table.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the data, so that other commands can show them.")] = False,
    open_page: Annotated[bool, typer.Option("--open", help="Show the page in a browser, until Ctrl-C.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run all roles over example data until an alert fires.

    The demo starts a Redis of its own. Real answers to real questions come first; then answers are swapped.
    """
    import asyncio
    import shutil
    import tempfile

    from rich.text import Text

    from ragtide_offline.demo import demo_settings
    from ragtide_runtime.redis.server.embedded import EmbeddedRedis
    from ragtide_runtime.telemetry.logs import configure_logging

    from ..demo_screen import print_demo, run_on_screen

    configure_logging("error")
    data_dir = Path(tempfile.mkdtemp(prefix="ragtide-demo-"))
    try:
        with EmbeddedRedis.open(data_dir) as server:
            settings = demo_settings(server.url, data_dir)
            if not as_json:
                out.print(Text.assemble(("ragtide demo", "bold cyan"), f" on {server.binary}"))
            result = asyncio.run(run_on_screen(settings, fast=fast, live=not as_json, open_page=open_page))
    finally:
        if not keep:
            shutil.rmtree(data_dir, ignore_errors=True)
    if as_json:
        print_json({**result.as_dict(), "data_dir": str(data_dir) if keep else None})
    elif not open_page:  # otherwise it is printed above the sentence about the page
        print_demo(result)
    if keep:
        command = f"ragtide --data-dir {data_dir} estimates"
        err.print(f"The data are kept. Show them with: {command}", highlight=False, soft_wrap=True)
    if not result.alerts:
        raise typer.Exit(1)


@command("ragtide doctor", "ragtide doctor --role worker", exits="1 if a check finds a problem")
def doctor(
    context: typer.Context,
    role: Annotated[
        Role | None,
        typer.Option(help="Check only that this role runs on this host; made for the health check of a container."),
    ] = None,
    repair: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Drop this damaged field of a checkpoint, and start its count again. Stop every aggregator first.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check the deployment, and say how to repair each problem. The exit code is 1 if there is a problem."""
    import socket

    from redis.asyncio import Redis

    from ragtide_aggregator.maintenance.repair import repair as repair_field
    from ragtide_roles.doctor.examination import examine, examine_role
    from ragtide_roles.doctor.finding import Finding
    from ragtide_runtime.redis.url import RedisHandle

    from ...bridge.findings import bridge_findings
    from ..doctor_views import findings_table, print_repairs
    from ..with_redis import with_redis

    settings = given(context).settings()
    if repair is not None:
        print_repairs(with_redis(settings, lambda redis, _: repair_field(redis, settings, repair)), as_json=as_json)
        return

    async def body(redis: Redis, handle: RedisHandle) -> list[Finding]:
        if role is not None:
            return await examine_role(redis, settings, role.value, socket.gethostname())
        return await examine(redis, settings, handle.description, further=bridge_findings)

    findings = with_redis(settings, body)
    if as_json:
        print_json([finding.as_dict() for finding in findings])
    else:
        out.print(findings_table(findings))
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(1)


@command(
    "ragtide docs",
    "ragtide docs troubleshooting",
    "ragtide docs --search 'thumbs feedback'",
    exits="1 if there is no such page, or the search finds nothing",
)
def docs(
    page: Annotated[str | None, typer.Argument(help="Name of a page, such as settings; default: list all.")] = None,
    words: Annotated[
        str | None,
        typer.Option("--search", metavar="WORDS", help="List the sections, of one page or all, that have every word."),
    ] = None,
) -> None:
    """Read the documentation of this version.

    A pipe or a file gets the page as Markdown.
    """
    from ragtide_schemas.suggestions import unknown

    from ..doc_pages import (
        TEXT_WIDTH,
        DocumentationPage,
        for_terminal,
        found_lines,
        page_name,
        pages,
        pages_table,
        search,
    )

    known = pages()
    name = None if page is None else page_name(page)
    if name is not None and name not in known:
        warn(unknown("page", name, known, listed_by="ragtide docs"))
        raise typer.Exit(1)
    if words is not None:
        found = search(words, known if name is None else {name: known[name]})
        if not found:
            warn(f"no section has {words!r}: search for fewer words, or parts of words")
            raise typer.Exit(1)
        for line in found_lines(found[:_FOUND_SHOWN], words, out.width):
            out.print(line, highlight=False)
        more = f"{len(found) - _FOUND_SHOWN:,} more sections: add a word. " if len(found) > _FOUND_SHOWN else ""
        out.print(f"{more}To read a page: ragtide docs PAGE", style="bright_black", highlight=False)
        return
    if name is None:
        out.print(pages_table({name: path for name, path in known.items() if "/" not in name}, out.width))
        out.print(
            "ragtide docs PAGE shows a page, ragtide docs --search WORD finds one. A first page: concepts.",
            style="bright_black",
            highlight=False,
        )
        return
    text = for_terminal(known[name].read_text(encoding="utf-8"), name, known)
    if not out.is_terminal:
        typer.echo(text)
        return
    out.print(DocumentationPage(text, code_theme="ansi_dark", hyperlinks=False), width=min(out.width, TEXT_WIDTH))
    out.print()
    out.print("To read a page that is named here: ragtide docs PAGE", style="bright_black", highlight=False)


_FOUND_SHOWN: Final = 20
"""Most sections that a search lists."""
