#!/usr/bin/env bash
# Builds a Debian package of the program: fullstripe_VERSION_ARCHITECTURE.deb.
#
# usage: packaging/deb.sh PROGRAM [OUTPUT-FOLDER]
#
# PROGRAM is the built binary; the package gets a copy without symbols. The package is put into OUTPUT-FOLDER (default: here),
# and its path is printed. Needed are dpkg-deb, which every Debian has, and readelf and strip, which every C compiler needs.
#
# The program writes its manual pages and completions itself. If it is for another processor type than this machine's, an emulator
# runs it, and the tools for that type are needed: Debian has them in the packages gcc-aarch64-linux-gnu and qemu-user-static.
#
# The version is that of Cargo.toml with the revision DEB_REVISION (default 1). DEB_MAINTAINER is who answers for the package,
# "NAME <ADDRESS>". The same program gives the same bytes: all times in the package are SOURCE_DATE_EPOCH, or if that is not
# set, the time of the last commit.
set -euo pipefail
umask 022
export LC_ALL=C

# The C library of Debian 12, the oldest Debian that the package is for.
oldest_glibc=2.36

die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

program=${1:?"name the built binary: packaging/deb.sh PROGRAM [OUTPUT-FOLDER]"}
output=${2:-.}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/.." && pwd)

[[ -f $program && -x $program ]] || die "$program is not a program; 'make build' makes target/release/fullstripe."
for tool in dpkg-deb readelf gzip md5sum; do
    command -v "$tool" >/dev/null || die "$tool is missing; install dpkg, binutils, gzip and coreutils."
done
program=$(realpath "$program")

# Prints the version of the workspace as a Debian version: a pre-release of Cargo's (1.0.0-rc.1) comes before its release.
version() {
    local cargo
    cargo=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
    [[ -n $cargo ]] || die "$root/Cargo.toml names no version."
    printf '%s-%s\n' "${cargo/-/\~}" "${DEB_REVISION:-1}"
}

# Prints Debian's name for the processor type of the program.
architecture() {
    local machine
    machine=$(readelf --file-header "$program" 2>/dev/null | sed -n 's/^ *Machine: *//p')
    case $machine in
    *X86-64) echo amd64 ;;
    AArch64) echo arm64 ;;
    *) die "$program is for the processor type '${machine:-unknown}'; packages are made of programs for x86-64 and 64-bit ARM." ;;
    esac
}

# Fills `strip`, which takes symbols away, and `run`, which runs the program here.
choose_tools() {
    local processor package
    case $architecture in
    amd64) processor=x86_64 ;;
    arm64) processor=aarch64 ;;
    esac
    strip=strip package=binutils
    run=("$program")
    if [[ $(uname -m) != "$processor" ]]; then
        strip=$processor-linux-gnu-strip package=binutils-${processor/_/-}-linux-gnu
        run=("qemu-$processor-static" -L "/usr/$processor-linux-gnu" "$program")
        command -v "${run[0]}" >/dev/null || die "${run[0]} is missing, which runs $program here; install qemu-user-static."
    fi
    command -v "$strip" >/dev/null || die "$strip is missing; install the package $package."
}

