"""Addresses of topics at message brokers."""

from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from ragtide_runtime.errors import ConfigurationError
from ragtide_schemas.suggestions import unknown

Kind = Literal["kafka", "mqtt", "nats", "rabbit", "redis"]
"""The brokers, by the extra with their client."""


class _Scheme(NamedTuple):
    kind: Kind
    of_client: str
    """Scheme that the client of the broker knows."""
    port: int
    tls: bool = False


SCHEMES: Final = {
    "kafka": _Scheme("kafka", "kafka", 9092),
    "kafka+tls": _Scheme("kafka", "kafka", 9093, tls=True),
    "nats": _Scheme("nats", "nats", 4222),
    "nats+tls": _Scheme("nats", "tls", 4222, tls=True),
    "mqtt": _Scheme("mqtt", "mqtt", 1883),
    "mqtts": _Scheme("mqtt", "mqtts", 8883, tls=True),
    "amqp": _Scheme("rabbit", "amqp", 5672),
    "amqps": _Scheme("rabbit", "amqps", 5671, tls=True),
    "redis": _Scheme("redis", "redis", 6379),
    "rediss": _Scheme("redis", "rediss", 6379, tls=True),
}
OTLP: Final = "otlp+"


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """A topic of a broker."""

    kind: Kind
    scheme: str
    """As the user wrote it, without `otlp+`."""
    server: str = field(repr=False)
    """URL of the broker without the topic. It may hold a password: log `shown`."""
    hosts: tuple[str, ...]
    """Each with its port."""
    topic: str
    """Topic, subject, queue or stream."""
    space: str = ""
    """Virtual host of RabbitMQ, or number of a database of Redis."""
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    tls: bool = False
    is_otlp: bool = False
    """Whether the messages are spans and not interactions."""
    is_target: bool = False
    """Whether messages are sent to it, and not taken from it."""

    @property
    def shown(self) -> str:
        """The address without user name and password."""
        return "/".join([f"{self.scheme}://{','.join(self.hosts)}", *filter(None, (self.space, self.topic))])


def read_address(name: str, text: str) -> BrokerAddress:
    """Return the topic that a URL names.

    >>> read_address("--from", "nats://user:secret@broker/rag.answers").shown
    'nats://broker:4222/rag.answers'

    Args:
        name: of the option or setting, for errors.
        text: the URL.

    Raises:
        ConfigurationError: the text is no such URL. The error does not quote it, because it may hold a password.
    """
    plain = text.removeprefix(OTLP)
    scheme_name, separator, rest = plain.partition("://")
    if not separator:
        raise ConfigurationError(f"{name} is not the URL of a topic: write one such as nats://host/topic")
    if scheme_name not in SCHEMES:
        raise ConfigurationError(f"{name}: {unknown('scheme', scheme_name, SCHEMES)}")
    scheme = SCHEMES[scheme_name]
    if scheme.kind == "mqtt":
        # The path is the topic, with any of the signs that end something in other URLs.
        place, _, topic = rest.partition("/")
        user_info, _, hosts_text = place.rpartition("@")
        before = ""
    else:
        user_info, _, place = rest.rpartition("@")
        if "?" in place or "#" in place:
            raise ConfigurationError(f"{name} has options after ? or #, which a bridge does not take: leave them out")
        hosts_text, _, path = place.partition("/")
        # The path before the topic is the virtual host of RabbitMQ or the database of Redis.
        before, _, topic = path.rpartition("/")
    topic = unquote(topic)
    hosts = tuple(_with_port(name, host, scheme.port) for host in hosts_text.split(",") if host)
    if len(hosts) > 1 and scheme.kind not in {"kafka", "nats"}:
        raise ConfigurationError(f"{name} has {len(hosts)} hosts, but takes one: write {scheme_name}://host/topic")
    if not hosts or not topic:
        raise ConfigurationError(f"{name} has no {'topic' if hosts else 'host'}: write {scheme_name}://host/topic")
    if before and scheme.kind not in {"rabbit", "redis"}:
        raise ConfigurationError(f"{name} has more than a topic after the host: write {scheme_name}://host/topic")
    if before and scheme.kind == "redis" and not before.isdecimal():
        raise ConfigurationError(
            f"{name} has a database that is no number: write {scheme_name}://host/2/stream, and %2F for a / in a stream"
        )
    username, separator, password = map(unquote, user_info.partition(":"))
    # Signs that a user did not encode would end the user or the password in the client.
    user = f"{quote(username, safe='')}{separator}{quote(password, safe='')}@" if user_info else ""
    return BrokerAddress(
        scheme.kind,
        scheme_name,
        server=f"{scheme.of_client}://{user}{','.join(hosts)}{f'/{before}' * bool(before)}",
        hosts=hosts,
        topic=topic,
        space=before,
        username=username,
        password=password,
        tls=scheme.tls,
        is_otlp=text.startswith(OTLP),
    )


def check_nats_subject(name: str, subject: str, *, sends: bool) -> None:
    """Check a subject of NATS.

    Args:
        name: of the option or setting, for errors.
        sends: whether messages are sent to it, so that it may have no wildcards.

    Raises:
        ConfigurationError: it is no subject.
    """
    tokens = subject.split(".")
    if not all(token.isprintable() and " " not in token and token for token in tokens) or ">" in tokens[:-1]:
        raise ConfigurationError(f"{name}: the subject has an empty part, a blank, or > before its end: correct it")
    if sends and not {"*", ">"}.isdisjoint(tokens):
        raise ConfigurationError(f"{name}: nothing can be sent to {subject}: such a subject has no * and no >")


def check_mqtt_topic(name: str, topic: str, *, sends: bool) -> None:
    """Check a topic of MQTT, or a topic filter.

    Args:
        name: of the option or setting, for errors.
        sends: whether messages are sent to it, so that it may be no filter.

    Raises:
        ConfigurationError: it is no topic or filter.
    """
    levels = topic.split("/")
    if levels[0] == "$share" and not sends:
        if len(levels) < 3 or not levels[1] or not "".join(levels[2:]):
            raise ConfigurationError(f"{name}: {topic} shares no topic: write $share/NAME/TOPIC")
        levels = levels[2:]
    wild = [level for level in levels if "+" in level or "#" in level]
    if sends and (wild or topic.startswith("$")):
        raise ConfigurationError(
            f"{name}: nothing can be sent to {topic}: such a topic has no +, no #, and no $ at its start"
        )
    if any(level not in {"+", "#"} for level in wild) or "#" in levels[:-1]:
        raise ConfigurationError(
            f"{name}: {topic} is no topic filter: + is a level by itself, and # the last level by itself"
        )


def _with_port(name: str, host: str, port: int) -> str:
    try:
        parts = urlsplit(f"//{host}")
        stated_port = parts.port
    except ValueError:
        raise ConfigurationError(f"{name} has a wrong port or host: write host:port") from None
    if not parts.hostname:
        raise ConfigurationError(f"{name} has no host: write host:port")
    return host if stated_port is not None else f"{host}:{port}"
