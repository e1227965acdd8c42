"""The lab downloads from where the machine's own apt does, in whatever form that is written down."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.apt import AptError, Archive, machine_archive

MIRROR = "http://mirror.example/debian"


@pytest.fixture
def etc_apt(tmp_path: Path) -> Path:
    (tmp_path / "sources.list.d").mkdir()
    return tmp_path


def test_the_main_archive_is_found_in_a_deb822_file(etc_apt: Path) -> None:
    (etc_apt / "sources.list.d/debian.sources").write_text(
        f"""# a comment
Types: deb deb-src
URIs: {MIRROR}/
# within a stanza
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/own.gpg
"""
    )
    assert machine_archive(etc_apt) == Archive(f"{MIRROR}/", "/usr/share/keyrings/own.gpg")


@pytest.mark.parametrize(
    "line",
    [
        f"deb {MIRROR} bookworm main",
        f"deb [ arch=amd64 ] {MIRROR} stable main contrib  # why",
        f"  deb\t{MIRROR}\ttrixie\tnon-free main",
    ],
)
def test_the_main_archive_is_found_in_a_one_line_source(etc_apt: Path, line: str) -> None:
    (etc_apt / "sources.list").write_text(f"# first\n{line}\n")
    assert machine_archive(etc_apt) == Archive(MIRROR)


def test_options_of_a_one_line_source_are_kept(etc_apt: Path) -> None:
    (etc_apt / "sources.list").write_text(f"deb [signed-by=/a.gpg,/b.gpg trusted=yes] {MIRROR} bookworm main\n")
    assert machine_archive(etc_apt) == Archive(MIRROR, "/a.gpg /b.gpg", "yes")


@pytest.mark.parametrize(
    "other",
    [
        "deb http://security.example/debian-security bookworm-security main",
        "deb-src http://mirror.example/source bookworm main",
        "deb http://vendor.example/ stable vendor",
        "deb cdrom:[Debian 12]/ bookworm main",
        "#deb http://off.example/debian bookworm main",
    ],
)
def test_what_is_not_the_main_archive_is_passed_over(etc_apt: Path, other: str) -> None:
    (etc_apt / "sources.list").write_text(f"{other}\ndeb {MIRROR} bookworm main\n")
    assert machine_archive(etc_apt) == Archive(MIRROR)


def test_a_disabled_stanza_and_a_file_apt_ignores_are_passed_over(etc_apt: Path) -> None:
    stanza = "Types: deb\nURIs: {}\nSuites: bookworm\nComponents: main\n"
    parts = etc_apt / "sources.list.d"
    (parts / "a.sources").write_text("Enabled: no\n" + stanza.format("http://off.example/debian"))
    (parts / "b.sources.disabled").write_text(stanza.format("http://ignored.example/debian"))
    (parts / "c.sources").write_text(stanza.format(MIRROR))
    assert machine_archive(etc_apt).uri == MIRROR


def test_a_key_inside_the_source_is_carried_over_whole(etc_apt: Path) -> None:
    key = "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mQINBF\n -----END PGP PUBLIC KEY BLOCK-----\n"
    text = f"Types: deb\nURIs: {MIRROR}\nSuites: bookworm\nComponents: main\n{key}"
    (etc_apt / "sources.list.d/debian.sources").write_text(text)
    assert key.removeprefix("Signed-By:") in machine_archive(etc_apt).source("trixie")


def test_a_source_asks_for_the_release_and_its_updates() -> None:
    assert "Suites: trixie trixie-updates\n" in Archive(MIRROR).source("trixie")
    assert "Signed-By" not in Archive(MIRROR).source("trixie")


def test_a_machine_without_debian_sources_is_told_so(etc_apt: Path) -> None:
    with pytest.raises(AptError, match="no source of Debian's main archive"):
        machine_archive(etc_apt)
