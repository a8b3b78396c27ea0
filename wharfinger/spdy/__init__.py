"""SPDY/3.1, as far as Kubernetes and containerd use it: streams with headers over one connection.

Older kubectl speaks it to the apiserver, newer kubectl tunnels it through a WebSocket for port-forward, and containerd
serves exec, attach and port-forward by it. :mod:`.frames` is the wire format, without any input or output;
:mod:`.session` makes streams of it over whatever carries bytes. One implementation serves both ends.

What is left out: push, priorities and flow control. The library that all of those peers use (moby/spdystream) knows no
windows either: a receiver that is slow holds up the connection.
"""

from wharfinger.spdy.frames import SpdyError
from wharfinger.spdy.session import Carrier, Session, Stream, StreamReset

__all__ = ["Carrier", "Session", "SpdyError", "Stream", "StreamReset"]
