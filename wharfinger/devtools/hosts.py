"""Hosts with a systemd, an SSH server and a network of their own, on one machine: what the playbooks are tested on.

Each host is a systemd-nspawn machine over a Debian base that is unpacked once and shared through overlayfs, so a host
costs some megabytes and is up in about a second. The hosts and a *controller* (the machine that a person would sit at)
are network namespaces on one bridge; nothing of the real network is touched or reachable, therefore the base already
holds the distribution's packages that the playbooks install.

What the kernel of a container-like machine lacks shows up here: there is no CAP_SYS_RESOURCE (containerd needs
``restrict_oom_score_adj``), kernel-wide sysctls and modules cannot be changed, all hosts share one clock, and only
cgroup v1 can be handed to the hosts. A machine with cgroup v2 alone is refused.

``python -m wharfinger.devtools.beds`` makes and removes beds by hand. The heavier kind, where each host has a kernel of
its own, is in :mod:`wharfinger.devtools.virtualhosts`.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import psutil

from wharfinger.devtools.containerd import DevtoolsError, unmount_below
from wharfinger.devtools.hostbase import CGROUPS, ensure_base, run, suites_of

_REBOOTED = 133
"""What systemd-nspawn exits with when the machine wants to be started again."""

_INIT = """\
#!/bin/sh
# nspawn mounts the cgroup v1 controllers read-only; containers need them writable. Then the real init takes over.
for controller in /sys/fs/cgroup/*; do
  [ -d "$controller" ] && [ ! -L "$controller" ] && mount -o remount,rw,bind "$controller" 2>/dev/null
done
exec /lib/systemd/systemd "$@"
"""


@dataclass(frozen=True)
class Bed:
    """A controller and some hosts on one bridge; `prefix` (at most 8 characters) begins all names that it makes."""

    kind: ClassVar[str] = "nspawn"
    boot_timeout: ClassVar[float] = 60
    """Within so many seconds a host that was switched on lets us in over SSH."""
    connect_timeout: ClassVar[int] = 5
    """Seconds that SSH waits for a host's first word."""
    variables: ClassVar[Mapping[str, object]] = {"wharf_containerd_restrict_oom_score_adj": True}
    """What playbooks must know of hosts of this kind."""

    directory: str
    prefix: str
    hosts: int
    subnet: int
    """The second byte of addresses, ``10.<subnet>.0.0/24``; they exist in the bed's network namespaces only."""
    suites: tuple[str, ...]
    """The hosts' Debian releases, taken in turn: with two, every other host is of the second."""

    @classmethod
    def create(cls, directory: Path, *, hosts: int, prefix: str = "", suites: Sequence[str] = ()) -> Self:
        """Describe a new bed below `directory`; nothing is started yet.

        Raises DevtoolsError for too long a prefix, and for one that is in use.
        """
        number = random.SystemRandom().randrange(100, 1000)
        bed = cls(str(directory.resolve()), prefix or f"wh{number}", hosts, 77, tuple(suites or suites_of()))
        if len(bed.prefix) > 8:
            raise DevtoolsError(f"prefix {bed.prefix!r}: at most 8 characters, since it begins names of links")
        if Path("/run/netns", bed.controller).exists():
            raise DevtoolsError(f"there is a bed with the prefix {bed.prefix!r} already: take another or remove it")
        bed.path.mkdir(parents=True, exist_ok=True)
        bed.path.chmod(0o700)
        (bed.path / "bed.json").write_text(json.dumps({"kind": cls.kind, **asdict(bed)}))
        return bed

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Return the bed of a folder, made perhaps by another process; FileNotFoundError when there is none.

        Raises DevtoolsError for a bed of another kind: :func:`wharfinger.devtools.beds.load` takes any.
        """
        noted = json.loads((directory / "bed.json").read_text())
        if (kind := noted.pop("kind", Bed.kind)) != cls.kind:
            raise DevtoolsError(f"{directory} holds a bed of the kind {kind}, not {cls.kind}")
        return cls(**{**noted, "suites": tuple(noted["suites"])})

    # -- where things are

    @property
    def path(self) -> Path:
        """The bed's folder."""
        return Path(self.directory)

    @property
    def controller(self) -> str:
        """The network namespace of the controller, which also holds the bridge."""
        return f"{self.prefix}-ctl"

    @property
    def key(self) -> Path:
        """The private SSH key that every host lets in as root."""
        return self.path / "ssh" / "id"

    def names(self) -> list[str]:
        """Return host-1 to host-N."""
        return [f"host-{index}" for index in range(1, self.hosts + 1)]

    def suite(self, name: str) -> str:
        """Return the release that a host is of."""
        return self.suites[(_number(name) - 1) % len(self.suites)]

    def address(self, name: str) -> str:
        """Return the address of a host; ``controller`` is one, too."""
        return f"10.{self.subnet}.0.{1 if name == 'controller' else 10 + _number(name)}"

    def netns(self, name: str) -> str:
        """Return the name of a host's network namespace."""
        return f"{self.prefix}-{name}"

    def root(self, name: str) -> Path:
        """Return a host's file system."""
        return self.path / name / "root"

    # -- life

    def up(self) -> None:
        """Start everything that does not run, and wait until SSH answers on each host."""
        self._make_key()
        self._network_up()
        for name in self.names():
            self.start(name)
        for name in self.names():
            self.wait_ssh(name)

    def start(self, name: str) -> None:
        """Switch a host on, with its disk as it was; does nothing when it runs."""
        if self._running(name) is not None:
            return
        self._mount(name, ensure_base(self.suite(name)))
        self._make_cgroups(name)
        command = [
            sys.executable,
            "-m",
            "wharfinger.devtools.beds",
            "run",
            "--directory",
            self.directory,
            "--host",
            name,
        ]
        with (self.path / name / "console.log").open("ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/",
                env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
            )  # fmt: skip
        (self.path / name / "pid").write_text(str(process.pid))

    def run_host(self, name: str) -> int:
        """Be the power supply of a host: run it, again after each reboot, until it is off. Returns nspawn's code."""
        for controller in _controllers():
            (CGROUPS / controller / self.prefix / name / "cgroup.procs").write_text(str(os.getpid()))
        # Containers need the kernel keyring, which nspawn's own seccomp filter would deny.
        environment = {**os.environ, "SYSTEMD_SECCOMP": "0", "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network"}
        command = [
            "systemd-nspawn", "--quiet", f"--directory={self.root(name)}", f"--machine={self.prefix}-{name}",
            f"--hostname={name}", "--register=no", "--keep-unit", "--capability=all",
            f"--network-namespace-path=/run/netns/{self.netns(name)}",
            # An overlay cannot lie on an overlay, so containerd's folder comes from the real file system.
            f"--bind={self.path / name / 'containerd'}:/var/lib/containerd",
            "--resolv-conf=off", "--timezone=off", "--link-journal=no", "/wharf-init",
        ]  # fmt: skip
        while (code := subprocess.run(command, env=environment, check=False).returncode) == _REBOOTED:
            pass
        return code

    def power_off(self, name: str) -> None:
        """Pull the plug: everything on the host ends at once, its disk stays."""
        running = self._running(name)
        if running is not None:
            _end_tree(running)

    def shut_down(self, name: str, *, timeout: float = 30) -> None:
        """Ask a host to switch itself off, and pull the plug when it does not within `timeout` seconds."""
        running = self._running(name)
        if running is None:
            return
        for leader in _leaders(running):
            leader.send_signal(signal.SIGRTMIN + 4)  # systemd: power off
        with contextlib.suppress(psutil.TimeoutExpired):
            running.wait(timeout)
        self.power_off(name)

    def down(self) -> None:
        """Remove hosts, mounts, cgroups, network namespaces and the folder; only what this bed has made."""
        for name in self.names():
            self.power_off(name)
            self._remove_host(name)
        _quiet("ip", "netns", "delete", self.controller)
        for controller in _controllers():
            with contextlib.suppress(OSError):
                (CGROUPS / controller / self.prefix).rmdir()
        shutil.rmtree(self.path)

    def _remove_host(self, name: str) -> None:
        """Remove what a host that is off has left outside of the bed's folder."""
        unmount_below(self.path / name)
        self._remove_cgroups(name)
        _quiet("ip", "netns", "delete", self.netns(name))

    # -- use

    def on_controller(self, *command: str) -> list[str]:
        """Return `command` so that it runs in the controller's network."""
        return ["nsenter", f"--net=/run/netns/{self.controller}", "--", *command]

    def ssh(self, name: str, command: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a shell command on a host as root; with `check`, DevtoolsError with its output when it fails."""
        done = subprocess.run(
            self.on_controller("ssh", *self.ssh_options(), "-i", str(self.key), f"root@{self.address(name)}", command),
            text=True, capture_output=True, check=False,
        )  # fmt: skip
        if check and done.returncode != 0:
            raise DevtoolsError(f"{name}: {command!r} failed with {done.returncode}: {done.stdout}{done.stderr}")
        return done

    @classmethod
    def ssh_options(cls) -> list[str]:
        """Return what ssh needs to know: the hosts' keys prove nothing here, and nobody else is on this network."""
        return [
            "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
            "-o", f"ConnectTimeout={cls.connect_timeout}", "-o", "BatchMode=yes",
        ]  # fmt: skip

    def wait_ssh(self, name: str) -> None:
        """Wait until a host lets us in. Raises DevtoolsError with the end of its console."""
        deadline = time.monotonic() + self.boot_timeout
        while self.ssh(name, "true", check=False).returncode != 0:
            if time.monotonic() > deadline or self._running(name) is None:
                console = (self.path / name / "console.log").read_text(errors="replace")[-2000:]
                raise DevtoolsError(f"{name} does not answer on SSH; the end of its console:\n{console}")
            time.sleep(0.2)

    def inventory(self, groups: dict[str, Sequence[str]], variables: dict[str, Any]) -> dict[str, Any]:
        """Return an Ansible inventory of these hosts."""
        common = {
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(self.key),
            # Ansible shares connections by address, and another bed's hosts may have the same.
            "ansible_control_path_dir": str(self.key.parent),
            "ansible_ssh_common_args": " ".join(self.ssh_options()),
        }
        children = {
            group: {"hosts": {name: {"ansible_host": self.address(name)} for name in names}}
            for group, names in groups.items()
        }
        return {"all": {"vars": {**common, **variables}, "children": children}}

    # -- inside

    def _running(self, name: str) -> psutil.Process | None:
        """Return the process that a host is (our own, nspawn's parent), if it runs."""
        try:
            process = psutil.Process(int((self.path / name / "pid").read_text()))
            arguments = process.cmdline()
        except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
            return None
        mine = process.status() != psutil.STATUS_ZOMBIE and self.directory in arguments and name in arguments
        return process if mine else None

    def _make_key(self) -> None:
        if not self.key.exists():
            self.key.parent.mkdir(mode=0o700, exist_ok=True)
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self.prefix, "-f", str(self.key))

    def _mount(self, name: str, base: Path) -> None:
        folder = self.path / name
        root = self.root(name)
        if root.exists() and os.path.ismount(root):
            return
        for part in ("root", "upper", "work", "containerd"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        options = f"lowerdir={base},upperdir={folder / 'upper'},workdir={folder / 'work'}"
        run("mount", "-t", "overlay", f"{self.prefix}-{name}", "-o", options, str(root))
        if (root / "root/.ssh/authorized_keys").exists():
            return
        (root / "etc/hostname").write_text(f"{name}\n")
        (root / "etc/hosts").write_text(f"127.0.0.1 localhost\n{self.address(name)} {name}\n")
        (root / "etc/machine-id").write_text("")
        keys = root / "root/.ssh"
        keys.mkdir(mode=0o700, exist_ok=True)
        (keys / "authorized_keys").write_text(self.key.with_suffix(".pub").read_text())
        init = root / "wharf-init"
        init.write_text(_INIT)
        init.chmod(0o755)

    def _network_up(self) -> None:
        def inside(*arguments: str) -> None:
            run("ip", "-n", self.controller, *arguments)

        if not Path("/run/netns", self.controller).exists():
            run("ip", "netns", "add", self.controller)
            inside("link", "set", "lo", "up")
            inside("link", "add", "br0", "type", "bridge")
            inside("address", "add", f"{self.address('controller')}/24", "dev", "br0")
            inside("link", "set", "br0", "up")
        for name in self.names():
            self._link_up(name, inside)

    def _link_up(self, name: str, inside: Callable[..., None]) -> None:
        """Connect a host; `inside` runs ip in the controller's namespace. The host's link there has its name."""
        if Path("/run/netns", self.netns(name)).exists():
            return
        run("ip", "netns", "add", self.netns(name))
        inside("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", self.netns(name))
        inside("link", "set", name, "master", "br0", "up")
        for arguments in (
            ("link", "set", "lo", "up"),
            ("address", "add", f"{self.address(name)}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("route", "add", "default", "via", self.address("controller")),
        ):
            run("ip", "-n", self.netns(name), *arguments)

    def _make_cgroups(self, name: str) -> None:
        for controller in _controllers():
            (CGROUPS / controller / self.prefix / name).mkdir(parents=True, exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            everything = (CGROUPS / "cpuset" / file).read_text()
            for group in (self.prefix, f"{self.prefix}/{name}"):
                (CGROUPS / "cpuset" / group / file).write_text(everything)  # empty ones take no process

    def _remove_cgroups(self, name: str) -> None:
        for controller in _controllers():
            top = CGROUPS / controller / self.prefix / name
            if top.is_dir():
                wait_for(lambda top=top: _remove_tree(top), timeout=10, what=f"processes in {top} to end")  # type: ignore[misc]


def wait_for(condition: Callable[[], bool], *, timeout: float, what: str) -> None:
    """Wait until `condition` holds. Raises DevtoolsError that names `what` was waited for."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise DevtoolsError(f"waited {timeout:g} s for {what}")
        time.sleep(0.1)


def _number(name: str) -> int:
    """Return N of host-N."""
    return int(name.rpartition("-")[2])


def _controllers() -> list[str]:
    return [path.name for path in CGROUPS.iterdir() if path.is_dir() and not path.is_symlink()]


def _remove_tree(top: Path) -> bool:
    for folder in sorted((path for path in top.rglob("*") if path.is_dir()), key=lambda path: -len(path.parts)):
        with contextlib.suppress(OSError):
            folder.rmdir()
    with contextlib.suppress(OSError):
        top.rmdir()
    return not top.exists()


def _leaders(runner: psutil.Process) -> list[psutil.Process]:
    """Return the first process of the host: a child of nspawn, itself a child of ours."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return [leader for nspawn in runner.children() for leader in nspawn.children()]
    return []


def _end_tree(runner: psutil.Process) -> None:
    """End a host by its first process; the kernel then ends all others of its process namespace."""
    with contextlib.suppress(psutil.NoSuchProcess):
        runner.send_signal(signal.SIGSTOP)  # or it might start the host again
        family = [*_leaders(runner), *runner.children(recursive=False), runner]
        for process in family:
            process.kill()
        # The host's first process is gone only after all others of the host: nothing writes to its disk any more.
        psutil.wait_procs(family, timeout=10)


def _quiet(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
