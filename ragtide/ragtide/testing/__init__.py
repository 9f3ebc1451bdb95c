"""For the tests of applications that use ragtide: interactions, a fake labeler, and a Redis of the test's own.

The fixtures `ragtide_redis` and `ragtide_gate` come with the pytest plugin; nothing here needs pytest.
"""

from .embedded_redis import embedded_redis
from .fake_labeler import FakeLabeler
from .interactions import interaction, interactions

__all__ = ["FakeLabeler", "embedded_redis", "interaction", "interactions"]
