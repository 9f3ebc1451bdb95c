"""Checks of a workspace's options in Redis: they must not make a process import code or pay for another model.

Every client that may write to Redis may write these options, so they are untrusted data. A process loads a labeler
named there only if it comes with ragtide, is installed as an entry point, or is named by the local settings too.
"""

from ragtide_consumers.labelers.plugins import installed_labelers
from ragtide_consumers.labelers.registry import BUILT_IN
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings


def check_labeler(named: str, local: Settings, workspace: str) -> None:
    """Check that this process may load the labeler of a workspace.

    Args:
        named: the labeler in the options of the workspace.
        local: settings of this process.
        workspace: its name, for the message.

    Raises:
        ConfigurationError: loading the labeler would import code that only Redis names.
    """
    if named == local.labeler or named in BUILT_IN or named in installed_labelers():
        return
    raise ConfigurationError(
        f"workspace {workspace!r} names the labeler {named!r}, and this process imports no code that only Redis names: "
        f"if you trust this labeler, set RAGTIDE_LABELER={named!r} for this process"
    )


def check_judge(named: str | None, local: Settings, workspace: str) -> None:
    """Check that the judge's model of a workspace is the model of the local settings, for which this process pays.

    Raises:
        ConfigurationError: the local settings name another model, or none.
    """
    if named is None or named == local.judge.model:
        return
    raise ConfigurationError(
        f"workspace {workspace!r} names the judge model {named!r}, and the local settings name {local.judge.model!r}: "
        f"this process pays only for a model of its own settings; to take part, set RAGTIDE_JUDGE_MODEL={named!r}"
    )
