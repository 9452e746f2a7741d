"""llama_check.py LLAMA CONFIG: the program against NumPy, in float64 with values rounded to bfloat16, or the type that CONFIG names, where the program stores them, and scores to float16.

Writes random weights as safetensors, lets LLAMA go on with three prompts and compares every probability that it writes."""
import json
import struct
import subprocess
import sys
import tempfile
import tomllib

import numpy as np

program, path = sys.argv[1], sys.argv[2]
c = tomllib.load(open(path, "rb"))
hidden, inner, heads, kv, dim, vocab, layers = (c[k] for k in "hidden inner heads kv_heads head_dim vocab layers".split())
rng = np.random.default_rng(1)


def bf16(x):
    """To the nearest bfloat16, ties to even."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return bits.astype(np.uint32).view(np.float32).astype(np.float64)


def half(x):
    """To the nearest value of the type that the program computes in."""
    return bf16(x) if c.get("dtype", "bfloat16") == "bfloat16" else np.asarray(x).astype(np.float16).astype(np.float64)


def packed(w):
    """What is left of weights that are packed in 4 bits."""
    if not c.get("int4"):
        return w
    groups = w.astype(np.float32).reshape(-1, c["group"])
    scale = half(np.maximum(abs(groups).max(1, keepdims=True), np.float32(1e-4)) / np.float32(7)).astype(np.float32)
    steps = np.clip(np.floor(groups / scale + np.float32(8.5)), 0, 15) - 8
    return half(steps * scale).astype(np.float64).reshape(w.shape)


def random(*shape, mean=0.0, deviation=1.0):
    return bf16(rng.normal(mean, deviation, shape))


weights = {"model.embed_tokens": random(vocab, hidden), "model.norm": random(hidden, mean=1, deviation=0.1)}
weights["lm_head"] = random(vocab, hidden, deviation=2 / hidden**0.5)
for i in range(layers):
    at = f"model.layers.{i}."
    for name in ("input_layernorm", "post_attention_layernorm"):
        weights[at + name] = random(hidden, mean=1, deviation=0.1)
    for name, rows, columns in (
        ("self_attn.q_proj", heads * dim, hidden),
        ("self_attn.k_proj", kv * dim, hidden),
        ("self_attn.v_proj", kv * dim, hidden),
        ("self_attn.o_proj", hidden, heads * dim),
        ("mlp.gate_proj", inner, hidden),
        ("mlp.up_proj", inner, hidden),
        ("mlp.down_proj", hidden, inner),
    ):
        weights[at + name] = random(rows, columns, deviation=1 / columns**0.5)


def save(path):
    header, data = {}, b""
    for name, value in weights.items():
        raw = (value.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()
        header[name + ".weight"] = {"dtype": "BF16", "shape": list(value.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)


def norm(x, w):
    return half(x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w)


def turn(x, position):
    pairs = dim // 2
    angle = position[:, None] / c["rope_base"] ** (np.arange(pairs) / pairs)
    cos, sin = (f(angle).astype(np.float32).astype(np.float64)[:, None] for f in (np.cos, np.sin))
    a, b = x[..., :pairs], x[..., pairs:]
    return half(np.concatenate((a * cos - b * sin, b * cos + a * sin), -1))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def probabilities(tokens):
    """Of what follows the last token."""
    n = len(tokens)
    position, causal = np.arange(n), np.tril(np.ones((n, n), bool))
    x = weights["model.embed_tokens"][tokens]
    for i in range(layers):
        w = {k.split(f"layers.{i}.")[-1].split(".")[-1]: v for k, v in weights.items() if f"layers.{i}." in k}
        h = norm(x, w["input_layernorm"])
        q, k, v = (half(h @ w[s + "_proj"].T).reshape(n, -1, dim) for s in "qkv")
        q, k = turn(q, position), turn(k, position)
        k, v = (np.repeat(t, heads // kv, 1) for t in (k, v))
        s = (np.einsum("ihd,jhd->hij", q, k) / dim**0.5).astype(np.float16).astype(np.float64)
        p = half(softmax(np.where(causal, s, -1e30)))
        o = half(np.einsum("hij,jhd->ihd", p, v)).reshape(n, -1)
        x = half(x + half(o @ w["o_proj"].T))
        h = norm(x, w["post_attention_layernorm"])
        gate, up = half(h @ w["gate_proj"].T), half(h @ w["up_proj"].T)
        u = half(gate / (1 + np.exp(-gate)) * up)
        x = half(x + half(u @ w["down_proj"].T))
    return softmax(half(norm(x[-1], weights["model.norm"]) @ weights["lm_head"].T))


with tempfile.TemporaryDirectory() as folder:
    save(f"{folder}/w.safetensors")
    for name in weights:
        if name.endswith("_proj") or name == "lm_head":
            weights[name] = packed(weights[name])
        else:
            weights[name] = half(weights[name])
    steps = 8
    prompts = [rng.integers(0, vocab, n).tolist() for n in (1, 5, 12)]
    given = [a for p in prompts for a in ("--prompt", ",".join(map(str, p)))]
    done = subprocess.run(
        [program, "--weights", f"{folder}/w.safetensors", "generate", *given, "--steps", str(steps), "--probabilities", f"{folder}/p"],
        check=True, capture_output=True, text=True,
    )
    found = [list(map(int, line.split(","))) for line in done.stdout.split()]
    given = np.fromfile(f"{folder}/p", np.float32).reshape(steps, len(prompts), vocab)

worst = 0.0
for i, prompt in enumerate(prompts):
    for step in range(steps):
        want = probabilities(prompt + found[i][:step])
        got = given[step, i].astype(np.float64)
        assert found[i][step] == got.argmax(), (i, step)
        # Distance of the distributions; those of unrelated steps are 0.5 to 1 apart.
        apart = abs(got - want).sum() / 2
        worst = max(worst, apart)
        assert apart < 0.03, f"sequence {i}, step {step}: {apart:.4f} apart"
other = abs(given[0, 0] - given[0, 1]).sum() / 2
assert other > 0.3, other
print(f"{len(prompts) * steps} distributions over {vocab} tokens: at most {worst:.4f} apart from NumPy's, unrelated ones {other:.2f}")
