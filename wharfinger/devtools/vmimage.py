"""The disk and kernel of virtual test hosts: made once for each Debian release, from the base of all test hosts.

The kernel is the distribution's own (``linux-image-cloud-amd64``), unpacked rather than installed: its installation
would want a generator of initial file systems. Ours is some 2 MB and a dozen lines of shell, which counts where every
instruction is emulated: it loads the drivers of the disk, gives a new host its name, address and key, and hands over to
systemd.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import lzma
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from wharfinger.devtools.containerd import DevtoolsError, find_busybox
from wharfinger.devtools.hostbase import CACHE, ensure_base, run

KERNEL_PACKAGE = "linux-image-cloud-amd64"
TOOLS = {"qemu-system-x86_64": "qemu-system-x86", "qemu-img": "qemu-utils", "mkfs.ext4": "e2fsprogs"}
_DISK_SIZE = "6G"
"""What a host sees; the file is sparse, and a host's own disk holds only what it has written."""
_FETCH = """\
cd /tmp
kernel=$(apt-cache depends --no-recommends --no-suggests "$0" | sed -n 's/.*Depends: \\(linux-image-\\)/\\1/p')
apt-get download -qq "$kernel"
dpkg-deb -x linux-image-*.deb /tmp/kernel
rm linux-image-*.deb
"""
"""Unpacks the kernel that a package such as linux-image-cloud-amd64 stands for."""
_MODULES = ("virtio_pci", "virtio_blk", "virtio_net", "virtio_rng", "ext4")
_INIT = """\
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read module; do insmod "/modules/$module"; done < /modules/order
while [ ! -b /dev/vda ]; do sleep 0.1; done
mount -t ext4 -o rw,noatime /dev/vda /new || exec sh
if [ ! -e /new/etc/wharf-host ]; then
  cp -a /host/. /new/
  touch /new/etc/wharf-host
fi
mount --move /dev /new/dev
umount /sys /proc
exec switch_root /new /lib/systemd/systemd
"""
_RECIPE = "3"
"""To be raised with any change of what an image holds that shows nowhere else in its inputs."""


@dataclass(frozen=True)
class VirtualImage:
    """What a virtual host starts from; never written by hosts."""

    disk: Path
    """ext4, raw."""
    kernel: Path
    initrd: Path
    """Without the files of the single host, which are appended to it: see :func:`host_initrd`."""


