"""drawn.py --specs DIR/specs.json --kernels KDIR [--dlight DIR] [--runtime DIR] [--csv F]: functions of drawn sizes under one clock, on a CUDA GPU.

DIR/specs.json lists functions (name, family, p: sizes, type, epilogue), KDIR/NAME is what `daylight apply-best` wrote for DIR/NAME.py. Contenders: Daylight,
PyTorch (cuBLAS), torch.compile (max autotune), and TVM dlight where DIR/dlight/NAME.so is given, with libtvm_runtime*.so in --runtime and the package apache-tvm-ffi.
Clock: CUDA events around one call, the L2 cooled by reading 512 MiB, contenders in turns, median. Each result is compared with float64 computed from the same inputs.
Prints a line per function and, last, per family: the geometric mean of (best peer / Daylight), the worst, the number.
"""
import argparse, csv, ctypes, glob, json, math, os, pathlib, re, time
import torch
ap = argparse.ArgumentParser(); ap.add_argument("--specs", required=True); ap.add_argument("--kernels", required=True); ap.add_argument("--dlight", default=""); ap.add_argument("--runtime", default="")
ap.add_argument("--only", default=""); ap.add_argument("--csv", default="unseen.csv"); ap.add_argument("--rounds", type=int, default=40); ap.add_argument("--budget", type=float, default=480); ap.add_argument("--no-compile", action="store_true"); ap.add_argument("--arch", default="sm_90a")
a = ap.parse_args(); T0 = time.time(); torch.manual_seed(1); torch.backends.cuda.matmul.allow_tf32 = False
DT = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}; F = torch.nn.functional
F8 = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "i8": torch.int8}
def rnd(*s, dt):
    if dt == "i8": return torch.randint(-127, 128, s, device="cuda", dtype=torch.int8)
    return torch.randn(*s, device="cuda").to(F8[dt]) if dt in F8 else torch.randn(*s, device="cuda", dtype=DT[dt])
