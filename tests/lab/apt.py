"""A private apt: downloads Debian packages of any suite without touching the machine's package state.

Where to download from and whose signatures to trust comes from the machine's own apt sources, so that a mirror, a
proxy or a snapshot configured there is used here too. Standard library only: this runs before anything is installed.
Must not install, and must not write outside the directory it is given.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ARCHIVE_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
CODENAMES = ("bullseye", "bookworm", "trixie", "forky", "duke", "sid")
ALIASES = ("oldoldstable", "oldstable", "stable", "testing", "unstable")
ONE_LINE_SOURCE = re.compile(r"deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s*(?P<components>.*)")


class AptError(Exception):
    """Packages could not be had; says what was tried, and what apt said."""


@dataclass(frozen=True, slots=True)
class Archive:
    """Where this machine gets Debian's main archive from, in the words of a deb822 source.

    `signed_by`: the value of Signed-By (paths, or an inline key), "" for apt's own trust store. `trusted`: the value
    of Trusted, "" when absent.
    """

    uri: str
    signed_by: str = ""
    trusted: str = ""

    def source(self, suite: str) -> str:
        """A deb822 source of one suite and its point-release updates."""
        signed_by = self.signed_by
        if signed_by.startswith("/") and ARCHIVE_KEYRING.exists() and str(ARCHIVE_KEYRING) not in signed_by:
            # A keyring of one release only does not know the next one's keys.
            signed_by = f"{signed_by} {ARCHIVE_KEYRING}"
        lines = ["Types: deb", f"URIs: {self.uri}", f"Suites: {suite} {suite}-updates", "Components: main"]
        lines += [f"Signed-By: {signed_by}"] if signed_by else []
        lines += [f"Trusted: {self.trusted}"] if self.trusted else []
        return "\n".join(lines) + "\n"


def _is_release(suite: str) -> bool:
    """Claims that the suite is a Debian release itself, not its updates, security or backports."""
    return suite in CODENAMES or suite in ALIASES


def _deb822_stanzas(text: str) -> Iterator[dict[str, str]]:
    stanza: dict[str, str] = {}
    field = ""
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            continue
        if not line.strip():
            if stanza:
                yield stanza
            stanza, field = {}, ""
        elif line[0] in " \t" and field:
            stanza[field] += "\n" + line
        else:
            name, _, value = line.partition(":")
            field = name.strip().lower()
            stanza[field] = value.strip()


def _from_deb822(text: str) -> Iterator[Archive]:
    for stanza in _deb822_stanzas(text):
        if stanza.get("enabled", "yes").lower() in ("no", "false", "0") or "deb" not in stanza.get("types", "").split():
            continue
        if "main" not in stanza.get("components", "").split():
            continue
        if any(_is_release(suite) for suite in stanza.get("suites", "").split()):
            for uri in stanza.get("uris", "").split():
                yield Archive(uri, stanza.get("signed-by", ""), stanza.get("trusted", ""))


def _from_one_line(text: str) -> Iterator[Archive]:
    for line in text.splitlines():
        match = ONE_LINE_SOURCE.match(line.split("#", 1)[0].strip())
        if match is None or "main" not in match["components"].split() or not _is_release(match["suite"]):
            continue
        options = dict(option.partition("=")[::2] for option in (match["options"] or "").split())
        yield Archive(match["uri"], options.get("signed-by", "").replace(",", " "), options.get("trusted", ""))


def machine_archive(etc_apt: Path = Path("/etc/apt")) -> Archive:
    """The first source of Debian's main archive that this machine's apt is configured with.

    Raises:
        AptError: there is none; this is not a Debian machine, or its sources were removed.
    """
    for path in [etc_apt / "sources.list", *sorted((etc_apt / "sources.list.d").glob("*"))]:
        parse = {".sources": _from_deb822, ".list": _from_one_line}.get(path.suffix)
        if parse is None or not path.is_file():
            continue
        for archive in parse(path.read_text(encoding="utf-8")):
            if not archive.uri.startswith("cdrom:"):
                return archive
    raise AptError(f"no source of Debian's main archive in {etc_apt}; add one to {etc_apt}/sources.list.d")


class PrivateApt:
    """apt with every directory of its own below `root`; the machine's proxy and download settings still apply."""

    def __init__(self, root: Path, suite: str, archive: Archive) -> None:
        self.root = root
        self.suite = suite
        for name in ("lists/partial", "archives/partial", "sources", "preferences"):
            (root / name).mkdir(parents=True, exist_ok=True)
        (root / "status").write_text("")
        (root / "sources" / "debian.sources").write_text(archive.source(suite))
        self.config = root / "apt.conf"
        self.config.write_text(
            f"""
            Dir::Etc::SourceList "/dev/null";
            Dir::Etc::SourceParts "{root}/sources";
            Dir::Etc::Preferences "/dev/null";
            Dir::Etc::PreferencesParts "{root}/preferences";
            Dir::State "{root}";
            Dir::State::Lists "{root}/lists";
            Dir::State::status "{root}/status";
            Dir::Cache "{root}";
            Dir::Cache::archives "{root}/archives";
            Acquire::Languages "none";
            Acquire::Retries "3";
            APT::Install-Recommends "false";
            // The directory is the caller's own, which apt's unprivileged user may not enter.
            APT::Sandbox::User "root";
            // Nothing here is for the machine's hooks and defaults.
            #clear APT::Default-Release;
            #clear APT::Update::Pre-Invoke;
            #clear APT::Update::Post-Invoke;
            #clear APT::Update::Post-Invoke-Success;
            #clear Acquire::IndexTargets::deb::DEP-11;
            """,
        )

    def _apt_get(self, *args: str, cwd: Path | None = None) -> str:
        argv = ["apt-get", f"-c={self.config}", "-q", *args]
        environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
        try:
            done = subprocess.run(argv, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            raise AptError("apt-get is not on this machine; the lab unpacks Debian packages and needs it") from error
        # `apt-get update` answers 0 although nothing could be fetched.
        if done.returncode != 0 or (
            args[0] == "update" and re.search(r"^[WE]: .*(Failed|GPG)", done.stderr, re.MULTILINE)
        ):
            raise AptError(f"{' '.join(argv)} failed: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def update(self) -> None:
        """Fetch and verify the package lists."""
        self._apt_get("update")

    def closure(self, packages: Iterable[str]) -> list[str]:
        """The names of all packages that these need on a machine with nothing installed, themselves included."""
        simulated = self._apt_get("install", "--print-uris", "--yes", *packages)
        return [match[1] for match in re.finditer(r"^'[^']+' ([^_\s]+)_\S+ \d+ ", simulated, re.MULTILINE)]

    def download(self, packages: Sequence[str]) -> list[Path]:
        """Download exactly these packages, signatures and hashes verified by apt."""
        directory = self.root / "packages"
        directory.mkdir(exist_ok=True)
        self._apt_get("download", *packages, cwd=directory)
        found = sorted(directory.glob("*.deb"))
        if len(found) != len(set(packages)):
            raise AptError(f"apt downloaded {len(found)} of {len(set(packages))} packages of {self.suite}")
        return found
