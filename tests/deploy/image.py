"""The image, docker-compose.yml and the units of systemd, by real checkers: `make deploy-files` runs these tests."""

import io
import json
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose
from tests.deploy.checkers import checker
from tests.deploy.starting import SECRETS, started
from tests.support.conditions import wait_until

from ragtide_roles.supervising import KILL_S

ROOT = Path(__file__).parents[2]


def test_hadolint_finds_no_fault_in_the_dockerfile() -> None:
    done = subprocess.run([checker("hadolint"), str(ROOT / "Dockerfile")], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def context() -> list[str]:
    """Return the committed and new files that .dockerignore lets through; its last pattern that fits decides."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return [name for name in listed.stdout.split("\0") if name and not _is_ignored(name, patterns)]


def _is_ignored(name: str, patterns: list[str]) -> bool:
    ignored = False
    parts = name.split("/")
    folders = ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]
    for pattern in patterns:
        bare = pattern.removeprefix("!").removeprefix("**/")
        depth = bare.count("/")
        is_anywhere = "**/" in pattern
        if any(
            fnmatch(part, bare)
            for part in (parts if is_anywhere else folders)
            if is_anywhere or part.count("/") == depth
        ):
            ignored = not pattern.startswith("!")
    return ignored


def test_the_image_is_built_from_what_the_wheel_needs_and_from_no_secret(tmp_path: Path) -> None:
    names = context()
    assert not [name for name in names if name.startswith(("tests/", "deploy/compose/", "benchmarks/", ".git"))]
    source = tmp_path / "source"
    for name in names:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, source / name)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path / "dist")],
        check=True, cwd=source, capture_output=True,
    )  # fmt: skip
    (wheel,) = (tmp_path / "dist").iterdir()
    with zipfile.ZipFile(wheel) as files:
        built = set(files.namelist())
        with tarfile.open(fileobj=io.BytesIO(files.read("ragtide/docs.tar.xz"))) as pages:
            assert "docs/operate/deployment.md" in pages.getnames()
    assert {
        "ragtide/deploy/grafana/ragtide.json",
        "ragtide/deploy/systemd/ragtide@.service",
        "ragtide_consumers/text/language_arrays/logs.npy",
    } <= built
    assert not [name for name in built if name.startswith(("ragtide/deploy/helm", "ragtide/deploy/compose"))]


def composed() -> dict[str, Any]:
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", (ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    # YAML merges the parts that services share, as Compose does.
    return {name: value for name, value in yaml.safe_load(text).items() if not name.startswith("x-")}


def test_the_compose_file_fits_the_specification() -> None:
    compose = composed()
    PyCompose.from_json(json.dumps(compose)).validate()
    compose["services"]["worker"]["secrets"].append("ragtide_other")
    with pytest.raises(ValueError, match="ragtide_other"):
        PyCompose.from_json(json.dumps(compose)).validate()


@pytest.mark.parametrize("role", ["worker", "aggregator", "serve", "recorder", "notify"])
def test_a_role_starts_as_compose_says_and_passes_the_health_check_of_the_image(
    role: str, redis_url: str, tmp_path: Path
) -> None:
    service = composed()["services"][role]
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    # Exactly the folders that the service has in its container.
    folders = {volume.split(":")[1]: tmp_path / f"volume {place}" for place, volume in enumerate(service["volumes"])}
    folders = {**folders, "/run/secrets": tmp_path / "secrets", "/var/lib/ragtide": tmp_path / "home"}
    for folder in folders.values():
        folder.mkdir()
    config = ROOT / "deploy" / "compose" / "config" / "ragtide.toml"
    shutil.copy(config, folders["/etc/ragtide"])
    for name in service["secrets"]:
        (folders["/run/secrets"] / name).write_text(SECRETS.get(name, ""))
    image = dict(re.findall(r"(RAGTIDE_\w+)=(\S+)", text))
    given = {**image, **service["environment"], "RAGTIDE_REDIS_URL": redis_url, "RAGTIDE_WORKER_PROCESSES": "1"}
    (health,) = re.findall(r'CMD \["python", "-c", "(.*)"\]', text)
    asked = [sys.executable, "-c", health.replace('\\"', '"')]
    with started(service["command"], given, folders, tmp_path / "home") as running:
        port = {"RAGTIDE_HTTP_PORT": str(running.port("metrics"))}
        wait_until(lambda: subprocess.run(asked, env=port, check=False, capture_output=True).returncode == 0)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(KILL_S + 60) == 0, running.log.read_text()


@pytest.mark.parametrize("role", ["worker", "aggregator", "serve", "recorder", "notify"])
def test_systemd_finds_no_fault_in_the_units_and_little_exposure(role: str, tmp_path: Path) -> None:
    unit = (ROOT / "deploy" / "systemd" / "ragtide@.service").read_text(encoding="utf-8")
    # systemd also looks whether the program is there.
    (tmp_path / f"ragtide@{role}.service").write_text(unit.replace("/opt/ragtide/bin/ragtide", "/bin/true"))
    shutil.copy(ROOT / "deploy" / "systemd" / "ragtide.target", tmp_path)
    units = [str(path) for path in sorted(tmp_path.iterdir())]
    done = subprocess.run([checker("systemd-analyze"), "verify", *units], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    # Of at most 10; what a web service usually has is above 9. 2.0 is written as 20.
    exposed = ["security", "--offline=yes", "--no-pager", "--threshold=20", units[-1]]
    done = subprocess.run([checker("systemd-analyze"), *exposed], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
