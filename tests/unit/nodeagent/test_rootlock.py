"""Two agents never work in one folder, and a dead one leaves it free."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nodeagent import rootlock

HOLDER = """
import sys, time
from pathlib import Path
from nodeagent import rootlock
rootlock.take(Path(sys.argv[1]))
print("taken", flush=True)
time.sleep(60)
"""


def test_only_one_process_has_a_root_folder(tmp_path: Path) -> None:
    root = tmp_path / "made" / "here"
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(root)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "taken\n"
        with pytest.raises(rootlock.RootTakenError, match=rf"--root-dir: .*pid {holder.pid}\)"):
            rootlock.take(root)
        flags = ["--kubeconfig", "not-read-yet", "--node-name", "n1", "--root-dir", str(root)]
        agent = [sys.executable, "-m", "nodeagent.main", *flags]
        try:
            ended = subprocess.run(agent, capture_output=True, text=True, timeout=30, check=False)
        finally:
            holder.send_signal(signal.SIGKILL)
        assert ended.returncode == 1
        assert "another agent" in ended.stderr
    os.close(rootlock.take(root))
