"""Every test runs real servers; `wait_until` stands where a test would otherwise sleep."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from tests.support.conditions import wait_until

from ragtide_runtime.errors import RedisUnavailable
from ragtide_runtime.redis.server import embedded, keeper
from ragtide_runtime.redis.server.binary import RedisBinary
from ragtide_runtime.redis.server.embedded import EmbeddedRedis

pytestmark = pytest.mark.processes

USER = """
import sys
from pathlib import Path
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
server = EmbeddedRedis.open(Path(sys.argv[1]))
try:
    print(server.started_by_us, server.url, flush=True)
    sys.stdin.read()
except KeyboardInterrupt:
    from redis import Redis
    with Redis.from_url(server.url) as client:
        client.set("flushed", "after Ctrl-C")
server.close()
"""


@contextmanager
def user_process(data_dir: Path) -> Iterator[subprocess.Popen[str]]:
    """Start another Python process that opens the server and closes it when its standard input ends."""
    with subprocess.Popen(
        [sys.executable, "-c", USER, str(data_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def first_line(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().split()


def client_of(server: EmbeddedRedis) -> Redis:
    return Redis.from_url(server.url)


def processes_of(data_dir: Path, *, keepers: bool | None = None) -> list[psutil.Process]:
    """Return the keepers and servers of a data directory, or the ones of these: they, and nobody else, work in it.

    A process can end, or become a zombie, between any two questions about it; then it works nowhere."""
    found = []
    for process in psutil.process_iter():
        try:
            works_here = process.status() != psutil.STATUS_ZOMBIE and process.cwd() == str(data_dir.resolve())
            if works_here and keepers in (None, keeper.__file__ in process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def servers_of(data_dir: Path) -> list[psutil.Process]:
    return processes_of(data_dir, keepers=False)


def keepers_of(data_dir: Path) -> list[psutil.Process]:
    return processes_of(data_dir, keepers=True)


def answers(client: Redis) -> bool:
    try:
        return bool(client.ping())
    except RedisConnectionError:
        return False


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


def test_data_survive_close_and_reopen(data_dir: Path) -> None:
    for expected in (1, 2, 3):
        with EmbeddedRedis.open(data_dir) as server, client_of(server) as client:
            assert client.incr("opened") == expected
            assert server.started_by_us


def test_after_close_no_process_and_no_socket_is_left(data_dir: Path) -> None:
    with EmbeddedRedis.open(data_dir) as server, client_of(server) as client:
        assert len(servers_of(data_dir)) == len(keepers_of(data_dir)) == 1
        client.set("k", "v")
    assert processes_of(data_dir) == []
    assert not (data_dir / "redis.sock").exists()


@pytest.mark.parametrize("made_before", ["", "outer", "outer/data"])
@pytest.mark.parametrize("foreign", [False, True])
def test_a_server_in_which_nothing_was_written_leaves_no_directory_that_it_made(
    tmp_path: Path, made_before: str, foreign: bool
) -> None:
    (tmp_path / made_before).mkdir(parents=True, exist_ok=True)
    data_dir = tmp_path / "outer" / "data"
    with EmbeddedRedis.open(data_dir):
        if foreign:
            (data_dir / "answers.sqlite").touch()
    assert data_dir.exists() == (foreign or made_before == "outer/data")
    assert (tmp_path / "outer").exists() == (foreign or made_before != "")
    assert processes_of(tmp_path / "outer" / "data") == []


def test_a_start_that_fails_leaves_no_directory_that_it_made(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> None:
        raise RedisUnavailable("there is no server")

    monkeypatch.setattr(embedded, "choose_server", none)
    with pytest.raises(RedisUnavailable, match="no server"):
        EmbeddedRedis.open(data_dir)
    assert not data_dir.exists()


def test_a_directory_that_its_last_user_removes_is_made_again_by_the_next(data_dir: Path) -> None:
    def use(_: int) -> None:
        for _ in range(4):
            with EmbeddedRedis.open(data_dir) as server, client_of(server) as client:
                assert client.ping()

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(use, range(3)))


def test_closing_twice_is_closing_once(data_dir: Path) -> None:
    first = EmbeddedRedis.open(data_dir)
    first.close()
    with EmbeddedRedis.open(data_dir) as second, client_of(second) as client:
        first.close()
        assert client.ping()


def test_the_end_of_the_process_closes(data_dir: Path) -> None:
    program = USER.replace("server.close()", "")
    subprocess.run([sys.executable, "-c", program, str(data_dir)], stdin=subprocess.DEVNULL, check=True)
    assert processes_of(data_dir) == []


def test_two_processes_share_one_server_and_the_last_one_stops_it(data_dir: Path) -> None:
    with EmbeddedRedis.open(data_dir) as ours, user_process(data_dir) as other:
        started_by_other, url = first_line(other)
        assert (started_by_other, url) == ("False", ours.url)
        assert len(servers_of(data_dir)) == 1
        ours.close()
        with client_of(ours) as client:
            assert client.ping(), "the other process still uses it"
        other.communicate()
    assert processes_of(data_dir) == []


def test_one_process_may_open_it_twice(data_dir: Path) -> None:
    with EmbeddedRedis.open(data_dir) as first:
        with EmbeddedRedis.open(data_dir) as second:
            assert second.url == first.url
            assert not second.started_by_us
            assert second.binary.version == first.binary.version
            assert second.binary.origin == "already running"
        with client_of(first) as client:
            assert client.ping()


def test_a_fresh_directory_opened_by_six_processes_at_once_has_one_server(data_dir: Path) -> None:
    command = [sys.executable, "-c", USER, str(data_dir)]
    users = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    try:
        lines = [first_line(user) for user in users]
        assert sorted(started for started, _ in lines) == ["False"] * 5 + ["True"]
        assert len({url for _, url in lines}) == 1
        assert len(servers_of(data_dir)) == len(keepers_of(data_dir)) == 1
    finally:
        for user in users:
            user.communicate()
    assert [user.returncode for user in users] == [0] * 6
    assert processes_of(data_dir) == []


def test_the_server_stops_soon_after_its_only_user_was_killed(data_dir: Path) -> None:
    with user_process(data_dir) as user:
        first_line(user)
        assert len(servers_of(data_dir)) == 1
        user.kill()
        wait_until(lambda: not processes_of(data_dir), timeout_s=5)


def test_a_killed_server_comes_back_with_its_data_while_it_is_used(data_dir: Path) -> None:
    with EmbeddedRedis.open(data_dir) as server, client_of(server) as client:
        client.config_set("appendfsync", "always")
        for round_ in range(5):
            client.set("round", round_)
            (process,) = servers_of(data_dir)
            process.kill()
            process.wait(10)
            wait_until(lambda: answers(client))
            assert client.get("round") == str(round_).encode()
            assert servers_of(data_dir) != [process]


def test_after_the_keeper_was_killed_the_server_goes_on_and_the_next_open_adopts_it(data_dir: Path) -> None:
    with EmbeddedRedis.open(data_dir) as ours, client_of(ours) as client:
        (server,) = servers_of(data_dir)
        (killed,) = keepers_of(data_dir)
        killed.kill()
        wait_until(lambda: not keepers_of(data_dir))
        client.set("written", "without a keeper")
        with EmbeddedRedis.open(data_dir) as second:
            assert second.started_by_us
            assert servers_of(data_dir) == [server]
            assert len(keepers_of(data_dir)) == 1
            server.kill()  # the new keeper minds the adopted server as its own
            wait_until(lambda: answers(client) and servers_of(data_dir) not in ([], [server]))
            assert client.get("written") == b"without a keeper"
    assert processes_of(data_dir) == []


def test_after_the_keeper_was_killed_the_last_user_still_stops_the_server(data_dir: Path) -> None:
    with EmbeddedRedis.open(data_dir) as server, client_of(server) as client:
        keepers_of(data_dir)[0].kill()
        wait_until(lambda: not keepers_of(data_dir))
        client.set("kept", "yes")
    assert processes_of(data_dir) == []
    with EmbeddedRedis.open(data_dir) as server, client_of(server) as client:
        assert client.get("kept") == b"yes"


def test_after_everything_was_killed_the_data_are_there(data_dir: Path) -> None:
    with user_process(data_dir) as user:
        _, url = first_line(user)
        with Redis.from_url(url) as client:
            client.config_set("appendfsync", "always")
            client.set("kept", "yes")
        for process in (*keepers_of(data_dir), *servers_of(data_dir)):
            process.kill()
    wait_until(lambda: not processes_of(data_dir))
    with EmbeddedRedis.open(data_dir) as server, client_of(server) as client:
        assert client.get("kept") == b"yes"


def test_a_keeper_told_to_end_stops_its_server(data_dir: Path) -> None:
    with EmbeddedRedis.open(data_dir):
        keepers_of(data_dir)[0].terminate()
        wait_until(lambda: not processes_of(data_dir))


def test_ctrl_c_leaves_the_server_to_its_user_until_that_is_done(data_dir: Path) -> None:
    with user_process(data_dir) as user:
        first_line(user)
        os.killpg(user.pid, signal.SIGINT)
        assert user.wait(20) == 0
    assert processes_of(data_dir) == []
    with EmbeddedRedis.open(data_dir) as server, client_of(server) as client:
        assert client.get("flushed") == b"after Ctrl-C"


def test_a_forked_child_neither_stops_the_server_nor_loses_it(data_dir: Path) -> None:
    server = EmbeddedRedis.open(data_dir)
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:  # what a fork of a web server does: goes on using what its parent opened
        os.close(tell)
        os.read(told, 1)
        with client_of(server) as client:
            client.set("child", "still here")
        server.close()
        os._exit(0)
    os.close(told)
    server.close()
    assert len(servers_of(data_dir)) == 1
    os.close(tell)
    assert os.waitpid(child, 0)[1] == 0
    wait_until(lambda: not processes_of(data_dir))
    with EmbeddedRedis.open(data_dir) as server, client_of(server) as client:
        assert client.get("child") == b"still here"


@pytest.mark.parametrize("name", ["with space", "per%cent", "que?ry#hash", "umläut", 'quo"te', "b{r}ace"])
def test_any_directory_name_makes_a_url_that_connects(tmp_path: Path, name: str) -> None:
    with EmbeddedRedis.open(tmp_path / name) as server, client_of(server) as client:
        assert client.ping()


def test_a_path_too_long_for_a_socket_gets_a_private_one_elsewhere(tmp_path: Path) -> None:
    data_dir = tmp_path / ("long-" * 20) / ("longer-" * 10)
    with EmbeddedRedis.open(data_dir) as server, client_of(server) as client, user_process(data_dir) as other:
        assert client.incr("n") == 1
        assert first_line(other) == ["False", server.url]
        private = Path(server.url.removeprefix("unix://")).parent
        assert private.stat().st_mode & 0o777 == 0o700
        other.communicate()
    assert not private.exists()
    with EmbeddedRedis.open(data_dir) as server, client_of(server) as client:
        assert client.incr("n") == 2


def test_a_socket_directory_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    data_dir = tmp_path / ("long-" * 20)
    with EmbeddedRedis.open(data_dir) as server:
        private = Path(server.url.removeprefix("unix://")).parent
    private.mkdir(mode=0o755)
    try:
        with pytest.raises(RedisUnavailable, match="not a private directory"):
            EmbeddedRedis.open(data_dir)
    finally:
        private.rmdir()


def test_only_this_user_can_read_what_the_server_keeps(data_dir: Path) -> None:
    with EmbeddedRedis.open(data_dir):
        assert [file.name for file in data_dir.iterdir() if file.stat().st_mode & 0o077] == []


def test_a_write_to_the_server_is_never_evicted_and_always_logged(data_dir: Path) -> None:
    with EmbeddedRedis.open(data_dir) as server, client_of(server) as client:
        wanted = {
            "appendonly": "yes",
            "appendfsync": "everysec",
            "maxmemory-policy": "noeviction",
            "save": "",
            "port": "0",
        }
        assert {name: client.config_get(name)[name] for name in wanted} == wanted


def test_a_data_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for wrong in (file, file / "below"):
        with pytest.raises(RedisUnavailable, match=r"cannot be Redis's data directory .* RAGTIDE_DATA_DIR"):
            EmbeddedRedis.open(wrong)


def test_a_data_directory_that_cannot_be_made_is_refused() -> None:
    # Not even root can make a directory here.
    with pytest.raises(RedisUnavailable, match=r"cannot be Redis's data directory .* RAGTIDE_DATA_DIR"):
        EmbeddedRedis.open(Path("/proc/ragtide"))


def test_a_removed_data_directory_ends_its_server(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with EmbeddedRedis.open(data_dir):
        elsewhere = data_dir.rename(tmp_path / "elsewhere")
        wait_until(lambda: not processes_of(elsewhere))


def test_a_failed_start_quotes_the_log_and_leaves_nothing_running(data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "appendonly.aof").write_bytes(b"this is not an append-only file\r\n" * 3)
    with pytest.raises(RedisUnavailable, match=r"ended 3 times before it answered.*Bad file format.*: correct that"):
        EmbeddedRedis.open(data_dir, convert=True)
    assert processes_of(data_dir) == []


def test_a_keeper_killed_while_it_starts_is_replaced(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launch, launched = embedded.launch_keeper, []

    def killed_the_first_time(data_dir: Path, address: Path, binary: RedisBinary) -> None:
        launched.append(binary)
        if len(launched) > 1:
            launch(data_dir, address, binary)

    monkeypatch.setattr(embedded, "launch_keeper", killed_the_first_time)
    with EmbeddedRedis.open(data_dir) as server, client_of(server) as client:
        assert client.ping()
        assert len(launched) == 2


def test_a_start_that_takes_too_long_says_so_and_holds_nobody_up(data_dir: Path) -> None:
    data_dir.mkdir()
    start = keeper.FileLock(data_dir / "start.lock")
    assert start.acquire()
    with pytest.raises(RedisUnavailable, match=r"another process .* try again"):
        EmbeddedRedis.open(data_dir, timeout_s=0.05)
    start.release()
    with EmbeddedRedis.open(data_dir):
        pass


def test_a_platform_without_file_locks_is_told_to_use_a_url(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Windows:
        name = "nt"

    monkeypatch.setattr(embedded, "os", Windows)
    with pytest.raises(RedisUnavailable, match="set RAGTIDE_REDIS_URL"):
        EmbeddedRedis.open(data_dir)


def test_an_overgrown_log_is_put_aside(data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "redis.log").write_bytes(b"old\n" * (keeper.LOG_LIMIT_BYTES // 4 + 1))
    with EmbeddedRedis.open(data_dir):
        assert (data_dir / "redis.log.1").stat().st_size > keeper.LOG_LIMIT_BYTES
        assert (data_dir / "redis.log").stat().st_size < keeper.LOG_LIMIT_BYTES


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777, 0o722])
def test_a_data_directory_that_others_can_write_is_refused_before_anything_is_written(
    data_dir: Path, mode: int
) -> None:
    data_dir.mkdir()
    data_dir.chmod(mode)
    with pytest.raises(RedisUnavailable, match=rf"can be written by other users \(mode {mode:04o}\): run chmod go-w"):
        EmbeddedRedis.open(data_dir)
    assert list(data_dir.iterdir()) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory to another user")
def test_a_data_directory_of_another_user_is_refused(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o700)
    os.chown(data_dir, 12345, 12345)
    with pytest.raises(RedisUnavailable, match=r"belongs to another user \(uid 12345\).*set RAGTIDE_DATA_DIR"):
        EmbeddedRedis.open(data_dir)
    assert list(data_dir.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["redis.conf", "redis.log", "start.lock", "users.lock", "keeper.lock", "server.lock", "appendonly.aof"]
)
def test_a_link_in_the_data_directory_is_not_followed(data_dir: Path, tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    data_dir.mkdir(mode=0o700)
    (data_dir / name).symlink_to(victim)
    with pytest.raises(RedisUnavailable):
        EmbeddedRedis.open(data_dir)
    assert victim.read_bytes() == b"precious"
    wait_until(lambda: not processes_of(data_dir))


@pytest.mark.parametrize("name", ["keeper-error.txt", "server.json", "server.json.new"])
def test_a_link_where_a_note_is_written_is_replaced(data_dir: Path, tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    data_dir.mkdir(mode=0o700)
    (data_dir / name).symlink_to(victim)
    with EmbeddedRedis.open(data_dir):
        assert victim.read_bytes() == b"precious"
