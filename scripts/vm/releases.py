"""Debian's releases that the virtual machines can have, and where their packages come from."""
import subprocess

from interop.requirement import require

# By the word after --debian.
SUITES = {"12": "bookworm", "13": "trixie"}
DEFAULT = "12"


def mirror():
    """Where this machine gets Debian's packages from."""
    words = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian", "Label: Debian"]
    told = subprocess.run(words, capture_output=True, text=True, check=False).stdout.split()
    require(told, "apt does not say where Debian's packages come from: run 'apt-get update' as root, then this again")
    return told[0]
