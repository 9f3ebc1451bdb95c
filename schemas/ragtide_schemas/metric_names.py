"""The name of a metric. A producer needs it, and no definition of a metric."""

import re
from typing import Annotated, Final

from pydantic import StringConstraints

QUALIFIED: Final = re.compile(r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$")
"""A name with its family."""

MetricName = Annotated[str, StringConstraints(max_length=200, pattern=QUALIFIED.pattern)]
"""A metric qualified by its family, such as `trace.adherence`."""

MetricPattern = Annotated[
    str, StringConstraints(max_length=200, pattern=r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$|^tool\.\*\.[a-z_]+$")
]
"""A metric of a rule: of one name, or `tool.*.NUMBER` of every tool."""
