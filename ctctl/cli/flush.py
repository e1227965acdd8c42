"""`ctctl flush`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, cast

import click

from ctctl.agent.commands import FLUSH_TIMEOUT_S
from ctctl.agent.reports import Report
from ctctl.cli import direct
from ctctl.cli.exit_codes import ExitCode
from ctctl.cli.options import config_option, output_option, settings_from
from ctctl.cli.output import Output, print_json, print_table, printable
from ctctl.cli.zones import list_zones
from ctctl.clients.control import NoAgentError, ask
from ctctl.config.settings import Settings
from ctctl.errors import UnavailableError
from ctctl.model.flush import Reason
from ctctl.model.ids import FlushableZoneId, flushable_zone_id

_COLUMNS: Final[Mapping[str, Callable[[Report], object]]] = {
    "ct_zone": lambda r: r["ct_zone"],
    "owner": lambda r: r["owner"],
    "outcome": lambda r: r["outcome"],
    "detail": lambda r: _detail(r),  # noqa: PLW0108  # defined below
}


@click.command(short_help="Flush zones or a router's zones on this node, after showing what would go.")
@click.option("--zone", "zones", type=int, multiple=True, help="A zone number, 1 … 65535; may be repeated.")
@click.option("--router", "routers", multiple=True, help="All zones of this router here; may be repeated.")
@click.option("--dry-run", is_flag=True, help="Say what would be flushed, or refused and why; send nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output_option
@config_option
def flush(
    zones: tuple[int, ...],
    routers: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    output: str,
    config: Path | None,
) -> int:
    """Delete every conntrack entry of the named zones on this node, and of nothing else.

    Connections in these zones are cut. Zone 0, shared zones and zones that OVN does not assign are refused.
    """
    numbers = tuple(flushable_zone_id(number) for number in dict.fromkeys(zones))
    if not numbers and not routers:
        raise click.UsageError("name what to flush with --zone or --router; there is no “all”")
    settings = settings_from(config)
    if not (yes or dry_run):
        _confirm(settings, numbers, routers)
    reports = _carry_out(settings, numbers, routers, is_dry_run=dry_run)
    if output == Output.JSON:
        print_json(reports)
    else:
        print_table(_COLUMNS, reports)
    return _exit_code(reports, is_dry_run=dry_run)


def _confirm(settings: Settings, zones: tuple[FlushableZoneId, ...], routers: tuple[str, ...]) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("refusing to ask without a terminal; look with --dry-run, then add --yes")
    for report in list_zones(settings):
        if report["ct_zone"] in zones or report["owner"] in routers or report["alias"] in routers:
            owner = printable(str(report["owner"] or "no owner"))
            click.echo(f"zone {report['ct_zone']} ({report['kind']}) of {owner}: {report['entries']} entries")
    click.confirm("Delete these entries?", abort=True)


def _carry_out(
    settings: Settings, zones: tuple[FlushableZoneId, ...], routers: tuple[str, ...], *, is_dry_run: bool
) -> list[Report]:
    request = {"command": "flush", "zones": list(zones), "routers": list(routers), "dry_run": is_dry_run}
    try:
        answer = ask(Path(settings.control.socket), request, timeout_s=FLUSH_TIMEOUT_S + 5)
    except NoAgentError as error:
        if routers:
            raise UnavailableError(
                f"without an agent nobody knows which zones are a router's ({error})",
                remedy="start `ctctl agent`, or name zones with --zone",
            ) from error
        return direct.flush(settings, zones, is_dry_run=is_dry_run)
    return cast("list[Report]", answer)


def _exit_code(reports: list[Report], *, is_dry_run: bool) -> int:
    outcomes = {str(r["outcome"]) for r in reports}
    reasons = {str(r["reason"]) for r in reports if r["outcome"] == "refused"}
    if "failed" in outcomes:
        return ExitCode.FAILED
    asked_for = {Reason.DRY_RUN.value} if is_dry_run else set()
    return ExitCode.REFUSED if reasons - asked_for else ExitCode.DONE


def _detail(report: Report) -> str:
    if report["outcome"] != "flushed":
        return f"{report['reason']}: {report['why']}"
    took = f"{1000 * cast('float', report['duration_seconds']):.2f} ms by {report['strategy']}"
    return took if report["deleted"] is None else f"{took}, {report['deleted']} deleted"
