"""The native API: gRPC in, the chain, gRPC out.

`server` listens, `resources` and `streaming` hold the calls, `wire` makes answers of ready bytes, `failures` maps
errors, `relays` passes on what the agents and the scheduler serve.
"""
