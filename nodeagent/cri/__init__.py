"""The only place that knows containerd: CRI runtime.v1 over its Unix socket."""
