#!/bin/sh
# examples.sh BIN - programs of examples/c against awk, seq and cat.
set -eu
SK_EMULATOR=${SK_EMULATOR:-} # what runs the programs, if this machine cannot
export LC_ALL=C
dir=$(mktemp -d)
server= # a program in the background
trap '[ -z "$server" ] || kill "$server"; rm -rf "$dir"' EXIT
run() { # PROGRAM [ARG ...]
    program=$1
    shift
    # shellcheck disable=SC2086
    $SK_EMULATOR "$bin/$program" "$@" > "$dir/got" 2> "$dir/err"
}
bin=$1

seq 0 299999 | awk '{ print ($1 * $1) % 37 "," $1 % 1000 / 4 }' > "$dir/sales.csv" # three units
awk -F, '{ net[$1] += $2 / 1.25 } END { for (s in net) printf "%d %.2f\n", s, net[s] }' "$dir/sales.csv" |
    sort -k2,2nr > "$dir/want"
run pipeline "$dir/sales.csv"
sort -k2,2nr "$dir/got" | diff "$dir/want" -
sort -c -k2,2nr -s "$dir/got"
printf '1,2\n3;4\n' > "$dir/bad.csv"
if run pipeline "$dir/bad.csv"; then exit 1; fi
grep -q "bad.csv: no store,amount at byte" "$dir/err"

seq 0 29999 | awk '{ c = ($1 * $1) % 1009; if (c < 500) n[c % 7] += 100 + $1 % 13 } END { for (c in n) print c, n[c] }' |
    sort -n > "$dir/want"
run join 30000 500
diff "$dir/want" "$dir/got"

run actors 512000 2
echo 32640000.0 | diff - "$dir/got" # 2000 times 0.5 * (0 + ... + 255)

mkdir "$dir/out"
run write "$dir/out" 200000
seq 0 199999 > "$dir/want"
cat "$dir/out"/part-* | diff "$dir/want" -
[ -z "$(find "$dir/out" -name 'tmp-*')" ]
if run write "$dir/no_such_folder"; then exit 1; fi
grep -q "cannot write" "$dir/err"

run graph 100
echo 5550 | diff - "$dir/got" # 0 + ... + 99, and 100 times 1 + 2 + 3

mkfifo "$dir/ready"
# shellcheck disable=SC2086
$SK_EMULATOR "$bin/events" "$dir/socket" > "$dir/ready" &
server=$!
read -r _ < "$dir/ready" # the server listens
run events "$dir/socket" 100 1000 -5 10000 &
run2=$!
$SK_EMULATOR "$bin/events" "$dir/socket" 20000 2 3 | sort -n > "$dir/other"
wait "$run2"
printf '%s\n' '-5: -5 is negative' '100: 25' '1000: 168' '10000: 1229' > "$dir/want"
sort -n "$dir/got" | diff "$dir/want" -
printf '%s\n' '2: 0' '3: 1' '20000: 2262' | diff - "$dir/other"
run events "$dir/socket" 0 # the server's end
wait "$server"
server=
[ ! -e "$dir/socket" ]
echo "pipeline, join, actors, write, graph and events are right"
