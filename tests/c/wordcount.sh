#!/bin/sh
# wordcount.sh PROGRAM - examples/c/wordcount against cat, tr, sort and uniq, for several numbers of CPUs and reducers and sizes of chunks.
set -eu
SK_EMULATOR=${SK_EMULATOR:-} # what runs the programs, if this machine cannot
export LC_ALL=C
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
data=$dir/data
mkdir "$data" "$data/not_a_file"
i=0
for f in "$(dirname "$0")"/*.c; do # names and sizes of all kinds
    i=$((i + 1))
    cp "$f" "$data/$i-$(basename "$f")"
done
: > "$data/empty"
printf 'no newline at the end' > "$data/a"
printf 'Words IN words, at\tthe Edges: end' > "$data/b"
printf '   ...  ' > "$data/only_gaps"
head -c 30000 /dev/zero | tr '\0' 'x' > "$data/one_long_word"
printf 'caf\303\251 CAF\303\251 na\303\257ve\377\200' > "$data/bytes"

for f in "$data"/*; do
    if [ -f "$f" ]; then cat "$f"; echo; fi
done | tr -cs 'A-Za-z\200-\377' '\n' | tr A-Z a-z | grep . > "$dir/words"
{
    printf '%10d \n' "$(wc -l < "$dir/words")"
    sort "$dir/words" | uniq -c | sort -k1,1nr -k2,2 | head -20 | while read -r n w; do printf '%10d %s\n' "$n" "$w"; done
} > "$dir/want"

for args in "2" "1 1" "2 7 100000" "4 3 1000" "2 2 97"; do
    # shellcheck disable=SC2086
    $SK_EMULATOR "$1" "$data" $args > "$dir/got" 2> "$dir/err" || { cat "$dir/err"; exit 1; }
    diff "$dir/want" "$dir/got" || { echo "wordcount $args differs"; exit 1; }
done
mkdir "$dir/nothing"
[ -z "$($SK_EMULATOR "$1" "$dir/nothing" 2> /dev/null)" ]
if $SK_EMULATOR "$1" "$dir/no_such_folder" 2> /dev/null; then exit 1; fi
echo "5 runs equal, $(wc -l < "$dir/words") words"
