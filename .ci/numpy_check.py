"""Runs `daylight run` on every workload of the rules' kinds and compares with NumPy.

numpy_check.py DAYLIGHT [--only REGEX]

Inputs are random, the expected outputs are written out in NumPy below, file by file, and evaluated in
float64. The tolerance is the one of docs/correctness.md for a float32 accumulator: with u the roundoffs
of output and accumulator and L the length of the reduction, norm(o-r)/norm(r) <= 4 (u_out + u_acc sqrt(L)).
"""

import argparse
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROUNDOFF = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "int64": 0, "int32": 0, "uint32": 0}
DTYPES = {"bfloat16": ml_dtypes.bfloat16, "float8_e4m3fn": ml_dtypes.float8_e4m3fn}


def erf(x):
    """To 1.5e-7, by formula 7.1.26 of Abramowitz and Stegun; enough for 16-bit outputs."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.sign(x) * (1 - poly * np.exp(-x * x))


def silu(x):
    return x / (1 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


def rows(w, x):
    """w @ x in float64 without a float64 copy of all of w."""
    x = x.reshape(-1)
    step = max(1, (64 << 20) // len(x))
    return np.concatenate([w[i : i + step].astype(np.float64) @ x for i in range(0, len(w), step)])


def by_rows_of(w, x, wide=lambda w: w.astype(np.float64)):
    """x @ w.T in float64, a part of w at a time; `wide` makes float64 of such a part."""
    x, step = x.astype(np.float64), max(1, (16 << 20) // x.shape[-1])
    return np.concatenate([x @ wide(w[i : i + step]).T for i in range(0, len(w), step)], -1)


def quantised(w, scale, x):
    """x @ dequantize(w, scale).T, a part of w at a time."""
    step = max(1, (16 << 20) // x.shape[-1])
    parts = [by_rows_of(dequantize(w[i : i + step], scale[i : i + step]), x) for i in range(0, len(w), step)]
    return np.concatenate(parts, -1)


def gelu(x):
    return x * 0.5 * (1 + erf(x * math.sqrt(0.5)))


def convolution(x, w, stride=1, pad=0):
    """Windows of x, laid out as a matrix, times the filters."""
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))[:, :, ::stride, ::stride]
    n, _, height, width = windows.shape[:4]
    windows = windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * height * width, -1)
    out = (windows @ w.reshape(len(w), -1).T).reshape(n, height, width, len(w))
    return out.transpose(0, 3, 1, 2)


def rope(x, cos, sin):
    """x is [..., position, head, element]."""
    half = x.shape[-1] // 2
    rotated = np.concatenate([-x[..., half:], x[..., :half]], -1)
    return x * cos[:, None, :] + rotated * sin[:, None, :]


def dequantize(w, scale):
    fields = (w[:, :, None] >> (np.arange(8, dtype=np.uint32) * 4)) & 15
    return (fields.reshape(len(w), -1).astype(np.float64) - 7) * np.repeat(scale, 32, axis=1)


def dequantize_columns(w, scale):
    """Weights that are packed along the first axis."""
    fields = (w[:, None, :] >> (np.arange(8, dtype=np.uint32) * 4)[:, None]) & 15
    return (fields.reshape(-1, w.shape[1]).astype(np.float64) - 7) * np.repeat(scale, 32, axis=0)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def logsumexp(x):
    top = x.max(-1)
    return np.log(np.exp(x - top[..., None]).sum(-1)) + top


def rms_norm(x, w):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w


def layer_norm(x, gamma, beta):
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-12) * gamma + beta


def group_norm(x, gamma, beta):
    groups = x.reshape(len(x), 32, -1)
    mean, var = groups.mean(-1, keepdims=True), groups.var(-1, keepdims=True)
    normal = ((groups - mean) / np.sqrt(var + 1e-5)).reshape(x.shape)
    return normal * gamma[:, None, None] + beta[:, None, None]


def l2_normalize(x):
    return x / np.sqrt(np.maximum((x * x).sum(-1, keepdims=True), 1e-12))


def fused_rope(qkv, total):
    """Queries and keys turned by angles that depend on the position, with the frequencies of Llama 3.1; values as they are."""
    length = qkv.shape[1]
    frequency = 500000.0 ** -(np.arange(128) * 2 % 128 / 128)
    smooth = np.clip(434.59909793626889 * frequency - 1 / 3, 0, 1)
    position = np.arange(length) + float(total) - length
    angle = position[:, None] * ((1 - smooth) * frequency / 8 + smooth * frequency)
    turned = rope(qkv, np.cos(angle), np.sin(angle))
    return turned[:, :, :32], turned[:, :, 32:40], qkv[:, :, 40:]


def qk(q, k, mask):
    scores = np.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(128)
    return scores if mask is None else np.minimum(np.maximum(scores, -65504), mask)


def windows(x, fill):
    """The nine shifted images [n, c, 56, 56] that 3x3 windows with stride 2 over a padded image see."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=fill)
    return {(i, j): padded[:, :, i : i + 111 : 2, j : j + 111 : 2] for i in range(3) for j in range(3)}


