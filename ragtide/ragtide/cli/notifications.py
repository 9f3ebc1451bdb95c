"""Requests about alerts for destinations: of the alerts that fire, and of a test."""

from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_runtime.settings.model import Settings
from ragtide_schemas.printable import printable

from .console import err, out, print_json, warn


async def requests_of_firing_alerts(redis: Redis, settings: Settings) -> list[dict[str, Any]]:
    """Return for each destination the requests about the alerts that fire now, as if none had been sent to it."""
    # Imported late, because a help needs no HTTP client.
    from ragtide_consumers.notify.notification import Notification  # noqa: PLC0415
    from ragtide_consumers.notify.routing import together, wants  # noqa: PLC0415
    from ragtide_consumers.notify.service import open_destinations  # noqa: PLC0415

    deployment = Deployment(redis, settings)
    firing = [alert for alert in await deployment.alerts() if alert.status != "resolved"]
    warn(*deployment.warnings())
    found = []
    async with open_destinations(settings) as destinations:
        for name, destination in destinations.items():
            wanted = [alert for alert in firing if wants(destination.known.settings, alert)]
            notifications = [
                Notification(group[0].alert_id, "firing", group)
                for group in together(wanted, grouped=destination.known.grouped)
            ]
            requests = [
                _fields_of_request(request)
                for message in notifications
                for request in destination.destination.preview(message)
            ]
            found.append({"destination": name, "kind": destination.known.settings.kind, "requests": requests})
    return found


def _fields_of_request(request: Any) -> dict[str, Any]:
    return {"target": request.target, "headers": request.headers, "body": request.body}


async def answers_of_destinations(settings: Settings, names: Sequence[str], *, dry_run: bool) -> list[dict[str, Any]]:
    """Return the answer of each destination to a test notification, or the requests of a dry run."""
    # Imported late, because a help needs no HTTP client.
    from ragtide_consumers.notify.destinations.protocol import Refused, TryLater  # noqa: PLC0415
    from ragtide_consumers.notify.notification import Notification, sample_alert  # noqa: PLC0415
    from ragtide_consumers.notify.service import open_destinations  # noqa: PLC0415

    alert = sample_alert()
    notification = Notification(alert.alert_id, "test", (alert,), url=settings.notify.public_url)
    found = []
    async with open_destinations(settings) as destinations:
        for name in names:
            destination = destinations[name].destination
            one: dict[str, Any] = {"destination": name, "kind": destinations[name].known.settings.kind, "ok": True}
            found.append(one)
            if dry_run:
                one["requests"] = [_fields_of_request(request) for request in destination.preview(notification)]
                continue
            try:
                one["answer"] = await destination.deliver(notification) or "accepted"
            except (TryLater, Refused) as error:
                one["ok"], one["answer"] = False, str(error)
    return found


def print_destination(one: dict[str, Any]) -> None:
    """Print the answer of a destination, or its requests."""
    name = f"{one['destination']} ({one['kind']})"
    if "requests" not in one:
        answer = printable(one["answer"])
        style = "green" if one["ok"] else "red"
        out.print(f"{name}: {answer}", style=style, markup=False, highlight=False, soft_wrap=True)
        return
    err.print(f"{name}: nothing is sent", markup=False, highlight=False)
    for request in one["requests"]:
        print_json(request)
