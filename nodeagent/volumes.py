"""A pod's volumes on the node: emptyDir, hostPath, content from the API, and files that the agent itself mounts.

Everything of a pod lies below ``<root-dir>/pods/<uid>`` in kubelet's layout, so that cleaning up is removing one folder
(after unmounting what is mounted in it). A volume of a kind that is not supported is refused by name before anything
of the pod is started; it is never left out silently.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nodeagent import payload, subpaths
from nodeagent.env import ConfigError, expand
from nodeagent.mounting import mount_tmpfs
from nodeagent.runtime import Mount
from wharfinger.api import quantity
from wharfinger.api.types import core

SUPPORTED = ("emptyDir", "hostPath", *payload.KINDS)
_PLUGINS = {"configMap": "configmap", "secret": "secret", "downwardAPI": "downward-api", "projected": "projected"}


PRIVATE = 0o750
"""The mode of the folders that hold pods' files, as kubelet's."""


class VolumeError(Exception):
    """Raised when a volume cannot be set up; the text is the FailedMount event's."""


@dataclass(frozen=True, slots=True)
class PodPaths:
    """Where a pod's files lie on the node."""

    root: Path

    @classmethod
    def of(cls, root_dir: Path, uid: str) -> PodPaths:
        """Return the paths of a pod."""
        return cls(root_dir / "pods" / uid)

    def volume(self, plugin: str, name: str) -> Path:
        """Return the folder of a volume."""
        return self.root / "volumes" / f"kubernetes.io~{plugin}" / name

    def sub_path(self, volume: str, container: str, index: int) -> Path:
        """Return where a container's mount number `index` of a part of a volume is held."""
        return self.root / "volume-subpaths" / volume / container / str(index)

    @property
    def etc_hosts(self) -> Path:
        """The hosts file that all containers of the pod share."""
        return self.root / "etc-hosts"

    def termination_file(self, container: str, restart_count: int) -> Path:
        """Return the file that one run of a container may leave its last words in."""
        return self.root / "containers" / container / f"termination-{restart_count}"


def kind_of(volume: core.Volume) -> str:
    """Return which source a volume has."""
    return next((field.name for field, _ in volume.volumeSource.ListFields()), "emptyDir")


def changes(pod: core.Pod) -> bool:
    """Whether the content of any of the pod's volumes may change while it runs."""
    return any(kind_of(volume) in payload.KINDS for volume in pod.spec.volumes)


async def set_up(pod: core.Pod, paths: PodPaths, inputs: payload.Inputs) -> dict[str, Path]:
    """Make every volume of the pod be there, with what it should hold now; return the path on the node of each.

    May be called again and again. Raises VolumeError, which names the volume.
    """
    _keep_private(paths.root)
    ready: dict[str, Path] = {}
    for volume in pod.spec.volumes:
        source, kind = volume.volumeSource, kind_of(volume)
        try:
            if kind == "emptyDir":
                ready[volume.name] = _empty_dir(pod, volume.name, source.emptyDir, paths)
            elif kind == "hostPath":
                ready[volume.name] = _host_path(source.hostPath)
            elif kind in payload.KINDS:
                files = await payload.collect(source, kind, inputs)
                ready[volume.name] = _payload(pod, kind, paths.volume(_PLUGINS[kind], volume.name), files)
            else:
                raise VolumeError(f"{kind} volumes are not supported by this node agent; it has {', '.join(SUPPORTED)}")
        except (VolumeError, ConfigError, OSError) as error:
            raise VolumeError(f'MountVolume.SetUp failed for volume "{volume.name}" : {error}') from error
    return ready


def _keep_private(root: Path) -> None:
    """Make a pod's folder, closed to other users of the host: files of secrets below are often readable by all."""
    for folder in (root.parent, root):
        folder.mkdir(parents=True, exist_ok=True)
        if folder.stat().st_mode & 0o777 != PRIVATE:
            folder.chmod(PRIVATE)


def _payload(pod: core.Pod, kind: str, path: Path, files: payload.Payload) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    if kind in ("secret", "projected") and not path.is_mount():  # secrets must not reach the disk
        mount_tmpfs(path, "mode=1777")
    context = pod.spec.securityContext
    if context.HasField("fsGroup"):
        os.chown(path, -1, context.fsGroup)
        path.chmod(0o3777)
    else:
        path.chmod(0o1777)
    payload.write(path, files, group=context.fsGroup if context.HasField("fsGroup") else None)
    return path


