"""The ways in which a volume becomes a block device of the guest's kernel: by the kernel's NBD client, which `nbd-client`
connects (nbd) or the server itself (kernel_nbd), and by ublk.

This is all that knows of them, together with attach_nbd.sh, which says what each way has to offer, attach_kernel_nbd.sh and
attach_ublk.sh.
"""
import os

WAYS = ["nbd", "kernel_nbd", "ublk"]
# How the paths of their devices begin.
NODES = {"nbd": "/dev/nbd", "kernel_nbd": "/dev/nbd", "ublk": "/dev/ublkb"}
SCRIPTS = [os.path.join(os.path.dirname(os.path.abspath(__file__)), f"attach_{way}.sh") for way in WAYS]
PROGRAMS = ["nbd-client", "nbdinfo"]
# Debian's packages of these programs.
PACKAGES = ["nbd-client", "libnbd-bin"]
MODULES = ["nbd", "ublk_drv"]
