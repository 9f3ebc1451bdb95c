"""The metadata that depends on the addresses in `[tool.ragtide]` of pyproject.toml, and what the wheel packs.

With an address of the repository every relative link of the README leads to the file at the tag of the version, and
pictures are those of that tag. Without one a relative link becomes its text, and pictures are left out, so that the
page on PyPI has no link that leads nowhere.

What is built from a tree holds the data that its code reads. With RAGTIDE_DATA_APART=1, as for a release, the wheel
leaves them to the distribution of data/pyproject.toml, and the extra `worker` requires that, in the same version.
"""

import io
import os
import re
import shutil
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

PAGES: Final = "ragtide/ragtide/docs.tar.xz"
"""The packed pages of the documentation, where the wheel has them; the build makes them."""

FILES: Final = (
    "consumers/ragtide_consumers/text/language_arrays",
    "offline/ragtide_offline/data/demo_interactions.jsonl",
)
"""The other data: the language model, and the interactions of the demo."""

APART: Final = "ragtide-data"
"""The distribution with the data."""


def data_are_apart() -> bool:
    """Return whether the wheel leaves the data to their own distribution."""
    return os.environ.get("RAGTIDE_DATA_APART") == "1"


_FENCE: Final = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_PICTURE: Final = re.compile(r'!\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)(?P<title>\s+"[^"]*")?\)')
_LINK: Final = re.compile(
    r'(?<!!)\[(?P<text>(?:[^\[\]]|!?\[[^\[\]]*\](?:\([^)]*\))?)*)\]\((?P<target>[^)\s]+)(?P<title>\s+"[^"]*")?\)'
)
_HTML_PICTURE: Final = re.compile(r'<(?:img|source)\b[^>]*?\b(?:src|srcset)="(?P<target>[^"]+)"[^>]*>')
_HTML_LINK: Final = re.compile(r'<a\b[^>]*?\bhref="(?P<target>[^"]+)"[^>]*>(?P<text>.*?)</a>', re.DOTALL)
_ABSOLUTE: Final = re.compile(r"[a-z][a-z+.-]*:", re.IGNORECASE)


class ContentsHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the data, and the pages of the documentation, packed, to the wheel that is to hold them."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add them; an editable installation reads those of the tree."""
        own = self.metadata.name == APART
        self._added = version != "editable" and (own or not data_are_apart())
        if not self._added:
            return
        root = Path(__file__).parent
        self._packed = Path(tempfile.mkdtemp()) / "docs.tar.xz"
        self._packed.write_bytes(packed_pages(root / "docs"))
        for place, path in {PAGES: self._packed, **{name: root / name for name in FILES}}.items():
            # The first folder of a place is a source of the wheel of ragtide, and is left out there.
            build_data["force_include"][str(path)] = f"ragtide_data/{Path(place).name}" if own else place

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the packed pages, which are in the wheel now."""
        del version, build_data, artifact_path
        if self._added:
            shutil.rmtree(self._packed.parent)


def packed_pages(docs: Path) -> bytes:
    """Return the pages of a folder as one packed file, which has the same bytes at each build."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz", preset=9) as archive:
        for path in sorted(docs.rglob("*.md")):
            member = tarfile.TarInfo(path.relative_to(docs.parent).as_posix())
            member.size = path.stat().st_size
            archive.addfile(member, io.BytesIO(path.read_bytes()))
    return packed.getvalue()


class MetadataHook(MetadataHookInterface):
    """Gives `[project]` its `urls` and its `readme`, and the extra `worker` its data."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the URLs and the README for the addresses in `[tool.ragtide]`, and the distribution of data."""
        if data_are_apart():
            worker = metadata["optional-dependencies"]["worker"]
            metadata["optional-dependencies"]["worker"] = [*worker, f"{APART}=={metadata['version']}"]
        root = Path(self.root)
        tools = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
        repository, site = (_address(tools["ragtide"], name) for name in ("repository", "site"))
        text = (root / "README.md").read_text(encoding="utf-8")
        metadata["urls"] = project_urls(repository, site)
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": placed(text, repository, f"v{metadata['version']}"),
        }


def project_urls(repository: str, site: str) -> dict[str, str]:
    """Return the project's URLs by label; an address that is empty has none."""
    of_site = {"Homepage": site, "Documentation": site} if site else {}
    of_repository = {
        "Source": repository,
        "Issues": f"{repository}/issues",
        "Changelog": f"{repository}/blob/HEAD/CHANGELOG.md",
    }
    return of_site | (of_repository if repository else {})


def placed(text: str, repository: str, tag: str) -> str:
    """Return a page with links that work away from the repository; code blocks stay as they are.

    Args:
        text: Markdown, whose relative links start at the root of the repository.
        repository: Address of the repository, without a slash at its end; with "" relative links become their texts.
        tag: Tag of the files that links lead to.
    """
    blocks = _FENCE.split(text)
    return "".join(block if block.startswith("```") else _placed(block, repository, tag) for block in blocks)


def _placed(text: str, repository: str, tag: str) -> str:
    def moved(found: re.Match[str], left: str, folder: str) -> str:
        target = found["target"]
        if _ABSOLUTE.match(target):
            return found[0]
        if not repository:
            return left
        path = f"README.md{target}" if target.startswith("#") else target
        start, end = (place - found.start() for place in found.span("target"))
        return f"{found[0][:start]}{repository}/{folder}/{tag}/{path}{found[0][end:]}"

    text = _PICTURE.sub(lambda found: moved(found, "", "raw"), text)
    text = _HTML_PICTURE.sub(lambda found: moved(found, "", "raw"), text)
    text = _LINK.sub(lambda found: moved(found, found["text"], "blob"), text)
    return _HTML_LINK.sub(lambda found: moved(found, found["text"], "blob"), text)


def _address(table: dict[str, str], name: str) -> str:
    address = table[name].rstrip("/")
    if address and not address.startswith("https://"):
        message = f"[tool.ragtide] {name} in pyproject.toml is {address!r}: write https://..., or leave it empty"
        raise ValueError(message)
    return address
