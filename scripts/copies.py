"""Copies of the source that are changed and built in another folder."""
import shutil
import subprocess


def renew(root, tree, changed=None):
    """Makes tree a copy of root's files that git tracks or would add; `changed` gives other content by file name.

    Files that have not changed keep their times, so that they are not built again.
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
    # Deepest first. A folder without files is removed, because cargo would take it for a crate.
    for copy in sorted(tree.glob("crates/**/*"), reverse=True):
        if copy.is_file() and str(copy.relative_to(tree)) not in wanted:
            copy.unlink()
        elif copy.is_dir() and not any(copy.iterdir()):
            copy.rmdir()
