"""Copies of the source that are changed and built beside it."""
import shutil
import subprocess


def renew(root, tree, changed=None):
    """Makes tree a copy of what git has or would take of root, with other content where `changed` has bytes by name.

    Files that are as they were keep their times, and so their builds.
    """
    changed = changed or {}
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root,
                            stdout=subprocess.PIPE, check=True, text=True).stdout.split("\0")
    wanted = {name for name in listed if name and (root / name).is_file()} | set(changed)
    for name in sorted(wanted):
        source, copy = root / name, tree / name
        content = changed[name] if name in changed else source.read_bytes()
        if not copy.is_file() or copy.read_bytes() != content:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
            if name not in changed:
                shutil.copymode(source, copy)
    # Deepest first; a folder without a file left would still count as a crate.
    for copy in sorted(tree.glob("crates/**/*"), reverse=True):
        if copy.is_file() and str(copy.relative_to(tree)) not in wanted:
            copy.unlink()
        elif copy.is_dir() and not any(copy.iterdir()):
            copy.rmdir()
