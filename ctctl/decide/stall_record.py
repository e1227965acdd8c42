"""A stall as one line of the log and of `ctctl events`: when, how long, busy with what, and who was being set up."""

from __future__ import annotations

from ctctl.model.record import Record, RecordKind
from ctctl.model.stalls import StallEpisode


def stall_record(episode: StallEpisode, entries: int | None) -> Record:
    """The record of an ended episode. `entries`: the size of the conntrack table, None where unknown.

    `routers_in_setup` is a coincidence in time; nothing here claims that they caused it.
    """
    fields: dict[str, object] = {
        "daemon": episode.daemon.value,
        "thread": episode.thread.value,
        "started_wall_s": episode.started.wall_s,
        "duration_s": episode.duration_s,
        "is_exact": episode.is_exact,
        "doing": episode.occupation.value,
        "user_s": episode.user_s,
        "system_s": episode.system_s,
        "blocked_others_s": episode.rcu_blocked_s,
        "routers_in_setup": list(episode.routers),
        "entries": entries,
    }
    length = f"{episode.duration_s:.2f}s" if episode.is_exact else f"about {episode.duration_s:.1f}s"
    words = [f"{episode.daemon} {episode.thread} stalled for {length}", f"doing={episode.occupation}"]
    if episode.user_s is not None and episode.system_s is not None:
        words.append(f"user={episode.user_s:.2f}s system={episode.system_s:.2f}s")
    if episode.rcu_blocked_s > 0:
        words.append(f"blocked_others={episode.rcu_blocked_s:.2f}s")
    if episode.routers:
        words.append(f"routers_in_setup={','.join(episode.routers)}")
    if entries is not None:
        words.append(f"entries={entries}")
    return Record(episode.ended or episode.started, RecordKind.STALL, " ".join(words), fields)
