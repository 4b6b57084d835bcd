"""How a volume becomes a block device of the guest's kernel: by the kernel's NBD client.

This is all that knows of it, together with attach_nbd.sh, which says what another way has to offer.
"""
import os

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "attach_nbd.sh")
PROGRAMS = ["nbd-client", "nbdinfo"]
# Debian's packages of these programs.
PACKAGES = ["nbd-client", "libnbd-bin"]
MODULES = ["nbd"]
