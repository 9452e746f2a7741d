"""Holds what the command prints and writes now, and the committed logs, to the schemas of docs/schemas.

    schema_check.py DAYLIGHT

A schema knows every field, and every field that it knows is seen; a document with a field less or one more is refused. Needs
jsonschema. Exit code 1 when anything differs.
"""
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKLOADS = ROOT / "tests/workloads"
CONSUMER = ROOT / "examples/consumer"
# Kernels with tensor maps and with workspaces.
WINNERS = [ROOT / f"benches/workloads/{name}.py" for name in ("matmul-4096x4096x4096-bf16", "sum_all-67108864-f32")]
# What is not seen: without a GPU tile variants of a function that was tuned; samples that are no short numbers.
NEVER = {"tune": {"call", "op", "variant"}}
# What a document may be without; of a short record, everything that has a usual value.
OPTIONAL = {"rules", "when", "state", "score", "warnings", "work", "run", "compile", "launches"}
SHORT = {"reason", "src", "cubin", "res", "err", "round", "default", "clocks", "score", "warned", "variants", "trace", "launches"}
# A step: two calls at known sizes, one that is refused, an operator, a function that nothing calls.
FUNCTION = """
    @T.prim_func(s_tir=True)
    def {name}(x: T.Buffer((n, 8), "float32"), y: T.Buffer((n, 8), "float32")):
        for i, j in T.grid(n, T.int64(8)):
            with T.sblock("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = {value}
"""
MODULE = (
    'n = TypeVar("n")\n@I.ir_module\nclass Module:'
    + FUNCTION.format(name="double", value="x[vi, vj] * T.float32(2)")
    + FUNCTION.format(name="refused", value='T.call_extern("float32", "f", x[vi, vj])')
    + FUNCTION.format(name="idle", value="x[vi, vj]")
    + """
    @R.function
    def main(x: R.Tensor((n, 8), dtype="float32"), z: R.Tensor((4, 8), dtype="float32")):
        cls = Module
        a = R.call_tir(cls.double, (x,), out_ty=R.Tensor((n, 8), dtype="float32"))
        b = R.call_tir(cls.double, (z,), out_ty=R.Tensor((4, 8), dtype="float32"))
        c = R.call_tir(cls.refused, (x,), out_ty=R.Tensor((n, 8), dtype="float32"))
        d: R.Tensor((n, 8), dtype="float32") = R.add(a, c)
        return d
"""
)


def command(daylight, folder, *words):
    """Standard output of the command, whatever its exit code: refusals are output too."""
    done = subprocess.run([daylight, *map(str, words)], cwd=folder, capture_output=True, text=True)
    if done.returncode > 3:
        sys.exit(f"daylight {' '.join(map(str, words))}\n{done.stderr}")
    return done.stdout


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def documents(daylight, folder):
    """Documents by schema."""
    (folder / "torch.py").write_text("def forward(x):\n    return x\n")
    (folder / "n.py").write_text((ROOT / "examples/consumer/kernels/scale_rows.py").read_text())
    mean, small = ROOT / "examples/mean.py", folder / "n.py"

    def daylight_json(*words):
        return lines(command(daylight, folder, *words, "--json"))

    check = daylight_json("check", WORKLOADS, ROOT / "examples", folder)
    explained = daylight_json("explain", mean, WORKLOADS / "transpose", ROOT / "examples/row_sums.py", "--target", "cuda:sm_90a")
    explained += daylight_json("explain", mean, ROOT / "examples/row_sums.py", "--target", "cuda:sm_90a", "--emit", "cuda")
    cpu = ["--device", "cpu", "--trials", 3, "--log", "log"]
    tune = daylight_json("tune", mean, small, "torch.py", "--bind", "n=1,64", *cpu)
    tune += daylight_json("tune", mean, *cpu)
    # Some of its candidates are pruned, each by a predicate.
    tune += daylight_json("tune", WORKLOADS / "transpose", *cpu[:2], "--trials", 40, "--time-limit", 2, "--log", "more")
    tune += daylight_json("tune", mean, "--target", "cuda:sm_100a", "--no-measure", "--trials", 2, "--log", "log")
    (folder / "module.py").write_text(MODULE)
    steps = daylight_json("import", "module.py", "--bind", "n=2")
    steps += daylight_json("import", "module.py", "--bind", "n=2", *cpu)
    steps += daylight_json("import", "module.py")
    new = daylight_json("new", "sum", "--shape", "n,8") + daylight_json("new", "mean", "--shape", "8", "--out", "mean.py")
    gpus = ["--log", ROOT / "tuning-logs", "--target", "cuda:sm_90a"]
    command(daylight, folder, "apply-best", *WINNERS, *gpus, "--out", "a")
    command(daylight, folder, "apply-best", WORKLOADS / "dynamic", "--log", "log", "--target", "cpu,cuda:sm_100a", "--out", "b")
    command(daylight, folder, "apply-best", CONSUMER / "kernels/add_rows.py", "--bind", "rows=1,16,128,1024", "--log",
            CONSUMER / "tuning-logs", "--target", "cpu:x86-64-v3", "--out", "c")
    manifests = [json.loads((folder / out / "manifest.json").read_text()) for out in "abc"]
    written = [p for name in ("log", "more") for p in (folder / name).glob("*.jsonl")]
    records = [json.loads(line) for p in written for line in p.read_text().splitlines()]
    shown = daylight_json("log", "show", "log")
    records = committed() + shown + records
    return {"check": check, "explain": explained, "tune": tune, "import": steps, "new": new, "manifest": manifests, "record": records}


