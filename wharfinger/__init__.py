"""What both sides share: the schema and its codecs, the client library, the command line."""
