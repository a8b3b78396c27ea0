"""Errors as kubectl says them, and its exit codes."""

from __future__ import annotations

import pytest

from wharfinger.api.errors import (
    ConflictError,
    FieldError,
    InvalidError,
    NotFoundError,
    ServiceUnavailableError,
    UnauthorizedError,
)
from wharfinger.cli.failures import CommandError, SilentExit, UnreachableError, report, status_line

NOT_FOUND = NotFoundError('pods "x" not found', name="x", kind="pods")
ONE = InvalidError("…", name="x", kind="Pod", causes=[FieldError.required("spec.containers")])
TWO = InvalidError("…", name="x", kind="Pod", causes=[FieldError.required("a"), FieldError.invalid("b", 1, "no")])


def test_a_status() -> None:
    assert status_line(NOT_FOUND) == 'Error from server (NotFound): pods "x" not found'
    source = status_line(NOT_FOUND, source='creating "a.yaml"')
    assert source == 'Error from server (NotFound): error when creating "a.yaml": pods "x" not found'
    assert status_line(UnauthorizedError("Unauthorized")).startswith("error: You must be logged in to the server")


def test_fields() -> None:
    assert status_line(ONE) == 'The Pod "x" is invalid: spec.containers: Required value'
    assert status_line(TWO) == 'The Pod "x" is invalid: \n* a: Required value\n* b: Invalid value: 1: no'


NO_SERVER = "the apiserver cannot be reached: "


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (CommandError("what"), 1, "error: what\n"),
        (UnreachableError("nobody"), 1, "Unable to connect to the server: nobody\n"),
        (SilentExit(3), 3, ""),
        (KeyboardInterrupt(), 130, ""),
        (NOT_FOUND, 1, 'Error from server (NotFound): pods "x" not found\n'),
        (ConflictError("again"), 1, "Error from server (Conflict): again\n"),
        (ServiceUnavailableError("etcd is full"), 1, "Error from server (ServiceUnavailable): etcd is full\n"),
        (
            ServiceUnavailableError(NO_SERVER + "last error: ipv4:127.0.0.1:1: Connection refused (111)"), 1,
            "Unable to connect to the server: connection to 127.0.0.1:1 refused - is the apiserver running, and is "
            "this its gRPC address?\n",
        ),
        (ServiceUnavailableError(NO_SERVER + "odd"), 1, "Unable to connect to the server: odd\n"),
        (ExceptionGroup("", [CommandError("a"), SilentExit(2)]), 2, "error: a\n"),
        (ZeroDivisionError("x"), 1, "error: ZeroDivisionError: x (a bug in wharf; WHARF_TRACEBACK=1 shows where)\n"),
    ],
)  # fmt: skip
def test_how_commands_end(error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(error) == code
    assert capsys.readouterr().err == line
