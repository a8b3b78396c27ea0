"""Paths of files in volumes: none may lead out of its volume."""

from __future__ import annotations

from wharfinger.api.validation.errors import Errors


def no_backsteps(path: str, errors: Errors, field: str) -> None:
    """Note a ``..`` anywhere in a path."""
    if ".." in path.split("/"):
        errors.invalid(field, path, "must not contain '..'")


def descending(path: str, errors: Errors, field: str) -> None:
    """Note a path that is not relative or steps back."""
    if path.startswith("/"):
        errors.invalid(field, path, "must be a relative path")
    no_backsteps(path, errors, field)


def local(path: str, errors: Errors, field: str) -> None:
    """Note a path that is not relative, steps back or starts with two dots."""
    descending(path, errors, field)
    if path.startswith("..") and not path.startswith("../"):
        errors.invalid(field, path, "must not start with '..'")


def file_mode(mode: int, errors: Errors, field: str) -> None:
    """Note permissions outside 0 to 0777."""
    if not 0 <= mode <= 0o777:
        errors.invalid(field, mode, "must be a number between 0 and 0777 (octal), both inclusive")
