"""The chart for Kubernetes, as the real helm renders it: `make deploy-files` runs these tests."""

import json
import shutil
import signal
import subprocess
from functools import cache, partial
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tests.deploy.checkers import checker
from tests.deploy.starting import SECRETS, started
from tests.monitoring.programs import program
from tests.support.cases import for_each
from tests.support.conditions import wait_until
from tests.support.monitoring_files import DASHBOARD, RULES

from ragtide.cli.app import COMMANDS
from ragtide_roles.supervising import KILL_S
from ragtide_runtime.redis.keys import LABEL_GROUP, Streams
from ragtide_runtime.settings.environment import OTHERS, known_variables
from ragtide_runtime.telemetry.catalogue import WAITING

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "ragtide"
ROLES = ("worker", "aggregator", "serve", "recorder", "notify")

REQUIRED = {"redis.url": "redis://redis-master:6379/0", "existingSecret": "ragtide"}

EVERYTHING = {
    **REQUIRED,
    "partitions": "2",
    "recorder.enabled": "true",
    "notify.enabled": "true",
    "worker.autoscaling.enabled": "true",
    "serve.ingress.enabled": "true",
    "serve.ingress.host": "ragtide.example.com",
    "serve.ingress.tlsSecret": "tls",
    "networkPolicy.enabled": "true",
    "monitoring.serviceMonitor.enabled": "true",
    "monitoring.rules.enabled": "true",
    "grafana.dashboard.enabled": "true",
}

OF_OPERATORS = {"ScaledObject", "TriggerAuthentication", "ServiceMonitor", "PrometheusRule"}
"""Kinds of KEDA and of the Prometheus operator, whose schemas Kubernetes does not have."""


def helm(*arguments: str, values: dict[str, str]) -> subprocess.CompletedProcess[str]:
    chosen = [part for name, value in values.items() for part in ("--set", f"{name}={value}")]
    return subprocess.run(
        [checker("helm"), *arguments, str(CHART), *chosen], check=False, capture_output=True, text=True
    )


def rendered(**changes: str) -> list[dict[str, Any]]:
    """Return the objects of the chart with everything switched on."""
    done = helm("template", "ragtide", values={**EVERYTHING, **changes})
    assert done.returncode == 0, done.stderr
    return [found for found in yaml.safe_load_all(done.stdout) if found]


@cache
def objects() -> dict[tuple[str, str], dict[str, Any]]:
    return {(found["kind"], found["metadata"]["name"]): found for found in rendered()}


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [found for (its_kind, _), found in objects().items() if its_kind == kind]


def container(role: str) -> dict[str, Any]:
    (found,) = objects()["Deployment", f"ragtide-{role}"]["spec"]["template"]["spec"]["containers"]
    return dict(found)


def variables(role: str) -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in container(role)["env"]}


def test_helm_finds_no_fault_and_packages_the_chart_with_the_texts_behind_its_links(tmp_path: Path) -> None:
    for values in (REQUIRED, EVERYTHING):
        done = helm("lint", "--strict", values=values)
        assert done.returncode == 0, done.stdout + done.stderr
    done = helm("package", "--destination", str(tmp_path), values={})
    assert done.returncode == 0, done.stderr
    (package,) = tmp_path.iterdir()
    shutil.unpack_archive(package, tmp_path / "unpacked")
    files = tmp_path / "unpacked" / "ragtide" / "files"
    assert (files / "ragtide.rules.yml").read_bytes() == RULES.read_bytes()
    assert (files / "ragtide.json").read_bytes() == DASHBOARD.read_bytes()
    assert not (files / "ragtide.json").is_symlink()


@pytest.mark.parametrize("version", ["1.25", "1.31", "1.37"])
def test_every_object_is_valid_in_an_old_and_a_new_kubernetes(version: str) -> None:
    checked = [found for (kind, _), found in objects().items() if kind not in OF_OPERATORS]
    assert len(checked) == 17
    for found in checked:
        kubernetes_validate.validate(found, version, strict=True)
    wrong = json.loads(json.dumps(objects()["Deployment", "ragtide-worker"]))
    wrong["spec"]["template"]["spec"]["containers"][0]["livenessProb"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, version, strict=True)


def test_only_what_keeps_no_texts_and_needs_no_destinations_is_on_by_default() -> None:
    done = helm("template", "ragtide", values=REQUIRED)
    found = [(each["kind"], each["metadata"]["name"]) for each in yaml.safe_load_all(done.stdout) if each]
    assert {name for kind, name in found if kind == "Deployment"} == {
        f"ragtide-{role}" for role in ("worker", "aggregator", "serve")
    }
    assert not {kind for kind, _ in found} & {*OF_OPERATORS, "Ingress", "NetworkPolicy", "PersistentVolumeClaim"}


