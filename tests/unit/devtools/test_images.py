from __future__ import annotations

import hashlib
import json
import tarfile

import pytest

from wharfinger.devtools.images import Image, ImageFile, busybox_files, write_archive


def unpack(path):
    with tarfile.open(path) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "a.tar"
    files = [ImageFile("bin"), ImageFile("bin/x", content=b"program"), ImageFile("bin/y", link="x")]
    write_archive(path, [Image("wharf.local/x:1", files, command=["/bin/x"], env={"PATH": "/bin"}, user="7")])
    return path


def test_every_reference_leads_to_bytes_of_that_digest_and_size(archive):
    content = unpack(archive)

    def follow(descriptor):
        data = content[f"blobs/sha256/{descriptor['digest'].removeprefix('sha256:')}"]
        assert f"sha256:{hashlib.sha256(data).hexdigest()}" == descriptor["digest"]
        assert len(data) == descriptor["size"]
        return data

    index = json.loads(content["index.json"])
    assert json.loads(content["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    assert index["manifests"][0]["annotations"]["io.containerd.image.name"] == "wharf.local/x:1"
    manifest = json.loads(follow(index["manifests"][0]))
    config = json.loads(follow(manifest["config"]))
    assert config["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]]
    assert config["config"]["Cmd"] == ["/bin/x"]
    assert (config["config"]["Env"], config["config"]["User"]) == (["PATH=/bin"], "7")
    assert b"program" in follow(manifest["layers"][0])


def test_same_input_gives_the_same_bytes(archive, tmp_path):
    again = tmp_path / "b.tar"
    files = [ImageFile("bin"), ImageFile("bin/x", content=b"program"), ImageFile("bin/y", link="x")]
    write_archive(again, [Image("wharf.local/x:1", files, command=["/bin/x"], env={"PATH": "/bin"}, user="7")])
    assert again.read_bytes() == archive.read_bytes()


def test_missing_busybox_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="busybox-static"):
        busybox_files(tmp_path / "busybox")
