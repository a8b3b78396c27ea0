from __future__ import annotations

import pytest

from nodeagent.env import ConfigError
from nodeagent.payload import File, Inputs, collect, write
from tests.unit.nodeagent.podkit import make_pod
from wharfinger.api.types import core


class Source:
    async def config_map(self, namespace, name):
        return core.ConfigMap(data={"a": "1", "b": "2"}, binaryData={"c": b"\0"}) if name == "cm" else None

    async def secret(self, namespace, name):
        return core.Secret(data={"a": b"s"}) if name == "sec" else None

    async def token(self, pod, audience, seconds):
        return f"{pod.metadata.name} {audience} {seconds}"


def inputs():
    pod = make_pod()
    pod.metadata.labels["k"] = 'v"'
    return Inputs(pod, core.PodStatus(), Source(), {})


def files(payload):
    return {path: (file.content, oct(file.mode)) for path, file in payload.items()}


async def test_config_map_whole_and_by_items():
    source = core.VolumeSource()
    source.configMap.localObjectReference.name = "cm"
    assert files(await collect(source, "configMap", inputs())) == {
        "a": (b"1", "0o644"), "b": (b"2", "0o644"), "c": (b"\0", "0o644"),
    }  # fmt: skip
    source.configMap.defaultMode = 0o440
    source.configMap.items.add(key="a", path="x/y", mode=0o400)
    source.configMap.items.add(key="b", path="z")
    assert files(await collect(source, "configMap", inputs())) == {"x/y": (b"1", "0o400"), "z": (b"2", "0o440")}
    source.configMap.items.add(key="no", path="no")
    with pytest.raises(ConfigError, match="non-existent key: no"):
        await collect(source, "configMap", inputs())


@pytest.mark.parametrize("optional", [False, True])
async def test_missing_secret(optional):
    source = core.VolumeSource()
    source.secret.secretName, source.secret.optional = "no", optional
    if optional:
        assert await collect(source, "secret", inputs()) == {}
    else:
        with pytest.raises(ConfigError, match='secret "no" not found'):
            await collect(source, "secret", inputs())


async def test_projected_later_sources_win_and_unknown_ones_are_named():
    source = core.VolumeSource()
    source.projected.sources.add().configMap.localObjectReference.name = "cm"
    source.projected.sources.add().secret.localObjectReference.name = "sec"
    item = source.projected.sources.add().downwardAPI.items.add(path="labels")
    item.fieldRef.fieldPath = "metadata.labels"
    found = await collect(source, "projected", inputs())
    assert found["a"].content == b"s"
    assert found["labels"].content == b'k="v\\""'
    token = source.projected.sources.add().serviceAccountToken
    token.path, token.audience = "token", "vault"
    assert (await collect(source, "projected", inputs()))["token"].content.endswith(b" vault 3600")
    own = inputs()
    assert (await collect(source, "projected", own))["token"].mode == 0o644
    own.pod.spec.securityContext.fsGroup = 7
    assert (await collect(source, "projected", own))["token"].mode == 0o600, "its group may read it besides"
    source.projected.sources.add().clusterTrustBundle.path = "bundle"
    with pytest.raises(ConfigError, match="clusterTrustBundle is not supported"):
        await collect(source, "projected", inputs())


async def test_paths_may_not_lead_out():
    source = core.VolumeSource()
    source.configMap.localObjectReference.name = "cm"
    source.configMap.items.add(key="a", path="../x")
    with pytest.raises(ConfigError, match="must be relative"):
        await collect(source, "configMap", inputs())


def test_write_swaps_whole_contents(tmp_path):
    target = tmp_path / "v"
    assert write(target, {"a": File(b"1", 0o644), "d/b": File(b"2", 0o600)})
    assert (target / "a").read_text() == "1"
    assert (target / "d" / "b").read_text() == "2"
    assert (target / "d" / "b").stat().st_mode & 0o777 == 0o600
    first = (target / "..data").readlink()
    assert not write(target, {"a": File(b"1", 0o644), "d/b": File(b"2", 0o600)})
    assert (target / "..data").readlink() == first
    assert write(target, {"a": File(b"new", 0o644), "e": File(b"3", 0o644)})
    assert (target / "a").read_text() == "new"
    assert sorted(path.name for path in target.iterdir() if not path.name.startswith("..")) == ["a", "e"]
    assert not (target / first).exists()


def test_write_over_what_a_crash_left(tmp_path):
    target = tmp_path / "v"
    target.mkdir()
    (target / "..data_tmp").symlink_to("nowhere")
    (target / "..2026_01_01_00_00_00.1").mkdir()
    write(target, {"a": File(b"1", 0o644)})
    assert (target / "a").read_text() == "1"
