#!/usr/bin/env bash
# Checks the repository's own rules, as far as a script can. STYLE.md gives their reasons.
#
#   - production Rust files have at most 500 lines (tests in the same file do not count)
#   - there is no unfinished code, no forgotten debugging output, no test that is switched off
#   - the engine has no hash order and no clock (its tests may have both)
#   - `unsafe` occurs only where memory is shared with the kernel (drives) or parity is computed (engine::xor)
#   - no file names a folder of one particular machine
#   - no file is larger than 512 KiB
#   - files of the engine neither import nor call each other in a circle (circles.py)
#   - every planted bug has a sentence, and a patch that applies (planted/main.py)
#   - scripts in Python use no name that does not exist, and import none that they do not use (pyflakes)
#   - every dependency has its reason in deny.toml; data-path crates do not depend on frameworks
#
# Checks the files that git tracks or would add. Prints each finding as 'file:line: what, what to do'.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

max_production_lines=500
max_file_bytes=$((512 * 1024))

cd "$root"
command -v git >/dev/null || die "git is missing: it tells which files belong to the repository."
findings=$(mktemp)
trap 'rm -f "$findings"' EXIT

# Prints existing files that git tracks or would add, one per line.
repository_files() {
    git ls-files --cached --others --exclude-standard | sort -u | while read -r file; do
        if [[ -f $file ]]; then printf '%s\n' "$file"; fi
    done
}

