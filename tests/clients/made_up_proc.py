"""A made-up /proc: as much of a process as ctctl reads."""

from __future__ import annotations

from pathlib import Path


def add_process(procfs: Path, pid: int, command: str, pids: list[int], *, system_ticks: int = 905) -> None:
    """`pids`: its pid in every PID namespace, outermost first."""
    directory = procfs / str(pid)
    (directory / "task" / str(pid)).mkdir(parents=True, exist_ok=True)
    (directory / "comm").write_text(f"{command[:15]}\n")
    (directory / "status").write_text("Name:\tx\nNSpid:\t" + "\t".join(map(str, pids)) + "\n")
    tail = " ".join(["0"] * 9 + ["150", str(system_ticks)] + ["0"] * 37)
    (directory / "task" / str(pid) / "stat").write_text(f"{pid} ({command}) S 1 {tail}\n")
