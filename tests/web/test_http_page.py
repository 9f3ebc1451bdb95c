"""Every curl command of docs/connect/http.md is sent to a running service, and answered."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.support.doc_pages import page_text
from tests.support.http_service import http_service

from ragtide_runtime.settings.serve import token_digest

PAGE = page_text("http")
COMMANDS = re.findall(r"^```bash\n(curl .*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
ADDRESS = "http://127.0.0.1:8080"


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_command_of_the_page_is_answered(
    command: str, async_redis: Any, redis_url: str, tmp_path: Path
) -> None:
    item = {"pipeline": "shop", "question": "q", "documents": ["d"], "response": "r"}
    (tmp_path / "interactions.jsonl").write_text(f"{json.dumps(item)}\n" * 3)
    _, address, *options = shlex.split(command)
    headers, data = {}, None
    for name, value in zip(options[::2], options[1::2], strict=True):
        if name == "-H":
            key, _, rest = value.partition(": ")
            headers[key] = rest
        else:
            assert name in ("-d", "--data-binary")
            data = (tmp_path / value[1:]).read_bytes() if value.startswith("@") else value.encode()
    assert address.startswith(ADDRESS)
    async with http_service(redis_url) as service:
        method = "GET" if data is None else "POST"
        url = address.replace(ADDRESS, service.url)
        async with service.session.request(method, url, headers=headers, data=data) as reply:
            answer = await reply.json()
            assert reply.status == 200, answer
            assert data is None or answer["published"] >= 1


def test_the_first_answer_of_the_page_is_that_of_its_first_command() -> None:
    (answer,) = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert json.loads(answer)["items"] == [{"index": 0, "status": "published", "interaction_id": "order-4711"}]


def test_the_digest_of_the_page_is_that_of_a_token() -> None:
    assert token_digest("secret").hex() in PAGE
