"""Which addresses are reached through a proxy: as curl and Go decide it."""

import pytest
from tests.support.cases import for_each

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.outside.proxies import proxy_of, through

PROXY = "http://proxy.example:3128"

DIRECT = (
    ("127.0.0.0/8", "http://127.0.0.1:8000/v1"),
    ("10.0.0.0/8", "https://10.200.3.4"),
    ("fd00::/8", "http://[fd12::1]:8000"),
    ("[fd00::]/8", "http://[fd12::1]"),
    ("*.corp", "http://judge.corp/v1"),
    ("*.corp", "http://a.b.corp"),
    (".corp", "http://judge.corp"),
    (".corp", "http://corp"),
    ("corp", "http://judge.corp"),
    ("corp", "http://corp:99"),
    ("CORP.Example", "http://Judge.corp.EXAMPLE./"),
    ("judge:8443", "https://judge:8443/v1"),
    ("judge:443", "https://judge/v1"),
    ("judge:80", "http://judge/v1"),
    ("[::1]", "http://[::1]:8000"),
    ("::1", "http://[::1]:8000"),
    ("[::1]:8000", "http://[::1]:8000"),
    ("0:0:0:0:0:0:0:1", "http://[::1]"),
    ("10.0.0.7", "http://10.0.0.7:1"),
    ("10.0.0.0/8", "http://[::ffff:10.0.0.7]"),
    ("*", "http://anything.example"),
    (" a.example , judge ,b", "http://judge"),
    ("a.example judge", "http://judge"),
    ("bücher.example", "http://xn--bcher-kva.example/"),
)

PROXIED = (
    ("", "http://127.0.0.1:8000"),
    ("10.0.0.0/8", "http://11.0.0.1"),
    ("10.0.0.0/8", "http://10.example"),
    ("fd00::/8", "http://[fe80::1]"),
    ("*.corp", "http://corp"),
    ("*.corp", "http://evilcorp"),
    ("corp", "http://evilcorp"),
    ("judge:8443", "https://judge:8444/v1"),
    ("judge:8443", "https://judge/v1"),
    ("[::1]:8000", "http://[::1]:8001"),
    ("0.0.0.1", "http://10.0.0.1"),
    ("127.0.0.0/nonsense", "http://127.0.0.1"),
    ("10.0.0.1/8/8", "http://10.0.0.1"),
    (",,. ,:,[]", "http://judge"),
)


@for_each("case", DIRECT)
@pytest.mark.parametrize("name", ["NO_PROXY", "no_proxy"])
def test_hosts_that_are_named_are_reached_directly(case: tuple[str, str], name: str) -> None:
    given = {"HTTP_PROXY": PROXY, "HTTPS_PROXY": PROXY, "ALL_PROXY": PROXY, name: case[0]}
    assert proxy_of(case[1], given) is None


@for_each("case", PROXIED)
def test_all_others_are_reached_through_the_proxy(case: tuple[str, str]) -> None:
    found = proxy_of(case[1], {"ALL_PROXY": PROXY, "NO_PROXY": case[0]})
    assert found is not None
    assert found.url == PROXY


def test_the_variable_of_the_scheme_counts_first_and_lower_case_before_upper_case() -> None:
    given = {"HTTPS_PROXY": "upper", "https_proxy": "lower:1", "ALL_PROXY": "all:2"}
    assert repr(proxy_of("https://a.example", given)) == "Proxy(http://lower:1, https_proxy)"
    assert repr(proxy_of("http://a.example", given)) == "Proxy(http://all:2, ALL_PROXY)"
    assert proxy_of("http://a.example", {"HTTPS_PROXY": "upper"}) is None
    assert proxy_of("http://a.example", {}) is None
    assert proxy_of("http://a.example", {"HTTP_PROXY": " "}) is None
    assert proxy_of("http://a.example", {"HTTP_PROXY": PROXY, "REQUEST_METHOD": "GET"}) is None, "set by a header"


def test_no_message_has_the_password_of_a_proxy() -> None:
    found = proxy_of("http://a.example", {"HTTP_PROXY": "http://me:s%2Fcret@[::1]:3128"})
    assert found is not None
    assert found.login == ("me", "s/cret")
    assert "cret" not in f"{found} {found!r} {through(found)}"
    assert found.shown == "http://[::1]:3128"


@for_each("value", ("socks5://me:secret@proxy:1080", "http://", "http://[::1", "http://proxy:port"))
def test_what_is_no_proxy_of_http_is_refused_by_the_name_of_its_variable(value: str) -> None:
    with pytest.raises(ConfigurationError, match="ALL_PROXY") as found:
        proxy_of("http://a.example", {"ALL_PROXY": value})
    assert "secret" not in str(found.value)
