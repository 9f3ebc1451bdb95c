"""Code of users in the folder in which they start ragtide: it is found there, also by other processes of ragtide."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.doc_pages import blocks_of, page_text
from tests.support.shadows import write_shadows

from ragtide_consumers.redaction.redaction import Redaction
from ragtide_runtime.settings.retention import RecorderSettings

pytestmark = pytest.mark.processes


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, which has files with the names of modules."""
    write_shadows(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


@pytest.mark.parametrize(
    "command", [[str(Path(sys.executable).with_name("ragtide"))], [sys.executable, "-m", "ragtide"]]
)
def test_a_labeler_of_the_folder_is_found_and_files_with_the_names_of_modules_change_nothing(
    command: list[str], folder: Path
) -> None:
    (folder / "my_module.py").write_text(blocks_of(page_text("own-labeler"))[0].code)
    row = {"pipeline": "shop", "question": "When?", "documents": ["In 1889."], "response": "In 1889."}
    (folder / "answers.jsonl").write_text(json.dumps(row) + "\n")
    done = subprocess.run(
        [*command, "score", "answers.jsonl", "--json"],
        env={**os.environ, "RAGTIDE_LABELER": "my_module:Length"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["scores"]["mine.short"] == 1.0


def test_a_function_of_the_folder_redacts_in_a_process_of_its_own(folder: Path) -> None:
    (folder / "my_privacy.py").write_text("def removed(text):\n    return text.replace('Ann', '-')\n")
    redaction = Redaction.of("recorder", RecorderSettings(redact_function="my_privacy:removed"))
    try:
        assert redaction.texts(["Ann asks", "none"]) == ["- asks", "none"]
    finally:
        redaction.close()
