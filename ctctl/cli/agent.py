"""`ctctl agent`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from ctctl.cli.options import config_option, settings_from


@click.command(short_help="Run the exporter and flush controller of this node.")
@config_option
@click.option("--web.listen-address", "listen", multiple=True, help="Where to serve metrics; may be repeated.")
@click.option("--web.telemetry-path", "telemetry_path", help="Path of the metrics.")
@click.option("--web.config.file", "web_config", help="TLS and users, in exporter-toolkit's format.")
def agent(config: Path | None, listen: tuple[str, ...], telemetry_path: str | None, web_config: str | None) -> int:
    """Run the agent of this node. Without any configuration it works on a node with OVS and OVN.

    Flags override the file, the file overrides the defaults. Ends on SIGTERM within five seconds.
    """
    from ctctl.agent import log  # noqa: PLC0415  # keeps the other commands quick
    from ctctl.agent.lifecycle import Agent  # noqa: PLC0415

    settings = settings_from(config)
    web = settings.web
    web = replace(web, listen_addresses=listen) if listen else web
    web = replace(web, telemetry_path=telemetry_path) if telemetry_path else web
    web = replace(web, config_file=web_config) if web_config else web
    log.configure(settings.log)
    return Agent(replace(settings, web=web), config).run()