# Prints the packages that have the libraries that the program loads, as a list for `Depends`. Nothing for a program that is
# linked statically. Debian 12 and 13 have these two libraries under these names.
depends() {
    local library newest found=()
    while read -r library; do
        case $library in
        libc.so.6 | libm.so.6 | ld-linux-*.so.*) found+=("libc6 (>= $oldest_glibc)") ;;
        libgcc_s.so.1) found+=("libgcc-s1") ;;
        *) die "$program needs the library $library, of which packaging/deb.sh does not know the package; add it there." ;;
        esac
    done < <(readelf --dynamic --wide "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
    newest=$(readelf --version-info --wide "$program" | grep -o 'Name: GLIBC_[0-9.]*' | sed 's/.*_//' | sort -V | tail -n 1)
    if [[ -n $newest && $(printf '%s\n' "$newest" "$oldest_glibc" | sort -V | tail -n 1) != "$oldest_glibc" ]]; then
        die "$program needs version $newest of the C library, but Debian 12 has $oldest_glibc;" \
            "build it on Debian 12, or package a program that 'make prebuilt' makes."
    fi
    if [[ ${#found[@]} -gt 0 ]]; then printf '%s\n' "${found[@]}" | sort -u | paste -sd, | sed 's/,/, /g'; fi
}

if [[ -z ${SOURCE_DATE_EPOCH:-} ]]; then
    SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct 2>/dev/null) ||
        die "there is no commit to take the time of the package from; set SOURCE_DATE_EPOCH."
fi
export SOURCE_DATE_EPOCH

version=$(version)
architecture=$(architecture)
choose_tools
depends=$(depends)
maintainer=${DEB_MAINTAINER:-the fullstripe contributors <fullstripe@users.noreply.github.com>}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tree=$scratch/tree
shared=$tree/usr/share
documents=$shared/doc/fullstripe

# compress FILE...: as Debian's policy wants it, without name and time in the archive.
compress() { gzip -9n "$@"; }

# What install.sh puts into a system, with a program without symbols.
put_program() {
    "$strip" --strip-all --remove-section=.comment -o "$scratch/fullstripe" "$program"
    "$here/install.sh" "$scratch/fullstripe" "$tree"
}

put_manual() {
    "${run[@]}" man "$shared/man/man1" || die "$program cannot write its manual pages here: see above."
    compress "$shared/man/man1"/*.1
}

put_completions() {
    mkdir -p "$shared"/{bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
    "${run[@]}" completions bash >"$shared/bash-completion/completions/fullstripe"
    "${run[@]}" completions zsh >"$shared/zsh/vendor-completions/_fullstripe"
    "${run[@]}" completions fish >"$shared/fish/vendor_completions.d/fullstripe.fish"
}

put_documents() {
    mkdir -p "$documents" "$shared/lintian/overrides"
    { cat "$here/debian/copyright" && sed 's/^$/./; s/^/ /' "$root/LICENSE-MIT"; } >"$documents/copyright"
    cp "$root/CHANGELOG.md" "$documents/changelog"
    cat >"$documents/changelog.Debian" <<END
fullstripe ($version) unstable; urgency=medium

  * Package of this version; changelog.gz says what is new in it.

 -- $maintainer  $(date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")
END
    compress "$documents/changelog" "$documents/changelog.Debian"
    cp "$here/debian/lintian-overrides" "$shared/lintian/overrides/fullstripe"
}

# Everything dpkg has to know; the program's files have to be there.
put_control() {
    local bytes
    bytes=$(find "$tree" -type f -printf '%s\n' | awk '{ sum += int(($1 + 1023) / 1024) } END { print sum }')
    mkdir "$tree/DEBIAN"
    (cd "$tree" && find . -path ./DEBIAN -prune -o -type f -printf '%P\n' | sort | xargs -d '\n' md5sum) >"$tree/DEBIAN/md5sums"
    install --mode 755 "$here"/debian/{postinst,prerm,postrm} "$tree/DEBIAN/"
    {
        printf 'Package: fullstripe\nVersion: %s\nArchitecture: %s\n' "$version" "$architecture"
        printf 'Maintainer: %s\nInstalled-Size: %s\n' "$maintainer" "$bytes"
        if [[ -n $depends ]]; then printf 'Depends: %s\n' "$depends"; fi
        cat "$here/debian/control"
    } >"$tree/DEBIAN/control"
}

put_program
put_manual
put_completions
put_documents
put_control
chmod -R u=rwX,go=rX "$tree"
find "$tree" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
mkdir -p "$output"
package=$output/fullstripe_${version}_$architecture.deb
# One thread, because the number of threads may change how the archive is cut into blocks.
dpkg-deb --build --root-owner-group -Zxz --threads-max=1 "$tree" "$package" >"$scratch/said" ||
    die "dpkg-deb could not build the package: see above."
printf '%s\n' "$package"
