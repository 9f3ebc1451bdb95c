"""Redis decides neither which code a process imports nor on which model its key is spent.

Any process that may write to Redis may write the options of a run. They are data. A labeler that they name is loaded
only if it comes with ragtide, is installed as an entry point, or is named by the local settings too.
"""

from ragtide_consumers.labelers.plugins import installed_labelers
from ragtide_consumers.labelers.registry import BUILT_IN
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings


def check_labeler(named: str, local: Settings, run: str) -> None:
    """Check that a labeler which a run names in Redis may be loaded here.

    Args:
        named: the labeler.
        local: settings of this process.
        run: name of the run, for the message.

    Raises:
        ConfigurationError: it would import code that only Redis names.
    """
    if named == local.labeler or named in BUILT_IN or named in installed_labelers():
        return
    raise ConfigurationError(
        f"run {run!r} names the labeler {named!r}, and code is never imported because Redis names it: if you trust "
        f"this labeler, set RAGTIDE_LABELER={named!r} for this process"
    )


def check_judge(named: str | None, local: Settings, run: str) -> None:
    """Check that a judge's model which a run names in Redis is the one that this process pays for.

    Raises:
        ConfigurationError: the local settings name another model, or none.
    """
    if named is None or named == local.judge.model:
        return
    raise ConfigurationError(
        f"run {run!r} names the judge model {named!r}, and the local settings name {local.judge.model!r}: this process "
        f"spends its key only on a model of its own settings; if it shall take part, set RAGTIDE_JUDGE_MODEL={named!r}"
    )
