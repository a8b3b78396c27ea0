"""Builds the protobuf modules of ``wharfinger.proto`` from ``proto/``.

They are generated and never committed. ``pip install`` (also ``-e``) runs this by itself;
``python setup.py build_proto`` does it alone, after a change in ``proto/``.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import ClassVar

from setuptools import Command, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
SOURCE = ROOT / "proto"
TARGET = ROOT / "wharfinger" / "proto"


class BuildProto(Command):
    """Compile every file below proto/ into the package wharfinger.proto."""

    description = "generate wharfinger.proto from proto/"
    user_options: ClassVar[list[tuple[str, str | None, str]]] = []

    def initialize_options(self) -> None:
        """No options."""

    def finalize_options(self) -> None:
        """No options."""

    def run(self) -> None:
        """Generate into a folder beside the target, then swap, so that a failure leaves the old code."""
        import grpc_tools
        from grpc_tools import protoc

        build = ROOT / "build" / "proto"
        shutil.rmtree(build, ignore_errors=True)
        build.mkdir(parents=True)
        files = [f"wharfinger/proto/{path.relative_to(SOURCE).as_posix()}" for path in sorted(SOURCE.rglob("*.proto"))]
        well_known = Path(grpc_tools.__file__).parent / "_proto"
        arguments = [
            "protoc",
            f"-Iwharfinger/proto={SOURCE}",
            f"-I{well_known}",
            f"--python_out={build}",
            f"--pyi_out={build}",
            f"--grpc_python_out={build}",
            "--include_source_info",
            f"--descriptor_set_out={build / 'descriptors.bin'}",
            *files,
        ]
        if protoc.main(arguments) != 0:
            raise SystemExit("protoc failed; its messages stand above")
        made = build / "wharfinger" / "proto"
        for folder in [made, *(path for path in made.rglob("*") if path.is_dir())]:
            (folder / "__init__.py").write_text("")
        (made / "py.typed").write_text("")
        (made / "descriptions.json").write_text(descriptions((build / "descriptors.bin").read_bytes()))
        shutil.rmtree(TARGET, ignore_errors=True)
        shutil.copytree(made, TARGET)


def descriptions(descriptor_set: bytes) -> str:
    """Return the comments of messages and fields as JSON: by message, the message's own under the empty name.

    The generated modules do not carry them, and `kubectl explain` and OpenAPI want them.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    found: dict[str, dict[str, str]] = {}
    for file in FileDescriptorSet.FromString(descriptor_set).file:
        if not file.package.startswith(("k8s.", "dev.wharfinger.")):
            continue
        for location in file.source_code_info.location:
            text = " ".join(location.leading_comments.split())
            path = location.path
            if not text or len(path) not in (2, 4) or path[0] != 4 or (len(path) == 4 and path[2] != 2):
                continue
            message = file.message_type[path[1]]
            name = message.field[path[3]].name if len(path) == 4 else ""
            found.setdefault(f"{file.package}.{message.name}", {})[name] = text
    return json.dumps(found, ensure_ascii=False, sort_keys=True)


class BuildPy(build_py):
    """The usual build, with the generated modules made first."""

    def run(self) -> None:
        """Generate, then let setuptools collect what is there."""
        self.run_command("build_proto")
        # The packages were looked for before these were made: in a fresh checkout a wheel would lack them.
        folders = (path for path in (TARGET, *TARGET.rglob("*")) if (path / "__init__.py").exists())
        made = {".".join(folder.relative_to(ROOT).parts) for folder in folders}
        self.packages = sorted({*(self.packages or ()), *made})
        super().run()


setup(cmdclass={"build_proto": BuildProto, "build_py": BuildPy})
