#!/bin/sh
# Compiles a crate of this workspace with `--cfg shuttle`; cargo calls it with the compiler and its arguments. Other
# projects' crates are compiled without it, so that they are the same for this lane as for the tests.
compiler=$1
shift
exec "$compiler" --cfg shuttle "$@"
