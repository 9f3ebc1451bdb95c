"""An endpoint with files and batches, as OpenAI's Batch API has them, and the labels of a scripted judge."""

import json
import threading
from collections.abc import Callable
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from ragtide.testing import ScriptedJudge

PRICES = json.dumps({"test-model": {"input": 1000.0, "output": 1000.0}})


class BatchEndpoint:
    """A server on 127.0.0.1; use it as a context manager. A batch ends after `looks` looks at it.

    A test may replace `answer`, which makes the output of a request, `end`, the status with which batches end, or set
    `fault`, which is called before each request and may raise `RefusedError` or `DroppedError`.
    """

    def __init__(self) -> None:
        self.looks = 1
        self.end = "completed"
        self.answer: Callable[[dict[str, Any]], dict[str, Any] | None] = self.usual
        self.fault: Callable[[str, str], None] = lambda method, path: None
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []
        """`custom_id` of each request of all batches."""
        self.calls: list[str] = []
        """Method and path of each request."""
        self._judge = ScriptedJudge()
        self._lock = threading.Lock()

    def usual(self, line: dict[str, Any]) -> dict[str, Any] | None:
        """Return the output of a request."""
        body = self._judge.usual(line["body"], None)
        return {"custom_id": line["custom_id"], "response": {"status_code": 200, "body": body}, "error": None}

    @property
    def environment(self) -> dict[str, str]:
        """Settings of a judge that asks here."""
        return {
            "RAGTIDE_JUDGE_MODEL": "test-model",
            "RAGTIDE_JUDGE_BASE_URL": f"http://127.0.0.1:{self._server.server_port}/v1",
            "RAGTIDE_JUDGE_API_KEY": "sk-very-secret-0123456789",
            "RAGTIDE_JUDGE_PRICES": PRICES,
        }

    def __enter__(self) -> Self:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer("GET")

            def do_POST(self) -> None:
                self._answer("POST")

            def log_message(self, *_: object) -> None:
                """Write nothing."""

            def _answer(self, method: str) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                try:
                    with endpoint._lock:
                        status, found = endpoint._reply(method, self.path, body, self.headers.get("content-type") or "")
                except RefusedError as refused:
                    status, found = (
                        refused.status,
                        {"error": {"message": str(refused), "type": "invalid_request_error"}},
                    )
                except DroppedError:
                    self.close_connection = True
                    return
                data = found if isinstance(found, bytes) else json.dumps(found).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _reply(self, method: str, target: str, body: bytes, kind: str) -> tuple[int, Any]:
        path = urlsplit(target).path.removeprefix("/v1")
        self.calls.append(f"{method} {path}")
        self.fault(method, path)
        match method, path.strip("/").split("/"):
            case "POST", ["files"]:
                name = f"file-{len(self.files)}"
                self.files[name] = _uploaded(body, kind)
                return 200, {
                    "id": name,
                    "object": "file",
                    "bytes": 1,
                    "created_at": 1,
                    "filename": "f",
                    "purpose": "batch",
                }
            case "POST", ["batches"]:
                return 200, self._begin(json.loads(body))
            case "GET", ["batches"]:
                after = parse_qs(urlsplit(target).query).get("after")
                found = [] if after else [self._shown(batch) for batch in reversed(self.batches.values())]
                return 200, {"object": "list", "data": found, "has_more": False}
            case "GET", ["batches", name]:
                return 200, self._looked_at(self.batches[name])
            case "GET", ["files", name, "content"]:
                return 200, self.files[name]
            case "POST", ["chat", "completions"]:
                return 200, self._judge.usual(json.loads(body), None)
        raise RefusedError(404, f"no such path: {target}")

    def _begin(self, asked: dict[str, Any]) -> dict[str, Any]:
        name = f"batch_{len(self.batches)}"
        lines = [json.loads(line) for line in self.files[asked["input_file_id"]].splitlines()]
        assert asked["endpoint"] == "/v1/chat/completions"
        assert asked["completion_window"] == "24h"
        assert all(set(line) == {"custom_id", "method", "url", "body"} for line in lines)
        assert len({line["custom_id"] for line in lines}) == len(lines)
        self.asked += [line["custom_id"] for line in lines]
        batch = {"id": name, "lines": lines, "metadata": asked.get("metadata"), "looks": 0, "status": "in_progress"}
        self.batches[name] = batch
        return self._shown(batch)

    def _looked_at(self, batch: dict[str, Any]) -> dict[str, Any]:
        batch["looks"] += 1
        if batch["status"] == "in_progress" and batch["looks"] >= self.looks:
            answers = (
                [one for one in map(self.answer, batch["lines"]) if one is not None] if self.end != "failed" else []
            )
            good = [answer for answer in answers if (answer.get("response") or {}).get("status_code") == 200]
            bad = [answer for answer in answers if answer not in good]
            for place, lines in (("output_file_id", good), ("error_file_id", bad)):
                if lines:
                    batch[place] = f"{batch['id']}-{place}"
                    self.files[batch[place]] = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
            batch["status"] = self.end
        return self._shown(batch)

    def _shown(self, batch: dict[str, Any]) -> dict[str, Any]:
        total = len(batch["lines"])
        done = total if batch["status"] == "completed" else 0
        errors = {"object": "list", "data": [{"message": "the file is bad", "code": "bad"}]}
        return {
            "id": batch["id"],
            "object": "batch",
            "endpoint": "/v1/chat/completions",
            "input_file_id": "file",
            "completion_window": "24h",
            "created_at": 1,
            "status": batch["status"],
            "metadata": batch["metadata"],
            "output_file_id": batch.get("output_file_id"),
            "error_file_id": batch.get("error_file_id"),
            "request_counts": {"total": total, "completed": done, "failed": 0},
            "errors": errors if batch["status"] == "failed" else None,
        }


class RefusedError(Exception):
    """The endpoint refuses the request."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class DroppedError(Exception):
    """The connection is lost before the reply."""


def _uploaded(body: bytes, kind: str) -> bytes:
    message = BytesParser().parsebytes(f"Content-Type: {kind}\r\n\r\n".encode() + body)
    for part in message.get_payload():
        if part.get_param("name", header="content-disposition") == "file":  # type: ignore[union-attr]  # of a multipart
            return part.get_payload(decode=True)  # type: ignore[union-attr,return-value]  # as above
    raise RefusedError(400, "the upload has no file")
