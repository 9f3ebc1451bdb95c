"""A labeler whose process kills itself at one question, while a file says so; another question it refuses."""

import os
import signal
from pathlib import Path

from ragtide import Labeling, RagInteraction

FATAL = Path("fatal")
"""A file with the question, in the working directory."""

VERSION = Path("version")
"""A file with the version of the labeler, in the working directory."""

REFUSED = "Who refuses?"
"""A question that is not labeled."""


class DyingLabeler:
    """Scores by the length of the question."""

    name, profile = "dying", "plain"

    def __init__(self) -> None:
        self.version = VERSION.read_text() if VERSION.exists() else "1"

    async def label(self, interaction: RagInteraction) -> Labeling:
        """Return a score, or end the process."""
        if _fatal() == interaction.question:
            os.kill(os.getpid(), signal.SIGKILL)
        if interaction.question == REFUSED:
            raise ValueError("it is refused")
        return Labeling({"own.length": len(interaction.question) % 10 / 9})


def _fatal() -> str | None:
    return FATAL.read_text() if FATAL.exists() else None
