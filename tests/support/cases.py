"""One test over many cases of the same form, such as pages, links, help texts and refusals."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Check = Callable[..., None]


def for_each(names: str, cases: Iterable[Any]) -> Callable[[Check], Check]:
    """Make one test of a check and all its cases; it fails with every case that fails, each with its traceback.

    `names` are the arguments that a case gives, with commas between them. The others stay fixtures, and all cases
    share them; what a case changes with `monkeypatch` is undone after it. For cases that need other fixtures of
    their own there is `pytest.mark.parametrize`.
    """
    arguments = [name.strip() for name in names.split(",")]
    listed = [case if len(arguments) > 1 else (case,) for case in cases]

    def of(check: Check) -> Check:
        @functools.wraps(check)
        def test(**fixtures: Any) -> None:
            failures: list[BaseException] = []
            for case in listed:
                with pytest.MonkeyPatch.context() as monkeypatch:
                    own = {"monkeypatch": monkeypatch} if "monkeypatch" in fixtures else {}
                    try:
                        check(**dict(zip(arguments, case, strict=True)), **(fixtures | own))
                    except (Exception, pytest.fail.Exception) as failure:  # noqa: BLE001 - reported with the others
                        failure.add_note(f"case: {case!r}")
                        failures.append(failure)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(listed)} cases", failures)

        signature = inspect.signature(check)
        parameters = [given for name, given in signature.parameters.items() if name not in arguments]
        test.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        assert listed, f"{check.__name__} has no cases"
        return test

    return of