def max_pool(x):
    return np.max(list(windows(x, -np.inf).values()), axis=0)


def depthwise(x, w):
    return sum(image * w[None, :, 0, i, j, None, None] for (i, j), image in windows(x, 0.0).items())


def bn_stats(x):
    return x.mean((0, 2, 3)), x.var((0, 2, 3))


def split_silu_mul(x):
    half = x.shape[-1] // 2
    return silu(x[..., :half]) * x[..., half:]


# Stem under tests/workloads -> (function of the inputs, length of the reduction).
CASES = {
    "gemv/llama3_8b-o_proj-n4096k4096-f16": (lambda x, w: rows(w, x), 4096),
    "gemv/llama3_8b-lm_head-n128256k4096-f16_f32out": (lambda x, w: rows(w, x), 4096),
    "gemv/llama3_8b-down_proj_kn-k14336n4096-f16": (lambda x, w: x @ w, 14336),
    "gemv/llama3_70b_tp8-down_proj_residual-n8192k3584-f16": (lambda x, w, r: rows(w, x) + r, 3584),
    "gemv/qwen2_5_7b-qkv_bias-n4608k3584-bf16": (lambda x, w, b: rows(w, x) + b, 3584),
    "gemv/mixtral_8x7b-expert_gate_silu-n14336k4096-bf16": (lambda x, w, u: silu(rows(w, x)) * u, 4096),
    "gemv/gpt2-c_fc_gelu-k768n3072-f32": (lambda x, w, b: gelu_tanh(x @ w + b), 768),
    "gemv/mistral_7b-mv-n4096k14336-f32": (rows, 14336),
    "gemv/llama3_8b-attn_qk_decode-h32s2048d128-f16": (qk, 128),
    "gemv/llama3_8b-attn_pv_decode-h32s2048d128-f16": (lambda p, v: p @ v, 2048),
    "gemv-quant/gpt2-int8_kn-c_proj_bias-k3072n768-f32": (lambda x, w, s, b: x @ (w * s) + b, 3072),
    "gemv-quant/llama3_8b-e4m3-o_proj-n4096k4096-f16": (lambda x, w, s: rows(w, x) * s, 4096),
    "gemv-quant/llama3_8b-int8-down_proj-n4096k14336-f16": (lambda x, w, s: rows(w, x) * s, 14336),
    "gemv-quant/llama3_8b-q4f16-down_residual-n4096k14336": (lambda w, s, x, r: quantised(w, s, x) + r, 14336),
    "gemv-quant/llama3_8b-q4f16-gate_up-n28672k4096": (quantised, 4096),
    "gemv-quant/llama3_8b-q4f16-o_proj-n4096k4096": (quantised, 4096),
    "gemv-quant/mistral_7b-q4f16_kn-o_proj-k4096n4096": (lambda w, s, x: x @ dequantize_columns(w, s), 4096),
    "matmul/bert_base-ffn_in_gelu-m1024n3072k768-f32": (lambda x, w, b: gelu(x @ w.T + b), 768),
    "matmul/bert_base-ffn_int8-m512n3072k768-i8_i32": (lambda x, w: by_rows_of(w, x), 0),
    "matmul/gpt2-c_fc_gelu-m1024n3072k768-f32": (lambda x, w, b: gelu_tanh(x @ w + b), 768),
    "matmul/llama3_8b-o_proj_residual-m512n4096k4096-f16_f32acc": (lambda x, w, r: x @ w.T + r, 4096),
    "matmul/llama3_8b-q4f16-o_proj-m512n4096k4096": (quantised, 4096),
    "matmul/opt_1_3b-fc1_relu-m512n8192k2048-f16_f32acc": (lambda x, w, b: np.maximum(x @ w.T + b, 0), 2048),
    "matmul/qwen2_5_7b-qkv_bias-m512n4608k3584-bf16": (lambda x, w, b: x @ w.T + b, 3584),
    "matmul/vit_b16-mlp_fc1_gelu-m6304n3072k768-f16_f32acc": (lambda x, w, b: gelu(x @ w.T + b), 768),
    "matmul/whisper_large_v3-fc1_gelu-m1500n5120k1280-f16": (lambda x, w, b: gelu(x @ w.T + b), 1280),
    "batched-matmul/bert_base-qk_scale-b8h12s128d64-f32": (lambda q, k: q @ k.swapaxes(2, 3) / 8, 64),
    "batched-matmul/sd15-cross_attn_pv-b16m4096n40k77-f16": (lambda a, b: a @ b, 77),
    "conv/resnet50-conv3x3_bias_relu-1x64x56x56-f32": (
        lambda x, w, b: np.maximum(convolution(x, w, pad=1) + b, 0),
        576,
    ),
    "conv/sd15-conv3x3_bias-2x320x64x64-f16_f32acc": (lambda x, w: convolution(x, w, pad=1), 2880),
    "conv/vit_b16-patch_embed-8x3x224x224-f32": (lambda x, w, b: convolution(x, w, stride=16) + b, 768),
    "low-batch-gemv/gpt2-c_fc_gelu-b2k768n3072-f32": (lambda x, w, b: gelu_tanh(x @ w + b), 768),
    "low-batch-gemv/llama3_8b-gate_up-b8n28672k4096-f16_f32acc": (lambda x, w: by_rows_of(w, x), 4096),
    "low-batch-gemv/llama3_8b-o_proj-b4n4096k4096-f16": (lambda x, w: by_rows_of(w, x), 4096),
    "low-batch-gemv/llama3_8b-q4f16-down_proj-b4n4096k14336": (quantised, 14336),
    "low-batch-gemv/qwen2_5_7b-qkv_bias-b16n4608k3584-bf16": (lambda x, w, b: by_rows_of(w, x) + b, 3584),
    "dynamic/llama3_8b-o_proj-m_n_n4096k4096-f16": (lambda x, w: by_rows_of(w, x), 4096),
    "dynamic/bert_base-sum_last-_b_x_s_x768-f32": (lambda x: x.sum(-1), 768),
    "dynamic/llama3_8b-attn_qk_decode-h32s_n_d128-f16": (lambda q, k: qk(q, k, None), 128),
    "dynamic/llama3_8b-fused_rope-_n_x48x128-f16": (fused_rope, 1),
    "dynamic/llama3_8b-q4f16-gate_up-b_n_n28672k4096": (quantised, 4096),
    "dynamic/llama3_8b-rms_norm-_n_x4096-f16": (rms_norm, 4096),
    "dynamic/llama3_8b-softmax-32x_n_x_m_-f32": (softmax, 517),
    "normalization/bert_base-layer_norm-8x128x768-f32": (layer_norm, 768),
    "normalization/bert_base-softmax-8x12x128x128-f32": (softmax, 128),
    "normalization/clip_vit_l14-l2_normalize-512x768-f32": (l2_normalize, 768),
    "normalization/gpt2-log_softmax-1024x50257-f32": (lambda x: x - logsumexp(x)[:, None], 50257),
    "normalization/llama3_8b-rms_norm-1x4096-f16": (rms_norm, 4096),
    "normalization/llama3_8b-rms_norm-2048x4096-f16": (rms_norm, 4096),
    "normalization/llama3_8b-softmax_cast-32x512x512-f32_f16": (softmax, 512),
    "normalization/sd15-group_norm32-2x320x64x64-f32": (group_norm, 40960),
    "reduction/llama3_8b-logsumexp-128x128256-f32": (logsumexp, 128256),
    "reduction/bert_base-bias_grad_sum_first-4096x3072-f32": (lambda x: x.sum(0), 4096),
    "reduction/bert_base-mean_pool_middle-64x512x768-f32": (lambda x: x.mean(1), 512),
    "reduction/gpt2-loss_mean_all-8192-f32": (lambda x: x.mean(), 8192),
    "reduction/llama3_8b-amax_all-4096x14336-f16": (lambda x: np.abs(x).max(), 0),
    "reduction/llama3_8b-sum_last-2048x4096-f32": (lambda x: x.sum(-1), 4096),
    "reduction/llama3_8b-sum_last-8192x14336-f16": (lambda x: x.sum(-1), 14336),
    "reduction/mixtral_8x7b-router_weight_sum-4x2-f32": (lambda x: x.sum(-1), 2),
    "reduction/resnet50-bn_sum-32x256x56x56-f32": (lambda x: x.sum((0, 2, 3)), 100352),
    "reduction/llama3_8b-argmax-16x128256-f32": (lambda x: x.argmax(-1), 0),
    "reduction/resnet50-bn_stats-32x64x112x112-f32": (bn_stats, 401408),
    "conv/mobilenet_v2-depthwise3x3-1x96x112x112-f32": (depthwise, 9),
    "conv/resnet50-max_pool3x3-32x64x112x112-f32": (max_pool, 0),
    "reduction/resnet50-global_avg_pool-32x2048x7x7-f32": (lambda x: x.mean((2, 3)), 49),
    "elementwise/bert_base-bias_gelu-1024x3072-f16": (
        lambda x, b: (x + b) * 0.5 * (1 + erf((x + b) * math.sqrt(0.5))),
        1,
    ),
    "elementwise/llama3_8b-concat_kv-8x2047x128-f16": (None, 0),
    "elementwise/llama3_8b-embedding_take-512of128256x4096-f16": (None, 0),
    "elementwise/llama3_8b-last_token_slice-2048x4096-f16": (lambda x: x[..., -1:, :], 0),
    "elementwise/llama3_8b-q4f16-dequantize-4096x4096": (dequantize, 1),
    "elementwise/llama3_8b-residual_add-2048x4096-bf16": (lambda a, b: a + b, 1),
    "elementwise/llama3_8b-rope-2048x32x128-f16": (rope, 1),
    "elementwise/llama3_8b-split_silu_mul-2048x28672-f16": (split_silu_mul, 1),
    "transpose/bert_base-split_heads-8x128x12x64-f32": (lambda x: x.transpose(0, 2, 1, 3), 0),
    "transpose/gpt2-c_attn_weight-768x2304-f32": (lambda x: x.T, 0),
    "transpose/llama3_8b-down_weight-4096x14336-f16": (lambda x: x.T, 0),
    "transpose/llama3_8b-kv_heads-2048x8x128-f16": (lambda x: x.transpose(1, 0, 2), 0),
    "transpose/resnet50-nchw_to_nhwc-32x64x56x56-f16": (lambda x: x.transpose(0, 2, 3, 1), 0),
}

