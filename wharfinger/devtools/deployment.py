"""A cluster on test hosts, deployed by the project's own playbooks: behind ``./dev up --hosts`` and tests/cluster.

The hosts are those of :mod:`wharfinger.devtools.hosts`; the playbooks reach them over SSH from a network namespace, as
they would reach machines in a rack. What needs the package index (``build.yml``) runs outside of it, before.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wharfinger.devtools import beds, images
from wharfinger.devtools.containerd import DevtoolsError, find_busybox
from wharfinger.devtools.hostbase import SUITES, TOOLS, missing_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wharfinger.devtools.hosts import Bed

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
MEMBERS = 3
"""With as many hosts or more, so many of them are the control plane; else one."""


def ansible() -> str | None:
    """Return the ansible-playbook to use: that of WHARF_ANSIBLE, else of this environment; None when there is none."""
    return os.environ.get("WHARF_ANSIBLE") or shutil.which("ansible-playbook", path=str(BIN))


class Deployment:
    """A bed, the inventory of its hosts, and the playbooks."""

    def __init__(self, bed: Bed, folder: Path, *, source: Path = ROOT) -> None:
        self.bed = bed
        self.folder = folder
        self.source = source
        """What is built and deployed."""
        self.inventory = folder / "inventory" / "hosts.yml"
        self.inventory.parent.mkdir(exist_ok=True)
        self.images = folder / "images.tar"
        if not self.images.exists():
            images.write_archive(self.images, images.local_images(find_busybox()))

    @property
    def state(self) -> Path:
        """The folder with the cluster's keys, kubeconfig and backups."""
        return self.inventory.parent / ".wharfinger"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's, as site.yml leaves it."""
        return self.state / "admin.kubeconfig"

    def write_inventory(
        self, nodes: Sequence[str], *, control_plane: Sequence[str] = (), variables: Mapping[str, object] | None = None
    ) -> None:
        """Say who does what; the control plane is the first host unless `control_plane` names others."""
        common = {
            "wharf_build_dir": str(self.folder / "build"),
            "wharf_local_bin": str(BIN),
            "wharf_source": str(self.source),
            "wharf_python_versions": sorted({SUITES[suite] for suite in self.bed.suites}),
            "wharf_sandbox_image": images.PAUSE_IMAGE,
            "wharf_image_archives": [str(self.images)],
            **self.bed.variables,
        }
        first = list(control_plane) or self.bed.names()[:1]
        groups: dict[str, Sequence[str]] = {"control_plane": first, "etcd": first, "nodes": list(nodes)}
        self.inventory.write_text(json.dumps(self.bed.inventory(groups, {**common, **(variables or {})})))

    def play(self, name: str, *arguments: str, on_controller: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a playbook; its output, errors with it, is the result's stdout. DevtoolsError without ansible-core."""
        program = ansible()
        if program is None:
            raise DevtoolsError("ansible-playbook is not installed: .venv/bin/pip install -e '.[deploy]'")
        command = [program, "-i", str(self.inventory), str(ROOT / "ansible" / name), *arguments]
        return subprocess.run(
            self.bed.on_controller(*command) if on_controller else command,
            env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible" / "ansible.cfg")},
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip

    def run_wharf(self, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run wharf on the controller with the kubeconfig that site.yml has left there."""
        return subprocess.run(
            self.bed.on_controller(str(BIN / "wharf"), *arguments),
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)}, text=True, input=text, capture_output=True,
            check=False,
        )  # fmt: skip


def up(
    folder: Path, *, hosts: int, suites: Sequence[str], kind: str = "", progress: Callable[[str], None]
) -> Deployment:
    """Make the hosts (or start them again), deploy, and leave programs that reach them in `folder`.

    Without `suites` and `kind`, hosts that are there stay what they are and new ones are of the defaults.
    """
    if (missing := missing_tools()) or ansible() is None:
        raise DevtoolsError(
            "test hosts need more than there is: "
            f"apt-get install {' '.join(missing or sorted(TOOLS.values()))} && .venv/bin/pip install -e '.[deploy]'"
        )
    known = (folder / "bed" / "bed.json").exists()
    bed = beds.load(folder / "bed") if known else beds.kind_of(kind).create(folder / "bed", hosts=hosts, suites=suites)
    if bed.hosts != hosts:
        raise DevtoolsError(f"there are {bed.hosts} hosts already, not {hosts}: `./dev down` removes them")
    if suites and bed.suites != tuple(suites):
        raise DevtoolsError(f"the hosts are {', '.join(bed.suites)} already: `./dev down` removes them")
    if kind and bed.kind != kind:
        raise DevtoolsError(f"the hosts are of the kind {bed.kind} already: `./dev down` removes them")
    progress(f"{hosts} hosts (the first time their Debian is made, which takes minutes)")
    bed.up()
    deployment = Deployment(bed, folder)
    names = bed.names()
    deployment.write_inventory(names, control_plane=names[: MEMBERS if hosts >= MEMBERS else 1])
    for name, on_controller in (("build.yml", False), ("site.yml", True)):
        progress(f"ansible-playbook {name}")
        done = deployment.play(name, on_controller=on_controller)
        if done.returncode != 0:
            raise DevtoolsError(f"{name} failed:\n{_last_task(done.stdout)[-6000:]}")
    _write_programs(deployment)
    return deployment


def _last_task(output: str) -> str:
    """Return what Ansible printed from its last task on: what went well before tells nothing of a failure."""
    return output[max(output.rfind("\nTASK ["), 0) :]


def down(folder: Path) -> None:
    """Remove the hosts with everything on them."""
    beds.load(folder / "bed").down()
    shutil.rmtree(folder)


def _write_programs(deployment: Deployment) -> None:
    """Leave `wharf`, `kubectl`, `ssh` and `play` in the folder: each goes into the controller's network first."""
    bed = deployment.bed
    enter = shlex.join(bed.on_controller())
    environment = f"KUBECONFIG={shlex.quote(str(deployment.kubeconfig))}"
    ansible_config = f"ANSIBLE_CONFIG={shlex.quote(str(ROOT / 'ansible' / 'ansible.cfg'))}"
    login = shlex.join(["ssh", *bed.ssh_options(), "-i", str(bed.key)])
    addresses = " ".join(f"{name}) address={bed.address(name)} ;;" for name in bed.names())
    programs = {
        "wharf": f'exec {enter} env {environment} {BIN / "wharf"} "$@"',
        "kubectl": f'exec {enter} env {environment} kubectl "$@"',
        "ssh": f'case "$1" in {addresses} *) echo "usage: ssh {"|".join(bed.names())} [COMMAND…]" >&2; exit 2 ;; esac\n'
        f'shift\nexec {enter} {login} "root@$address" "$@"',
        "play": f'playbook=$1\nshift\nexec {enter} env {ansible_config} {ansible()} '
        f'-i {shlex.quote(str(deployment.inventory))} {ROOT / "ansible"}/"$playbook" "$@"',
    }  # fmt: skip
    for name, text in programs.items():
        path = deployment.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
