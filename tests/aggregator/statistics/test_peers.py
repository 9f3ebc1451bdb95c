import sys

import numpy as np
import pytest

from ragtide_aggregator.statistics.peers import MEMORY, Peer, PeerName


@pytest.mark.parametrize("name", ["adwin", "page_hinkley"])
def test_a_peer_finds_a_fall_and_goes_on_the_same_after_a_restart(name: PeerName) -> None:
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.random(600) < 0.9, rng.random(2000) < 0.2]).astype(float).tolist()

    def first(restart_at: int | None) -> int:
        peer = Peer(name)
        for place, value in enumerate(values):
            if place == restart_at:
                stored = peer.to_bytes()
                peer = Peer(name)
                peer.load(stored)
            if peer.update(value):
                return place
        return -1

    found = first(None)
    assert 600 <= found < 1000
    assert first(650 if found > 650 else 605) == found


def test_a_peer_begins_anew_before_it_grows_too_large() -> None:
    peer = Peer("page_hinkley")
    for _ in range(MEMORY + 5):
        peer.update(0.5)
    assert len(peer.values) == 5


def test_without_river_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "river", None)
    with pytest.raises(ValueError, match=r"ragtide\[peers\]"):
        Peer("adwin")
