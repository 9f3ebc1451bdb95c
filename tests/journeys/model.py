"""A journey of a new user: its steps, and the pains that their screens show to be gone."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Pain:
    """A point that confused a new user once, and how it is now."""

    was: str
    now: str
    shows: tuple[str, ...] = ()
    """Words that the screen of its step must show."""
    hides: tuple[str, ...] = ()
    """Words that it must not show."""
    test: str = ""
    """The test that shows it, as `tests/file.py::name`, where no screen can."""
    issue: int | None = None
    """The issue in which it is mended, if it is still there."""


@dataclass(frozen=True, slots=True)
class Step:
    """A command, and its screen."""

    command: str
    """As a user types it; `ragtide` and `python` are those of the environment."""
    shows: tuple[str, ...] = ()
    hides: tuple[str, ...] = ()
    code: int = 0
    settles: bool = False
    """Whether live numbers take a while: the command runs again until the screen shows its words."""
    pains: tuple[Pain, ...] = ()
    environ: dict[str, str] = field(default_factory=dict)
    """Variables of this command only."""


@dataclass(frozen=True, slots=True)
class Journey:
    """A journey: its files, the roles beside it, and its steps."""

    title: str
    steps: tuple[Step, ...]
    files: dict[str, str] = field(default_factory=dict)
    up: bool = False
    """Whether `ragtide up` runs beside the steps."""
    judge: bool = False
    """Whether a judge that speaks OpenAI's protocol runs beside the steps."""
    environ: dict[str, str] = field(default_factory=dict)
    """Variables of the roles and of every command."""
    pains: tuple[Pain, ...] = ()
    """Pains that no screen of this journey can show: a test shows them, or they are still there."""
