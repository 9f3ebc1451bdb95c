"""`ragtide score`: a file in, a file out, which a second run continues."""

import json
import os
import subprocess
import sys

from items import arguments, finish

if __name__ == "__main__":
    items, url, count, folder = arguments()
    environment = {"RAGTIDE_JUDGE_API_KEY": "none", "RAGTIDE_JUDGE_MAX_IN_FLIGHT": str(count)}
    judge = ["--labeler", "judge", "--model", "gpt-4o-mini", "--base-url", url]
    output = folder / "scores.jsonl"
    subprocess.run(
        [sys.executable, "-m", "ragtide", "score", str(folder / "items.jsonl"), *judge, "--output", str(output)],
        env={**os.environ, **environment},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    with output.open() as file:
        finish(folder, len({line["interaction_id"] for line in map(json.loads, file) if line["scores"]}))
