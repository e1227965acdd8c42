"""A machine with another kernel, in seconds: QEMU without hardware help, this machine's root read-only underneath.

What runs inside sees the same files at the same paths, so the same interpreter runs the same sources. Whatever it
writes is gone afterwards. Computing is 5 to 15 times slower inside; never compare times.
"""

from __future__ import annotations

import platform
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.qemu.kernels import Kernel

HERE: Final = Path(__file__).resolve().parent
CLONE: Final = HERE.parents[1]
PROGRAMS: Final = ("qemu-system-x86_64", "busybox", "cpio", "modprobe", "xz")
FIRST_MODULES: Final = ("virtio_pci", "9p", "9pnet_virtio", "overlay")
APPLETS: Final = ("sh", "mount", "mkdir", "insmod", "switch_root")
STATUS: Final = re.compile(r"^CTCTL-STATUS (\d+)\r?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Run:
    """What came of an order. `status`: its exit status, None when the machine ended before it did."""

    status: int | None
    console: str


def why_unavailable() -> str | None:
    """Why no machine can be started here, None when one can."""
    if platform.machine() != "x86_64":
        return f"the kernels are for x86_64, this is {platform.machine()}"
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    return f"needs {', '.join(missing)} (see tests/qemu/packages.txt)" if missing else None


def run(kernel: Kernel, argv: Sequence[str], *, timeout_s: float, memory_mib: int = 2048) -> Run:
    """Boot `kernel`, run `argv` in the clone as root, switch off; the console is captured whole.

    Raises:
        subprocess.TimeoutExpired: the machine was ended after `timeout_s`; holds the console so far.
    """
    with tempfile.TemporaryDirectory(prefix="ctctl-qemu-") as scratch:
        order = Path(scratch, "order.sh")
        order.write_text(f"exec {shlex.join(argv)}\n")
        words = {
            "CTCTL_STAGE2": HERE / "stage2.sh",
            "CTCTL_ORDER": order,
            "CTCTL_CLONE": CLONE,
            "CTCTL_RELEASE": kernel.release,
            "CTCTL_MODULES": kernel.modules,
        }
        line = " ".join(["console=ttyS0 quiet panic=-1", *(f"{name}={value}" for name, value in words.items())])
        command = [
            "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "qemu64", "-smp", "2", "-m", str(memory_mib),
            "-nographic", "-no-reboot", "-nic", "none",
            "-kernel", str(kernel.image), "-initrd", str(_initramfs(kernel, Path(scratch))), "-append", line,
            "-fsdev", "local,id=root,path=/,security_model=none,multidevs=remap,readonly=on",
            "-device", "virtio-9p-pci,fsdev=root,mount_tag=rootfs",
        ]  # fmt: skip
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, check=False,
            errors="replace",
        )  # fmt: skip
    console = done.stdout + done.stderr
    status = STATUS.search(console)
    return Run(int(status[1]) if status else None, console)


def _initramfs(kernel: Kernel, scratch: Path) -> Path:
    root = scratch / "initramfs"
    for directory in ("bin", "lib/modules", "proc", "sys", "dev", "mnt/lower", "mnt/rw", "mnt/root"):
        (root / directory).mkdir(parents=True)
    busybox = shutil.which("busybox")
    assert busybox is not None
    shutil.copy(busybox, root / "bin" / "busybox")
    for applet in APPLETS:
        (root / "bin" / applet).symlink_to("busybox")
    for number, module in enumerate(_module_files(kernel)):
        target = root / "lib" / "modules" / f"{number:02}-{module.name.removesuffix('.xz')}"
        if module.suffix == ".xz":
            with target.open("wb") as file:
                subprocess.run(["xz", "-dc", str(module)], stdout=file, check=True)
        else:
            shutil.copy(module, target)
    shutil.copy(HERE / "init.sh", root / "init")
    (root / "init").chmod(0o755)
    names = "\n".join(str(path.relative_to(root)) for path in root.rglob("*"))
    image = scratch / "initramfs.cpio"
    with image.open("wb") as file:
        subprocess.run(
            ["cpio", "--create", "--format=newc", "--quiet"],
            cwd=root, input=names.encode(), stdout=file, check=True,
        )  # fmt: skip
    return image


def _module_files(kernel: Kernel) -> list[Path]:
    """Files of the first modules and of what they need, in the order to load them."""
    found: dict[Path, None] = {}
    for module in FIRST_MODULES:
        shown = subprocess.run(
            ["modprobe", "-d", str(kernel.tree), "-S", kernel.release, "--show-depends", module],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        for line in shown.stdout.splitlines():
            if line.startswith("insmod "):
                found[Path(line.split()[1])] = None
    return list(found)
