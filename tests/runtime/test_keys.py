"""Names in Redis: stored data depends on them, so they are unique, listed, documented, and in one place."""

import ast
from collections.abc import Iterator

from redis.crc import key_slot
from tests.support.cases import for_each
from tests.support.doc_pages import page_text
from tests.support.modules import ROOT, modules

from ragtide_runtime.redis.keys import (
    CheckpointField,
    RepartitionField,
    ReplayField,
    Streams,
    interaction_digest,
    key_shapes,
    keys_table,
    workspace_prefix,
)

PAGE = page_text("redis-keys")
NAMES = ROOT / "runtime" / "ragtide_runtime" / "redis" / "keys.py"
BEGINNINGS = tuple(field.value for field in CheckpointField if field.endswith(":"))
HASH_COMMANDS = {"hget", "hset", "hmget", "hdel", "hsetnx", "hexists", "hincrby"}


def test_no_two_keys_have_the_same_name() -> None:
    shapes = [shape.shape for shape in key_shapes()]
    assert len(shapes) == len(set(shapes)) > 30


def test_the_documentation_lists_every_key() -> None:
    assert keys_table() in PAGE, "the keys changed: run python -m ragtide_runtime.redis.keys"


@for_each("field", CheckpointField)
def test_the_documentation_lists_every_field_of_a_checkpoint(field: CheckpointField) -> None:
    assert f"| `{field}` |" in PAGE


def test_the_rule_for_an_acl_covers_every_key_of_a_deployment_and_of_a_workspace() -> None:
    assert all(shape.shape.startswith("ragtide:") for shape in key_shapes())
    assert workspace_prefix("ragtide", "may").startswith("ragtide.run.")
    assert "`~ragtide:* ~ragtide.run.*`" in PAGE


def test_names_are_those_of_the_first_version() -> None:
    """A name in code may change; the string in Redis never does."""
    streams = Streams("ragtide", 3)
    digest = interaction_digest("shop", "i-1")
    assert digest == "f847fe30f4f5de0639f4b88f8cc7f2a0"
    assert streams.repartition == "ragtide:{3}:repartition"
    assert streams.next_checkpoint == "ragtide:{3}:next-checkpoint"
    assert streams.feedback_probe("d") == "ragtide:{3}:feedback-probe:d"
    assert streams.labeler_spend("judge", "20260101") == "ragtide:{3}:judge-spend:20260101"
    assert streams.endpoint_state("host-1") == "ragtide:{3}:endpoint-states:host-1"
    assert streams.labeler_cache("judge", "d") == "ragtide:judge-cache:d"
    shard = int(digest[-2:], 16) % 64
    for found, own, bucket in (
        (streams.owner_keys("shop", "i-1"), "owner", "owners"),
        (streams.event_keys("shop", "i-1"), "scored", "events"),
    ):
        buckets = [f"ragtide:{{3}}:{bucket}:{shard}:{number}" for number in range(6)]
        assert found == (f"ragtide:{{3}}:{own}:{digest}", *buckets)


def test_all_keys_of_a_partition_share_a_slot() -> None:
    named = [one for one in key_shapes() if one.place != "no partition"]
    shapes = [one.shape.replace("{p}", "{0}") for one in named]
    assert len({key_slot(shape.encode()) for shape in shapes}) == 1


def test_no_other_file_spells_a_name() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text!r}"
        for path, tree in modules().items()
        if path != NAMES
        for line, text in spelled(tree)
    ]
    assert found == []


def spelled(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield literals that begin a field of a checkpoint, make a key, or name a field in a command on a hash."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = node.value in BEGINNINGS or node.value == CheckpointField.STREAM_ROLLBACK
            if named or ":{" in node.value.replace("{{", "{"):
                yield node.lineno, node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in HASH_COMMANDS:
            for argument in node.args[1:2]:
                if isinstance(argument, ast.Constant):
                    yield node.lineno, str(argument.value)


def test_fields_of_hashes_are_those_of_the_first_version() -> None:
    assert [field.value for field in ReplayField] == ["position", "published", "duplicates", "progress"]
    assert [field.value for field in RepartitionField] == ["layout", "token", "prepared"]
