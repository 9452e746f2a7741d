"""Crates that Daylight uses: licences of a list, from the registry alone, with checksums in Cargo.lock, none yanked; and
the packages that Daylight is itself, which are no larger than 3.5 MiB.

What `cargo deny check licenses sources` asks, without its database, which not every machine reaches.
"""

import json
import pathlib
import re
import subprocess
import sys

ALLOWED = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "ISC", "MIT",
    "Unicode-3.0", "Unlicense", "Zlib",
}


def allowed(expression):
    """SPDX: every part of an `AND` has a choice in the list; `/` is an old way to write `OR`."""
    parts = re.sub(r"[()]", "", expression.replace("/", " OR ")).split(" AND ")
    return all(any(choice.strip() in ALLOWED for choice in part.split(" OR ")) for part in parts)


def main():
    metadata = ["cargo", "metadata", "--format-version", "1", "--locked"]
    packages = json.loads(subprocess.run(metadata, check=True, capture_output=True).stdout)["packages"]
    locked = open("Cargo.lock").read().split("[[package]]")
    wrong = []
    for p in packages:
        name = f"{p['name']} {p['version']}"
        if not p["license"] or not allowed(p["license"]):
            wrong.append(f"{name}: licence {p['license']}")
        if p["source"] is None:
            continue
        if not p["source"].startswith("registry+"):
            wrong.append(f"{name}: from {p['source']}")
        entry = f'name = "{p["name"]}"\nversion = "{p["version"]}"'
        if not any(entry in e and "\nchecksum = " in e for e in locked):
            wrong.append(f"{name}: no checksum in Cargo.lock")
    package = ["cargo", "package", "--workspace", "--locked", "--no-verify", "--allow-dirty"]
    package += ["--target-dir", "target/ci-package"]
    said = subprocess.run(package, check=True, capture_output=True, text=True).stderr
    wrong += [line for line in said.splitlines() if "yanked" in line]
    size = sum(p.stat().st_size for p in pathlib.Path("target/ci-package/package").glob("*.crate"))
    if not 0 < size <= 7 << 19:
        wrong.append(f"the packages have {size} bytes")
    print("\n".join(wrong) or f"{len(packages)} crates: licences, sources and checksums are as they should be")
    return bool(wrong)


sys.exit(main())
