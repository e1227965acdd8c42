"""How this machine reaches its packages: what a fresh root needs to reach them the same way.

Everything is read from the machine's own configuration of apt and pip and from its environment; no archive or index
is named here. The archive itself the lab knows (`tests.lab.apt`).
"""

from __future__ import annotations

import configparser
import os
import re
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

CERTIFICATES: Final = Path("/usr/local/share/ctctl-fresh-root/certificates.pem")
"""Inside the root: the certificates this machine trusts. A place that no package owns."""

_PIP_FILES: Final = (
    Path("/etc/pip.conf"),
    Path("/etc/xdg/pip/pip.conf"),
    Path.home() / ".pip" / "pip.conf",
    Path.home() / ".config" / "pip" / "pip.conf",
)
_LOCAL_CERTIFICATES: Final = Path("/usr/local/share/ca-certificates")


def apt_options() -> list[str]:
    """How apt fetches here (proxies, certificates, clock checks), as lines of an apt.conf."""
    dumped = subprocess.run(["apt-config", "dump", "Acquire"], capture_output=True, text=True, check=True).stdout
    wanted = re.compile(r"Acquire::(https?|Check-|Retries|ForceIPv|Languages)[^ ]* +\"[^\"]")
    return [line for line in dumped.splitlines() if wanted.match(line)]


def trusted_certificates() -> Path | None:
    """The bundle that this machine's programs trust."""
    candidates = [os.environ.get("PIP_CERT"), os.environ.get("SSL_CERT_FILE"), ssl.get_default_verify_paths().cafile]
    return next((Path(name) for name in candidates if name and Path(name).is_file()), None)


def environment() -> dict[str, str]:
    """The variables by which pip finds its packages, for a process inside the root."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("PIP_") or name.lower() in {"http_proxy", "https_proxy", "no_proxy", "all_proxy"}
    }
    if trusted_certificates():
        kept |= {"PIP_CERT": str(CERTIFICATES), "SSL_CERT_FILE": str(CERTIFICATES)}
    return kept


def copy_configuration(root: Path) -> None:
    """Put the files that pip and TLS read here into `root`."""
    for path in _pip_files():
        _copy(path, root)
    if bundle := trusted_certificates():
        (root / CERTIFICATES.relative_to("/")).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(bundle, root / CERTIFICATES.relative_to("/"))
    if _LOCAL_CERTIFICATES.is_dir():
        shutil.copytree(_LOCAL_CERTIFICATES, root / _LOCAL_CERTIFICATES.relative_to("/"), dirs_exist_ok=True)
    for path in _local_paths():
        if path.is_file():
            _copy(path, root)


def local_directories() -> list[Path]:
    """Directories of this machine that pip is told to look in; with an index (a URL) the files lie beside it."""
    return [path for path in _local_paths() if path.is_dir()]


def _pip_files() -> list[Path]:
    named = os.environ.get("PIP_CONFIG_FILE")
    return [path for path in (*_PIP_FILES, *([Path(named)] if named else [])) if path.is_file()]


def _local_paths() -> list[Path]:
    values = [value for name, value in os.environ.items() if name.startswith("PIP_")]
    for path in _pip_files():
        parser = configparser.RawConfigParser()
        parser.read(path)
        values += [value for section in parser.sections() for _, value in parser.items(section)]
    found: dict[Path, None] = {}
    for word in (word for value in values for word in value.split()):
        path = Path(urlsplit(word).path).parent if word.startswith("file://") else Path(word)
        if path.is_absolute() and path.exists():
            found[path] = None
    return list(found)


def _copy(path: Path, root: Path) -> None:
    target = root / path.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)
