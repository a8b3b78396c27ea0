"""How errors end: kubectl's words on stderr and kubectl's exit code.

============================  ====================================================  ====
what                          words                                                 code
============================  ====================================================  ====
a Status of the server        ``Error from server (NotFound): pods "x" not found``  1
fields of an object invalid   ``The Pod "x" is invalid: …``                         1
no server                     ``Unable to connect to the server: …``                1
a usage mistake               ``error: …``                                          1
Ctrl-C                        nothing                                               130
the reader of a pipe is gone  nothing                                               141
============================  ====================================================  ====
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from wharfinger.api.errors import StatusError


_NO_SERVER = "the apiserver cannot be reached: "
"""How the client library begins when no server answered; a server's own 503 says something else."""


class CommandError(Exception):
    """A mistake on this side of the wire, said as ``error: …``."""

    def __init__(self, message: str, *, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class UnreachableError(CommandError):
    """No apiserver answered; said as ``Unable to connect to the server: …``."""


class SilentExit(Exception):  # noqa: N818  (carries a code, says nothing)
    """Everything has been said already; only the exit code is left."""

    def __init__(self, code: int = 1) -> None:
        super().__init__(code)
        self.code = code


def complain(text: str) -> None:
    """Write a line to stderr, after what stands in stdout's buffer."""
    sys.stdout.flush()
    sys.stderr.write(text.rstrip("\n") + "\n")
    sys.stderr.flush()


def status_line(error: StatusError, *, source: str = "") -> str:
    """Return the line (or lines) in which kubectl says a Status; `source` is the file that it is about."""
    reason = error.status_reason
    if reason == "Invalid" and (error.kind or error.name):
        lines = _invalid(error)
    elif reason == "Unauthorized":
        lines = "error: You must be logged in to the server (" + error.message + ")"
    elif source:
        head = f"Error from server ({reason})" if reason else "Error from server"
        return f"{head}: error when {source}: {error.message}"
    elif reason:
        lines = f"Error from server ({reason}): {error.message}"
    else:
        lines = f"Error from server: {error.message}"
    return lines


def _invalid(error: StatusError) -> str:
    head = f'The {error.kind} "{error.name}" is invalid'
    causes = [f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in error.causes]
    if not causes:
        return f"{head}: {error.message}"
    if len(causes) == 1:
        return f"{head}: {causes[0]}"
    return "\n".join([f"{head}: ", *(f"* {cause}" for cause in causes)])


def report(error: BaseException) -> int:
    """Say how a command ended and return its exit code."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return 130
    if isinstance(error, BrokenPipeError):
        return _broken_pipe()
    try:
        return _say(error)
    except BrokenPipeError:
        return _broken_pipe()


def _say(error: BaseException) -> int:
    if isinstance(error, SilentExit):
        return error.code
    if isinstance(error, UnreachableError):
        complain(f"Unable to connect to the server: {error}")
        return error.code
    if isinstance(error, CommandError):
        complain(f"error: {error}")
        return error.code
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.ctx.get_help() if error.ctx else "")
        return 0
    if isinstance(error, click.NoSuchOption):
        complain(f"error: unknown flag: {error.option_name}\nSee '{_usage(error)} --help' for usage.")
        return 1
    if isinstance(error, click.UsageError):
        words = error.format_message().partition(" Choose from:\n")[0]  # the names are in the argument's own
        complain(f"error: {words}\nSee '{_usage(error)} --help' for usage.")
        return 1
    if isinstance(error, click.ClickException):
        complain(f"error: {error.format_message()}")
        return 1
    if isinstance(error, BaseExceptionGroup):
        return max(_say(member) for member in error.exceptions)
    from wharfinger.api.errors import StatusError

    if isinstance(error, StatusError) and error.message.startswith(_NO_SERVER):
        complain(f"Unable to connect to the server: {_transport(error.message.removeprefix(_NO_SERVER))}")
        return 1
    if isinstance(error, StatusError):
        complain(status_line(error))
        return 1
    if isinstance(error, OSError):
        complain(f"error: {error}")
        return 1
    complain(f"error: {type(error).__name__}: {error} (a bug in wharf; WHARF_TRACEBACK=1 shows where)")
    return 1


def _transport(text: str) -> str:
    """Cut gRPC's explanation down to what a person can use."""
    for cause in ("Connection refused", "Connection reset", "No route to host", "Timeout", "CERTIFICATE_VERIFY_FAILED"):
        if cause.lower() in text.lower():
            address = re.search(r"ipv[46]:(\S+?):? ", text)
            where = f" to {address[1]}" if address else ""
            at = f" at {address[1]}" if address else ""
            if cause == "Connection refused":
                return f"connection{where} refused - is the apiserver running, and is this its gRPC address?"
            if cause == "CERTIFICATE_VERIFY_FAILED":
                return f"the certificate of the server{at} is not signed by the kubeconfig's authority"
            return f"{cause}{where}"
    return text


def _usage(error: click.UsageError) -> str:
    return error.ctx.command_path if error.ctx else "wharf"


def _broken_pipe() -> int:
    # The interpreter would complain once more when it flushes at exit.
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    return 141
