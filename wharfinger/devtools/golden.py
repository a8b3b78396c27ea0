"""``./dev golden``: recorded conversations with a real kube-apiserver, replayed against a cluster of our own.

Each profile of cases wants another server: ``api`` an apiserver alone, ``controllers`` also the controller-manager,
``aged`` one whose etcd has forgotten its first revisions. All are started on free ports below a temporary folder and
ended afterwards. The replay tool itself is not ours; it runs in an environment of its own, made at first use.

``golden_exceptions.yaml`` beside this module lists what need not agree and why. A step that is excepted and passes all
the same is reported, so the list cannot outlive its reasons.
"""

from __future__ import annotations

import fnmatch
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from wharfinger.devtools.cluster import APISERVER, CONTROLLER_MANAGER, SCHEDULER, Cluster, Settings
from wharfinger.devtools.containerd import DevtoolsError

PROFILES = ("api", "controllers", "aged")
EXCEPTIONS = Path(__file__).with_name("golden_exceptions.yaml")
_PROFILE = re.compile(r"^profile: *(\w+)", re.M)
_SHOWN = 6
_REPLAY_SECONDS = 1200


@dataclass(frozen=True)
class Exceptions:
    """What need not agree."""

    prose: Mapping[str, str] = field(default_factory=dict)
    """Patterns of paths whose text is in our own words, with the reason; something must stand there."""
    steps: Mapping[str, str] = field(default_factory=dict)
    """Patterns of ``area/case [step]`` with the reason."""

    @classmethod
    def load(cls, path: Path = EXCEPTIONS) -> Exceptions:
        """Read the list. Raises DevtoolsError for an entry without a reason."""
        content: dict[str, dict[str, str]] = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        for section, entries in content.items():
            for name, reason in (entries or {}).items():
                if not reason:
                    raise DevtoolsError(f"{path.name}: {section}: {name!r} has no reason")
        return cls(content.get("prose") or {}, content.get("steps") or {})

    def is_prose(self, difference: Mapping[str, Any]) -> bool:
        """Whether a difference is only in wording."""
        if not (isinstance(difference["got"], str) and difference["got"].strip()):
            return False
        return any(_like(difference["path"], pattern) for pattern in self.prose)

    def reason(self, case: str, step: str) -> str:
        """Return why a step is excepted; empty when it is not."""
        name = f"{case} [{step}]"
        return next((why for pattern, why in self.steps.items() if _like(name, pattern)), "")


