"""One address in front of several servers, as a load balancer is; open connections stay where they are."""

import socket
import threading
from contextlib import suppress
from typing import Self


class OneAddress:
    """A port whose new connections go to `target`; the first ones may be cut after some bytes of replies.

    Args:
        target: port that new connections are led to.
        cut_after: for each of the first connections, the replies after which it is closed.
    """

    def __init__(self, target: int, *, cut_after: tuple[int, ...] = ()) -> None:
        self.target = target
        self._cuts = list(cut_after)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.port = int(self._listener.getsockname()[1])
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.taken = 0
        """Connections so far."""
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.taken += 1
            self._open.append(client)
            most = self._cuts.pop(0) if self._cuts else None
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.shutdown(socket.SHUT_RDWR)
                continue
            self._open.append(server)
            for source, sink, limit in ((client, server, None), (server, client, most)):
                threading.Thread(target=_copy, args=(source, sink, limit), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for one in (self._listener, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


def _copy(source: socket.socket, sink: socket.socket, most: int | None) -> None:
    try:
        while (data := source.recv(65_536)) and most != 0:
            sink.sendall(data)
            most = None if most is None else most - 1
    except OSError:
        pass
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
