"""Compose, the image, the chart and the units of systemd agree with ragtide, and with each other."""

import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.cases import for_each
from tests.support.monitoring_files import DASHBOARD, DEPLOY, RULES

from ragtide.cli.app import COMMANDS
from ragtide_roles.supervising import KILL_S
from ragtide_runtime.settings.environment import OTHERS, known_variables
from ragtide_runtime.settings.model import load_settings

ROOT = DEPLOY.parent
VARIABLES = known_variables() | OTHERS
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
ROLES = ("worker", "aggregator", "serve", "recorder", "notify")


def dockerfile() -> str:
    return (ROOT / "Dockerfile").read_text(encoding="utf-8")


def unit() -> str:
    return (DEPLOY / "systemd" / "ragtide@.service").read_text(encoding="utf-8")


def number(text: str) -> float:
    """Return the number before a unit such as s or g."""
    found = re.match(r"[0-9.]+", text)
    assert found, text
    return float(found[0])


@for_each("role", ROLES)
def test_compose_starts_roles_with_settings_and_secrets_that_ragtide_knows(role: str) -> None:
    service = SERVICES[role]
    assert service["command"][0] == role
    assert role in COMMANDS
    assert service["environment"].keys() <= VARIABLES
    assert service["depends_on"]["redis"]["condition"] == "service_healthy"
    assert number(service["stop_grace_period"]) > KILL_S
    assert {name.upper() for name in service["secrets"]} <= VARIABLES
    assert set(service["secrets"]) <= COMPOSE["secrets"].keys()
    # The folder of the settings and nothing else of this machine; a folder, so that a replaced file is seen.
    assert [volume for volume in service["volumes"] if volume.startswith(".")] == [
        "./deploy/compose/config:/etc/ragtide:ro"
    ]
    assert service["environment"]["RAGTIDE_CONFIG"] == "/etc/ragtide/ragtide.toml"
    limits = service["deploy"]["resources"]["limits"]
    assert {"cpus", "memory"} <= limits.keys()
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]


def test_compose_shows_the_page_to_this_machine_only_and_keeps_texts_only_if_asked() -> None:
    assert {name for name, service in SERVICES.items() if "profiles" not in service} == {
        "redis",
        "worker",
        "aggregator",
        "serve",
    }
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert published
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []
    port = SERVICES["serve"]["environment"]["RAGTIDE_SERVE_PORT"]
    assert f"127.0.0.1:{port}:{port}" in SERVICES["serve"]["ports"]
    # Other machines of the network reach it, so it starts with tokens only.
    assert "ragtide_serve_tokens" in SERVICES["serve"]["secrets"]
    assert SERVICES["aggregator"]["deploy"]["replicas"] >= 2


def test_the_redis_of_compose_keeps_what_it_was_given() -> None:
    command = " ".join(SERVICES["redis"]["command"])
    for words in ("--appendonly yes", "--maxmemory-policy noeviction", "requirepass"):
        assert words in command
    (maxmemory,) = re.findall(r"--maxmemory (\d+)gb", command)
    assert float(maxmemory) < number(SERVICES["redis"]["deploy"]["resources"]["limits"]["memory"])
    assert "healthcheck" in SERVICES["redis"]


def test_images_are_pinned_by_their_versions() -> None:
    bases = [name for name in re.findall(r"^FROM (\S+)", dockerfile(), re.MULTILINE) if name != "base"]
    images = [*bases, *(service["image"] for service in SERVICES.values())]
    assert [image for image in images if not re.search(r":\d+\.\d+\.\d+", image)] == []


def test_the_secrets_of_compose_are_made_once_and_set_what_they_name(tmp_path: Path) -> None:
    script = tmp_path / "secrets.sh"
    script.write_text((DEPLOY / "compose" / "secrets.sh").read_text(encoding="utf-8"))
    subprocess.run(["sh", str(script)], check=True, umask=0o077)
    folder = tmp_path / "secrets"
    made = {path.name: path.read_text() for path in folder.iterdir()}
    assert made.keys() == COMPOSE["secrets"].keys()
    assert {Path(secret["file"]).name for secret in COMPOSE["secrets"].values()} == made.keys()
    # Only this user enters the folder, and the user of a container reads each file.
    assert folder.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o004 for path in folder.iterdir())
    subprocess.run(["sh", str(script)], check=True)
    assert {path.name: path.read_text() for path in folder.iterdir()} == made
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAGTIDE_SECRETS_DIR", str(folder))
        # The strictest check of tokens is the one for an address that other machines reach.
        patched.setenv("RAGTIDE_SERVE_HOST", "::")
        settings = load_settings()
    assert settings.redis_password is not None
    assert settings.redis_password.get_secret_value() == made["ragtide_redis_password"]
    assert len(settings.serve.tokens) == 1
    assert (settings.judge.api_key, settings.notify.destinations) == (None, ())


