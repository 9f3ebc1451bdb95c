"""The workflows, the lock file and the files about the project agree with the rest of the repository."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import ragtide

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parents[2]
WORKFLOWS = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCK = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
PYTHONS = [found[1] for line in PROJECT["classifiers"] if (found := re.fullmatch(r".*:: Python :: (3\.\d+)", line))]


def steps(workflow: str) -> list[dict[str, Any]]:
    """Return the steps of all jobs of a workflow."""
    return [step for job in WORKFLOWS[workflow]["jobs"].values() for step in job["steps"]]


def targets(script: str) -> set[str]:
    """Return the targets of this repository's Makefile that a script makes."""
    found = set()
    for line in script.splitlines():
        words = shlex.split(line, comments=True)
        words = words[1:] if words[:1] == ["sudo"] else words
        if words[:1] == ["make"] and "-C" not in words:
            found |= {word for word in words[1:] if "=" not in word and not word.startswith("-")}
    return found


def made(workflow: str) -> set[str]:
    """Return the targets that a workflow makes."""
    return {target for step in steps(workflow) for target in targets(step.get("run", ""))}


def test_ci_runs_what_the_ci_script_runs_and_every_target_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    known = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    script = targets((ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert {"lint", "test", "browser"} <= script <= known
    # The jobs have each Python by itself; the script has the Pythons of one machine.
    assert script - {"test-pythons"} <= made("ci") <= known
    assert made("release") == {"release"}
    (check,) = re.findall(r"^check: (.*?) *##", makefile, re.MULTILINE)
    assert set(check.split()) == script


def test_the_tests_run_on_every_python_and_system_of_the_classifiers() -> None:
    matrix = WORKFLOWS["ci"]["jobs"]["tests"]["strategy"]["matrix"]
    assert matrix["python"] == PYTHONS
    assert matrix["system"] == ["ubuntu-latest", "macos-latest"]
    (oldest,) = [entry["python"] for entry in matrix["include"]]
    assert f">={oldest}" == PROJECT["requires-python"]
    operating = {line.split(" :: ")[-1] for line in PROJECT["classifiers"] if line.startswith("Operating System")}
    assert operating == {"Linux", "MacOS"}


def test_the_tests_run_on_every_server_that_the_documentation_promises() -> None:
    text = (ROOT / "docs" / "operate" / "redis.md").read_text(encoding="utf-8")
    promise = re.search(r"Redis ([\d., and]+) and Valkey ([\d., and]+) are tested", " ".join(text.split()))
    assert promise is not None
    promised = {
        (server, number)
        for server, part in zip(("redis", "valkey"), promise.groups(), strict=True)
        for number in re.findall(r"\d+(?:\.\d+)?", part)
    }
    job = WORKFLOWS["ci"]["jobs"]["servers"]
    run = {(entry["server"], str(entry["version"])) for entry in job["strategy"]["matrix"]["include"]}
    assert len(promised) == 5
    for server, number in promised:
        assert any(name == server and version.startswith(f"{number}.") for name, version in run), (server, number)
    assert job["steps"][-1]["env"]["TEST_REDIS_SERVER"].endswith("/${{ matrix.server }}-server")


def test_no_job_is_left_out_of_the_result_and_each_has_its_rights_and_an_end() -> None:
    jobs = WORKFLOWS["ci"]["jobs"]
    assert set(jobs["passed"]["needs"]) == jobs.keys() - {"passed"}
    for workflow in WORKFLOWS.values():
        assert workflow["permissions"] == {}
        assert "concurrency" in workflow
        for name, job in workflow["jobs"].items():
            assert {"permissions", "timeout-minutes"} <= job.keys(), name
    writing = {
        name: [right for right, how in job["permissions"].items() if how == "write"] for name, job in jobs.items()
    }
    assert set(map(tuple, writing.values())) == {()}


def test_one_action_has_one_commit_everywhere() -> None:
    used: dict[str, set[str]] = {}
    for path in (ROOT / "action.yml", *(ROOT / ".github" / "workflows").glob("*.yml")):
        for name, commit in re.findall(r"uses: ([\w./-]+)@(.*)", path.read_text(encoding="utf-8")):
            used.setdefault(name, set()).add(commit)
    assert len(used) > 5
    for name, commits in used.items():
        (commit,) = commits
        assert re.fullmatch(r"[0-9a-f]{40} # v\d+\.\d+\.\d+", commit), name


def locked() -> dict[str, list[tuple[Version, Marker | None, int]]]:
    """Return version, marker and number of hashes of each entry of the lock file, by name."""
    entries: dict[str, list[tuple[Version, Marker | None, int]]] = {}
    for entry in re.split(r"\n(?=\S)", LOCK.strip()):
        first, *hashes = entry.split(" \\\n")
        requirement = Requirement(first)
        (pin,) = requirement.specifier
        assert pin.operator == "=="
        number = sum(bool(re.fullmatch(r" +--hash=sha256:[0-9a-f]{64}", line)) for line in hashes)
        assert number == len(hashes)
        entries.setdefault(canonicalize_name(requirement.name), []).append(
            (Version(pin.version), requirement.marker, number)
        )
    return entries


def required(extras: list[str]) -> list[Requirement]:
    """Return what extras of ragtide require, those of ragtide's own extras that they name included."""
    found: list[Requirement] = []
    for extra in extras:
        for requirement in map(Requirement, PROJECT["optional-dependencies"][extra]):
            found += required(sorted(requirement.extras)) if requirement.name == "ragtide" else [requirement]
    return found


def test_the_lock_file_has_hashes_and_no_address() -> None:
    assert re.search(r"://|index-url|find-links|\bfile:|@ ", LOCK) is None
    entries = locked()
    assert len(entries) > 100
    assert [name for name, pins in entries.items() if any(number == 0 for _, _, number in pins)] == []


def test_the_lock_file_satisfies_what_ragtide_requires_on_every_python_and_system() -> None:
    entries = locked()
    wanted = [*map(Requirement, PROJECT["dependencies"]), *required(["service", "embedded", "dev"])]
    assert len(wanted) > 50
    for python in PYTHONS:
        for system, machine in (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64")):
            environment = {
                "python_version": python,
                "python_full_version": f"{python}.0",
                "sys_platform": system,
                "platform_machine": machine,
                "platform_system": {"linux": "Linux", "darwin": "Darwin"}[system],
            }
            for requirement in wanted:
                if requirement.marker is None or requirement.marker.evaluate(environment):
                    pins = [
                        version
                        for version, marker, _ in entries.get(canonicalize_name(requirement.name), [])
                        if marker is None or marker.evaluate(environment)
                    ]
                    assert len(pins) == 1, f"{requirement} on {environment}: {pins}; run make lock"
                    assert requirement.specifier.contains(pins[0], prereleases=True), f"{requirement}; run make lock"


def test_the_citation_names_this_version_and_licence() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == ragtide.__version__
    assert citation["license"] == PROJECT["license"]


def test_every_form_of_an_issue_has_fields_with_names() -> None:
    forms = {
        path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
        for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")
    }
    assert forms.keys() == {"bug", "config", "feature", "question"}
    for name in forms.keys() - {"config"}:
        fields = [field for field in forms[name]["body"] if field["type"] != "markdown"]
        assert len({field["id"] for field in fields}) == len(fields)
        assert all(field["attributes"]["label"] for field in fields)


def test_the_files_about_the_project_link_to_files_that_exist() -> None:
    names = ("AGENTS.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md", "SUPPORT.md")
    links = {
        (name, link)
        for name in names
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / name).read_text(encoding="utf-8"))
    }
    assert len(links) > 5
    assert [(name, link) for name, link in links if not (ROOT / link).exists()] == []
