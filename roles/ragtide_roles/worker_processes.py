"""The processes of one worker: how many there are, what each may call, and what they load together."""

import gc
from math import ceil
from typing import Final

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.labelers import RemoteSettings
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import RagInteraction

PROCESS_BYTES: Final = 134_217_728
"""Bytes of memory for which there is one process by default, where memory is limited."""

CALLS_EACH: Final = 64
"""Concurrent calls of an endpoint for which there is one process by default: it waits more than it computes."""


def process_count(settings: Settings, processors: int, memory_bytes: int | None) -> int:
    """Return the number of processes in which a worker labels.

    By default the local labeler has a process for each processor. A judge has one for each `CALLS_EACH` calls in
    flight, and not more than processors. Another labeler has one, because each process loads it.

    Args:
        processors: that are left for it; 0 if other work uses them all.
        memory_bytes: that the machine gives it; None without a limit.

    Raises:
        ConfigurationError: more processes are wanted than calls may be in flight.
    """
    endpoints: dict[str, RemoteSettings] = {"judge": settings.judge, **settings.services}
    calls = {name: remote.max_in_flight for name, remote in endpoints.items() if name in settings.labelers}
    if settings.worker_processes is not None:
        for name, most in calls.items():
            if settings.worker_processes > most:
                raise ConfigurationError(
                    f"worker_processes is {settings.worker_processes}, and {name}.max_in_flight is {most}, so that a "
                    "process would have no call: set fewer processes, or allow more calls"
                )
        return settings.worker_processes
    if "local" in settings.labelers:
        count = min([processors, *calls.values()])
    elif settings.labelers == ("judge",):
        count = min(processors, ceil(settings.judge.max_in_flight / CALLS_EACH))
    else:
        count = min(processors, 1)
    return count if memory_bytes is None else min(count, max(1, memory_bytes // PROCESS_BYTES))


def load_before_fork(settings: Settings) -> None:
    """Import and load what the processes of a worker share, without starting a thread.

    Code of users, and models that run in threads of their own, are loaded by each process itself.
    """
    import ragtide_consumers.labelers.registry  # noqa: PLC0415 - imported late, as by a single worker
    import ragtide_consumers.worker.app  # noqa: PLC0415

    if "judge" in settings.labelers:
        import ragtide_consumers.labelers.judge.labeler  # noqa: F401, PLC0415
    if "local" in settings.labelers:
        from ragtide_consumers.labelers.local.labeler import LocalLabeler  # noqa: PLC0415

        text = "They share a word."
        any_interaction = RagInteraction(pipeline="any", question=text, documents=[text], response=text)
        LocalLabeler().label_now(any_interaction)  # reads the tables
    gc.collect()
    gc.freeze()  # a collection in a process would write to every page, and so copy it
