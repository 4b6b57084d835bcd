#!/usr/bin/env bash
# Builds the Python package and tests it as users get it: installed by pip into fresh environments.
#
# usage: scripts/wheel.sh [build|test|sweep]
#
#   build   the wheel, in target/wheel/dist (the default)
#   test    the wheel; the README's example with nothing but the wheel and what it needs; types, docstrings and all tests
#   sweep   the wheel, and a sweep of ten thousand points: tens of minutes
#
# The last line of test and sweep is pytest's.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$root/scripts/progress.sh"

selection=${1:-build}
case $selection in
build | test | sweep) ;;
*) die "unknown selection '$selection': use build, test or sweep." ;;
esac

use_toolchain
"$root/scripts/setup.sh" wheel
folder=${CARGO_TARGET_DIR:-$root/target}/wheel
mkdir -p "$folder"

# environment NAME PACKAGE...: a fresh environment of Python with these packages.
environment() {
    local path=$folder/$1
    shift
    python3 -m venv --clear "$path"
    "$path/bin/pip" install --quiet --disable-pip-version-check "$@"
}

# The README's example: the first block of Python in it.
readme_example() {
    awk '/^```python$/ { inside = 1; next } /^```$/ && inside { exit } inside' "$root/README.md"
}

rm -rf "$folder/dist"
if [[ ! -x $folder/tools/bin/maturin ]]; then environment tools 'maturin>=1.9.4,<2'; fi
build() { cd "$root/python" && "$folder/tools/bin/maturin" build "${cargo_lock_options[@]}" --out "$folder/dist"; }
waiting_for "building the wheel" "$folder/build.log" build || {
    tail -n 40 "$folder/build.log" >&2
    die "the wheel could not be built (the end of what maturin said is above)."
}
wheel=$(echo "$folder"/dist/fullstripe-*.whl)
say "built $wheel"
[[ $selection != build ]] || exit 0

if [[ $selection == test ]]; then
    say "the README's example, in an environment with nothing else:"
    environment fresh "$wheel"
    readme_example >"$folder/example.py"
    [[ -s $folder/example.py ]] || die "README.md has no example in Python."
    (cd "$folder" && ./fresh/bin/python example.py)
fi

environment tests "$wheel[test]"
# Not from python/, whose source has no compiled half.
cd "$folder"
if [[ $selection == test ]]; then
    FULLSTRIPE=${FULLSTRIPE:-$(release_program)}
    export FULLSTRIPE
    ./tests/bin/mypy --config-file "$root/python/pyproject.toml" --package fullstripe
    ./tests/bin/mypy --strict --ignore-missing-imports --allow-untyped-calls "$root/python/tests"
    exec ./tests/bin/pytest --config-file "$root/python/pyproject.toml" -p no:cacheprovider "$root/python/tests"
fi
exec ./tests/bin/pytest --config-file "$root/python/pyproject.toml" -p no:cacheprovider -m whole -s "$root/python/tests/test_sweep.py"
