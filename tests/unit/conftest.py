"""What all unit tests share."""

from __future__ import annotations

from hypothesis import settings

# property tests judge results, never how long a busy machine took
settings.register_profile("wharfinger", deadline=None)
settings.load_profile("wharfinger")