# Sizes for symbolic extents.
BIND = {
    "dynamic/llama3_8b-o_proj-m_n_n4096k4096-f16": "n=37",
    "dynamic/bert_base-sum_last-_b_x_s_x768-f32": "b=3,s=67",
    "dynamic/llama3_8b-attn_qk_decode-h32s_n_d128-f16": "n=509",
    "dynamic/llama3_8b-fused_rope-_n_x48x128-f16": "batch_size=3,seq_len=61",
    "dynamic/llama3_8b-q4f16-gate_up-b_n_n28672k4096": "n=3",
    "dynamic/llama3_8b-rms_norm-_n_x4096-f16": "n=37",
    "dynamic/llama3_8b-softmax-32x_n_x_m_-f32": "n=61,m=517",
}

# Types of intermediates that are coarser than the output.
STORED = {
    "gemv/llama3_8b-attn_qk_decode-h32s2048d128-f16": "float16",
    "dynamic/llama3_8b-attn_qk_decode-h32s_n_d128-f16": "float16",
}


def random_input(rng, param, bound):
    """Random values of a parameter: normal floats, indices below `bound`, bits otherwise."""
    shape, dtype = param["shape"], param["dtype"]
    if dtype == "int8":
        return rng.integers(-127, 128, shape, dtype=dtype)
    if dtype.startswith(("int", "uint")):
        top = bound if dtype.startswith("int") else 2**32
        return rng.integers(0, top, shape, dtype=dtype)
    return rng.standard_normal(shape, dtype=np.float32).astype(DTYPES.get(dtype, dtype))


