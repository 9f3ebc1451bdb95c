import socket
from inspect import iscoroutinefunction
from typing import Any, get_args

import pytest

from ragtide_runtime.settings.serve import ServeSettings
from ragtide_web.guard.admission import Reader, Writer
from ragtide_web.reading.context import Shared
from ragtide_web.server import listen

pytestmark = pytest.mark.pure


def test_an_answer_does_not_wait_for_the_acknowledgment_of_its_head() -> None:
    with listen(ServeSettings(port=0)) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("parameter", [Shared, Reader, Writer])
def test_a_dependency_of_a_route_does_not_run_in_a_thread(parameter: Any) -> None:
    assert iscoroutinefunction(get_args(parameter)[1].dependency)
