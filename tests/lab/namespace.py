"""A private machine for a test: own network, mounts, processes and one temporary directory, gone with its owner.

The network namespace brings its own empty conntrack table on the real kernel. Everything started inside lives in a
PID namespace whose first process waits for the end of a pipe that only the owner holds: when the owner closes it or
dies, however that happens, the kernel kills every process inside, and mounts, interfaces and directory go with them.

Process numbers have two readings: `Popen.pid` of a program started here is the owner's; pidfiles inside hold the
namespace's own. `Namespace.host_pid` translates.
"""

from __future__ import annotations

import ctypes
import os
import queue
import select
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import IO, Any, ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Argv = Sequence[str] | Sequence[Path] | Sequence[str | Path]

CLONE_FS = 0x00000200
CLONE_NEWNS = 0x00020000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
START_TIMEOUT_S = 30.0
END_TIMEOUT_S = 30.0

# Mounts are cut off from the machine's at the root of the mount namespace, which `unshare` itself cannot name from
# within a chroot; nothing is mounted before that has succeeded.
# /proc/self is still the owner's /proc here and so names the number by which the owner knows this process.
# SIGCHLD is ignored, and stays so over exec: the kernel then reaps every orphan in the namespace by itself.
FIRST_PROCESS = """
nsenter --mount=/proc/self/ns/mnt mount --make-rprivate / || exit 1
read -r pid rest < /proc/self/stat
mount -t proc proc /proc && mount -t tmpfs -o mode=755 tmpfs /run && mkdir -p /run/netns && ip link set lo up || exit 1
echo "$pid"
exec env --ignore-signal=CHLD cat > /dev/null
"""
HOLDER = 'unshare --net --mount --propagation unchanged --pid --fork --kill-child sh -c "$1"; rm -rf -- "$2"'

_libc = ctypes.CDLL(None, use_errno=True)


class NamespaceError(Exception):
    """A private namespace could not be made or entered; says why."""


def why_unavailable() -> str | None:
    """Why this process cannot make namespaces, or None when it can."""
    if os.geteuid() != 0:
        return "needs root to make network namespaces"
    missing = [
        program
        for program in ("unshare", "nsenter", "ip", "mount", "nft", "conntrack")
        if shutil.which(program) is None
    ]
    if missing:
        return f"needs {', '.join(missing)} (see tests/lab/packages.txt)"
    done = subprocess.run(
        ["unshare", "--net", "--mount", "--propagation", "unchanged", "--pid", "--fork", "true"],
        capture_output=True,
        check=False,
    )
    return None if done.returncode == 0 else f"cannot unshare: {done.stderr.decode().strip()}"


def _enter(namespaces: Mapping[int, int], root: int | None) -> str | None:
    """Move the calling thread into namespaces, and to the directory `root` as its root; why that failed, or None."""
    # A mount namespace cannot be entered while other threads share this one's root and working directory.
    if CLONE_NEWNS in namespaces and _libc.unshare(CLONE_FS) != 0:
        return f"unshare(CLONE_FS): {os.strerror(ctypes.get_errno())}"
    for kind, descriptor in namespaces.items():
        if _libc.setns(descriptor, kind) != 0:
            return f"setns({kind:#x}): {os.strerror(ctypes.get_errno())}"
    if root is not None:
        # A mount namespace is entered at its root, which in a chroot is not the one that programs are to see.
        try:
            os.fchdir(root)
            os.chroot(".")
        except OSError as error:
            return f"chroot: {error.strerror}"
    return None


class _Thread:
    """A thread that has entered namespaces and calls there what it is asked to, one call at a time."""

    def __init__(self, name: str, namespaces: Mapping[int, int], root: int | None = None) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, args=(dict(namespaces), root), name=name, daemon=True)
        self._thread.start()

    def _run(self, namespaces: Mapping[int, int], root: int | None) -> None:
        refusal = _enter(namespaces, root)
        while (call := self._calls.get()) is not None:
            future, function = call
            if refusal is not None:
                future.set_exception(NamespaceError(refusal))
                continue
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001 (belongs to the caller, who gets it from the future)
                future.set_exception(error)

    def call(self, function: Callable[[], T]) -> T:
        future: Future[T] = Future()
        self._calls.put((future, function))
        return future.result()

    def stop(self) -> None:
        self._calls.put(None)
        self._thread.join()


