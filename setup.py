"""Builds the protobuf modules of ``wharfinger.proto`` from ``proto/``.

They are generated and never committed. ``pip install`` (also ``-e``) runs this by itself;
``python setup.py build_proto`` does it alone, after a change in ``proto/``.
"""

from __future__ import annotations

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
            *files,
        ]
        if protoc.main(arguments) != 0:
            raise SystemExit("protoc failed; its messages stand above")
        made = build / "wharfinger" / "proto"
        for folder in [made, *(path for path in made.rglob("*") if path.is_dir())]:
            (folder / "__init__.py").write_text("")
        (made / "py.typed").write_text("")
        shutil.rmtree(TARGET, ignore_errors=True)
        shutil.copytree(made, TARGET)


class BuildPy(build_py):
    """The usual build, with the generated modules made first."""

    def run(self) -> None:
        """Generate, then let setuptools collect what is there."""
        self.run_command("build_proto")
        super().run()


setup(cmdclass={"build_proto": BuildProto, "build_py": BuildPy})
