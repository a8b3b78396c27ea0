"""Every message and field of the schema says what it is: ``explain`` and OpenAPI descriptions are made from it."""

from pathlib import Path

import grpc_tools  # type: ignore[import-untyped]
import pytest
from google.protobuf import descriptor_pb2
from grpc_tools import protoc

PROTO = Path(__file__).parents[2] / "proto"
COMMENTED = sorted(
    path.relative_to(PROTO).as_posix()
    for folder in ("apimachinery", "k8s", "own")
    for path in (PROTO / folder).glob("*.proto")
)
"""Files below proto/ that are commented throughout."""
MOST_LINES = 2

_MESSAGE, _NESTED, _FIELD = 4, 3, 2
"""Field numbers by which source info names a file's messages, a message's messages and its fields."""


def compiled(proto: Path, name: str, target: Path) -> descriptor_pb2.FileDescriptorProto:
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    path = f"wharfinger/proto/{name}"
    includes = [f"-Iwharfinger/proto={proto}", f"-I{well_known}"]
    assert protoc.main(["protoc", *includes, "--include_source_info", f"--descriptor_set_out={target}", path]) == 0
    files = descriptor_pb2.FileDescriptorSet.FromString(target.read_bytes()).file
    return next(file for file in files if file.name == path)


def comments(file: descriptor_pb2.FileDescriptorProto) -> dict[str, str]:
    """Return the leading comment, perhaps empty, of each ``Message`` and ``Message.field``."""
    found = {tuple(place.path): place.leading_comments.strip() for place in file.source_code_info.location}
    result: dict[str, str] = {}

    def visit(message: descriptor_pb2.DescriptorProto, path: tuple[int, ...], name: str) -> None:
        if message.options.map_entry:
            return
        result[name] = found.get(path, "")
        for index, field in enumerate(message.field):
            result[f"{name}.{field.name}"] = found.get((*path, _FIELD, index), "")
        for index, inner in enumerate(message.nested_type):
            visit(inner, (*path, _NESTED, index), f"{name}.{inner.name}")

    for index, message in enumerate(file.message_type):
        visit(message, (_MESSAGE, index), message.name)
    return result


@pytest.mark.parametrize("name", COMMENTED)
def test_everything_is_described(name: str, tmp_path: Path) -> None:
    found = comments(compiled(PROTO, name, tmp_path / "descriptors"))
    assert found
    assert [place for place, text in found.items() if not text] == []


@pytest.mark.parametrize("name", COMMENTED)
def test_descriptions_are_short_sentences(name: str, tmp_path: Path) -> None:
    found = comments(compiled(PROTO, name, tmp_path / "descriptors"))
    assert [place for place, text in found.items() if len(text.splitlines()) > MOST_LINES] == []
    assert [place for place, text in found.items() if not text.endswith(".")] == []


def test_a_missing_description_is_found(tmp_path: Path) -> None:
    lines = [
        'syntax = "proto3";',
        "// Said.",
        "message A {",
        "  // Said.",
        "  string b = 1;",
        "  map<string, string> c = 2;",
    ]
    lines += ["  message D { string e = 1; }", "}"]
    (tmp_path / "bare.proto").write_text("\n".join(lines))
    found = comments(compiled(tmp_path, "bare.proto", tmp_path / "descriptors"))
    assert [place for place, text in found.items() if not text] == ["A.c", "A.D", "A.D.e"]
