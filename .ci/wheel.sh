#!/usr/bin/env bash
# Builds the wheel as `pip install .` does, installs it into an empty folder, and runs the Python tests on that.
#
#   wheel.sh PYTHON OUT    PYTHON with pip, which gets maturin and mypy; OUT a folder that is made anew
#
# The profile is that of `cargo build --release`: what that has compiled is not compiled again.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1 out=$2
if ! "$python" -c "import maturin, mypy, ml_dtypes, numpy" 2> /dev/null; then
    "$python" -m pip install -q "maturin==1.16.0" "mypy==2.4.1" numpy ml_dtypes
fi
bin=$(dirname "$(command -v "$python")")
"$python" -m mypy
rm -rf "$out"
mkdir -p "$out"
PATH="$bin:$PATH" "$python" -m pip wheel -q --no-build-isolation --no-deps --wheel-dir "$out" .
"$python" -m pip install -q --no-deps --target "$out/site" "$out"/daylight-*.whl
# The tests find the package, and the package its command, in that folder alone.
PYTHONPATH="$PWD/$out/site" PYTHONDONTWRITEBYTECODE=1 "$python" -m unittest discover -s python/tests
PYTHONPATH="$PWD/$out/site" "$python" -c "
import daylight, daylight.command, pathlib
site = pathlib.Path('$out/site').resolve()
assert pathlib.Path(daylight.__file__).is_relative_to(site), daylight.__file__
assert pathlib.Path(daylight.command.find()).is_relative_to(site), daylight.command.find()
assert (site / 'daylight/py.typed').exists() and (site / 'daylight/cpu/runtime.c').exists()
"
