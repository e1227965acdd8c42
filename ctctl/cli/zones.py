"""`ctctl zones`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import click

from ctctl.agent.reports import Report, zone_reports
from ctctl.cli import direct
from ctctl.cli.exit_codes import ExitCode
from ctctl.cli.options import config_option, output_option, settings_from
from ctctl.cli.output import Output, print_json, print_table
from ctctl.cli.watch import Sort, order, watch
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


@dataclass(frozen=True, slots=True)
class Wish:
    """Which zones to show: of one of these routers, with each of these words, without an owner."""

    routers: tuple[str, ...]
    words: tuple[str, ...]
    orphans: bool

    def is_met(self, report: Report) -> bool:
        """Claims that the zone is to be shown."""
        if self.orphans and not _is_orphan(report):
            return False
        text = "\n".join(str(report[key]) for key in ("owner", "alias", "kind", "state"))
        if not all(word in text for word in self.words):
            return False
        is_router = str(report["kind"]).startswith("router_")
        return not self.routers or (is_router and bool(_names(report) & set(self.routers)))


@click.command(short_help="List conntrack zones: owner, entries, share of the table.")
@click.option("--router", "routers", multiple=True, help="Only zones of this router (name, alias); may be repeated.")
@click.option("--orphans", is_flag=True, help="Only zones without owner that hold entries.")
@click.option("--check", is_flag=True, help="Exit with 3 when zones without owner hold entries.")
@click.option("--filter", "words", multiple=True, help="Only zones with this text in owner, alias, kind or state.")
@click.option("--sort", type=click.Choice([s.value for s in Sort]), default=Sort.ZONE.value, help="Order of the list.")
@click.option("--watch", "is_watching", is_flag=True, help="Go on, once a second, with rates, until Ctrl-C.")
@output_option
@config_option
def zones(
    routers: tuple[str, ...],
    orphans: bool,
    check: bool,
    words: tuple[str, ...],
    sort: str,
    is_watching: bool,
    output: str,
    config: Path | None,
) -> int:
    """List the conntrack zones of this host.

    With a running agent the answer is its last count; without one the table is counted now.
    """
    settings = settings_from(config)
    wish = Wish(routers, words, orphans)
    if is_watching and (check or output == Output.JSON):
        raise click.UsageError("--watch is for reading; use it without --check and -o json")
    if is_watching:
        columns = {**_COLUMNS, "rate/s": lambda r: None if r["rate"] is None else f"{cast('float', r['rate']):+.1f}"}
        watch(columns, lambda: [r for r in list_zones(settings) if wish.is_met(r)], Sort(sort))
    if sort == Sort.RATE:
        raise click.UsageError("rates need --watch")
    found = list_zones(settings)
    shown = order([r for r in found if wish.is_met(r)], Sort(sort))
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


def _names(report: Report) -> set[object]:
    return {report["owner"], report["alias"]} - {""}


def _is_orphan(report: Report) -> bool:
    return report["kind"] == "ownerless" and bool(report["entries"])
