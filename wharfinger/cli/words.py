"""Short words that several commands print."""

from __future__ import annotations


def age(seconds: float) -> str:
    """Return a duration as kubectl's AGE column has it: ``58s``, ``4m12s``, ``3h5m``, ``2d``, ``1y30d``."""
    if seconds < -1:
        return "<invalid>"
    total = max(int(seconds), 0)
    if total < 120:
        return f"{total}s"
    minutes = total // 60
    if minutes < 10:
        return _two(minutes, "m", total % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    hours = total // 3600
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if hours < 24 * 8:
        return _two(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    years = days // 365
    if days < 365 * 8:
        return _two(years, "y", days % 365, "d")
    return f"{years}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
