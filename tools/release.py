"""Make what a release publishes: `make release TAG=v0.1.0`.

In the folder: `packages` with the sdist, the wheel and that of ragtide-data, `notes.md` from CHANGELOG.md, and
`sbom.cdx.json`, a bill of materials (CycloneDX) of the wheel with the extras `service` and `embedded`.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from ragtide_runtime import __version__

ROOT = Path(__file__).parents[1]


def release_notes(changelog: str, version: str) -> str:
    """Return the section of a version in a changelog, without its heading.

    Raises: ValueError if there is none, or if it is empty.
    """
    found = re.search(rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None or not found[1].strip():
        raise ValueError(f'CHANGELOG.md has no notes of {version}: write them below a heading "## [{version}] - DATE"')
    return found[1].strip() + "\n"


def check_tag(tag: str, version: str) -> None:
    """Check that a tag is that of a version.

    Raises: ValueError if it is another.
    """
    if tag != f"v{version}":
        raise ValueError(
            f'the tag is "{tag}", and the version in runtime/ragtide_runtime/__init__.py is {version}: '
            f"tag v{version}, or change the version"
        )


def write_bill_of_materials(wheel: Path, target: Path) -> None:
    """Write the bill of materials of a wheel and everything it needs, as installed from the package index now."""
    tools = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder) / "environment"
        run(tools / "uv", "venv", "--quiet", "--python", sys.executable, environment)
        found = ("--find-links", wheel.parent, f"{wheel}[service,embedded]")
        run(tools / "uv", "pip", "install", "--quiet", "--python", environment, *found)
        # The component that the bill is of. The repository's own pyproject.toml has no version: it is in the code.
        project = Path(folder) / "pyproject.toml"
        project.write_text(
            f'[project]\nname = "ragtide"\nversion = "{__version__}"\nlicense = "Apache-2.0"\n', encoding="utf-8"
        )
        options = ("--pyproject", project, "--output-reproducible", "--of", "JSON", "--output-file", target)
        run(tools / "cyclonedx-py", "environment", *options, environment / "bin" / "python")


def run(*command: str | Path) -> None:
    """Run a command in the root of the repository; one that fails ends this program."""
    if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        raise SystemExit(f"failed: {' '.join(str(part) for part in command)}")


def main(tag: str, folder: Path) -> None:
    """Write everything into the folder."""
    try:
        check_tag(tag, __version__)
        notes = release_notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), __version__)
    except ValueError as error:
        raise SystemExit(str(error)) from None
    packages = folder / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    run(sys.executable, "tests/wheel.py", packages)
    (wheel,) = packages.glob(f"ragtide-{__version__}-*.whl")
    write_bill_of_materials(wheel, folder / "sbom.cdx.json")
    (folder / "notes.md").write_text(notes, encoding="utf-8")
    print(f"{folder}: {', '.join(sorted(path.name for path in folder.rglob('*') if path.is_file()))}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).absolute())
