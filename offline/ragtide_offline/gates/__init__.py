"""Gates: conditions on measured metrics with the outcomes pass, fail and undecided, for CI. No I/O."""

from typing import TYPE_CHECKING

from ragtide_schemas.lazy_imports import late

if TYPE_CHECKING:
    from .deciding import GateResult
    from .summary_gate import gate

__all__ = ["GateResult", "gate"]

__getattr__ = late(__name__, {"GateResult": ".deciding", "gate": ".summary_gate"})
