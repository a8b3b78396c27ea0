"""Builds the local OCI images without a registry, a Dockerfile or a tool: an image is a few JSON documents and a tar.

Nothing on a developer's machine or in CI can be counted on to pull from the internet, so examples and tests use images
made here from Debian's ``busybox-static``: ``wharf.local/busybox:1`` (every applet, a small user database) and
``wharf.local/pause:1`` (what a sandbox runs). The bytes depend on the input alone, so digests stay the same from one
build to the next. Format: https://github.com/opencontainers/image-spec (image layout 1.0).
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import subprocess
import tarfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

BUSYBOX_IMAGE = "wharf.local/busybox:1"
PAUSE_IMAGE = "wharf.local/pause:1"

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "ppc64le": "ppc64le", "s390x": "s390x"}

_PASSWD = """\
root:x:0:0:root:/root:/bin/sh
nobody:x:65534:65534:nobody:/:/bin/false
web:x:1500:1500:web:/home/web:/bin/sh
"""
_GROUP = """\
root:x:0:
nogroup:x:65534:
web:x:1500:
extra:x:1600:web
"""


@dataclass(frozen=True)
class ImageFile:
    """One entry of a layer: a file with content, a link with a target, or (neither) a folder."""

    path: str
    mode: int = 0o755
    content: bytes | None = None
    link: str | None = None
    uid: int = 0
    gid: int = 0


@dataclass(frozen=True)
class Image:
    """A single-layer image."""

    reference: str
    """With registry and tag, as pods name it."""
    files: Sequence[ImageFile]
    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    working_dir: str = ""
    user: str = ""


def busybox_files(busybox: Path) -> list[ImageFile]:
    """Return the root file system of ``wharf.local/busybox:1`` around a static busybox.

    Raises FileNotFoundError when there is no busybox, with the package that has it.
    """
    if not busybox.exists():
        raise FileNotFoundError(f"{busybox} is missing: install the package busybox-static")
    listed = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True).stdout.split()
    files = [
        *(ImageFile(name) for name in ("bin", "dev", "etc", "home", "proc", "root", "run", "sys", "usr", "var")),
        ImageFile("tmp", mode=0o1777),
        ImageFile("home/web", uid=1500, gid=1500),
        ImageFile("bin/busybox", content=busybox.read_bytes()),
        ImageFile("etc/passwd", mode=0o644, content=_PASSWD.encode()),
        ImageFile("etc/group", mode=0o644, content=_GROUP.encode()),
    ]
    files += [ImageFile(f"bin/{applet}", mode=0o777, link="busybox") for applet in listed if applet != "busybox"]
    return files


def local_images(busybox: Path) -> list[Image]:
    """Return the images that every node of a developer's cluster has."""
    env = {"PATH": "/bin"}
    pause = [ImageFile("bin"), ImageFile("bin/sleep", content=busybox.read_bytes() if busybox.exists() else b"")]
    return [
        Image(BUSYBOX_IMAGE, busybox_files(busybox), command=["/bin/sleep", "3600"], env=env),
        Image(PAUSE_IMAGE, pause, entrypoint=["/bin/sleep", "infinity"], env=env),
    ]


def write_archive(target: Path, images: Sequence[Image]) -> None:
    """Write an OCI archive with `images`, as ``ctr -n k8s.io images import`` takes it."""
    blobs: dict[str, bytes] = {}

    def blob(content: bytes, media_type: str) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {
            "mediaType": f"application/vnd.oci.image.{media_type}",
            "digest": f"sha256:{digest}",
            "size": len(content),
        }

    manifests = []
    for image in images:
        layer = blob(_layer(image.files), "layer.v1.tar")
        config = blob(_json(_config(image, str(layer["digest"]))), "config.v1+json")
        manifest = blob(
            _json({
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": config,
                "layers": [layer],
            }),
            "manifest.v1+json",
        )  # fmt: skip
        tag = image.reference.rpartition(":")[2]
        manifests.append({
            **manifest,
            "platform": {"architecture": _architecture(), "os": "linux"},
            "annotations": {
                "io.containerd.image.name": image.reference,
                "org.opencontainers.image.ref.name": tag,
            },
        })  # fmt: skip
    index = {"schemaVersion": 2, "manifests": manifests}
    entries = [
        ImageFile("oci-layout", mode=0o644, content=_json({"imageLayoutVersion": "1.0.0"})),
        ImageFile("index.json", mode=0o644, content=_json(index)),
        ImageFile("blobs"),
        ImageFile("blobs/sha256"),
        *(ImageFile(f"blobs/sha256/{digest}", mode=0o644, content=content) for digest, content in blobs.items()),
    ]
    target.write_bytes(_layer(entries))


def _config(image: Image, layer_digest: str) -> dict[str, object]:
    return {
        "created": "1970-01-01T00:00:00Z",
        "architecture": _architecture(),
        "os": "linux",
        "config": {
            "User": image.user,
            "Env": [f"{name}={value}" for name, value in image.env.items()],
            "Entrypoint": list(image.entrypoint) or None,
            "Cmd": list(image.command) or None,
            "WorkingDir": image.working_dir,
        },
        "rootfs": {"type": "layers", "diff_ids": [layer_digest]},
        "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "wharfinger.devtools.images"}],
    }


def _layer(files: Sequence[ImageFile]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for entry in files:
            info = tarfile.TarInfo(entry.path)
            info.mode, info.uid, info.gid, info.mtime = entry.mode, entry.uid, entry.gid, 0
            if entry.link is not None:
                info.type, info.linkname = tarfile.SYMTYPE, entry.link
                archive.addfile(info)
            elif entry.content is not None:
                info.size = len(entry.content)
                archive.addfile(info, io.BytesIO(entry.content))
            else:
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
    return stream.getvalue()


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def _architecture() -> str:
    return _ARCHITECTURES.get(platform.machine(), platform.machine())
