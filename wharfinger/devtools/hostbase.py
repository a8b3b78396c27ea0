"""The systems of test hosts: for each Debian release a root folder, made once, that all hosts of that release share."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from wharfinger.devtools.containerd import DevtoolsError

CACHE = Path("/var/cache/wharfinger-testbed")
MIRROR = "http://deb.debian.org/debian"
SUITES = {"bookworm": "3.11", "trixie": "3.13"}
"""The releases that hosts can be of, by their names on the mirror, each with its Python."""
DEFAULT_SUITE = "bookworm"
SUITE_VARIABLE = "WHARF_HOSTS_SUITE"
"""Environment variable with the suites of beds for which none were named, as :func:`suites_of` reads them."""
PACKAGES = (
    "systemd", "systemd-sysv", "dbus", "udev", "openssh-server", "python3", "python3-apt", "python3-venv",
    "ca-certificates", "iproute2", "procps", "kmod", "nftables", "iptables", "etcd-server", "etcd-client", "containerd",
    "runc", "containernetworking-plugins",
)  # fmt: skip
TOOLS = {"systemd-nspawn": "systemd-container", "debootstrap": "debootstrap", "ssh-keygen": "openssh-client"}
CGROUPS = Path("/sys/fs/cgroup")


def suites_of(text: str = "") -> tuple[str, ...]:
    """Return the suites that a text such as ``bookworm,trixie`` names; hosts take them in turn.

    Without a text, those of the environment variable WHARF_HOSTS_SUITE, else the default. Raises DevtoolsError for a
    suite that is not known.
    """
    suites = tuple((text or os.environ.get(SUITE_VARIABLE) or DEFAULT_SUITE).replace(",", " ").split())
    if unknown := sorted(set(suites) - SUITES.keys()):
        raise DevtoolsError(f"hosts can be of {', '.join(SUITES)}, not of {', '.join(unknown)}")
    return suites


def missing_tools() -> list[str]:
    """Return the Debian packages that this machine lacks for making hosts."""
    return sorted(package for tool, package in TOOLS.items() if shutil.which(tool) is None)


def ensure_base(suite: str = DEFAULT_SUITE, *, cache: Path = CACHE) -> Path:
    """Return the root folder of a suite, made once and then kept; it must never be changed while hosts run.

    Raises DevtoolsError when the machine lacks a tool, or has cgroup v2 only.
    """
    if os.geteuid() != 0:
        raise DevtoolsError("test hosts need root")
    if not (CGROUPS / "memory").is_dir():
        raise DevtoolsError(
            "test hosts need cgroup v1 (hybrid) on this machine; boot with systemd.unified_cgroup_hierarchy=0"
        )
    if missing := missing_tools():
        raise DevtoolsError(f"test hosts need more packages: apt-get install {' '.join(missing)}")
    recipe = hashlib.sha256(" ".join((MIRROR, suite, *PACKAGES)).encode()).hexdigest()[:12]
    base = cache / f"base-{recipe}"
    if base.is_dir():
        return base
    cache.mkdir(parents=True, exist_ok=True)
    new = cache / f"base-{recipe}.{os.getpid()}"
    try:
        run("debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", suite, str(new), MIRROR)
        for pattern in ("var/cache/apt/archives/*.deb", "etc/ssh/ssh_host_*key.pub"):
            for file in new.glob(pattern):
                file.unlink()
        for unit in ("apt-daily.timer", "apt-daily-upgrade.timer", "e2scrub_all.timer", "e2scrub_reap.service",
                     "systemd-networkd-wait-online.service"):  # fmt: skip
            (new / "etc/systemd/system" / unit).unlink(missing_ok=True)
            (new / "etc/systemd/system" / unit).symlink_to("/dev/null")
        with contextlib.suppress(OSError):  # another process was faster
            new.rename(base)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return base


def run(*command: str) -> None:
    """Run a command that must succeed. Raises DevtoolsError with the end of its output."""
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise DevtoolsError(
            f"`{' '.join(command)}` failed with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}"
        )
