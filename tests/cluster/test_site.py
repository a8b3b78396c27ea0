"""The playbooks against hosts with their own systemd, SSH and network: from nothing to a cluster, and back.

One cluster goes through its life, since each step takes what the one before has made. Needs root, cgroup v1, the
packages that `wharfinger.devtools.hosts` names, and ansible-core (the extra `deploy`). The first run makes the Debian
base (some minutes), later ones take it from /var/cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.deployment import Site, changed_tasks, changes, site_of
from wharfinger.devtools.beds import kind_of
from wharfinger.devtools.containerd import DevtoolsError
from wharfinger.devtools.hostbase import ensure_base, suites_of

LEFT = """\
ls -d /etc/wharfinger /var/lib/wharfinger /opt/wharfinger /etc/systemd/system/wharf* /sys/class/net/wharf* \
  /var/log/wharfinger /etc/cni/net.d/* /sys/fs/cgroup/*/wharfinger /run/netns/cni-* 2>/dev/null
ps -eo args | grep -E '[w]harf-|[c]ontainerd-shim'
grep -E 'wharfinger|sandboxes' /proc/mounts | grep -v ' / overlay '  # the host's own root
ip route | grep 'proto 87'
grep wharf /etc/passwd
"""

WAYS = "bridge fdb show dev wharf-vxlan; ip neighbour show dev wharf-vxlan; ip route"
DROP = """\
nft -f - <<END
table ip segment {
  chain out {
    type filter hook postrouting priority 200;
    oifname != { "lo", "wharf0", "wharf-vxlan" } ip daddr 10.244.0.0/16 drop;
  }
}
END
"""
"""Nothing goes from pod to pod but through the tunnel, as on a network whose routers know nothing of pods."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site_of(tmp_path_factory.mktemp("site"), hosts=3) as made:
        yield made


def test_life_of_a_cluster(site: Site) -> None:
    one, two, three = site.bed.names()
    site.write_inventory([one, two])
    # The hosts' network leads nowhere, so what comes from the package index is built before, outside of it.
    site.done("build.yml", on_controller=False)

    site.done("site.yml")
    assert site.wharf("get", "nodes", "-o", "name").split() == [f"node/{one}", f"node/{two}"]
    site.run_pods(one, two)
    assert (site.fetch(one, two), site.fetch(two, one)) == (two, one)

    again = site.done("site.yml", "--diff")
    assert changes(again) == {one: 0, two: 0, "localhost": 0}, changed_tasks(again)

    site.write_inventory([one, two, three])
    added = site.done("add-node.yml", "-e", f"node={three}")
    # Noting the new node's network, the route to its pods, and setting it.
    assert changes(added)[one] == 3, changed_tasks(added)
    assert changes(added)[two] == 2, changed_tasks(added)
    site.run_pods(three)
    assert (site.fetch(one, three), site.fetch(three, two)) == (three, two)

    site.write_inventory([one, two, three], variables={"wharf_pod_encapsulation": "vxlan"})
    site.done("site.yml")
    _check_tunnels(site)

    refused = site.play("remove-node.yml", "-e", f"node={two}").stdout
    assert "wharf_drain_force" in refused, "a pod without a controller must not be lost silently"
    site.done("remove-node.yml", "-e", f"node={two}", "-e", "wharf_drain_force=true")
    site.write_inventory([one, three], variables={"wharf_pod_encapsulation": "vxlan"})
    assert site.wharf("get", "nodes", "-o", "name").split() == [f"node/{one}", f"node/{three}"]
    ways = site.bed.ssh(one, WAYS).stdout
    assert site.bed.address(two) not in ways
    assert site.bed.address(three) in ways
    assert len(site.bed.ssh(one, "ip route show proto 87").stdout.splitlines()) == 1
    assert site.fetch(one, three) == three

    assert "wharf_confirm" in site.play("reset.yml").stdout
    site.done("reset.yml", "-e", "wharf_confirm=true")
    for name in site.bed.names():
        left = site.bed.ssh(name, LEFT, check=False).stdout
        assert left == "", f"{name} still has:\n{left}"
    assert not (site.inventory.parent / ".wharfinger").exists()


def _check_tunnels(site: Site) -> None:
    """Pods reach each other through the tunnel and by no other way; those from before it, too."""
    names = site.bed.names()
    for name in names:
        site.bed.ssh(name, DROP)
    _check_ways(site)
    site.wharf("delete", "pod", *(f"on-{name}" for name in names))
    site.run_pods(*names)
    _check_ways(site)
    for name in names:
        assert site.wharf("exec", f"on-{name}", "--", "cat", "/sys/class/net/eth0/mtu").strip() == "1450"
    for name in names:
        site.bed.ssh(name, "nft delete table ip segment")


def _check_ways(site: Site) -> None:
    size = 2_000_000  # more than fits into a packet
    for target in site.bed.names():
        site.wharf("exec", f"on-{target}", "--", "sh", "-c", f"head -c {size} /dev/zero > /www/large")
        address = site.wharf("get", "pod", f"on-{target}", "-o", "jsonpath={.status.podIP}").strip()
        for source in site.bed.names():
            if source != target:
                before = _through_tunnel(site, source)
                fetch = f"wget -q -O - http://{address}:8080/large | wc -c"
                assert site.wharf("exec", f"on-{source}", "--", "sh", "-c", fetch).strip() == str(size)
                assert _through_tunnel(site, source) > before


def _through_tunnel(site: Site, name: str) -> int:
    """Return the number of packets that a host has sent into the tunnel."""
    return int(site.bed.ssh(name, "cat /sys/class/net/wharf-vxlan/statistics/tx_packets").stdout)


def test_bed_leaves_nothing(tmp_path: Path) -> None:
    try:
        ensure_base(suites_of()[0])
    except DevtoolsError as error:
        pytest.skip(str(error))
    bed = kind_of().create(tmp_path / "bed", hosts=1)
    try:
        bed.up()
        assert bed.ssh("host-1", "hostname").stdout.strip() == "host-1"
        bed.ssh("host-1", "touch /root/kept && sync")
        bed.power_off("host-1")
        bed.start("host-1")
        bed.wait_ssh("host-1")
        bed.ssh("host-1", "test -e /root/kept")
    finally:
        bed.down()
    assert not bed.path.exists()
    assert str(bed.path) not in Path("/proc/mounts").read_text()
    assert not [path for path in Path("/run/netns").iterdir() if path.name.startswith(f"{bed.prefix}-")]
    assert not list(Path("/sys/fs/cgroup").glob(f"*/{bed.prefix}"))
    assert not [p for p in psutil.process_iter(["cmdline"]) if str(bed.path) in (p.info["cmdline"] or [])]
