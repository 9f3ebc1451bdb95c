"""The settings about ids of users, and what they do to an interaction."""

from typing import Any

import pytest
from tests.support.metric_events import event

from ragtide import ConfigurationError, RagInteraction, hashed_user_id
from ragtide_runtime.settings.model import load_settings
from ragtide_runtime.user_ids import UserIds

SALT = "0123456789abcdef"
INTERACTION = RagInteraction(
    interaction_id="i", pipeline="p", question="q", documents=["d"], response="r", user_id="alice", session_id="s"
)
EVENT = event(1, {"trace.adherence": 0.5}).model_copy(update={"user_id": "alice"})


@pytest.mark.parametrize("model", [INTERACTION, EVENT], ids=["interaction", "metric event"])
def test_ids_are_hashed_unless_told_otherwise(model: Any) -> None:
    assert UserIds.of(load_settings()) == UserIds(hashed=True, salt=b"")
    found = UserIds.of(load_settings()).with_pseudonym(model)
    assert found == model.model_copy(update={"user_id": hashed_user_id("alice")})
    assert UserIds.of(load_settings()).with_pseudonym(found) == found
    assert UserIds.of(load_settings(hash_user_ids=False)).with_pseudonym(model) is model


def test_an_interaction_without_a_user_is_left_alone() -> None:
    model = INTERACTION.model_copy(update={"user_id": None})
    assert UserIds().with_pseudonym(model) is model


def test_the_salt_of_the_settings_is_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTIDE_USER_ID_SALT", SALT)
    found = UserIds.of(load_settings())
    assert (
        found.with_pseudonym(INTERACTION).user_id == hashed_user_id("alice", SALT.encode()) != hashed_user_id("alice")
    )


@pytest.mark.parametrize("salt", ["", "x-secret-x", "x-secret-" * 8, ["x-secret-x-secret"]])
def test_a_salt_that_is_too_short_or_too_long_is_refused_and_never_shown(salt: Any) -> None:
    with pytest.raises(ConfigurationError, match="user_id_salt") as caught:
        load_settings(user_id_salt=salt)
    assert "x-secret" not in str(caught.value)


@pytest.mark.parametrize("salt", ["s" * 16, "s" * 64, "соль" * 2, "соль" * 8])
def test_a_salt_is_counted_in_bytes(salt: str) -> None:
    assert UserIds.of(load_settings(user_id_salt=salt)).salt == salt.encode()


def test_the_salt_is_in_no_text_about_the_settings() -> None:
    settings = load_settings(user_id_salt=SALT)
    shown = f"{settings!r} {settings} {settings.model_dump_json()} {UserIds.of(settings)!r}"
    assert SALT not in shown
