"""The functions of SciPy that the statistics use, each imported at its first use.

SciPy takes longer to import than most commands take, and it is half of an installation. A worker computes no intervals,
so the extra `worker` does not contain it.
"""

from importlib import import_module
from typing import Any, Final

HOMES: Final = {
    "betaincinv": "scipy.special",
    "digamma": "scipy.special",
    "gammainc": "scipy.special",
    "gammaln": "scipy.special",
    "ndtri": "scipy.special",
    "stdtrit": "scipy.special",
}
"""The module of each function."""


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        function = getattr(import_module(HOMES[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "scipy":
            raise
        raise ModuleNotFoundError("intervals need SciPy: pip install 'ragtide[service]'", name="scipy") from None
    globals()[name] = function
    return function


def preload() -> None:
    """Import all of them."""
    for name in HOMES:
        __getattr__(name)
