"""A judge in a process of its own, for benchmarks and for tests of another version's code.

python tests/support/remembering_judge.py --latency 0.2     # prints its URL, then serves until it is killed
"""

import argparse
import threading
from typing import Any

from ragtide.testing import JudgePrompt, Reply, Says, ScriptedJudge


class RememberingJudge(ScriptedJudge):
    """Gives the same sentences the same answer whatever the question, and known sentences at little cost."""

    def __init__(self, latency_s: float = 0.0) -> None:
        super().__init__(latency_s=latency_s)
        self.stores_requests = False
        self._known: dict[str, str] = {}

    def usual(self, request: dict[str, Any], scripted: Reply | None) -> dict[str, Any]:
        # The question is left out, because it alone differs between the interactions of a benchmark.
        prompt = JudgePrompt(request)
        sentences = prompt.text.partition("DOCUMENT SENTENCES")[2]
        if sentences not in self._known:
            self._known[sentences] = self.labels.answer(prompt)
        return super().usual(request, Says(self._known[sentences]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency", type=float, default=0.2)
    options = parser.parse_args()
    with RememberingJudge(options.latency) as server:
        print(server.url, flush=True)  # noqa: T201
        threading.Event().wait()