def concat(a, b, shape):
    axis = next(i for i in range(len(shape)) if a.shape[i] != shape[i])
    return np.concatenate([a, b], axis)


def take(x, ids, shape):
    table, index = (x, ids) if ids.dtype.kind == "i" else (ids, x)
    return table[index].reshape(shape)


def expected(stem, fn, inputs, shape):
    """The outputs, one after the other."""
    if fn is None:
        fn = (lambda *i: concat(*i, shape)) if "concat" in stem else (lambda *i: take(*i, shape))
    big = sum(i.nbytes for i in inputs) > 400 << 20
    wide = [i if i.dtype.kind in "iu" or (big and i.ndim > 1 and i.shape[-1] != i.size) else i.astype(np.float64) for i in inputs]
    results = fn(*wide)
    return [np.asarray(r, dtype=np.float64) for r in (results if isinstance(results, tuple) else (results,))]


def save(path, array):
    bits = {"bfloat16": np.uint16, "float8_e4m3fn": np.uint8}
    np.save(path, array.view(bits[array.dtype.name]) if array.dtype.name in bits else array)


def check(daylight, stem, fn, length, rng, file=None, bind=None):
    file = file or ROOT / "tests" / "workloads" / f"{stem}.py"
    bind = bind or BIND.get(stem)
    bind = ["--bind", bind] if bind else []
    judge = [daylight, "check", str(file), "--json", *bind]
    facts = json.loads(subprocess.run(judge, check=True, capture_output=True).stdout)
    params = facts["params"]
    ins, outs = ([p for p in params if (p["role"] == "out") == wanted] for wanted in (False, True))
    rows_beside = [min((q["shape"][0] for q in ins if q is not p and q["shape"]), default=1) for p in ins]
    inputs = [random_input(rng, p, bound) for p, bound in zip(ins, rows_beside)]
    with tempfile.TemporaryDirectory() as tmp:
        folders = pathlib.Path(tmp, "in"), pathlib.Path(tmp, "out")
        for folder in folders:
            folder.mkdir()
        for p, array in zip(ins, inputs):
            save(folders[0] / f"{p['index']:02}_{p['name']}.npy", array)
        command = [daylight, "run", str(file), "--device", "cpu", "--inputs", folders[0], "--outputs", folders[1]]
        subprocess.run(list(map(str, command)), check=True, capture_output=True)
        got = [np.load(folders[1] / f"{out['index']:02}_{out['name']}.npy") for out in outs]
    want = expected(stem, fn, inputs, tuple(outs[0]["shape"]))
    return all([agrees(stem, out, g, w, length) for out, g, w in zip(outs, got, want, strict=True)])


def agrees(stem, out, got, want, length):
    """One output against what is expected."""
    if out["dtype"] in DTYPES:
        got = got.view(DTYPES[out["dtype"]])
    want, got = want.reshape(out["shape"]), got.astype(np.float64)
    # Daylight accumulates in float32 whatever narrower type the function asks for. Length 0: must be exact.
    stored = max(ROUNDOFF[out["dtype"]], ROUNDOFF[STORED.get(stem, out["dtype"])])
    limit = 4 * (stored + ROUNDOFF["float32"] * math.sqrt(length)) if length else 0.0
    error = np.linalg.norm(got - want) / max(np.linalg.norm(want), 1e-300)
    print(f"{stem:64s} error {error:.1e} of {limit:.1e}", flush=True)
    return bool(error <= limit)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("daylight")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    cases = {s: c for s, c in CASES.items() if re.search(args.only, s)}
    wrong = [s for s, (fn, length) in cases.items() if not check(args.daylight, s, fn, length, rng)]
    print(f"{len(cases) - len(wrong)} of {len(cases)} agree with NumPy")
    sys.exit(f"wrong: {', '.join(wrong)}" if wrong else 0)


if __name__ == "__main__":
    main()
