"""All settings of the agent: one section per consumer, every default usable on a node with OVS and OVN."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ctctl.config.flush import FlushSettings
from ctctl.config.log import LogSettings
from ctctl.config.parse import parse
from ctctl.errors import ConfigError
from ctctl.metrics.collectors import MetricsSettings
from ctctl.metrics.web_settings import WebSettings
from ctctl.sources.counts import CountSettings
from ctctl.sources.local_ovsdb import OvsSettings
from ctctl.sources.ovn import OvnSettings
from ctctl.sources.stalls import StallSettings


@dataclass(frozen=True, slots=True)
class PathSettings:
    """Where the host's own trees are mounted."""

    procfs: str = "/proc"
    """The host's /proc, as mounted here."""


@dataclass(frozen=True, slots=True)
class StateSettings:
    """What outlives the agent."""

    dir: str = "/var/lib/ctctl"
    """Directory of the journal and the other state files; the only place that ctctl writes to."""


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """The command line's way into the agent."""

    socket: str = "/run/ctctl/control.sock"
    """Path of the unix socket that `ctctl zones`, `flush`, `events` and the others talk to."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole configuration file; every section may be left out."""

    ovs: OvsSettings = field(default_factory=OvsSettings)
    ovn: OvnSettings = field(default_factory=OvnSettings)
    paths: PathSettings = field(default_factory=PathSettings)
    state: StateSettings = field(default_factory=StateSettings)
    count: CountSettings = field(default_factory=CountSettings)
    flush: FlushSettings = field(default_factory=FlushSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    stalls: StallSettings = field(default_factory=StallSettings)
    web: WebSettings = field(default_factory=WebSettings)
    log: LogSettings = field(default_factory=LogSettings)
    control: ControlSettings = field(default_factory=ControlSettings)


def load(path: Path) -> Settings:
    """The settings in a file.

    Raises:
        ConfigError: the file cannot be read, or something in it is wrong; names file, line and key.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from error
    return parse(text, Settings, str(path))
