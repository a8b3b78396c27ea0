"""Volumes that need no mounts: what lies where on the node, and who may look at it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from nodeagent import subpaths, volumes
from nodeagent.payload import Inputs
from nodeagent.volumes import PodPaths, VolumeError
from tests.unit.nodeagent.podkit import make_pod
from wharfinger.api.types import core


class Nothing:
    async def config_map(self, namespace, name):
        return None

    async def secret(self, namespace, name):
        return None


async def set_up(pod: core.Pod, root: Path) -> dict[str, Path]:
    return await volumes.set_up(pod, PodPaths.of(root, "uid"), Inputs(pod, core.PodStatus(), Nothing(), {}))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_other_users_of_the_host_cannot_look_into_pods_volumes(tmp_path: Path) -> None:
    pod = make_pod()
    volume = pod.spec.volumes.add(name="work")
    volume.volumeSource.emptyDir.SetInParent()
    root = tmp_path / "root"
    (root / "pods").mkdir(parents=True, mode=0o755)  # as an older agent left it
    ready = await set_up(pod, root)
    assert mode(root / "pods") == mode(root / "pods" / "uid") == 0o750
    assert mode(ready["work"]) == 0o777  # whoever the container runs as


async def test_a_missing_source_and_a_foreign_kind_are_refused_by_name(tmp_path: Path) -> None:
    pod = make_pod()
    pod.spec.volumes.add(name="cm").volumeSource.configMap.localObjectReference.name = "none"
    with pytest.raises(VolumeError, match='volume "cm" : configmap "none" not found'):
        await set_up(pod, tmp_path)
    pod.spec.volumes[0].volumeSource.Clear()
    pod.spec.volumes[0].volumeSource.nfs.server = "x"
    with pytest.raises(VolumeError, match="nfs volumes are not supported"):
        await set_up(pod, tmp_path)


def test_a_sub_path_is_held_below_the_pods_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[Path] = []
    monkeypatch.setattr(subpaths, "bind", lambda descriptor, target: bound.append(target))
    monkeypatch.setattr(subpaths, "unmount", lambda target: False)
    (tmp_path / "volume").mkdir()
    pod, container, paths = make_pod(), core.Container(name="c"), PodPaths.of(tmp_path, "uid")
    mount = container.volumeMounts.add(name="v", mountPath="/v", subPath="../x")
    with pytest.raises(VolumeError, match='volumeMount "v"'):
        volumes.mounts(pod, container, {"v": tmp_path / "volume"}, {}, paths)
    mount.subPath = "a/b"
    (made,) = volumes.mounts(pod, container, {"v": tmp_path / "volume"}, {}, paths)
    assert made.host_path == str(paths.root / "volume-subpaths" / "v" / "c" / "0")
    assert bound == [Path(made.host_path)]
    assert (tmp_path / "volume" / "a" / "b").is_dir()


def test_removing_a_pod_leaves_nothing(tmp_path: Path) -> None:
    paths = PodPaths.of(tmp_path, "uid")
    (paths.root / "volumes" / "x").mkdir(parents=True)
    volumes.tear_down(paths)
    volumes.tear_down(paths)
    assert not paths.root.exists()
