"""`ctctl flush`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final, cast

import click

from ctctl.agent.commands import FLUSH_TIMEOUT_S
from ctctl.agent.reports import Report
from ctctl.cli import direct
from ctctl.cli.everywhere import instructions
from ctctl.cli.exit_codes import ExitCode
from ctctl.cli.options import config_option, output_option, settings_from
from ctctl.cli.output import Output, console, print_json, print_table, printable
from ctctl.cli.zones import list_zones
from ctctl.clients.control import NoAgentError, ask
from ctctl.config.settings import Settings
from ctctl.errors import UnavailableError
from ctctl.model.flush import Address, Reason
from ctctl.model.ids import FlushableZoneId, flushable_zone_id

_COLUMNS: Final[Mapping[str, Callable[[Report], object]]] = {
    "ct_zone": lambda r: r["ct_zone"],
    "owner": lambda r: r["owner"],
    "outcome": lambda r: r["outcome"],
    "detail": lambda r: _detail(r),  # noqa: PLW0108  # defined below
}


@dataclass(frozen=True, slots=True)
class Target:
    """What to flush."""

    zones: tuple[FlushableZoneId, ...]
    routers: tuple[str, ...]
    address: Address | None


@click.command(short_help="Flush zones or a router's zones on this node, after showing what would go.")
@click.option("--zone", "zones", type=int, multiple=True, help="A zone number, 1 … 65535; may be repeated.")
@click.option("--router", "routers", multiple=True, help="All zones of this router here; may be repeated.")
@click.option("--address", help="Only entries with this IP address, e.g. a detached floating IP.")
@click.option("--dry-run", is_flag=True, help="Say what would be flushed, or refused and why; send nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--everywhere", is_flag=True, help="Print the request for all nodes, and how to apply it; send nothing.")
@output_option
@config_option
def flush(
    zones: tuple[int, ...],
    routers: tuple[str, ...],
    address: str | None,
    dry_run: bool,
    yes: bool,
    everywhere: bool,
    output: str,
    config: Path | None,
) -> int:
    """Delete every conntrack entry of the named zones on this node, and of nothing else.

    Connections in these zones are cut. Zone 0, shared zones and zones that OVN does not assign are refused.
    """
    numbers = tuple(flushable_zone_id(number) for number in dict.fromkeys(zones))
    if not numbers and not routers:
        raise click.UsageError("name what to flush with --zone or --router; there is no “all”")
    if "" in routers:
        raise click.UsageError("--router is empty; is a variable unset?")
    target = Target(numbers, routers, _address(address))
    settings = settings_from(config)
    if everywhere:
        click.echo(instructions(target.zones, target.routers, target.address, time.time(), settings), nl=False)
        return ExitCode.DONE
    if not (yes or dry_run):
        _confirm(settings, target)
    reports = _carry_out(settings, target, is_dry_run=dry_run)
    if output == Output.JSON:
        print_json(reports)
    else:
        print_table(_COLUMNS, reports)
    return _exit_code(reports, is_dry_run=dry_run)


def _address(text: str | None) -> Address | None:
    try:
        return None if text is None else ip_address(text)
    except ValueError as error:
        raise click.UsageError(f"{text} is no IP address") from error


def _confirm(settings: Settings, target: Target) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("refusing to ask without a terminal; look with --dry-run, then add --yes")
    for report in list_zones(settings):
        is_named = report["owner"] in target.routers or report["alias"] in target.routers
        if report["ct_zone"] in target.zones or is_named:
            owner = printable(str(report["owner"] or "no owner"))
            click.echo(f"zone {report['ct_zone']} ({report['kind']}) of {owner}: {report['entries']} entries")
    what = "these entries" if target.address is None else f"those of these entries that have {target.address}"
    click.confirm(f"Delete {what}?", abort=True)


def _carry_out(settings: Settings, target: Target, *, is_dry_run: bool) -> list[Report]:
    request: dict[str, object] = {
        "command": "flush",
        "zones": list(target.zones),
        "routers": list(target.routers),
        "dry_run": is_dry_run,
    }
    if target.address is not None:
        request["address"] = str(target.address)
    try:
        with console.status("the agent flushes …"):
            answer = ask(Path(settings.control.socket), request, timeout_s=FLUSH_TIMEOUT_S + 5)
    except NoAgentError as error:
        if target.routers:
            raise UnavailableError(
                f"without an agent nobody knows which zones are a router's ({error})",
                remedy="start `ctctl agent`, or name zones with --zone",
            ) from error
        return direct.flush(settings, target.zones, direct.Wish(target.address, is_dry_run))
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
