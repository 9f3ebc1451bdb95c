"""The command line: the composition root that wires the roles together."""

import sys


def run() -> None:
    """Run the command line; a user's mistake ends in one sentence on standard error and exit code 1 or 2."""
    try:
        from .app import main  # noqa: PLC0415 - says what to install where the extra is missing
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("ragtide"):
            raise
        sys.exit(f"ragtide: the command line needs {error.name}: pip install 'ragtide[service,embedded]'")
    main()
