#!/bin/sh
# cloudsort.sh DIR - the tools of DIR (build/<preset>/bin) from end to end: what gensort makes, cloudsort sorts and valsort finds in order.
set -eu
SK_EMULATOR=${SK_EMULATOR:-} # what runs the programs, if this machine cannot
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/out"
made=$($SK_EMULATOR "$1/gensort" -c 50000 "$dir/in" 2>&1)
$SK_EMULATOR "$1/cloudsort" -t 2 -p 1m "$dir/out" "$dir/in" > "$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
cat "$dir"/out/part-* > "$dir/all"
$SK_EMULATOR "$1/valsort" "$dir/all" > "$dir/checked" 2>&1 || { cat "$dir/checked"; exit 1; }
grep -q "$made" "$dir/checked" || { echo "checksum $made of the input is not in:"; cat "$dir/checked"; exit 1; }
if $SK_EMULATOR "$1/valsort" -q "$dir/in"; then echo "valsort takes the input for sorted"; exit 1; fi
echo "50000 records, $made"
