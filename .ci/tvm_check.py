"""Asks Apache TVM whether what Daylight printed is the function that TVM had printed.

    tvm_check.py ORIGINALS PRINTED

For each .py file below ORIGINALS, every file of the same name below a folder of PRINTED must parse, and the
two functions must be structurally equal. Originals that TVM itself cannot read back are listed and left
out. Needs apache-tvm==0.27.0.post1 (with apache-tvm-ffi==0.1.14.post1: later ones crash with it).
Exit code 1 when anything differs.
"""
import pathlib
import sys

import tvm
from tvm.ir import assert_structural_equal

WANTED = "0.27.0.post1"


def parse(path):
    return tvm.script.from_source(path.read_text())


def first_line(error):
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1][:200] if lines else repr(error)


def check(original, printed):
    """One sentence when the printed file is not the original function, else None."""
    try:
        again = parse(printed)
    except Exception as error:  # TVM raises many kinds
        return f"TVM cannot read it: {first_line(error)}"
    try:
        assert_structural_equal(original, again)
    except ValueError as error:
        return f"TVM reads another function: {first_line(error)}"
    return None


def main(originals, printed):
    if tvm.__version__ != WANTED:
        sys.exit(f"this check needs apache-tvm=={WANTED}, not {tvm.__version__}")
    equal, wrong, unreadable = 0, [], []
    for path in sorted(originals.rglob("*.py")):
        name = path.relative_to(originals)
        try:
            original = parse(path)
        except Exception as error:
            unreadable.append(f"{name}: {first_line(error)}")
            continue
        for folder in sorted(p for p in printed.iterdir() if p.is_dir()):
            complaint = check(original, folder / name)
            if complaint:
                wrong.append(f"{folder.name}/{name}: {complaint}")
            else:
                equal += 1
    for line in unreadable:
        print("left out, TVM cannot read its own text:", line)
    for line in wrong:
        print("WRONG:", line)
    print(f"{equal} equal, {len(wrong)} wrong, {len(unreadable)} left out")
    return 1 if wrong or equal == 0 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))
