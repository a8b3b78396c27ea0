"""The node agent: makes the containers of a node be what the API says, and tells the API what they are."""