def missing_tools() -> list[str]:
    """Return the Debian packages that this machine lacks for virtual hosts."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return sorted(package for tool, package in TOOLS.items() if shutil.which(tool, path=path) is None)


def ensure_image(suite: str, *, cache: Path = CACHE) -> VirtualImage:
    """Return the image of a suite, made once and then kept.

    Raises DevtoolsError when the machine lacks a tool, or the mirror does not answer.
    """
    if missing := missing_tools():
        raise DevtoolsError(f"virtual test hosts need more packages: apt-get install {' '.join(missing)}")
    base = ensure_base(suite, cache=cache)
    recipe = hashlib.sha256(
        " ".join((base.name, KERNEL_PACKAGE, _DISK_SIZE, *_MODULES, _INIT, _RECIPE)).encode()
    ).hexdigest()
    folder = cache / f"vm-{recipe[:12]}"
    image = VirtualImage(folder / "disk.raw", folder / "vmlinuz", folder / "initrd")
    if folder.is_dir():
        return image
    new = cache / f"{folder.name}.{os.getpid()}"
    root = new / "root"
    try:
        for place in (root, new / "upper", new / "work"):
            place.mkdir(parents=True)
        options = f"lowerdir={base},upperdir={new / 'upper'},workdir={new / 'work'}"
        run("mount", "-t", "overlay", new.name, "-o", options, str(root))
        try:
            _fill(root, new)
        finally:
            run("umount", str(root))
        for part in ("upper", "work", "root"):
            shutil.rmtree(new / part)
        with contextlib.suppress(OSError):  # another process was faster
            new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return image


def host_initrd(image: VirtualImage, files: Mapping[str, bytes]) -> bytes:
    """Return the initial file system of one host: the image's, and `files` for its disk when it starts first.

    Keys are paths from the host's root, without the leading slash; only root can read them.
    """
    folders = sorted({parent.as_posix() for name in files for parent in Path(name).parents if parent.name})
    entries = [("host", 0o40755, b"")]
    entries += [(f"host/{name}", 0o40700 if name.startswith("root") else 0o40755, b"") for name in folders]
    entries += [
        (f"host/{name}", 0o100600 if name.startswith("root") else 0o100644, files[name]) for name in sorted(files)
    ]
    return image.initrd.read_bytes() + gzip.compress(_cpio(entries), 1)


def _fill(root: Path, new: Path) -> None:
    """Add a kernel and what a machine of its own needs to `root`, and write disk, kernel and initrd into `new`."""
    shutil.copyfile("/etc/resolv.conf", root / "etc/resolv.conf")
    run("chroot", str(root), "apt-get", "update", "-qq")
    run("chroot", str(root), "sh", "-ec", _FETCH, KERNEL_PACKAGE)
    kernel = root / "tmp/kernel"
    # /lib is a link to usr/lib in these releases.
    modules = next(kernel / folder for folder in ("lib/modules", "usr/lib/modules") if (kernel / folder).is_dir())
    version = next(modules.iterdir()).name
    shutil.copytree(modules, root / "usr/lib/modules", dirs_exist_ok=True, symlinks=True)
    shutil.copyfile(kernel / "boot" / f"vmlinuz-{version}", new / "vmlinuz")
    shutil.rmtree(kernel)
    shutil.rmtree(root / "var/lib/apt/lists", ignore_errors=True)
    run("chroot", str(root), "depmod", "-a", version)
    run("chroot", str(root), "systemctl", "--quiet", "enable", "systemd-networkd.service")
    # The playbooks turn it off, too; until then it would take most of the time of an emulated processor.
    run("chroot", str(root), "systemctl", "--quiet", "disable", "etcd.service")
    (root / "etc/fstab").write_text("/dev/vda / ext4 rw,noatime 0 0\n")
    (root / "etc/machine-id").write_text("")
    (root / "etc/resolv.conf").write_text("")
    (new / "initrd").write_bytes(_initrd(root / "usr/lib/modules" / version))
    run("truncate", "-s", _DISK_SIZE, str(new / "disk.raw"))
    mkfs = shutil.which("mkfs.ext4", path="/usr/sbin:/sbin:/usr/bin") or "mkfs.ext4"
    run(mkfs, "-q", "-F", "-d", str(root), str(new / "disk.raw"))


def _initrd(modules: Path) -> bytes:
    entries: list[tuple[str, int, bytes]] = [
        (name, 0o40755, b"") for name in ("bin", "dev", "proc", "sys", "new", "modules")
    ]
    entries += [("bin/busybox", 0o100755, find_busybox().read_bytes()), ("init", 0o100755, _INIT.encode())]
    order = _in_order(_dependencies(modules), _MODULES)
    for path in order:
        content = (modules / path).read_bytes()
        entries.append(
            (f"modules/{_file(path)}", 0o100644, lzma.decompress(content) if path.endswith(".xz") else content)
        )
    entries.append(("modules/order", 0o100644, "".join(f"{_file(path)}\n" for path in order).encode()))
    return gzip.compress(_cpio(entries), 1)


def _file(path: str) -> str:
    return Path(path).name.removesuffix(".xz")


def _dependencies(modules: Path) -> dict[str, list[str]]:
    """Return modules.dep: the file of a module, and the files of those that it needs."""
    lines = (modules / "modules.dep").read_text().splitlines()
    return {name: needed.split() for name, _, needed in (line.partition(":") for line in lines)}


def _in_order(dependencies: Mapping[str, list[str]], wanted: Iterable[str]) -> list[str]:
    """Return the files of the wanted modules and of all that they need, these first; what is built in has none."""
    by_name = {_file(path).removesuffix(".ko").replace("-", "_"): path for path in dependencies}
    order: list[str] = []

    def add(path: str) -> None:
        for needed in dependencies[path]:
            add(needed)
        if path not in order:
            order.append(path)

    for name in wanted:
        if name in by_name:
            add(by_name[name])
    return order


def _cpio(entries: Iterable[tuple[str, int, bytes]]) -> bytes:
    """Return an archive in the format "newc" of (path, mode, content); all is root's."""
    out = bytearray()
    for number, (name, mode, content) in enumerate([*entries, ("TRAILER!!!", 0, b"")], start=1):
        links = 2 if mode & 0o40000 else 1
        fields = (number, mode, 0, 0, links, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        out += b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        out += bytes(-len(out) % 4)
        out += content
        out += bytes(-len(out) % 4)
    return bytes(out)
