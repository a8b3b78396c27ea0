"""The generic registry: every kind's objects, read through the watch cache and written through the store.

``Registry`` is what the chain uses; ``README`` of the package is the docstring of each module: `reader` (get, list,
watch), `writer` (create, update, patch), `deletion` (delete, finalizers, collections).
"""
