"""Test hosts that are virtual machines: a kernel, a clock and cgroup v2 of their own, and real power.

The heavier kind of bed, used by choice: every instruction is emulated (QEMU without KVM, which a machine that is itself
virtual seldom has), about twenty times slower than the machine, so it wants few hosts, few steps and long timeouts. In
return a host can do what an nspawn one cannot: boot a kernel, set its clock, load modules, limit memory by cgroup v2.

From outside a bed is used as any :class:`~wharfinger.devtools.hosts.Bed`; a host's link in the controller's network
namespace (a tap on the bridge) has the host's name there, too.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import psutil

from wharfinger.devtools.containerd import DevtoolsError
from wharfinger.devtools.hostbase import run
from wharfinger.devtools.hosts import Bed
from wharfinger.devtools.vmimage import VirtualImage, ensure_image, host_initrd

MEMORY = 1536
"""MiB of each host; QEMU takes it as the host touches it."""
_CPU = "Nehalem"
"""The least that numpy's binaries run on (x86-64-v2): what QEMU does not claim, it need not emulate."""
_KERNEL_ARGUMENTS = (
    # Without no_timer_check a busy machine's emulated timer may be found broken, for want of ticks, and the boot ends.
    "console=ttyS0", "quiet", "panic=1", "net.ifnames=0", "mitigations=off", "no_timer_check", "nowatchdog",
    "random.trust_cpu=on", "systemd.show_status=0",
    # Units of the distribution, containerd among them, are given more than the usual 90 s to start.
    "systemd.default_timeout_start_sec=600",
)  # fmt: skip
_NETWORK = """\
[Match]
Name=eth0
[Network]
Address={address}/24
Gateway={gateway}
"""


@dataclass(frozen=True)
class VirtualBed(Bed):
    """A controller and some virtual machines on one bridge."""

    kind: ClassVar[str] = "qemu"
    boot_timeout: ClassVar[float] = 900
    connect_timeout: ClassVar[int] = 60
    variables: ClassVar[Mapping[str, object]] = {
        "wharf_start_timeout": 900,
        "wharf_watchdog": 300,
        "wharf_ready_timeout": 900,
    }

    def is_virtual(self, name: str) -> bool:
        """Tell whether a host is a virtual machine."""
        return name in self.names()

    def root(self, name: str) -> Path:
        """Return an nspawn host's file system; DevtoolsError for a virtual machine, which alone reaches its disk."""
        if not self.is_virtual(name):
            return super().root(name)
        raise DevtoolsError(f"{name} is a virtual machine: its files are reached over SSH")

    def start(self, name: str) -> None:
        """Switch a host on, with its disk as it was; does nothing when it runs."""
        if not self.is_virtual(name):
            super().start(name)
            return
        if self._running(name) is not None:
            return
        folder = self.path / name
        image = ensure_image(self.suite(name))
        folder.mkdir(exist_ok=True)
        disk = folder / "disk.qcow2"
        if not disk.exists():
            run("qemu-img", "create", "-q", "-f", "qcow2", "-b", str(image.disk), "-F", "raw", str(disk))
            (folder / "initrd").write_bytes(host_initrd(image, self._first_files(name)))
        run(*self.on_controller(*self._qemu(name, image)))

    def power_off(self, name: str) -> None:
        """Pull the plug: everything on the host ends at once; its disk stays, without what was not yet synced."""
        if not self.is_virtual(name):
            super().power_off(name)
            return
        running = self._running(name)
        if running is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                running.kill()
                running.wait(10)

    def shut_down(self, name: str, *, timeout: float = 300) -> None:
        """Ask a host to switch itself off, and pull the plug when it does not within `timeout` seconds."""
        if not self.is_virtual(name):
            super().shut_down(name, timeout=timeout)
            return
        running = self._running(name)
        if running is None:
            return
        self.ssh(name, "systemctl poweroff", check=False)
        with contextlib.suppress(psutil.TimeoutExpired):
            running.wait(timeout)
        self.power_off(name)

    def _first_files(self, name: str) -> dict[str, bytes]:
        """Return what makes a copy of the image this host."""
        texts = {
            "etc/hostname": f"{name}\n",
            "etc/hosts": f"127.0.0.1 localhost\n{self.address(name)} {name}\n",
            "etc/systemd/network/10-eth0.network": _NETWORK.format(
                address=self.address(name), gateway=self.address("controller")
            ),
            "root/.ssh/authorized_keys": self.key.with_suffix(".pub").read_text(),
        }
        return {path: text.encode() for path, text in texts.items()}

    def _qemu(self, name: str, image: VirtualImage) -> list[str]:
        folder = self.path / name
        number = self.names().index(name) + 1
        return [
            # Tests of a machine that nobody waits for must not slow down those that somebody does.
            "nice", "-n", "10",
            "qemu-system-x86_64", "-name", f"{self.prefix}-{name}", "-daemonize", "-pidfile", str(folder / "pid"),
            "-machine", "pc", "-accel", "tcg,thread=multi", "-cpu", _CPU, "-smp", "1", "-m", str(MEMORY),
            "-nodefaults", "-no-user-config", "-display", "none",
            "-kernel", str(image.kernel), "-initrd", str(folder / "initrd"), "-append", " ".join(_KERNEL_ARGUMENTS),
            # What a host has synced must outlive its power; with cache=unsafe QEMU would hold back the image's tables.
            "-drive", f"if=none,id=disk,file={folder / 'disk.qcow2'},format=qcow2,cache=writeback",
            "-device", "virtio-blk-pci,drive=disk",
            "-netdev", f"tap,id=net,ifname={name},script=no,downscript=no",
            "-device", f"virtio-net-pci,netdev=net,mac=52:54:00:00:00:{number:02x}",
            "-device", "virtio-rng-pci",
            "-chardev", f"file,id=console,path={folder / 'console.log'},append=on", "-serial", "chardev:console",
        ]  # fmt: skip

    def _running(self, name: str) -> psutil.Process | None:
        """Return QEMU's process for a host, if it runs."""
        if not self.is_virtual(name):
            return super()._running(name)
        try:
            process = psutil.Process(int((self.path / name / "pid").read_text()))
            arguments = process.cmdline()
        except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
            return None
        mine = process.status() != psutil.STATUS_ZOMBIE and str(self.path / name / "pid") in arguments
        return process if mine else None

    def _link_up(self, name: str, inside: Callable[..., None]) -> None:
        if not self.is_virtual(name):
            super()._link_up(name, inside)
            return
        shown = subprocess.run(["ip", "-n", self.controller, "link", "show", name], capture_output=True, check=False)
        if shown.returncode != 0:
            inside("tuntap", "add", name, "mode", "tap")
            inside("link", "set", name, "master", "br0", "up")

    def _remove_host(self, name: str) -> None:
        # A virtual host's disk is in the bed's folder, and its tap goes with the controller's namespace.
        if not self.is_virtual(name):
            super()._remove_host(name)


@dataclass(frozen=True)
class MixedBed(VirtualBed):
    """A bed whose first host is an nspawn one, at this machine's speed; the others are virtual."""

    kind: ClassVar[str] = "mixed"
    variables: ClassVar[Mapping[str, object]] = {**Bed.variables, **VirtualBed.variables}

    def is_virtual(self, name: str) -> bool:
        """Tell whether a host is a virtual machine: all but the first are."""
        return name != self.names()[0]