def case(f, p):
    """inputs in parameter order, PyTorch's function, flops, and a nearer rival where PyTorch has no such function"""
    dt = p.get("dt", "f16")
    if f in ("gemv", "lowbatch", "matmul", "squares"):
        m, n, k, ep = p["m"], p["n"], p["k"], p["ep"]; x = [rnd(m, k, dt=dt), rnd(n, k, dt=dt)]; fl = 2 * m * n * k
        if "bias" in ep: x.append(rnd(n, dt=dt))
        if ep == "res": x.append(rnd(m, n, dt=dt))
        fn = {"": lambda x, w: F.linear(x, w), "bias": lambda x, w, b: F.linear(x, w, b), "res": lambda x, w, r: F.linear(x, w) + r, "silu": lambda x, w: F.silu(F.linear(x, w)), "bias_gelu": lambda x, w, b: F.gelu(F.linear(x, w, b))}[ep]
        return x, fn, fl, None
    if f == "bmm":
        b, m, n, k = p["b"], p["m"], p["n"], p["k"]; return [rnd(b, m, k, dt=dt), rnd(b, n, k, dt=dt) if p["nt"] else rnd(b, k, n, dt=dt)], (lambda x, w: x @ w.transpose(1, 2)) if p["nt"] else (lambda x, w: x @ w), 2 * b * m * n * k, None
    if f == "attn_decode":
        h, g, s, d = p["h"], p["g"], p["s"], p["d"]; kv = h // g
        if p["what"] == "qk": return [rnd(h, d, dt=dt), rnd(kv, s, d, dt=dt)], lambda q, k: (q.view(kv, g, d) @ k.transpose(1, 2)).view(h, s), 2 * h * s * d, None
        return [rnd(h, s, dt=dt), rnd(kv, s, d, dt=dt)], lambda q, v: (q.view(kv, g, s) @ v).view(h, d), 2 * h * s * d, None
    if f == "q4":
        m, n, k, g = p["m"], p["n"], p["k"], p["g"]; x = rnd(m, k, dt="f16") / 16; w = torch.randint(-(2**31), 2**31 - 1, (n, k // 8), dtype=torch.int32, device="cuda"); s = rnd(n, k // g, dt="f16") / 8
        def fn(x, w, s): q = (w[:, :, None] >> (4 * torch.arange(8, dtype=torch.int32, device="cuda")) & 15).reshape(n, -1) - 7; return F.linear(x, q.to(x.dtype) * s.to(x.dtype).repeat_interleave(g, 1))
        dense = rnd(n, k, dt="f16"); return [x, w, s], fn, 2 * m * n * k, lambda: F.linear(x, dense)
    if f == "fp8":  # both factors of 8 bits, a scale for each row and column where it says so: cuBLAS with exact and, as the second rival, with fast sums
        m, n, k = p["m"], p["n"], p["k"]; x = [rnd(m, k, dt=p["w"]), rnd(n, k, dt=p["w"])]; one = torch.ones((), device="cuda"); rows = p["ep"] == "rows"
        if rows: x += [torch.rand(m, 1, device="cuda") / 8, torch.rand(1, n, device="cuda") / 8]
        def fn(x, w, a=None, b=None, fast=False):
            if x.dtype == torch.float64: return x @ w.t() * (a * b if rows else 1)
            return torch._scaled_mm(x, w.t(), scale_a=a if rows else one, scale_b=b if rows else one, out_dtype=DT[dt], use_fast_accum=fast)
        return x, fn, 2 * m * n * k, lambda *t: fn(*t, fast=True)
    if f == "w8":  # weights of 8 bits with a scale for each column beside floats; the rival is a dense product
        m, n, k = p["m"], p["n"], p["k"]; x = [rnd(m, k, dt=dt), rnd(n, k, dt=p["w"]), rnd(n, dt=dt) / 64]; dense = rnd(n, k, dt=dt)
        return x, lambda x, w, s: (F.linear(x, w.to(x.dtype)) * s), 2 * m * n * k, lambda *t: F.linear(t[0], dense) * t[2]
    if f in ("sum_last", "sum_first"):
        x = rnd(p["m"], p["n"], dt=dt); ax = 1 if f == "sum_last" else 0
        fn = {"sum": lambda x: x.sum(ax), "mean": lambda x: x.mean(ax), "max": lambda x: x.amax(ax), "l2": lambda x: torch.linalg.vector_norm(x, dim=ax), "lse": lambda x: torch.logsumexp(x, ax)}[p["op"]]; return [x], fn, 0, None
    if f == "sum_mid": return [rnd(p["a"], p["b"], p["c"], dt=dt)], lambda x: x.sum(1), 0, None
    if f == "argmax": return [rnd(p["m"], p["n"], dt=dt)], lambda x: x.argmax(1).int(), 0, None
    if f == "softmax":
        x = [rnd(p["m"], p["n"], dt=dt)]; sm = F.log_softmax if p["log"] else F.softmax
        if p["masked"]: return x + [rnd(p["n"], dt=dt)], lambda x, k: sm(x * 0.125 + k, -1), 0, None
        return x, lambda x: sm(x, -1), 0, None
    if f in ("rms", "ln"):
        m, n = p["m"], p["n"]; x = [rnd(m, n, dt=dt)] + ([rnd(m, n, dt=dt)] if p["res"] else []) + [rnd(n, dt=dt)] + ([rnd(n, dt=dt)] if f == "ln" else [])
        if f == "rms": return x, (lambda x, r, g: F.rms_norm(x + r, (n,), g, 1e-5)) if p["res"] else (lambda x, g: F.rms_norm(x, (n,), g, 1e-5)), 0, None
        return x, (lambda x, r, g, b: F.layer_norm(x + r, (n,), g, b, 1e-5)) if p["res"] else (lambda x, g, b: F.layer_norm(x, (n,), g, b, 1e-5)), 0, None
    if f == "transpose": return [rnd(p["m"], p["n"], dt=dt)], lambda x: x.t().contiguous(), 0, None
    if f == "permute": return [rnd(p["b"], p["s"], p["h"], p["d"], dt=dt)], lambda x: x.permute(0, 2, 1, 3).contiguous(), 0, None
    if f == "gate":
        m, n = p["m"], p["n"]; act = F.silu if p["op"] == "silu" else F.gelu
        if p["joined"]: return [rnd(m, 2 * n, dt=dt)], lambda x: act(x[:, :n]) * x[:, n:], 0, None
        return [rnd(m, n, dt=dt), rnd(m, n, dt=dt)], lambda x, y: act(x) * y, 0, None
    if f == "bias_act": return [rnd(p["m"], p["n"], dt=dt), rnd(p["n"], dt=dt)], lambda x, b: F.gelu(x + b), 0, None
    if f == "channels": return [rnd(p["b"], p["c"], p["hw"], dt=dt), rnd(p["c"], dt=dt), rnd(p["c"], dt=dt)], lambda x, w, b: torch.relu(x * w[None, :, None] + b[None, :, None]), 0, None
    if f == "embed": return [rnd(p["v"], p["d"], dt=dt), torch.randint(0, p["v"], (p["n"],), dtype=torch.int32, device="cuda")], lambda t, i: t[i.long()], 0, None
    raise KeyError(f)
drv = ctypes.CDLL("libcuda.so.1")
def cu(n, *x):
    r = getattr(drv, n)(*x)
    if r: raise RuntimeError(f"{n}: CUDA error {r}")
DTYPES = {"uint8": 0, "int8": 0, "uint16": 1, "uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9, "float8_e4m3fn": 0, "float8_e5m2": 0}
def tensor_map(m, t):
    """a CUtensorMap for the address of a tensor, as the manifest says (all lists innermost first)"""
    raw = ctypes.create_string_buffer(256); at = (ctypes.addressof(raw) + 127) // 128 * 128; n = len(m["dims"]); u64, u32 = ctypes.c_uint64 * n, ctypes.c_uint32 * n
    cu("cuTensorMapEncodeTiled", ctypes.c_void_p(at), DTYPES[m["dtype"]], n, ctypes.c_void_p(t.data_ptr()), u64(*m["dims"]), u64(*m["strides_bytes"]), u32(*m["box"]), u32(*m["elem_strides"]),
       0, {0: 0, 32: 1, 64: 2, 128: 3}[m["swizzle"]], {0: 0, 64: 1, 128: 2, 256: 3}[m["l2"]], 0)
    return raw, at
class Kernel:
    def __init__(self, d, ts):
        e = json.loads((d / "manifest.json").read_text())["functions"][0]; sp = [torch.zeros(max(int(w["bytes"]), 16), dtype=torch.uint8, device="cuda") for w in e["workspaces"]]; self.l, self.keep = [], [ts, sp]
        for l in e["launches"]:
            mod, f = ctypes.c_void_p(), ctypes.c_void_p()
            cu("cuModuleLoadData", ctypes.byref(mod), (d / l["file"][a.arch]).read_bytes()); cu("cuModuleGetFunction", ctypes.byref(f), mod, l["symbol"].encode()); sm = int(l.get("dynamic_smem", 0))
            if sm > 48 << 10: cu("cuFuncSetAttribute", f, 8, sm)
            if any(x.keys().isdisjoint(("param", "workspace", "tensor_map")) for x in l["args"]): raise RuntimeError("an argument that this loader does not know: extend it")
            v, at = [], []
            for x in l["args"]:
                if "tensor_map" in x: raw, where = tensor_map(x["tensor_map"], ts[x["tensor_map"]["param"]]); v.append(raw); at.append(where)
                else: v.append(ctypes.c_void_p((ts[x["param"]] if "param" in x else sp[x["workspace"]]).data_ptr())); at.append(ctypes.addressof(v[-1]))
            self.l.append((f, [int(x) for x in l["grid"] + l["block"]], sm, (ctypes.c_void_p * len(v))(*at), v))
    def __call__(self):
        st = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        for f, dims, sm, ps, _ in self.l: cu("cuLaunchKernel", f, *dims, sm, st, ps, None)
cool = torch.zeros(512 << 20, dtype=torch.uint8, device="cuda").view(torch.int64)
def medians(c, rounds):
    for f in c.values():
        for _ in range(3): f()
    torch.cuda.synchronize(); ev = {n: [] for n in c}; order = list(c.items())
    for _ in range(rounds):
        order.append(order.pop(0))
        for n, f in order:
            cool.max(); x, y = torch.cuda.Event(True), torch.cuda.Event(True); x.record(); f(); y.record(); ev[n].append((x, y))
        torch.cuda.synchronize()
    return {n: sorted(x.elapsed_time(y) for x, y in p)[rounds // 2] * 1e3 for n, p in ev.items()}
ffi = None
if a.dlight:
    import tvm_ffi as ffi
    nv = ctypes.CDLL((glob.glob("/usr/local/cuda/lib64/libnvrtc.so.13*") or glob.glob(os.path.dirname(torch.__file__) + "/../nvidia/cu13/lib/libnvrtc.so.13"))[0])
    def cubin(code, *_):
        q = ctypes.c_void_p(); nv.nvrtcCreateProgram(ctypes.byref(q), code.encode(), b"k.cu", 0, None, None); n = ctypes.c_size_t()
        o = [f"--gpu-architecture={a.arch}".encode(), b"-I/usr/local/cuda/include", b"-I/usr/local/cuda/include/cccl", b"--std=c++17", b"-default-device"]
        if nv.nvrtcCompileProgram(q, len(o), (ctypes.c_char_p * len(o))(*o)): raise RuntimeError("NVRTC refuses it")
        nv.nvrtcGetCUBINSize(q, ctypes.byref(n)); b = ctypes.create_string_buffer(n.value); nv.nvrtcGetCUBIN(q, b); return b.raw
    ffi.register_global_func("tvm_callback_cuda_compile", cubin, override=True)
    for l in ("libtvm_runtime.so", "libtvm_runtime_cuda.so", "libtvm_runtime_extra.so"): ctypes.CDLL(f"{a.runtime}/{l}", mode=ctypes.RTLD_GLOBAL)
import torch._inductor.config as ic
ic.max_autotune = ic.max_autotune_gemm = True
rows = []
for s in json.load(open(a.specs)):
    name, fam, d = s["name"], s["family"], pathlib.Path(a.kernels) / s["name"]
    if not re.search(a.only, name): continue
    if not (d / "manifest.json").exists(): print(f"{name:52s} NO KERNEL", flush=True); rows.append([name, fam] + [""] * 5 + ["none", 0.0, 0, 0, "", ""]); continue
    if time.time() - T0 > a.budget: print("out of time at", name); break
    try:
        args, fn, flops, near = case(fam, s["p"]); want = fn(*[x.double() if x.is_floating_point() or fam in ("fp8", "w8") else x for x in args]); ref = fn(*args); out = torch.full_like(ref, float("nan")) if ref.is_floating_point() else torch.full_like(ref, -1)
        k = Kernel(d, [*args, out]); k(); torch.cuda.synchronize(); rel = lambda o: ((o.double() - want.double()).norm() / want.double().norm()).item(); err = rel(out); terr = rel(ref)
        c = {"daylight": k, "torch": near or (lambda: fn(*args))}
        if fam in ("fp8", "w8"): c |= {"torch": lambda: fn(*args), "torch.compile": lambda: near(*args)}  # the second rival
        if not a.no_compile and not near:
            torch._dynamo.reset(); cf = torch.compile(fn, dynamic=False); cf(*args); c["torch.compile"] = lambda: cf(*args)
        if ffi and os.path.exists(f"{a.dlight}/{name}.so"):
            try:
                g = ffi.load_module(f"{a.dlight}/{name}.so")["main"]; o2 = torch.empty_like(ref); ts = [ffi.from_dlpack(t) for t in (*args, o2)]; g(*ts); torch.cuda.synchronize()
                if rel(o2) < 0.05: c["tvm-dlight"] = lambda: g(*ts)
            except Exception as e: print(name, "dlight", repr(e)[:100])
        t = medians(c, a.rounds); us = t["daylight"]; by = sum(x.numel() * x.element_size() for x in [*args, out])
        if fam == "embed": by = 2 * out.numel() * out.element_size()
        peer = min((n for n in t if n != "daylight"), key=t.get)
        tol = {torch.float16: 5e-3, torch.bfloat16: 2e-2}.get(out.dtype, 1e-4); verdict = "" if (err <= max(tol, 2 * terr) if ref.is_floating_point() else bool((out == ref).float().mean() > 0.999)) else "WRONG"
        rows.append([name, fam, *(round(t.get(n, float("nan")), 2) for n in ("daylight", "torch", "torch.compile", "tvm-dlight")), "", peer, round(t[peer] / us, 3), round(by / us / 1e3), round(flops / us / 1e6, 1), f"{err:.1e}", verdict])
        print(f"{name:52s} {us:9.2f} torch {t['torch']:9.2f} compile {t.get('torch.compile', float('nan')):9.2f} dlight {t.get('tvm-dlight', float('nan')):9.2f} x{t[peer] / us:.3f} {by / us / 1e3:5.0f} GB/s {flops / us / 1e6:6.1f} TF err {err:.1e} {verdict}", flush=True)
    except Exception as e: print(name, "FAILED", repr(e)[:200], flush=True); rows.append([name, fam] + [""] * 5 + ["failed", 0.0, 0, 0, "", ""])
    args = want = ref = out = k = c = None; torch.cuda.empty_cache()
def summary(tag, v):
    ok = [x for x in v if x > 0]
    if v: print(f"{tag:14s} geomean x{math.exp(sum(map(math.log, ok)) / max(1, len(ok))):.3f}  worst x{min(v):.3f}  below 0.95: {sum(x < 0.95 for x in v)} of {len(v)}")
for g in sorted({r[1] for r in rows}): summary(g, [r[8] for r in rows if r[1] == g])
summary("all", [r[8] for r in rows]); summary("wrong", [0.0 for r in rows if r[-1] == "WRONG"])
with open(a.csv, "w", newline="") as f: w = csv.writer(f); w.writerow("name family daylight_us torch_us compile_us dlight_us note best_peer ratio gb_s tflops error verdict".split()); w.writerows(rows)
