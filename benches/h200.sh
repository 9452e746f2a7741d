#!/usr/bin/env bash
# Tunes the benchmark functions on the GPU of this machine, compiles the winners and times them with
# PyTorch and torch.compile under one clock.
#
#   benches/h200.sh DAYLIGHT OUT [TRIALS] [DLIGHT_CSV]
#
# DAYLIGHT is a release build of the command; OUT receives the log, one JSON line per function with the
# tuning figures, the kernels, and the table. Needs an NVIDIA GPU, its driver, NVRTC, and PyTorch for
# the table. tuning-logs/README.md says which GPU the log of this repository was gathered on.
set -euo pipefail
daylight=$(realpath "$1")
out=$2
trials=${3:-128}
dlight=${4:-}
cd "$(dirname "$0")/.."
mkdir -p "$out"
"$daylight" doctor | tee "$out/doctor.txt"
functions=(benches/workloads/*.py)
"$daylight" tune "${functions[@]}" --device cuda:0 --log "$out/log" --trials "$trials" --json \
    > "$out/tune.jsonl" 2> "$out/tune.txt" || { tail -40 "$out/tune.txt"; exit 1; }
target=$(sed -n 's/.*"target": *"\(cuda:[a-z0-9_]*\)".*/\1/p' "$out/tune.jsonl" | head -1)
for function in "${functions[@]}"; do
    name=$(basename "$function" .py)
    "$daylight" apply-best "$function" --log "$out/log" --target "$target" --out "$out/kernels/$name" > /dev/null
done
python3 benches/one_clock.py --kernels "$out/kernels" --csv "$out/one_clock.csv" ${dlight:+--dlight "$dlight"} \
    | tee "$out/one_clock.txt"
