#!/usr/bin/env bash
# Compares which candidates two logs hold: same_keys.sh DAYLIGHT LOG LOG. Times are not compared.
set -euo pipefail
daylight=$1

keys() {
    "$daylight" log show "$1" --json 2>/dev/null | python3 -c '
import json, sys
records = map(json.loads, sys.stdin)
keys = {json.dumps([r["workload"]["key"], r["bind"], r["rule"], r["knobs"]], sort_keys=True) for r in records}
print("\n".join(sorted(keys)))'
}

diff <(keys "$2") <(keys "$3") || { echo "$2 and $3 hold different candidates" >&2; exit 1; }
echo "$2 and $3 hold the same $(keys "$2" | wc -l) candidates"
