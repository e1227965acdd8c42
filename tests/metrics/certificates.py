"""A certificate authority for one test, made with the machine's openssl."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA in a directory; its certificates are files there."""

    directory: Path
    name: str = "ca"

    @classmethod
    def create(cls, directory: Path, name: str = "ca") -> Authority:
        """A new CA."""
        if shutil.which("openssl") is None:
            pytest.skip("needs openssl, from the Debian package of that name")
        authority = cls(directory, name)
        authority._openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
            *("-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.crt"),
        )
        return authority

    @property
    def certificate(self) -> Path:
        return self.directory / f"{self.name}.crt"

    def issue(self, name: str, alternative_name: str = "DNS:localhost,IP:127.0.0.1") -> tuple[Path, Path]:
        """Certificate and key files of `name`."""
        self._openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}"),
            *("-addext", f"subjectAltName={alternative_name}", "-keyout", f"{name}.key", "-out", f"{name}.csr"),
        )
        self._openssl(
            *("x509", "-req", "-in", f"{name}.csr", "-CA", f"{self.name}.crt", "-CAkey", f"{self.name}.key"),
            *("-CAcreateserial", "-days", "2", "-copy_extensions", "copy", "-out", f"{name}.crt"),
        )
        return self.directory / f"{name}.crt", self.directory / f"{name}.key"

    def _openssl(self, *arguments: str) -> None:
        done = subprocess.run(["openssl", *arguments], cwd=self.directory, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
