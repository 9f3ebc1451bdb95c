"""`ragtide fit --kept` learns from the items that a deployment keeps: judged ones and annotated ones."""

import asyncio
import json
from pathlib import Path

import pytest
from tests.consumers.specimens.test_keeping import worked
from tests.support.in_process import run_command

from ragtide import Labeling, LocalLabeler, RagInteraction
from ragtide_consumers.labelers.protocol import LabelerId, ReferenceLabeling
from ragtide_offline.demo import demo_interactions
from ragtide_roles.kept.annotations import Annotation, StoredAnnotations
from ragtide_runtime.redis.client import connect_async
from ragtide_schemas import utc_now

pytestmark = pytest.mark.redis

RELEVANCE = "trace.context_relevance"
COUNT = 25


class LenientCascade:
    """The local labeler, with a judge beside it that calls more relevant; the judge labels everything."""

    name, version, profile = "local", LocalLabeler.version, "ragbench"

    async def label(self, one: RagInteraction) -> Labeling:
        labeling = LocalLabeler().label_now(one)
        judge = Labeling({RELEVANCE: 0.3 + 0.6 * labeling.scores[RELEVANCE]})
        judged = ReferenceLabeling(judge, LabelerId("judge", "m", "ragbench"), 1.0, uniform_probability=1.0)
        return Labeling(labeling.scores, labeling.absent, labels=labeling.labels, judged=judged)


def test_judged_and_annotated_items_are_learned_from_and_never_mixed(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    monkeypatch.chdir(tmp_path)
    rows = [
        interaction.model_copy(update={"gold_scores": {}, "occurred_at": utc_now()})
        for interaction in demo_interactions()[:COUNT]
    ]

    async def work() -> None:
        async with connect_async(redis_url) as redis:
            await worked(redis, rows, LenientCascade(), sample=1.0)
            for row in rows[:3]:
                annotation = Annotation(
                    pipeline=row.pipeline,
                    interaction_id=row.interaction_id,
                    annotator="ann",
                    given_at=utc_now(),
                    gold_scores={"trace.adherence": 1.0},
                    inclusion_probability=0.5,
                )
                await StoredAnnotations(redis, "ragtide").put(annotation)

    asyncio.run(work())
    both = run_command(capsys, "fit", "--kept")
    assert (both.code, f"judge ({COUNT}), gold (3): choose with --reference" in both.stderr) == (1, True)
    few = run_command(capsys, "fit", "--kept", "--reference", "gold")
    assert (few.code, "3 different questions" in few.stderr) == (1, True)
    none = run_command(capsys, "fit", "--run", "nightly")
    assert (none.code, "no interaction has scores" in none.stderr) == (1, True)
    done = run_command(capsys, "fit", "--kept", "--reference", "judge", "--json")
    assert done.code == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["interactions"], found["source"], found["reference"]) == (COUNT, "kept items", "judge m (ragbench)")
    assert found["scores"]["context_relevance"]["fitted"]
    both = run_command(capsys, "fit", "--kept", "--reference", "judge", "--corruptions", "--dry-run", "--json")
    found = json.loads(both.stdout)
    assert (found["reference"], found["spoilt"]) == ("judge m (ragbench) and corruptions", COUNT)
    text = Path("local-model.json").read_text(encoding="utf-8")
    assert not any(row.interaction_id in text or row.question in text for row in rows), "a file without texts and ids"
