"""The processors and the memory of a process follow its affinity and the limits of its cgroups, of both versions."""

from pathlib import Path

import pytest

from ragtide_runtime.processes.processors import CgroupLimits, cgroup_limits, own_processors, usable_processors


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


@pytest.mark.parametrize(
    ("affinity", "quota", "expected"), [(8, None, 8), (8, 3.9, 3), (8, 0.5, 1), (2, 16.0, 2), (1, None, 1)]
)
def test_whole_processors_of_affinity_and_quota_count_and_at_least_one(
    affinity: int, quota: float | None, expected: int
) -> None:
    assert usable_processors(affinity, CgroupLimits(quota)) == expected
    assert own_processors() >= 1


def test_version_2_has_the_least_limit_of_a_cgroup_and_those_around_it(tmp_path: Path) -> None:
    write(tmp_path, cpu__max="max 100000", memory__max="max")
    write(tmp_path / "pods", cpu__max="250000 100000", memory__max="1000")
    write(tmp_path / "pods" / "mine", cpu__max="400000 100000", memory__max="500")
    assert cgroup_limits("0::/pods/mine\n", tmp_path) == CgroupLimits(2.5, 500)
    assert cgroup_limits("0::/\n", tmp_path) == CgroupLimits()


def test_in_a_container_only_the_root_of_its_own_cgroup_is_there(tmp_path: Path) -> None:
    write(tmp_path, cpu__max="100000 100000", memory__max="700")
    assert cgroup_limits("0::/system.slice/docker-1f.scope\n", tmp_path) == CgroupLimits(1.0, 700)


def test_version_1_has_a_folder_for_each_controller(tmp_path: Path) -> None:
    write(tmp_path / "cpu" / "mine", cpu__cfs_quota_us="150000\n", cpu__cfs_period_us="100000\n")
    write(tmp_path / "cpu", cpu__cfs_quota_us="-1\n", cpu__cfs_period_us="100000\n")
    write(tmp_path / "memory", memory__limit_in_bytes="9223372036854771712\n")
    membership = "4:memory:/mine\n3:cpu,cpuacct:/mine\n2:pids:/mine\n"
    assert cgroup_limits(membership, tmp_path) == CgroupLimits(1.5, None)


@pytest.mark.parametrize("text", ["", "strange\n", "0::\n", "::::\n"])
def test_without_readable_cgroups_there_is_no_limit(text: str, tmp_path: Path) -> None:
    assert cgroup_limits(text, tmp_path) == CgroupLimits()
