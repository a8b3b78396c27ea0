"""The kinds of beds of test hosts, and making and removing beds by hand.

python -m wharfinger.devtools.beds up --directory DIR --hosts 3 --suite bookworm,trixie
python -m wharfinger.devtools.beds up --directory DIR --hosts 1 --kind qemu
python -m wharfinger.devtools.beds down --directory DIR
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from wharfinger.devtools.containerd import DevtoolsError
from wharfinger.devtools.hostbase import SUITES, suites_of
from wharfinger.devtools.hosts import Bed
from wharfinger.devtools.virtualhosts import MixedBed, VirtualBed

KINDS: dict[str, type[Bed]] = {kind.kind: kind for kind in (Bed, VirtualBed, MixedBed)}
KIND_VARIABLE = "WHARF_HOSTS_KIND"
"""Environment variable with the kind of beds for which none was named."""


def kind_of(text: str = "") -> type[Bed]:
    """Return the kind of this name; without one, that of WHARF_HOSTS_KIND, else nspawn. DevtoolsError for others."""
    name = text or os.environ.get(KIND_VARIABLE) or Bed.kind
    if name not in KINDS:
        raise DevtoolsError(f"test hosts can be {', '.join(KINDS)}, not {name}")
    return KINDS[name]


def load(directory: Path) -> Bed:
    """Return the bed of a folder, of whichever kind; FileNotFoundError when there is none."""
    noted = json.loads((directory / "bed.json").read_text())
    return kind_of(noted.get("kind", Bed.kind)).load(directory)


def main(argv: Sequence[str] | None = None) -> int:
    """Make and remove beds by hand."""
    parser = argparse.ArgumentParser(
        prog="python -m wharfinger.devtools.beds", description="Test hosts on one machine."
    )
    parser.add_argument("command", choices=("up", "down", "run"), help="run is what a bed starts for each nspawn host")
    parser.add_argument("--directory", type=Path, required=True, help="folder of the bed")
    parser.add_argument("--hosts", type=int, default=3, help="how many hosts a new bed has")
    parser.add_argument(
        "--suite", default="", help=f"its Debian: {', '.join(SUITES)}, or several with commas, which hosts take in turn"
    )
    parser.add_argument(
        "--kind",
        default="",
        help="nspawn (default), qemu (virtual machines, some twenty times slower), or mixed (the first one is nspawn)",
    )
    parser.add_argument("--host", default="", help="for run: which")
    values = parser.parse_args(argv)
    try:
        if values.command == "run":
            return load(values.directory).run_host(values.host)
        if values.command == "down":
            load(values.directory).down()
            return 0
        known = (values.directory / "bed.json").exists()
        bed = (
            load(values.directory)
            if known
            else kind_of(values.kind).create(values.directory, hosts=values.hosts, suites=suites_of(values.suite))
        )
        bed.up()
        for name in bed.names():
            login = bed.on_controller("ssh", "-i", str(bed.key), f"root@{bed.address(name)}")
            print(f"{name}: {' '.join(login)}")
    except DevtoolsError as error:
        sys.exit(f"beds: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