def committed():
    """Lines of the golden logs and of the committed ones: of these every twentieth, and all that the compiler warned of."""
    golden = [line for n in (2, 3) for line in (ROOT / f"tests/golden/log/schema-{n}.jsonl").read_text().splitlines()]
    out = [json.loads(line) for line in golden]
    for path in [*(ROOT / "tuning-logs").glob("*.gz"), *(ROOT / "examples").glob("*/tuning-logs/*.gz")]:
        with gzip.open(path, "rt") as f:
            out += [json.loads(line) for i, line in enumerate(f) if i % 20 == 0 or '"warnings"' in line]
    return out


def fields(schema):
    """Names of the fields of a schema."""
    out = set(schema.get("properties", {}))
    parts = [schema.get("items"), schema.get("additionalProperties")]
    for part in [*schema.get("properties", {}).values(), *schema.get("oneOf", []), *parts, *schema.get("$defs", {}).values()]:
        if isinstance(part, dict):
            out |= fields(part)
    return out


def names(document):
    """Names of the fields of a document."""
    if isinstance(document, dict):
        return set(document).union(*map(names, document.values()))
    return set().union(*map(names, document)) if isinstance(document, list) else set()


def refuses(validator, document):
    """What a schema takes that it should not: the document with a field less, or one more."""
    optional = SHORT if "of" in document else OPTIONAL
    for field in list(document):
        less = {k: v for k, v in document.items() if k != field}
        if validator.is_valid(less) and field not in optional:
            yield f"a document without `{field}`"
    if validator.is_valid({**document, "unknown": 1}):
        yield "a document with a field `unknown`"


def judge(name, found):
    schema = json.loads((ROOT / f"docs/schemas/{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    wrong = []
    for document in found:
        error = jsonschema.exceptions.best_match(validator.iter_errors(document))
        if error:
            wrong.append(f"{name}: {error.json_path}: {error.message[:300]}")
    unseen = fields(schema) - set().union(*map(names, found)) - NEVER.get(name, set())
    wrong += [f"{name}: nothing has the field `{field}`" for field in sorted(unseen)]
    kinds = {tuple(k for k in document if k not in OPTIONAL | SHORT): document for document in reversed(found)}
    wrong += [f"{name}: the schema takes {what}" for document in kinds.values() for what in refuses(validator, document)]
    print(f"{len(found)} documents are as docs/schemas/{name}.schema.json says")
    return wrong


def main(daylight):
    with tempfile.TemporaryDirectory() as folder:
        found = documents(str(pathlib.Path(daylight).resolve()), pathlib.Path(folder))
    wrong = [line for name, of in found.items() for line in judge(name, of)]
    if wrong:
        sys.exit("\n".join(dict.fromkeys(wrong)))


if __name__ == "__main__":
    main(sys.argv[1])
