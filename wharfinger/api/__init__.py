"""What both sides share: the schema's kinds, codecs, defaults, validation, selectors, patches and errors."""
