"""Listen addresses in the forms exporters take, and nothing else."""

from __future__ import annotations

import pytest

from ctctl.errors import ConfigError, UnavailableError
from ctctl.metrics.listen import ListenAddress


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        (":10779", "", 10779),
        ("127.0.0.1:10779", "127.0.0.1", 10779),
        ("[::1]:0", "::1", 0),
        ("[fe80::1%eth0]:65535", "fe80::1%eth0", 65535),
        ("node-1.example:80", "node-1.example", 80),
    ],
)
def test_a_listen_address_is_read_and_written_back(text: str, host: str, port: int) -> None:
    address = ListenAddress.parse(text)
    assert (address.host, address.port, str(address)) == (host, port, text)


@pytest.mark.parametrize(
    "text", ["", "10779", "host", "::1:10779", "[::1]", "[::1:80", "a:b:80", ":-1", ":65536", ":²", ": 80"]
)
def test_anything_else_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(ConfigError, match=r"listen address .*\[::1\]:10779"):
        ListenAddress.parse(text)


@pytest.mark.parametrize("text", ["192.0.2.1:10779", "[2001:db8::1]:10779", "no-such-host.invalid:10779"])
def test_an_address_that_is_not_this_hosts_is_named_with_the_remedy(text: str) -> None:
    with pytest.raises(UnavailableError, match=r"cannot listen on .*:10779: .*; name an address of this host"):
        ListenAddress.parse(text).open()


def test_the_wildcard_takes_both_families() -> None:
    with ListenAddress.parse(":0").open() as listening:
        assert listening.getsockname()[0] == "::"
