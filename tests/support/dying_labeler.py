"""A labeler whose process kills itself at one question, or at a stage, while a file says so; others it cannot label."""

import fcntl
import multiprocessing
import os
import pathlib
import signal
from collections import Counter
from pathlib import Path

from pyarrow import parquet

from ragtide import Labeling, RagInteraction

FATAL = Path("fatal")
"""A file with the question, in the working directory."""

VERSION = Path("version")
"""A file with the version of the labeler, in the working directory."""

STAGE = Path("stage")
"""A file with code that lets the process die at a stage. The first child process that imports this module runs it."""

REFUSED = "Who refuses?"
"""A question that is not labeled."""
FLAKY = "Who refuses once?"
"""A question that is not labeled the first time."""
BEYOND = "Who goes too far?"
"""A question with a score outside of its metric's range."""


class DyingLabeler:
    """Scores by the length of the question."""

    name, profile = "dying", "plain"

    def __init__(self) -> None:
        self.version = VERSION.read_text() if VERSION.exists() else "1"
        self._asked: Counter[str] = Counter()

    async def label(self, interaction: RagInteraction) -> Labeling:
        """Return a score, or end the process."""
        question = interaction.question
        self._asked[question] += 1
        if _content(FATAL) == question:
            die()
        if question == REFUSED or (question == FLAKY and self._asked[question] == 1):
            raise ValueError("it is refused")
        return Labeling({"own.length": 7.5 if question == BEYOND else len(question) % 10 / 9})


def die(*_arguments: object, **_options: object) -> None:
    """Kill this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def _content(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


def _take_stage() -> None:
    try:
        code = STAGE.read_text()
        STAGE.unlink()
    except FileNotFoundError:
        return
    exec(code, {"fcntl": fcntl, "os": os, "pathlib": pathlib, "parquet": parquet, "die": die})


if multiprocessing.parent_process() is not None:
    _take_stage()