def _empty_dir(pod: core.Pod, name: str, source: core.EmptyDirVolumeSource, paths: PodPaths) -> Path:
    path = paths.volume("empty-dir", name)
    fresh = not path.exists()
    path.mkdir(parents=True, exist_ok=True)
    if source.medium == "Memory":
        if not path.is_mount():
            size = quantity.parse(source.sizeLimit.string).value() if source.HasField("sizeLimit") else 0
            options = f"size={size}" if size else "mode=0777"
            mount_tmpfs(path, options)
            fresh = True
    elif source.medium:
        raise VolumeError(f"emptyDir.medium {source.medium!r} is not supported: use Memory or leave it empty")
    if fresh:
        path.chmod(0o777)
        context = pod.spec.securityContext
        if context.HasField("fsGroup"):
            os.chown(path, -1, context.fsGroup)
            path.chmod(0o2777)
    return path


_HOST_PATH_CHECKS: Mapping[str, tuple[Callable[[int], bool], str]] = {
    "Directory": (stat.S_ISDIR, "directory"),
    "File": (stat.S_ISREG, "file"),
    "Socket": (stat.S_ISSOCK, "socket"),
    "CharDevice": (stat.S_ISCHR, "character device"),
    "BlockDevice": (stat.S_ISBLK, "block device"),
}


def _host_path(source: core.HostPathVolumeSource) -> Path:
    path, kind = Path(source.path), source.type
    if kind == "DirectoryOrCreate" and not path.exists():
        path.mkdir(parents=True, mode=0o755)
    elif kind == "FileOrCreate" and not path.exists():
        path.touch(mode=0o644)
    kind = {"DirectoryOrCreate": "Directory", "FileOrCreate": "File"}.get(kind, kind)
    if kind:
        check, word = _HOST_PATH_CHECKS[kind]
        try:
            fits = check(path.stat().st_mode)
        except OSError:
            fits = False
        if not fits:
            raise VolumeError(f"hostPath type check failed: {source.path} is not a {word}")
    elif not path.exists():
        path.mkdir(parents=True)  # as the container runtimes do for a missing bind source
    return path


def mounts(
    pod: core.Pod,
    container: core.Container,
    ready: Mapping[str, Path],
    environment: Mapping[str, str],
    paths: PodPaths,
) -> list[Mount]:
    """Return a container's mounts of volumes that are set up. Raises VolumeError for a bad subPath."""
    result = []
    fixed = {volume.name for volume in pod.spec.volumes if kind_of(volume) in payload.KINDS}
    for index, mount in enumerate(container.volumeMounts):
        source = ready[mount.name]
        below = expand(mount.subPathExpr, environment) if mount.subPathExpr else mount.subPath
        if mount.subPathExpr and "$(" in below:
            raise VolumeError(f"subPathExpr {mount.subPathExpr!r} names a variable that the container does not have")
        if below:
            try:
                source = subpaths.pin(source, below, paths.sub_path(mount.name, container.name, index))
            except (subpaths.SubPathError, OSError) as error:
                raise VolumeError(f'failed to prepare subPath for volumeMount "{mount.name}": {error}') from error
        target = mount.mountPath if mount.mountPath.startswith("/") else f"/{mount.mountPath}"
        result.append(
            Mount(target, str(source), mount.readOnly or mount.name in fixed, mount.mountPropagation or "None")
        )
    return result


def write_hosts(pod: core.Pod, path: Path, *, ips: tuple[str, ...], hostname: str, domain: str) -> None:
    """Write the pod's hosts file: the loopback names, the pod itself, and its hostAliases."""
    lines = [
        "# Kubernetes-managed hosts file.",
        "127.0.0.1\tlocalhost",
        "::1\tlocalhost ip6-localhost ip6-loopback",
        "fe00::0\tip6-localnet",
        "fe00::0\tip6-mcastprefix",
        "fe00::1\tip6-allnodes",
        "fe00::2\tip6-allrouters",
    ]
    own = f"{hostname}.{domain}\t{hostname}" if domain else hostname
    lines += [f"{ip}\t{own}" for ip in ips]
    if pod.spec.hostAliases:
        lines += ["", "# Entries added by HostAliases."]
        lines += ["\t".join([alias.ip, *alias.hostnames]) for alias in pod.spec.hostAliases]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o644)


def tear_down(paths: PodPaths) -> None:
    """Unmount and remove all that a pod left on the node; does nothing when that has been done."""
    for mount in _mount_points(str(paths.root)):
        subprocess.run(["umount", "-l", mount], check=False, capture_output=True)
    if left := _mount_points(str(paths.root)):  # removing the folder would remove what is mounted there
        raise VolumeError(f"cannot be unmounted: {', '.join(left)}")
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(paths.root)


def _mount_points(prefix: str) -> list[str]:
    points = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point = line.split(" ")[4].encode().decode("unicode_escape")
        if point == prefix or point.startswith(prefix + "/"):
            points.append(point)
    return points[::-1]
