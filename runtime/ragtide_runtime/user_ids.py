"""Pseudonyms in place of the ids of users, as the settings say. No I/O."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self, TypeVar

from ragtide_schemas import hashed_user_id

from .settings.application import ApplicationSettings

if TYPE_CHECKING:
    from ragtide_schemas import MetricEvent, RagInteraction

Model = TypeVar("Model", "RagInteraction", "MetricEvent")


@dataclass(frozen=True, slots=True)
class UserIds:
    """Whether ids of users are hashed, and with which salt."""

    hashed: bool = True
    salt: bytes = field(default=b"", repr=False)
    """Key of the hash; empty for none."""

    @classmethod
    def of(cls, settings: ApplicationSettings) -> Self:
        """Return what the settings say about ids of users."""
        salt = settings.user_id_salt
        return cls(settings.hash_user_ids, b"" if salt is None else salt.get_secret_value().encode())

    def with_pseudonym(self, model: Model) -> Model:
        """Return a model with the pseudonym in place of its `user_id`; the model itself if there is nothing to hash."""
        if not self.hashed or model.user_id is None:
            return model
        return model.model_copy(update={"user_id": hashed_user_id(model.user_id, self.salt)})


AS_SENT: Final = UserIds(hashed=False)
"""Ids as applications sent them."""
