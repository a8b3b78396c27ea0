"""Filters of the playbooks: addresses for pods, without collections beyond ansible-core."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from pathlib import Path

from ansible.errors import AnsibleFilterError


def allot(known: Mapping[str, int], names: Iterable[str], keep: Iterable[str] = ()) -> dict[str, int]:
    """Return a number from 0 for each name: the one it has in `known`, else the lowest that is free.

    Names that are neither in `names` nor in `keep` lose theirs. So the numbers of hosts do not depend on the order in
    which they are listed, and stay the same when others come and go.
    """
    wanted = list(dict.fromkeys([*names, *keep]))
    given = {name: int(known[name]) for name in wanted if name in known}
    taken = set(given.values())
    fresh = iter([number for number in range(len(wanted) + len(taken)) if number not in taken])
    return given | {name: next(fresh) for name in wanted if name not in given}


def subnet(network: str, number: int, prefix: int) -> str:
    """Return the subnet number `number` (from 0) with `prefix` bits of `network`."""
    whole = ipaddress.ip_network(network)
    count = 1 << max(prefix - whole.prefixlen, 0)
    if prefix < whole.prefixlen or number >= count:
        raise AnsibleFilterError(
            f"{network} has room for {count} networks of /{prefix}, and number {number + 1} was asked for: "
            "set a larger wharf_pod_network or a longer wharf_pod_prefix"
        )
    size = 1 << (whole.max_prefixlen - prefix)
    return f"{whole[number * size]}/{prefix}"


def host(network: str, number: int) -> str:
    """Return address number `number` of a network."""
    return str(ipaddress.ip_network(network)[number])


def mac(number: int) -> str:
    """Return the hardware address of node number `number` in the tunnel: locally administered, ours alone."""
    return f"0a:58:77:{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"


def is_address(text: object) -> bool:
    """Whether a text is an IP address."""
    try:
        ipaddress.ip_address(str(text))
    except ValueError:
        return False
    return True


def read(files: Iterable[Mapping[str, str]], folder: str, *, partly: bool = False) -> list[dict[str, str]]:
    """Return ``dest`` and ``content`` of files given by ``src`` (below `folder`, or a whole path) and ``dest``.

    `partly`: leave out what is not there, as before a first run.
    """
    found = []
    for file in files:
        path = Path(folder, file["src"])
        if path.exists() or not partly:
            try:
                found.append({"dest": file["dest"], "content": path.read_text()})
            except (OSError, UnicodeDecodeError) as error:
                raise AnsibleFilterError(f"{path} cannot be read: {error}") from error
    return found


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, object]:
        """Return the filters by name."""
        return {
            "wharf_allot": allot,
            "wharf_host": host,
            "wharf_is_address": is_address,
            "wharf_mac": mac,
            "wharf_read": read,
            "wharf_subnet": subnet,
        }
