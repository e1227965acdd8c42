"""`ctctl zones`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, cast

import click

from ctctl.agent.reports import Report, zone_reports
from ctctl.cli import direct
from ctctl.cli.exit_codes import ExitCode
from ctctl.cli.options import config_option, output_option, settings_from
from ctctl.cli.output import Output, print_json, print_table
from ctctl.clients.control import NoAgentError, ask
from ctctl.config.settings import Settings

ASK_TIMEOUT_S: Final = 10.0

_COLUMNS: Final[Mapping[str, Callable[[Report], object]]] = {
    "ct_zone": lambda r: r["ct_zone"],
    "kind": lambda r: r["kind"],
    "owner": lambda r: r["owner"],
    "alias": lambda r: r["alias"],
    "entries": lambda r: r["entries"],
    "share": lambda r: None if r["share"] is None else f"{100 * cast('float', r['share']):.1f}%",
    "limit": lambda r: r["limit"],
    "state": lambda r: r["state"],
}


@click.command(short_help="List conntrack zones: owner, entries, share of the table.")
@click.option("--router", "routers", multiple=True, help="Only zones of this router (name, alias); may be repeated.")
@click.option("--orphans", is_flag=True, help="Only zones without owner that hold entries.")
@click.option("--check", is_flag=True, help="Exit with 3 when zones without owner hold entries.")
@output_option
@config_option
def zones(routers: tuple[str, ...], orphans: bool, check: bool, output: str, config: Path | None) -> int:
    """List the conntrack zones of this host.

    With a running agent the answer is its last count; without one the table is counted now.
    """
    found = list_zones(settings_from(config))
    shown = [r for r in found if _is_wanted(r, routers, orphans=orphans)]
    if output == Output.JSON:
        print_json(shown)
    else:
        print_table(_COLUMNS, shown)
    has_orphans = any(_is_orphan(r) for r in found)
    return ExitCode.FOUND if check and has_orphans else ExitCode.DONE


def list_zones(settings: Settings) -> list[Report]:
    """Every zone's report, from the agent or, without one, from the host itself.

    Raises:
        CtctlError: neither could answer.
    """
    try:
        answer = ask(Path(settings.control.socket), {"command": "zones"}, timeout_s=ASK_TIMEOUT_S)
    except NoAgentError:
        host = direct.look(settings)
        return zone_reports(host.zones, host.count)
    return cast("list[Report]", answer)


def _is_wanted(report: Report, routers: tuple[str, ...], *, orphans: bool) -> bool:
    if orphans and not _is_orphan(report):
        return False
    return not routers or (str(report["kind"]).startswith("router_") and _names(report) & set(routers) != set())


def _names(report: Report) -> set[object]:
    return {report["owner"], report["alias"]} - {""}


def _is_orphan(report: Report) -> bool:
    return report["kind"] == "ownerless" and bool(report["entries"])
