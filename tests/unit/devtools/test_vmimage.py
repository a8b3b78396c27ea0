"""What a virtual test host boots from, as far as it can be told without booting one."""

import gzip
import subprocess
from pathlib import Path

import pytest

from wharfinger.devtools import beds
from wharfinger.devtools.containerd import DevtoolsError, find_busybox
from wharfinger.devtools.hosts import Bed
from wharfinger.devtools.virtualhosts import MixedBed, VirtualBed
from wharfinger.devtools.vmimage import VirtualImage, host_initrd


def test_the_files_of_a_host_are_unpacked_with_their_modes(tmp_path: Path) -> None:
    try:
        busybox = find_busybox()
    except DevtoolsError as error:
        pytest.skip(str(error))
    image = VirtualImage(tmp_path / "disk", tmp_path / "kernel", tmp_path / "initrd")
    image.initrd.write_bytes(b"")
    files = {"etc/hostname": b"host-1\n", "root/.ssh/authorized_keys": b"a key\n"}
    archive = gzip.decompress(host_initrd(image, files))
    subprocess.run([busybox, "cpio", "-id"], cwd=tmp_path, input=archive, check=True, capture_output=True)
    for name, content in files.items():
        assert (tmp_path / "host" / name).read_bytes() == content
    modes = {name: (tmp_path / "host" / name).stat().st_mode & 0o777 for name in (*files, "etc", "root", "root/.ssh")}
    assert modes == {
        "etc/hostname": 0o644, "etc": 0o755,
        # sshd heeds no key that others could have written.
        "root/.ssh/authorized_keys": 0o600, "root/.ssh": 0o700, "root": 0o700,
    }  # fmt: skip


def test_a_bed_is_loaded_as_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(beds.KIND_VARIABLE, raising=False)
    assert beds.kind_of() is Bed
    monkeypatch.setenv(beds.KIND_VARIABLE, "qemu")
    assert beds.kind_of() is VirtualBed
    assert beds.kind_of("nspawn") is Bed
    with pytest.raises(DevtoolsError, match="nspawn, qemu, mixed, not xen"):
        beds.kind_of("xen")
    made = beds.kind_of("qemu").create(tmp_path / "bed", hosts=1)
    monkeypatch.delenv(beds.KIND_VARIABLE)
    found = beds.load(tmp_path / "bed")
    assert isinstance(found, VirtualBed)
    assert found == made
    with pytest.raises(DevtoolsError, match="kind qemu, not nspawn"):
        Bed.load(tmp_path / "bed")


def test_of_a_mixed_bed_all_but_the_first_host_are_virtual(tmp_path: Path) -> None:
    bed = beds.kind_of("mixed").create(tmp_path / "bed", hosts=3)
    assert isinstance(bed, MixedBed)
    assert [bed.is_virtual(name) for name in bed.names()] == [False, True, True]
    assert bed.root("host-1") == bed.path / "host-1" / "root"
    with pytest.raises(DevtoolsError, match="over SSH"):
        bed.root("host-2")
