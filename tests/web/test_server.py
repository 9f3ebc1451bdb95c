import socket

import pytest

from ragtide_runtime.settings.serve import ServeSettings
from ragtide_web.server import listen

pytestmark = pytest.mark.pure


def test_an_answer_does_not_wait_for_the_acknowledgment_of_its_head() -> None:
    with listen(ServeSettings(port=0)) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
