"""Who asks (authentication) and whether they may (authorisation)."""