def test_the_settings_of_compose_are_right_also_where_they_are_switched_on(tmp_path: Path) -> None:
    text = (DEPLOY / "compose" / "config" / "ragtide.toml").read_text(encoding="utf-8")
    switched_on = re.sub(r"^# (?=\[|\w+ = )", "", text, flags=re.MULTILINE)
    assert tomllib.loads(switched_on) != tomllib.loads(text)
    for found in (text, switched_on):
        (tmp_path / "ragtide.toml").write_text(found)
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("RAGTIDE_CONFIG", str(tmp_path / "ragtide.toml"))
            load_settings()


def test_the_image_runs_as_a_number_with_a_home_and_asks_the_health_of_its_role() -> None:
    text = dockerfile()
    assert re.findall(r"^USER (\d+):(\d+)$", text, re.MULTILINE)[-1][0] != "0"
    assert "HOME=" in text
    given = dict(re.findall(r"(RAGTIDE_\w+)=(\S+)", text))
    assert given.keys() <= VARIABLES
    (health,) = re.findall(r'CMD \["python", "-c", "(.*)"\]', text)
    code = health.replace('\\"', '"')
    assert "/readyz" in code
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAGTIDE_HTTP_PORT", "1")  # nothing listens there
        with pytest.raises(OSError, match="refused"):
            exec(compile(code, "health check", "exec"), {})


def test_the_image_installs_extras_that_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    usual = re.findall(r"--extra (\w+)", dockerfile())
    assert {"service", "web", "recorder"} <= set(usual)
    assert [name for name in usual if name not in extras] == []
    assert 'ARG EXTRAS=""' in dockerfile()
    assert {"models", "apprise"} <= extras.keys()


@for_each(
    "link, source",
    [
        (DEPLOY / "helm" / "ragtide" / "files" / "ragtide.rules.yml", RULES),
        (DEPLOY / "helm" / "ragtide" / "files" / "ragtide.json", DASHBOARD),
    ],
)
def test_the_chart_has_the_rules_and_the_dashboard_and_no_copy(link: Path, source: Path) -> None:
    assert link.is_symlink()
    assert link.resolve() == source.resolve()


def test_the_versions_of_the_chart_and_of_the_image_are_that_of_ragtide() -> None:
    version = (ROOT / "runtime" / "ragtide_runtime" / "__init__.py").read_text(encoding="utf-8")
    chart = yaml.safe_load((DEPLOY / "helm" / "ragtide" / "Chart.yaml").read_text(encoding="utf-8"))
    assert f'"{chart["appVersion"]}"' in version
    assert {service["image"] for name, service in SERVICES.items() if name != "redis"} == {
        f"ragtide:{chart['appVersion']}"
    }


def test_the_unit_of_systemd_starts_a_role_and_gives_it_time_and_secrets() -> None:
    lines = [line for line in unit().splitlines() if "=" in line and not line.startswith("#")]
    found = dict(line.split("=", 1) for line in lines)
    assert found["ExecStart"] == "/opt/ragtide/bin/ragtide %i"
    for role in ROLES:
        assert f"ragtide@{role}" in unit()
    assert number(found["TimeoutStopSec"]) > KILL_S
    assert found["KillMode"] == "mixed"  # a parent ends its processes itself
    given = dict(line.removeprefix("Environment=").split("=", 1) for line in lines if line.startswith("Environment="))
    assert given.keys() <= VARIABLES
    # systemd joins the name and the name of each file with _, so the file redis_password is ragtide_redis_password.
    assert found["LoadCredential"].split(":")[0] == "ragtide"
    assert given["RAGTIDE_SECRETS_DIR"] == "%d"


def test_the_folder_of_secrets_is_not_in_git() -> None:
    made = ROOT / "deploy" / "compose" / "secrets" / "ragtide_redis_password"
    asked = ["git", "-C", str(ROOT), "check-ignore", "--quiet", os.fspath(made)]
    assert subprocess.run(asked, check=False).returncode == 0
