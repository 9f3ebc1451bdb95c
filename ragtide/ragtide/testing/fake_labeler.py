"""A labeler whose results a test writes: scores, absences, failures, and times without service."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping

from ragtide_consumers.labelers.protocol import Labeling
from ragtide_schemas import RagInteraction

Result = Labeling | Mapping[str, float] | Exception
"""A result: scores by metric, a whole `Labeling` such as one with absences, or an error to raise."""


class FakeLabeler:
    """Labels as a test says: first by the script, one result for each call, then always in the same way.

    An error is raised, such as `LabelerUnavailable(5)` for a service that is away for 5 seconds.

    Args:
        always: result after the script, or a function that returns the result of an interaction.
        script: results of the first calls, in order.
        profile: variant of the formulas.
    """

    def __init__(
        self,
        always: Result | Callable[[RagInteraction], Result],
        *,
        script: Iterable[Result] = (),
        name: str = "fake",
        version: str = "1",
        profile: str = "fake",
    ) -> None:
        self._always = always
        self.script = deque(script)
        """Results that are not used yet; a test may add more."""
        self.name = name
        self.version = version
        self.profile = profile
        self.labeled: list[RagInteraction] = []
        """The interactions of all calls, in order."""

    async def label(self, interaction: RagInteraction) -> Labeling:
        """Return the next result.

        Raises:
            Exception: the error that the test wrote.
        """
        self.labeled.append(interaction)
        if self.script:
            result = self.script.popleft()
        else:
            result = self._always(interaction) if callable(self._always) else self._always
        if isinstance(result, Exception):
            raise result
        return result if isinstance(result, Labeling) else Labeling(dict(result))
