"""Custom resources in the server: what definitions ask for is served by the same registries as everything else.

`catalogue` follows the definitions in the watch cache and makes a registry for each served version; `resource` and
`strategy` are how objects of such kinds lie in the store and what is special about them; `establishing` writes the
conditions of definitions, `cleanup` removes the objects of those that are deleted. Every apiserver does all of this by
itself: what it writes is compared with what is there, so that it does not matter who is first.
"""
