"""A Hub of Hugging Face on this machine: folders under names and commits, over real HTTP."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any


class Hub:
    """Serves the files of folders, and redirects large files to another host, as the Hub does.

    Args:
        models: folder by repository and commit, such as `owner/name@COMMIT`.
    """

    def __init__(self, models: dict[str, Path]) -> None:
        self.models = models
        self.asked: list[str] = []
        """Paths of all requests."""
        self.tokens: list[tuple[str, str | None]] = []
        """Host and token of each request."""
        self.statuses: list[int] = []
        """Statuses of the next replies in place of files."""
        self.cut = False
        """Whether replies end in their middle."""
        self.cards: dict[str, dict[str, Any]] = {}
        """What the API says about a repository besides its commit and files."""
        self.elsewhere = ""
        """Address to which ONNX files are redirected, if any."""
        self.url = ""

    def listing(self, place: str) -> dict[str, Any] | None:
        """Return the API's description of a repository, or of one of its commits; None without one."""
        repository, _, revision = place.partition("/revision/")
        for name, folder in self.models.items():
            owner, _, commit = name.partition("@")
            if owner == repository and revision in ("", "main", commit):
                files = sorted(path for path in folder.rglob("*") if path.is_file())
                siblings = [
                    {"rfilename": path.relative_to(folder).as_posix(), "size": path.stat().st_size} for path in files
                ]
                return {"id": owner, "sha": commit, "siblings": siblings, **self.cards.get(owner, {})}
        return None


@contextmanager
def hub_of(models: dict[str, Path]) -> Iterator[Hub]:
    """Run a Hub for the body of a `with`."""
    hub = Hub(models)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.asked.append(self.path)
            hub.tokens.append((self.headers["Host"], self.headers["Authorization"]))
            repository, _, rest = self.path.removeprefix("/").partition("/resolve/")
            commit, _, name = rest.partition("/")
            path = hub.models.get(f"{repository}@{commit}", Path("/nowhere")) / name
            described = self.path.startswith("/api/models/")
            if hub.statuses:
                self.answer(hub.statuses.pop(0), b"")
            elif described:
                listing = hub.listing(self.path.removeprefix("/api/models/").partition("?")[0])
                # Without a token the Hub does not say whether a repository is missing or private.
                self.answer(401 if listing is None else 200, json.dumps(listing).encode())
            elif not path.is_file():
                self.answer(404, b"no such file")
            elif hub.elsewhere and name.endswith(".onnx") and not self.headers["Host"].startswith("localhost"):
                self.send_response(302)
                self.send_header("Location", f"{hub.elsewhere}{self.path}")
                self.send_header("Content-Length", "0")
                self.end_headers()
            else:
                self.answer(200, path.read_bytes())

        def answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if hub.cut else body)
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