def _like(text: str, pattern: str) -> bool:
    """Match a pattern in which only ``*`` is special."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) is not None


@dataclass
class Tally:
    """What came out of one area."""

    passed: int = 0
    wording: int = 0
    """Of those passed: steps that differ in prose alone."""
    excepted: int = 0
    failed: int = 0


class Golden:
    """Runs cases; `progress` is told what happens."""

    def __init__(self, root: Path, *, progress: Callable[[str], None] = print) -> None:
        self._root = root
        self._say = progress
        self._shared = root.parent / "shared" / "golden" / "api"
        self._exceptions = Exceptions.load()

    def run(self, *, cases: Path | None = None, area: str = "*", match: str = "*", verbose: bool = False) -> bool:
        """Replay what matches and print the table; return whether all passed.

        Raises DevtoolsError when the tool or a daemon is missing or nothing matches.
        """
        if not (self._shared / "replay.py").exists():
            raise DevtoolsError(f"{self._shared} is not there: the recorded conversations lie beside the checkout")
        folder = (cases or self._shared / "cases").resolve()
        wanted = self._profiles(folder, area, match)
        if not wanted:
            raise DevtoolsError(f"no case in {folder} matches area {area!r} and name {match!r}")
        python = self._environment()
        # An end from outside must not leave daemons behind.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        signal.signal(signal.SIGHUP, lambda *_: sys.exit(1))
        work = Path(tempfile.mkdtemp(prefix="wharf-golden-"))
        tallies: dict[str, Tally] = {}
        try:
            for profile in (item for item in PROFILES if item in wanted):
                steps = self._replay(python, work / profile, profile, folder, area, match)
                self._judge(steps, tallies, verbose=verbose)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        return self._table(tallies)

    def _profiles(self, folder: Path, area: str, match: str) -> set[str]:
        found = set()
        for path in folder.rglob("*.yaml"):
            if fnmatch.fnmatchcase(path.parent.name, area) and fnmatch.fnmatchcase(path.stem, match):
                profile = _PROFILE.search(path.read_text(encoding="utf-8"))
                found.add(profile[1] if profile else "api")
        return found

    def _environment(self) -> Path:
        """Return the Python that has what the replay tool needs; made at first use."""
        folder = self._root / ".local" / "golden-venv"
        python = folder / "bin" / "python"
        requirements = self._shared / "requirements.txt"
        if (
            python.exists()
            and subprocess.call([str(python), "-c", "import httpx, yaml"], stderr=subprocess.DEVNULL) == 0
        ):
            return python
        self._say("making an environment for the replay tool")
        venv.create(folder, with_pip=True, clear=True)
        done = subprocess.run(
            [str(python), "-m", "pip", "install", "-q", "-r", str(requirements)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise DevtoolsError(f"the replay tool's requirements cannot be installed:\n{done.stderr}")
        return python

    # --- one profile

    def _replay(
        self, python: Path, work: Path, profile: str, folder: Path, area: str, match: str
    ) -> list[dict[str, Any]]:
        cluster = self._cluster(work, profile)
        try:
            self._say(f"starting a server for the profile {profile}")
            cluster.up()
            if profile == "aged":
                self._age(cluster)
            self._say(f"replaying the profile {profile}")
            command = [
                str(python), str(self._shared / "replay.py"), "check", "--json", "--profile", profile,
                "--server", f"https://127.0.0.1:{cluster.port('apiserver-https')}",
                "--tokens", str(self._shared / "tokens.csv"), "--ca", str(cluster.pki / "ca.crt"),
                "--area", area, "--match", match, str(folder),
            ]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_REPLAY_SECONDS)
            try:
                steps: list[dict[str, Any]] = json.loads(done.stdout)["steps"]
            except ValueError as error:
                raise DevtoolsError(f"the replay tool failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}") from error
            return steps
        finally:
            cluster.down(purge=True)

    def _cluster(self, work: Path, profile: str) -> Cluster:
        without = [SCHEDULER] if profile == "controllers" else [SCHEDULER, CONTROLLER_MANAGER]
        flags = {
            APISERVER: [
                "--token-auth-file", str(self._shared / "tokens.csv"), "--bind-address", "127.0.0.1",
                # A bare kube-apiserver has no such group: it would show in answers to discovery.
                "--runtime-config", "metrics.k8s.io/v1beta1=false,scheduling.wharfinger.dev/v1alpha1=false",
            ]
        }  # fmt: skip
        settings = Settings(nodes=0, hollow=0, without=without, flags=flags)
        return Cluster(work, settings, progress=lambda text: None)

    @staticmethod
    def _age(cluster: Cluster) -> None:
        """Let etcd forget its first revisions, and the apiserver with it."""
        etcdctl = [
            "etcdctl", "--endpoints", f"https://{cluster.etcd_endpoint}", "--cacert", str(cluster.pki / "etcd-ca.crt"),
            "--cert", str(cluster.pki / "etcd-client.crt"), "--key", str(cluster.pki / "etcd-client.key"),
        ]  # fmt: skip
        try:
            status = subprocess.check_output([*etcdctl, "endpoint", "status", "-w", "json"], text=True)
            revision = json.loads(status)[0]["Status"]["header"]["revision"]
            subprocess.check_output([*etcdctl, "compact", str(revision)], text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise DevtoolsError(f"etcd cannot be compacted: {error}") from error
        cluster.stop(APISERVER)
        cluster.start(APISERVER)

    # --- what came out

    def _judge(self, steps: list[dict[str, Any]], tallies: dict[str, Tally], *, verbose: bool) -> None:
        for step in steps:
            case, name = step["case"], step["step"]
            tally = tallies.setdefault(case.partition("/")[0], Tally())
            real = [item for item in step["diffs"] if not self._exceptions.is_prose(item)]
            reason = self._exceptions.reason(case, name)
            if not real:
                tally.passed += 1
                tally.wording += bool(step["diffs"])
                if reason:
                    self._say(f"{case} [{name}] passes, but is excepted: {reason}")
                continue
            if reason:
                tally.excepted += 1
            else:
                tally.failed += 1
            if verbose or not reason:
                for item in real[:_SHOWN]:
                    mark = " (excepted)" if reason else ""
                    print(
                        f"{case} [{name}]{mark} {item['path']}: "
                        f"expected {_short(item['expected'])}, got {_short(item['got'])}"
                    )
        sys.stdout.flush()

    def _table(self, tallies: Mapping[str, Tally]) -> bool:
        print(f"{'area':<18}{'passed':>8}{'of':>6}   excepted   failed   wording alone differs")
        total = Tally()
        for area, tally in sorted(tallies.items()):
            _print_row(area, tally)
            for name in ("passed", "wording", "excepted", "failed"):
                setattr(total, name, getattr(total, name) + getattr(tally, name))
        _print_row("all", total)
        return not total.failed


def _print_row(name: str, tally: Tally) -> None:
    count = tally.passed + tally.excepted + tally.failed
    print(f"{name:<18}{tally.passed:>8}{count:>6}{tally.excepted:>11}{tally.failed:>9}{tally.wording:>12}")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 300 else text[:297] + "..."
