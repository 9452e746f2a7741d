#!/usr/bin/env bash
# Builds the book, follows its links, and runs the commands of README and book; checks JSON against its schemas.
#
#   book.sh DAYLIGHT PYTHON TOOLS    DAYLIGHT a release build, PYTHON with TVM, TOOLS a folder that is kept between runs
#
# The first run installs mdBook, in one to three minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
daylight=$1 python=$2 tools=$3
version=0.5.4
if [ "$("$tools/bin/mdbook" --version 2> /dev/null)" != "mdbook v$version" ]; then
    CARGO_TARGET_DIR="$tools/mdbook-build" cargo install mdbook --version "$version" --locked --quiet \
        --no-default-features --features search --root "$tools"
    rm -rf "$tools/mdbook-build"
fi
if ! "$python" -c "import jsonschema, onnx" 2> /dev/null; then
    "$python" -m pip install -q "jsonschema==4.26.0" "onnx==1.23.2"
fi
book=${CARGO_TARGET_DIR:-$PWD/target}/book
"$tools/bin/mdbook" build docs --dest-dir "$book"
"$python" .ci/book.py links "$book"
"$python" .ci/schema_check.py "$daylight"
"$python" .ci/book.py run "$daylight" "$python"
# What the README's line has installed.
installed=${CARGO_TARGET_DIR:-$PWD/target}/ci-install/bin/daylight
"$installed" --version
"$installed" completions bash | bash -n
