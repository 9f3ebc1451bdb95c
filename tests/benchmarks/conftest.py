"""Makes the packages of benchmarks/ importable for the tests beside this file."""

import importlib.util
import sys
from pathlib import Path

# By name, since the folder on the path would hide installed packages, such as coverage.
_FOLDER = Path(__file__).parents[2] / "benchmarks" / "traffic"
_SPEC = importlib.util.spec_from_file_location(
    "traffic", _FOLDER / "__init__.py", submodule_search_locations=[str(_FOLDER)]
)
assert _SPEC is not None
assert _SPEC.loader is not None
sys.modules["traffic"] = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(sys.modules["traffic"])
