"""What the manager of all pods cleans up by itself."""

from __future__ import annotations

from pathlib import Path

from nodeagent.podmanager import remove_orphaned_logs


def test_logs_of_pods_that_are_gone_are_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in ("ns_web_uid-1", "ns_web_uid-2", "something-else"):
        (tmp_path / name / "c").mkdir(parents=True)
        (tmp_path / name / "c" / "0.log").write_text("x")
    (tmp_path / "a_b_file").write_text("x")
    (tmp_path / "a_b_link").symlink_to(tmp_path / "something-else")
    remove_orphaned_logs(tmp_path, {"uid-2"})
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a_b_file", "a_b_link", "ns_web_uid-2", "something-else",
    ]  # fmt: skip
    assert (tmp_path / "something-else" / "c" / "0.log").exists()
    remove_orphaned_logs(tmp_path / "missing", set())
