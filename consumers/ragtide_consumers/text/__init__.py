"""Text for labelers: its language, its sentences and their keys, its parts and tokens."""

from pathlib import Path
from typing import Final

ARRAYS: Final = Path(__file__).with_name("language_arrays")
"""Folder of the language model, where this package has it (`ragtide_runtime.bundled_data`)."""
