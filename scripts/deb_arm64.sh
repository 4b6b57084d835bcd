# shellcheck shell=bash
# What deb_test.sh checks besides, of a package for 64-bit ARM; sourced there, not run. It uses that script's functions and variables.
#
# Defines `check_contents`, which compares the package with this machine's own, and `check_program`, which compares what the installed
# program does, in its emulator, with what this machine's program does.

# Debian 12 has the oldest C library and the oldest tools that the package is for.
suites=(bookworm)
# Histories of faults, and their first seed: whole lives of arrays, with parity, in virtual time.
histories=1..60
# How often two arrays are made at once until both are of the same second.
attempts=30

# The C library of Debian 12.
glibc_max=2.36

own_program=$(realpath "$(release_program)")

# own ARGUMENT...: runs this machine's own program.
own() { "$own_program" "$@"; }

check_processor() {
    local packed=$scratch/arm64/usr/bin/fullstripe asked
    has "the program is for 64-bit ARM" "$(readelf --file-header "$packed")" "AArch64"
    is "the program has no symbols" "$(readelf --sections --wide "$packed" | grep -oE '\.symtab|\.debug_(info|line)' || true)" ""
    asked=$(readelf --version-info --wide "$packed" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -Vu | tail -n 1)
    [[ -n $asked ]] || die "the program asks for no version of the C library, so it is not linked with Debian's."
    at_least "$glibc_max" "$asked" || die "the program asks for version $asked of the C library, and Debian 12 has $glibc_max."
    passed "the program asks for version $asked of the C library at most"
}

check_contents() {
    local package tree wanted
    package=$(DEB_REVISION=1 "$root/packaging/deb.sh" "$own_program" "$scratch/own-package")
    dpkg-deb --raw-extract "$package" "$scratch/own"
    dpkg-deb --raw-extract "$first" "$scratch/arm64"
    check_processor
    wanted="Files own/DEBIAN/control and arm64/DEBIAN/control differ
Files own/DEBIAN/md5sums and arm64/DEBIAN/md5sums differ
Files own/usr/bin/fullstripe and arm64/usr/bin/fullstripe differ"
    is "files differ from this machine's package" "$(cd "$scratch" && diff --recursive --brief own arm64)" "$wanted"
    for tree in own arm64; do
        (cd "$scratch/$tree" && find . -printf '%m %y %p %l\n' | sort) >"$scratch/$tree.names"
        sed -E 's/^(Installed-Size:).*/\1/; s/^(Architecture:) (amd64|arm64)$/\1/' "$scratch/$tree/DEBIAN/control" >"$scratch/$tree.control"
    done
    is "names, modes and links are the same" "$(<"$scratch/arm64.names")" "$(<"$scratch/own.names")"
    is "dpkg is told the same, but for type and size" "$(<"$scratch/arm64.control")" "$(<"$scratch/own.control")"
    is "dpkg is told the type" "$(dpkg-deb --field "$first" Architecture)" arm64
}

# Both programs get the same random number for an array's identity.
same_random_number() {
    printf abcd >"$scratch/number"
    mount --bind "$scratch/number" /dev/urandom
    mount --bind "$scratch/number" "$place/dev/urandom"
}

usual_random_numbers() { umount /dev/urandom "$place/dev/urandom"; }

# make_one WHO OPTION...: has one program make an array; drives=(...) are its files' names. WHO is own or arm64.
make_one() {
    local folder=$place/srv/$1 said=$scratch/said.$1
    rm -rf "$folder"
    mkdir "$folder"
    (cd "$folder" && truncate -s 64M "${drives[@]}")
    if [[ $1 == own ]]; then
        (cd "$folder" && own create vol0 "${@:2}" "${drives[@]}") >"$said" 2>&1
    else
        within env -C "/srv/$1" fullstripe create vol0 "${@:2}" "${drives[@]}" >"$said" 2>&1
    fi || die "no array could be made: $(<"$said")"
}

# made WHO: prints when the array was made.
made() { (cd "$place/srv/$1" && own examine "${drives[0]}") | sed -n 's/^  made: //p'; }

# check_array OPTION...: both programs make this array in the same second; all that they write, and say of it, is the same.
check_array() {
    local attempt maker
    same_random_number
    for ((attempt = 0; attempt < attempts; attempt++)); do
        make_one arm64 "$@" &
        make_one own "$@"
        wait $! || die "the program for 64-bit ARM made no array: see above."
        if [[ $(made arm64) == "$(made own)" ]]; then break; fi
    done
    usual_random_numbers
    [[ $(made own) && $(made arm64) == "$(made own)" ]] || die "in $attempts attempts the arrays were never made in the same second."
    for drive in "${drives[@]}"; do
        cmp "$place/srv/own/$drive" "$place/srv/arm64/$drive" || die "$drive of an array with $* differs."
    done
    is "an array with $* is summed up alike" "$(<"$scratch/said.arm64")" "$(<"$scratch/said.own")"
    for maker in own arm64; do
        is "examine says the same of it" "$(within env -C "/srv/$maker" fullstripe examine "${drives[@]}")" \
            "$(cd "$place/srv/$maker" && own examine "${drives[@]}")"
        is "assemble says the same of it" "$(within env -C "/srv/$maker" fullstripe assemble "${drives[@]}")" \
            "$(cd "$place/srv/$maker" && own assemble "${drives[@]}")"
    done
}

# The emulator has no io_uring, so nothing is served in it. The program has to say so in one sentence.
check_serving() {
    local drives=(0 1 2 3)
    fails "$scratch/said" within env -C /srv/arm64 fullstripe serve "${drives[@]}"
    is "serving in the emulator is refused in one line" "$(wc -l <"$scratch/said")" 1
    has "the reason is named" "$(<"$scratch/said")" "this machine offers no usable io_uring: "
}

check_program() {
    local drives=(0 1) level
    check_array --level 1
    drives=(0 1 2 3)
    for level in 0 10 5; do check_array --level "$level" --chunk 64k; done
    is "histories of faults go the same way" "$(within fullstripe sim faults --seeds "$histories" --json)" \
        "$(own sim faults --seeds "$histories" --json)"
    is "predictions are the same" "$(within fullstripe sim digest)" "$(own sim digest)"
    check_serving
    rm -r "$place/srv/own" "$place/srv/arm64"
}
