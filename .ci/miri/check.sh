#!/usr/bin/env bash
# check.sh DAYLIGHT FOLDER: the unsafe Rust of a package, executed by Miri with stand-ins for its kernels.
set -euo pipefail
here="$(dirname "$0")"
daylight="$(realpath "$1")"
folder="$2"
if ! cargo +nightly miri --version > /dev/null 2>&1; then
    rustup toolchain install nightly --profile minimal --component miri --component rust-src
fi
rm -rf "$folder"
mkdir -p "$folder/src" "$folder/tests"
touch "$folder/log.jsonl"
"$daylight" apply-best "$here/functions.py" --log "$folder/log.jsonl" --target cpu:x86-64-v3 --rayon --out "$folder/package" 2> "$folder/said.txt" \
    || { cat "$folder/said.txt"; exit 1; }
cp "$folder/package/kernels.rs" "$folder/src/lib.rs"
cp "$here/tests.rs" "$folder/tests/tests.rs"
for kernel in scaled_k0 centred_k0 centred_k1; do
    symbol=$(grep -o "dl_[0-9a-z_]*_$kernel" "$folder/src/lib.rs" | head -1)
    sed -i "s/SYMBOL_$kernel/$symbol/" "$folder/tests/tests.rs"
done
cat > "$folder/Cargo.toml" << 'TOML'
[workspace]

[package]
name = "miri_kernels"
version = "0.0.0"
edition = "2024"

[dependencies]
rayon = "1.11.0"
TOML
cd "$folder"
# Pointers cross threads as numbers; rayon's own queues need tree borrows, and its threads end after the program.
export MIRIFLAGS="-Zmiri-permissive-provenance -Zmiri-tree-borrows -Zmiri-disable-isolation -Zmiri-ignore-leaks"
export RUSTFLAGS="-C target-cpu=x86-64-v3"
cargo +nightly miri test
