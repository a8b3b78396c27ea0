"""Objects from files: documents, lists, folders, mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from wharfinger.cli.failures import CommandError
from wharfinger.cli.manifests import Broken, Manifest, read_all

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\n"


def _names(*files: str, recursive: bool = False) -> list[str]:
    return [
        one.name if isinstance(one, Manifest) else f"! {one.reason}" for one in read_all(files, recursive=recursive)
    ]  # fmt: skip


def test_several_documents_and_empty_ones(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("---\n# nothing\n---\n" + POD % "a" + "---\n" + POD % "b" + "--- # end\n")
    assert _names(str(file)) == ["a", "b"]


def test_a_mistake_does_not_hide_what_follows(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(POD % "a" + "---\nkind: [\n---\nkind: Pod\n---\n- 1\n---\n" + POD % "b")
    found = list(read_all([str(file)]))
    assert [type(one) for one in found] == [Manifest, Broken, Broken, Broken, Manifest]
    assert [one.reason for one in found if isinstance(one, Broken)][1].endswith("apiVersion not set")


def test_a_separator_inside_a_block_of_text(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: |\n    ---\n    x\n")
    (one,) = read_all([str(file)])
    assert isinstance(one, Manifest)
    assert one.document["data"]["k"] == "---\nx\n"


def test_lists(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n"
        "---\napiVersion: v1\nkind: PodList\nitems:\n- {metadata: {name: b}}\n"
    )
    assert _names(str(file)) == ["a", "b"]


def test_json_keeps_its_text(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    text = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "name": "b"}}'
    file.write_text(text)
    (one,) = read_all([str(file)])
    assert isinstance(one, Manifest)
    assert one.json() == text.encode()


def test_folders(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for path in ("b.yaml", "a.yml", "c.json", "deep/d.yaml"):
        (tmp_path / path).write_text(POD % path.partition(".")[0].replace("/", "-"))
    (tmp_path / "notes.txt").write_text("no manifest")
    assert _names(str(tmp_path)) == ["a", "b", "c"]
    assert _names(str(tmp_path), recursive=True) == ["a", "b", "c", "deep-d"]


@pytest.mark.parametrize(("name", "words"), [("http://x/y", "from the network"), ("/nope.yaml", "does not exist")])
def test_what_is_not_read(name: str, words: str) -> None:
    with pytest.raises(CommandError, match=words):
        list(read_all([name]))


def test_kinds_and_namespaces(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: x}\n"
        "---\napiVersion: v1\nkind: Node\nmetadata: {name: n}\n"
        "---\napiVersion: x/v1\nkind: Yard\nmetadata: {name: y}\n"
    )
    pod, node, other = (one for one in read_all([str(file)]) if isinstance(one, Manifest))
    assert pod.namespace("default") == "x"
    assert node.namespace("default") == ""
    with pytest.raises(CommandError, match='does not match the namespace "z"'):
        pod.namespace("default", explicit="z")
    with pytest.raises(CommandError, match='no matches for kind "Yard" in version "x/v1"'):
        _ = other.kind


@pytest.mark.parametrize("text", ["", "---\n# nothing\n"])
def test_no_object_is_a_mistake_for_verbs_that_need_one(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(text)
    assert list(read_all([str(file)])) == []
    with pytest.raises(CommandError, match="no objects passed to create"):
        list(read_all([str(file)], verb="create"))