@for_each("role", ROLES)
def test_a_role_has_probes_limits_and_rights_like_those_that_docs_promise(role: str) -> None:
    pod = objects()["Deployment", f"ragtide-{role}"]["spec"]["template"]["spec"]
    found = container(role)
    assert found["args"] == [role]
    assert role in COMMANDS
    known = known_variables() | OTHERS
    assert variables(role).keys() <= known
    ports = {port["name"] for port in found["ports"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert found[probe]["httpGet"]["port"] in ports
    # Their probes are asked by the kubelet, from another address than this pod's own.
    assert variables(role)["RAGTIDE_HTTP_HOST"] == "::"
    assert pod["terminationGracePeriodSeconds"] > KILL_S + (5 if role == "serve" else 0)
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] > 0
    assert found["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"cpu", "memory"} <= found["resources"]["limits"].keys()
    # A file that is mounted by itself is never updated.
    assert not [mount for mount in found["volumeMounts"] if "subPath" in mount]
    selected = objects()["PodDisruptionBudget", f"ragtide-{role}"]["spec"]["selector"]["matchLabels"]
    labels = objects()["Deployment", f"ragtide-{role}"]["spec"]["template"]["metadata"]["labels"]
    assert selected.items() <= labels.items()


@pytest.mark.parametrize("role", ROLES)
def test_a_role_starts_as_the_chart_says_answers_its_probes_and_ends_in_time(
    role: str, redis_url: str, tmp_path: Path
) -> None:
    folders = {mount["mountPath"]: tmp_path / mount["name"] for mount in container(role)["volumeMounts"]}
    for folder in folders.values():
        folder.mkdir()
    (folders["/etc/ragtide"] / "ragtide.toml").write_text("worker_processes = 1\n")
    for name, text in SECRETS.items():
        (folders["/run/secrets/ragtide"] / name).write_text(text)
    given = {**variables(role), "RAGTIDE_REDIS_URL": redis_url, "RAGTIDE_PARTITIONS": "1"}
    with started(container(role)["args"], given, folders, folders["/var/lib/ragtide"]) as running:
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            asked = container(role)[probe]["httpGet"]
            wait_until(partial(running.answers, asked["port"], asked["path"]))
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(KILL_S + 60) == 0, running.log.read_text()


def test_workers_are_scaled_by_the_backlog_of_the_group_that_they_read_with() -> None:
    (scaled,) = of_kind("ScaledObject")
    assert scaled["spec"]["scaleTargetRef"]["name"] == "ragtide-worker"
    assert "replicas" not in objects()["Deployment", "ragtide-worker"]["spec"]
    triggers = scaled["spec"]["triggers"]
    assert [trigger["metadata"]["stream"] for trigger in triggers] == [
        Streams("ragtide", partition).interactions for partition in (0, 1)
    ]
    assert {trigger["metadata"]["consumerGroup"] for trigger in triggers} == {LABEL_GROUP}
    assert {trigger["metadata"]["address"] for trigger in triggers} == {"redis-master:6379"}
    (login,) = of_kind("TriggerAuthentication")
    assert {trigger["authenticationRef"]["name"] for trigger in triggers} == {login["metadata"]["name"]}
    asked = rendered(**{"worker.autoscaling.prometheusUrl": "http://prometheus:9090"})
    (trigger,) = next(found for found in asked if found["kind"] == "ScaledObject")["spec"]["triggers"]
    assert f"({WAITING.name}{{" in trigger["metadata"]["query"]


def test_prometheus_scrapes_every_role_under_the_job_of_the_rules(tmp_path: Path) -> None:
    (monitor,) = of_kind("ServiceMonitor")
    service = objects()["Service", "ragtide-metrics"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert service["metadata"]["labels"][monitor["spec"]["jobLabel"]] == "ragtide"
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    for role in ROLES:
        labels = objects()["Deployment", f"ragtide-{role}"]["spec"]["template"]["metadata"]["labels"]
        assert service["spec"]["selector"].items() <= labels.items()
    (rule,) = of_kind("PrometheusRule")
    assert rule["spec"] == yaml.safe_load(RULES.read_text(encoding="utf-8"))
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rule["spec"]))
    subprocess.run([program("promtool"), "check", "rules", str(tmp_path / "rules.yml")], check=True)
    assert json.loads(objects()["ConfigMap", "ragtide-dashboard"]["data"]["ragtide.json"]) == json.loads(
        DASHBOARD.read_text(encoding="utf-8")
    )


def test_the_text_of_the_config_arrives_as_it_is(tmp_path: Path) -> None:
    text = 'labeler = "local"\n# "quotes", {{ braces }} and \\backslashes\n[[alerts]]\nname = "a"\n'
    (tmp_path / "ragtide.toml").write_text(text)
    done = subprocess.run(
        [checker("helm"), "template", "x", str(CHART), "--set", "redis.url=redis://r:1", "--set", "existingSecret=s",
         "--set-file", f"config={tmp_path / 'ragtide.toml'}"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    (found,) = (each for each in yaml.safe_load_all(done.stdout) if each and each["kind"] == "ConfigMap")
    assert found["data"]["ragtide.toml"] == text


@for_each(
    "values, words",
    [
        ({"redis.url": ""}, "redis.url is empty: set it"),
        ({"redis.url": "redis://:secret@r:6379"}, "put the password into the key ragtide_redis_password"),
        ({"redis.url": "http://r:6379"}, "/redis/url"),
        ({"existingSecret": ""}, "serve needs tokens"),
        ({"existingSecret": "", "serve.enabled": "false", "notify.enabled": "true"}, "notify needs destinations"),
        (
            {"redis.url": "redis+cluster://a:1,b:2".replace(",", "\\,"), "worker.autoscaling.enabled": "true"},
            "set worker.autoscaling.prometheusUrl",
        ),
        ({"worker.replica": "2"}, "'replica' not allowed"),
        ({"partitions": "0"}, "/partitions"),
        ({"serve.ingress.enabled": "true"}, "serve.ingress.host is empty"),
    ],
)
def test_values_that_cannot_work_are_refused_with_a_sentence(values: dict[str, str], words: str) -> None:
    done = helm("template", "ragtide", values={**REQUIRED, **values})
    assert done.returncode != 0, values
    assert words in done.stderr
