"""What the host is: the facts that a node reports of itself. Read from psutil, /proc, /sys and /etc."""

from __future__ import annotations

import platform
import uuid
from dataclasses import dataclass
from pathlib import Path

import psutil

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}


@dataclass(frozen=True, slots=True)
class Machine:
    """See the module. Sizes in bytes."""

    cpus: int
    memory: int
    disk: int
    architecture: str
    kernel: str
    os_image: str
    machine_id: str
    system_uuid: str
    boot_id: str
    hostname: str


@dataclass(frozen=True, slots=True)
class Usage:
    """What is left of the host's resources now. Sizes in bytes."""

    memory_available: int
    disk_available: int
    disk_total: int
    processes: int
    processes_most: int


def read_machine(root_dir: Path) -> Machine:
    """Return the facts about this host; the disk is the one that `root_dir` lies on."""
    return Machine(
        cpus=psutil.cpu_count() or 1,
        memory=psutil.virtual_memory().total,
        disk=psutil.disk_usage(str(_existing(root_dir))).total,
        architecture=_ARCHITECTURES.get(platform.machine(), platform.machine()),
        kernel=platform.release(),
        os_image=_os_image(),
        machine_id=_text("/etc/machine-id") or uuid.uuid5(uuid.NAMESPACE_DNS, platform.node()).hex,
        system_uuid=_text("/sys/class/dmi/id/product_uuid") or _text("/etc/machine-id"),
        boot_id=_text("/proc/sys/kernel/random/boot_id"),
        hostname=platform.node().lower(),
    )


def read_usage(root_dir: Path) -> Usage:
    """Return what is left now."""
    disk = psutil.disk_usage(str(_existing(root_dir)))
    most = _text("/proc/sys/kernel/pid_max")
    return Usage(
        memory_available=psutil.virtual_memory().available,
        disk_available=disk.free,
        disk_total=disk.total,
        processes=len(psutil.pids()),
        processes_most=int(most) if most.isdecimal() else 32768,
    )


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def _os_image() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