class Namespace:
    """Owner's handle of one private namespace. Made ready by the constructor, gone after `close`.

    `directory`: a temporary directory with a short path (unix sockets fit), removed with the namespace.

    Raises:
        NamespaceError: the kernel or a missing program refused it.
    """

    def __init__(self, name: str = "ctctl") -> None:
        self.name = name
        self.directory = Path(tempfile.mkdtemp(prefix=f"{name}-"))
        self._descriptors: dict[int, int] = {}
        self._spawner: _Thread | None = None
        self._children: list[subprocess.Popen[bytes]] = []
        self._holder = subprocess.Popen(
            ["sh", "-c", HOLDER, "sh", FIRST_PROCESS, str(self.directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # an interrupt typed at the terminal is the owner's to handle
        )
        try:
            self.pid = self._first_process()
            for kind, file in ((CLONE_NEWNET, "net"), (CLONE_NEWNS, "mnt"), (CLONE_NEWPID, "pid")):
                self._descriptors[kind] = os.open(f"/proc/{self.pid}/ns/{file}", os.O_RDONLY | os.O_CLOEXEC)
            root = os.open(f"/proc/{self.pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                self._spawner = _Thread(f"{name}-spawner", self._descriptors, root)
                self._spawner.call(os.getcwd)
            finally:
                os.close(root)
        except BaseException:
            self.close()
            raise

    def _first_process(self) -> int:
        """Owner's number of the namespace's first process, known when the namespace is ready."""
        output, errors = self._holder.stdout, self._holder.stderr
        assert output is not None
        assert errors is not None
        readable, _, _ = select.select([output], [], [], START_TIMEOUT_S)
        line = output.readline() if readable else b""
        if line.strip().isdigit():
            return int(line)
        assert self._holder.stdin is not None
        self._holder.stdin.close()
        why = errors.read().decode().strip() if readable else f"not ready after {START_TIMEOUT_S:g} s"
        raise NamespaceError(f"no private namespace: {why}")

    def popen(
        self,
        argv: Argv,
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: int | IO[Any] | None = subprocess.DEVNULL,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a program inside; a child of this process in every other respect.

        `env` is added to the owner's. `cwd`: the owner's own unless given.
        """
        assert self._spawner is not None, "the namespace is closed"
        directory = cwd or Path.cwd()
        process = self._spawner.call(
            lambda: subprocess.Popen(
                [str(word) for word in argv],
                env={**os.environ, **(env or {})},
                cwd=directory,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
            )
        )
        self._children = [*(child for child in self._children if child.poll() is None), process]
        return process

    def run(
        self,
        argv: Argv,
        *,
        stdin: str = "",
        env: Mapping[str, str] | None = None,
        check: bool = True,
        timeout_s: float = 60.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program inside to its end; `stdin` is text given to it.

        Raises:
            NamespaceError: it failed and `check` is set; the message holds what it printed.
            subprocess.TimeoutExpired: it was killed after `timeout_s`.
        """
        pipe = subprocess.PIPE
        process = self.popen(argv, env=env, stdin=pipe, stdout=pipe, stderr=pipe)
        with process:
            try:
                output, errors = process.communicate(stdin.encode(), timeout=timeout_s)
            except BaseException:
                process.kill()
                raise
        done = subprocess.CompletedProcess(process.args, process.returncode, output.decode(), errors.decode())
        if check and done.returncode != 0:
            said = done.stderr.strip() or done.stdout.strip()
            raise NamespaceError(f"{shlex.join(str(w) for w in argv)} answered {done.returncode}: {said}")
        return done

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a Python function of this process in the network namespace, in a thread of its own.

        Sockets it opens, and threads it starts, belong to the network namespace for their life. Mounts and process
        numbers stay the owner's.
        """
        thread = _Thread(f"{self.name}-call", {CLONE_NEWNET: self._descriptors[CLONE_NEWNET]})
        try:
            return thread.call(lambda: function(*args, **kwargs))
        finally:
            thread.stop()

    def host_pid(self, inner_pid: int) -> int:
        """The owner's number of a process that is `inner_pid` inside.

        Raises:
            ProcessLookupError: there is no such process.
        """
        namespace = os.fstat(self._descriptors[CLONE_NEWPID])
        for process in Path("/proc").iterdir():
            if not process.name.isdigit():
                continue
            try:
                # The cheap question first: most processes of the machine have one number only.
                status = (process / "status").read_text(encoding="utf-8")
                numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
                if int(numbers[-1]) == inner_pid and (process / "ns/pid").stat().st_ino == namespace.st_ino:
                    return int(process.name)
            except (OSError, StopIteration):
                continue
        raise ProcessLookupError(f"no process {inner_pid} inside {self.name}")

    def sysctl(self, name: str, value: int | str) -> None:
        """Set a sysctl of this network namespace, e.g. `net.netfilter.nf_conntrack_timestamp`."""
        path = Path("/proc/sys", *name.split("."))
        self.call(path.write_text, f"{value}\n")

    @property
    def netns_path(self) -> Path:
        """A path that opens as the network namespace while it lives, for `nsenter --net=`."""
        return Path(f"/proc/{self.pid}/ns/net")

    def close(self) -> None:
        """End every process inside and wait until all is gone. May be called twice."""
        if self._spawner is not None:
            self._spawner.stop()
            self._spawner = None
        for child in self._children:
            # The kernel keeps a PID namespace until the last of its processes has been reaped, by us for these.
            child.kill()
            child.wait()
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])
        for pipe in (self._holder.stdin, self._holder.stdout, self._holder.stderr):
            if pipe is not None:
                pipe.close()
        try:
            self._holder.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            # Its first process never came to read the pipe; the whole session is the holder's own.
            os.killpg(self._holder.pid, signal.SIGKILL)
            self._holder.wait()
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
