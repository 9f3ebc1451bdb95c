"""Commands of the command line run in the test's own process, which is faster than a process for each."""

from dataclasses import dataclass

import pytest
import typer
from redis import RedisError

from ragtide.cli.app import cli
from ragtide_runtime.errors import RagtideError


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    stdout: str
    stderr: str
    """Standard error, with the error that the command line prints."""
    told: str
    """That error alone."""


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> Done:
    """Run a command to its end, and return its output. An error that users see gives the code 1 and its text."""
    capsys.readouterr()
    told = ""
    try:
        code = cli(list(arguments), standalone_mode=False) or 0
    except (RagtideError, RedisError) as error:
        code, told = 1, str(error)
    except typer.Exit as done:
        code = done.exit_code
    except SystemExit as done:
        code = int(done.code or 0)
    except Exception as error:
        # A mistake in the arguments, by one of Click's own errors, which typer may bring in a copy of its own.
        if not hasattr(error, "format_message"):
            raise
        code, told = 2, error.format_message()
    found = capsys.readouterr()
    return Done(code, found.out, found.err + told, told)
