"""Gates: conditions on measured metrics with the outcomes pass, fail and undecided, for CI. No I/O."""

from typing import TYPE_CHECKING

from ragtide_schemas.lazy_imports import late

if TYPE_CHECKING:
    from .deciding import GateResult as GateResult
    from .summary_gate import gate as gate

__getattr__ = late(
    __name__,
    {
        ".deciding": "GateResult",
        ".summary_gate": "gate",
    },
)
