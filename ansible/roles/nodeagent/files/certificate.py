"""Say what is wrong with a node's own client certificate; end with 0 when nothing is.

Arguments: the file with certificate and key, the node's name. Standard input: the authority, PEM.
"""

import sys
import time
from pathlib import Path

from cryptography import x509

from nodeagent.certificates import read
from wharfinger.pki import identity, signed_by

path, node = Path(sys.argv[1]), sys.argv[2]
authority = x509.load_pem_x509_certificate(sys.stdin.buffer.read())
certificate = read(path)
if certificate is None:
    sys.exit(f"there is no certificate in {path}")
if not signed_by(certificate, authority):
    sys.exit(f"{path} is signed by another authority")
if identity(certificate)[0] != f"system:node:{node}":
    sys.exit(f"{path} belongs to {identity(certificate)[0]}")
if certificate.not_valid_after_utc.timestamp() <= time.time():
    sys.exit(f"{path} has ended at {certificate.not_valid_after_utc}")
