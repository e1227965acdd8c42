from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

import pytest

from ctctl.cli.everywhere import instructions
from ctctl.config.requests import load_requests
from ctctl.config.settings import Settings
from ctctl.errors import ConfigError
from ctctl.model.ids import flushable_zone_id

NOW_S = 1_796_050_000.0


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "requests.yaml"
    path.write_text(text)
    return path


def test_a_file_that_is_not_there_asks_for_nothing(tmp_path: Path) -> None:
    assert load_requests(tmp_path / "none.yaml") == ()


def test_what_flush_everywhere_prints_is_read_back_as_it_was_meant(tmp_path: Path) -> None:
    zones = (flushable_zone_id(12), flushable_zone_id(13))
    text = instructions(zones, ("r1", 'evil"\n\x1b[31m'), ip_address("2001:db8::5"), NOW_S, Settings())
    found = load_requests(written(tmp_path, text))
    assert [(r.routers, r.zones) for r in found] == [(("r1",), ()), (('evil"\n\x1b[31m',), ()), ((), zones)]
    assert {r.address for r in found} == {ip_address("2001:db8::5")}
    assert {r.not_after_wall_s for r in found} == {NOW_S + 3600}
    assert len({r.name for r in found}) == 3


GOOD = "not_after: 2026-11-30T18:00:00Z"


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (f"{{id: a, {GOOD}}}", "either a router or zones"),
        (f"{{id: a, router: r, zones: [1], {GOOD}}}", "either a router or zones"),
        ("{id: a, router: r}", "missing key not_after"),
        (f"{{router: r, {GOOD}}}", "missing key id"),
        (f"{{id: a, zones: [0], {GOOD}}}", "zone 0"),
        (f"{{id: a, zones: [70000], {GOOD}}}", "out of range"),
        (f"{{id: a, router: r, address: 10.0.0.300, {GOOD}}}", "10.0.0.300"),
        ("{id: a, router: r, not_after: tomorrow}", "tomorrow"),
        ("{id: a, router: r, not_after: '2026-11-30T18:00:00'}", "time zone"),
        (f"{{id: '', router: r, {GOOD}}}", "printable"),
        (f"{{id: ' a', router: r, {GOOD}}}", "printable"),
        (f'{{id: "a\\nb", router: r, {GOOD}}}', "printable"),
        (f"{{id: a, router: '', {GOOD}}}", "router must not be empty"),
        (f"{{id: a, router: r, {GOOD}, force: true}}", "unknown key"),
    ],
)
def test_a_wrong_entry_is_refused_with_its_line(tmp_path: Path, entry: str, problem: str) -> None:
    path = written(tmp_path, f"requests:\n  - {entry}\n")
    with pytest.raises(ConfigError, match=rf"{path}:2: .*{problem}"):
        load_requests(path)


def test_an_id_given_twice_is_refused(tmp_path: Path) -> None:
    entry = f"{{id: a, router: r, {GOOD}}}"
    with pytest.raises(ConfigError, match="id a is given twice"):
        load_requests(written(tmp_path, f"requests:\n  - {entry}\n  - {entry}\n"))
