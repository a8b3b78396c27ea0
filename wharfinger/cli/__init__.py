"""The command ``wharf``; one file a command, see :mod:`wharfinger.cli.commands`."""
