"""Asks Apache TVM to read the tile programs that Daylight printed.

    tvm_tile_check.py PRINTED

PRINTED holds the folders `display` and `canonical`, with both prints of each program: TVM must read both, as
structurally equal functions. Names of layouts and of their axes are those that `from tvm.tirx.layout import *`
means. Prints that hold what TVM 0.27 spells otherwise (swizzled layouts: `ComposeLayout(3, 3, 3, tile)`) are listed
and left out. Needs the TVM that tvm_check.py needs. Exit code 1 when anything differs.
"""
import pathlib
import sys

import tvm
from tvm.ir import assert_structural_equal
from tvm.script import tirx
from tvm.tirx import layout
from tvm_check import WANTED, first_line

AXES = ["laneid", "warpid", "wid_in_wg", "wgid", "tid_in_wg", "tx"]
ELSEWHERE = "SwizzleLayout("


def names():
    found = {name: value for name, value in vars(layout).items() if not name.startswith("_")}
    found.update({name: getattr(layout, name) for name in AXES})
    return {**found, "T": tirx, "Tx": tirx}


def check(texts):
    """One sentence when TVM cannot read the prints as one function, else None."""
    try:
        first, second = [tvm.script.from_source(text, extra_vars=names()) for text in texts]
        assert_structural_equal(first, second)
    except Exception as error:  # TVM raises many kinds
        return first_line(error)
    return None


def main(printed):
    if tvm.__version__ != WANTED:
        sys.exit(f"this check needs apache-tvm=={WANTED}, not {tvm.__version__}")
    read, wrong, left = 0, [], []
    for path in sorted((printed / "display").rglob("*.py")):
        texts = [path.read_text(), (printed / "canonical" / path.name).read_text()]
        if ELSEWHERE in texts[0]:
            left.append(path.name)
            continue
        complaint = check(texts)
        if complaint:
            wrong.append(f"{path.name}: {complaint}")
        else:
            read += 1
    for name in left:
        print("left out, TVM spells its layouts otherwise:", name)
    for line in wrong:
        print("WRONG:", line)
    print(f"{read} read, {len(wrong)} wrong, {len(left)} left out")
    return 1 if wrong or read == 0 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
