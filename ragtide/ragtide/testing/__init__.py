"""For the tests of applications that use ragtide: interactions, a fake labeler, a scripted judge, and a Redis.

The fixtures `ragtide_redis`, `ragtide_judge` and `ragtide_gate` come with the pytest plugin; nothing here needs pytest.
"""

from .embedded_redis import embedded_redis
from .fake_labeler import FakeLabeler
from .interactions import interaction, interactions
from .judge_prompt import JudgePrompt
from .replies import Drops, Hangs, Raw, Reply, Says, Slow, Status
from .scripted_judge import ScriptedJudge
from .scripted_server import ScriptedServer
from .sentence_labels import Labels

__all__ = [
    "Drops",
    "FakeLabeler",
    "Hangs",
    "JudgePrompt",
    "Labels",
    "Raw",
    "Reply",
    "Says",
    "ScriptedJudge",
    "ScriptedServer",
    "Slow",
    "Status",
    "embedded_redis",
    "interaction",
    "interactions",
]