mapfile -t files < <(repository_files)
[[ ${#files[@]} -gt 0 ]] || die "git lists no files here."
mapfile -t rust_files < <(printf '%s\n' "${files[@]}" | grep '\.rs$' || true)

# Prints the paths of tests, one per line, a folder with a slash at its end: integration tests, tests.rs, and modules
# declared under #[cfg(test)] with the files in their folders.
test_paths() {
    awk '
        FNR == 1 { pending = 0 }
        /^[ \t]*#\[cfg\(test\)\]/ { pending = 1; next }
        pending && /^[ \t]*#\[/ { next }
        pending && /^[ \t]*(pub(\([a-z]+\))? )?mod [a-z_0-9]+;/ {
            name = $0
            sub(/.*mod /, "", name); sub(/;.*/, "", name)
            folder = FILENAME
            if (folder ~ /\/(mod|lib|main)\.rs$/) sub(/\/[^\/]*$/, "", folder)
            else sub(/\.rs$/, "", folder)
            print folder "/" name ".rs"
            print folder "/" name "/"
        }
        { pending = 0 }' "${rust_files[@]}"
}

# production_files: prints the Rust files that are not tests.
production_files() {
    local file
    test_paths >"$findings.tests"
    for file in "${rust_files[@]}"; do
        case $file in
        */tests/* | */tests.rs | */benches/* | tests/* | fuzz/*) continue ;;
        esac
        if ! awk -v file="$file" '
            $0 == file || (/\/$/ && index(file, $0) == 1) { found = 1 }
            END { exit !found }' "$findings.tests"; then
            printf '%s\n' "$file"
        fi
    done
    rm -f "$findings.tests"
}

# Counts the lines before a file's own test module.
check_lengths() {
    local file lines
    while read -r file; do
        lines=$(awk '
            /^#\[cfg\(test\)\]/ { pending = NR; next }
            pending && /^mod [a-z_0-9]+ \{/ { print pending - 1; printed = 1; exit }
            !/^#\[/ { pending = 0 }
            END { if (!printed) print NR }' "$file")
        if [[ $lines -gt $max_production_lines ]]; then
            echo "$file: $lines lines of production code, at most $max_production_lines:" \
                "split it by subject."
        fi
    done < <(production_files)
}

# banned REGEX ADVICE FILE...: reports each line that matches outside of a // comment.
banned() {
    local pattern=$1 advice=$2
    shift 2
    [[ $# -gt 0 ]] || return 0
    PATTERN=$pattern ADVICE=$advice awk '
        { code = $0; sub(/(^|[^:])\/\/.*/, "", code) }
        code ~ ENVIRON["PATTERN"] { print FILENAME ":" FNR ": " ENVIRON["ADVICE"] }' "$@"
}

check_words() {
    local engine_files unsafe_free_files
    mapfile -t engine_files < <(production_files | grep '^crates/engine/' || true)
    mapfile -t unsafe_free_files < <(printf '%s\n' "${rust_files[@]}" |
        grep -v -e '^crates/drives/' -e '^crates/engine/src/xor[/.]' || true)

    banned '(^|[^a-z_])(todo|unimplemented)!' \
        "unfinished code: finish it, or leave the feature out." "${rust_files[@]}"
    banned '(^|[^a-z_])dbg!' "debugging output: remove it." "${rust_files[@]}"
    banned '#\[ignore' \
        "a test that never runs: make it run, or make it a benchmark." "${rust_files[@]}"
    banned 'Hash(Map|Set)' \
        "hash order differs between runs: use BTreeMap or an indexed slab." "${engine_files[@]}"
    banned '(Instant|SystemTime)::now' \
        "the engine has no clock: take the time from the caller." "${engine_files[@]}"
    banned '(^|[^a-z_])unsafe([^a-z_]|$)' \
        "unsafe code belongs into crates/drives or crates/engine/src/xor." "${unsafe_free_files[@]}"
}

# The paths are put together here, so that this file does not report itself.
check_machine_paths() {
    local home=root work=work jobs=bash_jobs
    printf '%s\0' "${files[@]}" | xargs -0 grep -InE "(^|[^A-Za-z0-9_./}-])/($home|$work)/|/tmp/$jobs" |
        sed -E 's/^([^:]*:[0-9]*):.*/\1: a folder of one machine: use a relative path./' || true
}

check_sizes() {
    local file bytes
    for file in "${files[@]}"; do
        bytes=$(wc -c <"$file")
        if [[ $bytes -gt $max_file_bytes ]]; then
            echo "$file: $bytes bytes, at most $max_file_bytes: generate it, or make it smaller."
        fi
    done
}

# Each external dependency in the workspace's table needs a comment '# NAME: why' in deny.toml.
check_reasons() {
    local name
    awk '/^\[/ { inside = ($0 == "[workspace.dependencies]"); next }
         inside && /^[a-z]/ && !/path *=/ { print $1 }' Cargo.toml |
        while read -r name; do
            grep -q "^# $name: " deny.toml ||
                echo "Cargo.toml: $name has no reason: add a line '# $name: why' to deny.toml."
        done
}

# Checks what a data-path crate depends on at run time, even indirectly. deny.toml can only name direct parents.
check_data_path() {
    local crate path tree
    for crate in engine metadata drives exports; do
        path=crates/$crate/Cargo.toml
        [[ -f $path ]] || continue
        tree=$(cargo tree --quiet "${cargo_lock_options[@]}" --package "$crate" \
            --edges normal,build --prefix none \
            --target x86_64-unknown-linux-gnu --target aarch64-unknown-linux-gnu) ||
            die "cargo could not list what $crate depends on: see above."
        awk '{ print $1 }' <<<"$tree" | sort -u | grep -xE 'tokio|serde_json|tracing' |
            sed "s|.*|$path: depends on &: the data path does without it.|" || true
    done
}

# Prints what pyflakes finds; its exit code says only that it has found something.
check_python() {
    command -v pyflakes3 >/dev/null || die "pyflakes3 is missing: run scripts/setup.sh lint."
    printf '%s\n' "${files[@]}" | grep -E '\.py$|^benchmarks/(run|gate|profile)$' | xargs pyflakes3 || true
}

use_toolchain
{
    check_lengths
    check_words
    check_machine_paths
    check_sizes
    check_reasons
    check_data_path
    check_python
    python3 scripts/circles.py
    python3 scripts/planted/main.py --patches
} >"$findings"

if [[ -s $findings ]]; then
    cat "$findings"
    die "tidy: $(wc -l <"$findings") findings."
fi
say "tidy: ${#files[@]} files, no findings."
