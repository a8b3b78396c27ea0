"""Amounts of resources as people read them: ``1.5`` cpu, ``512Mi`` of memory."""

from __future__ import annotations

_BYTES = ("memory", "ephemeral-storage", "storage")
_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def is_bytes(resource: str) -> bool:
    """Whether the resource is counted in bytes."""
    return resource in _BYTES or resource.startswith("hugepages-")


def show(resource: str, amount: int) -> str:
    """Return the amount with at most two decimals; cpu comes in thousandths, all others in whole units."""
    if resource == "cpu":
        return _decimal(amount / 1000, 3)
    if not is_bytes(resource):
        return str(amount)
    value = float(amount)
    for unit in _UNITS:
        if abs(round(value, 2)) < 1024 or unit == _UNITS[-1]:
            return f"{_decimal(value, 2)}{unit}"
        value /= 1024
    raise AssertionError("unreachable")


def show_all(resource: str, *amounts: int) -> tuple[str, ...]:
    """Show amounts that are compared with each other: exact where rounding would hide a difference."""
    shown = tuple(show(resource, amount) for amount in amounts)
    return shown if len(set(shown)) == len(set(amounts)) else tuple(str(amount) for amount in amounts)


def quantity(resource: str, amount: int, *, up: bool = True) -> str:
    """Return the amount as a manifest would have it, in a handy unit; rounded by one per cent at most."""
    if resource == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if not is_bytes(resource):
        return str(amount)
    unit = 0
    while unit < len(_UNITS) - 1 and amount >= 1024 and (amount % 1024 == 0 or amount >= 100 * 1024):
        amount = -(-amount // 1024) if up else amount // 1024
        unit += 1
    return f"{amount}{_UNITS[unit]}"


def _decimal(value: float, places: int) -> str:
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
