"""Findings of `ragtide doctor` about settings that running roles have not in force."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.uptake import RUNNING, digests, roles_with, uptake_of
from ragtide_runtime.settings_reports import SettingsReport
from ragtide_schemas.printable import printable

from .finding import Finding

MOST: Final = 12
"""Most settings that a finding names."""


def settings_findings(settings: Settings, reports: Sequence[SettingsReport]) -> list[Finding]:
    """Return findings about changed settings that are wrong, that wait for a restart, or that differ from these.

    Args:
        settings: as the file, the environment and the files of secrets have them here.
    """
    if not reports:
        return []
    refusals: defaultdict[str, list[str]] = defaultdict(list)
    for report in reports:
        if report.refused:
            refusals[printable(report.refused)].append(f"{'+'.join(report.roles)} {printable(report.process)}")
    findings = [
        Finding("problem", "settings", f"the old ones stay in force in {', '.join(names)}: {reason}", "correct them")
        for reason, names in refusals.items()
    ]
    live, restart = _pending(settings, reports)
    if live:
        findings.append(
            Finding(
                "warning",
                "settings",
                f"not in force yet: {_list(live)}",
                f"wait {settings.rules_poll_s:g} s, or look at the log of the role"
                if settings.rules_poll_s
                else "send SIGHUP to the role, because rules_poll_s is 0",
            )
        )
    if restart:
        concerned = set().union(*restart.values())
        roles = ", ".join(role for role in RUNNING if role in concerned)
        findings.append(
            Finding(
                "warning",
                "settings",
                f"running roles have other values in force than these settings: {_list(restart)}",
                f"restart {roles}; or run doctor with their file and environment",
            )
        )
    running = f"{len(reports):,} process{'' if len(reports) == 1 else 'es'}"
    return findings or [Finding("ok", "settings", f"in force in {running}")]


def _pending(settings: Settings, reports: Sequence[SettingsReport]) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    ours = digests(settings)
    live: defaultdict[str, set[str]] = defaultdict(set)
    restart: defaultdict[str, set[str]] = defaultdict(set)
    for report in reports:
        theirs, roles = report.digests, frozenset(report.roles)
        differing = {name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name)}
        for name in sorted((differing | set(report.waiting)) - set(report.given) - set(settings.given)):
            try:
                concerned, uptake = roles_with(name, roles), uptake_of(name)
            except KeyError:  # a setting of another release
                continue
            for role in concerned:
                if role not in uptake.live:
                    restart[name].add(role)
                elif not report.refused:  # what is wrong is named already
                    live[name].add(role)
    return dict(live), dict(restart)


def _list(roles_by_setting: Mapping[str, set[str]]) -> str:
    names = [f"{printable(name)} ({', '.join(sorted(roles))})" for name, roles in sorted(roles_by_setting.items())]
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return f"{', '.join(names[:MOST])}{more}"
