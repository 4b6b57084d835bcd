#!/usr/bin/env bash
# Plants bugs one by one and shows which test or history finds each. For the options see planted/main.py.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

use_toolchain
"$root/scripts/setup.sh" build
exec "$root/scripts/planted/main.py" "$@"
