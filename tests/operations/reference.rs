//! What operations compute, in plain loops over float64 that share nothing with the crate.

/// An array in row-major order.
pub struct Array {
    pub shape: Vec<usize>,
    pub data: Vec<f64>,
}

impl Array {
    /// The element at these indices.
    pub fn at(&self, index: &[usize]) -> f64 {
        assert_eq!(index.len(), self.shape.len(), "one index per dimension");
        self.data[index.iter().zip(&self.shape).fold(0, |flat, (i, n)| flat * n + i)]
    }

    fn dim(&self, k: usize) -> usize {
        self.shape[k]
    }

    /// Elements before, along and after a dimension.
    fn around(&self, axis: usize) -> (usize, usize, usize) {
        (self.shape[..axis].iter().product(), self.shape[axis], self.shape[axis + 1..].iter().product())
    }
}

/// A B for matrices that may be transposed, and batches.
pub fn matmul(a: &Array, b: &Array, turned_a: bool, turned_b: bool) -> Vec<f64> {
    let batched = a.shape.len() == 3;
    let (r, batch) = if batched { (1, a.dim(0)) } else { (0, 1) };
    let (m, k) = if turned_a { (a.dim(r + 1), a.dim(r)) } else { (a.dim(r), a.dim(r + 1)) };
    let n = if turned_b { b.dim(r) } else { b.dim(r + 1) };
    let element = |x: &Array, t: usize, i: usize, j: usize| if batched { x.at(&[t, i, j]) } else { x.at(&[i, j]) };
    let mut out = vec![];
    for t in 0..batch {
        for i in 0..m {
            for j in 0..n {
                let left = |l| if turned_a { element(a, t, l, i) } else { element(a, t, i, l) };
                let right = |l| if turned_b { element(b, t, j, l) } else { element(b, t, l, j) };
                out.push((0..k).map(|l| left(l) * right(l)).sum());
            }
        }
    }
    out
}

/// The weights that words of eight hold, with scales per group.
pub fn unpacked(words: &Array, scales: &Array, group: usize, zero: f64) -> Array {
    let (n, k) = (words.dim(0), words.dim(1) * 8);
    let weight = |j: usize, l: usize| {
        let bits = (words.at(&[j, l / 8]) as u64 >> (4 * (l % 8))) & 15;
        (bits as f64 - zero) * scales.at(&[j, l / group])
    };
    let data = (0..n).flat_map(|j| (0..k).map(move |l| (j, l))).map(|(j, l)| weight(j, l)).collect();
    Array { shape: vec![n, k], data }
}

/// The numbers of four bits, two in a byte, with scales per block.
pub fn block_scaled(bytes: &Array, scales: &Array, block: usize) -> Array {
    const SIZES: [f64; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let number = |code: usize| if code > 7 { -SIZES[code - 8] } else { SIZES[code] };
    let both = |byte: &f64| [*byte as usize % 16, *byte as usize / 16].map(number);
    let numbers =
        Array { shape: vec![bytes.dim(0), 2 * bytes.dim(1)], data: bytes.data.iter().flat_map(both).collect() };
    scaled(&numbers, scales, block)
}

/// Numbers times the scales of their blocks.
pub fn scaled(numbers: &Array, scales: &Array, block: usize) -> Array {
    let k = numbers.dim(1);
    let value = |(at, x): (usize, &f64)| x * scales.at(&[at / k, at % k / block]);
    Array { shape: numbers.shape.clone(), data: numbers.data.iter().enumerate().map(value).collect() }
}

pub fn erf(x: f64) -> f64 {
    // The series of Maclaurin converges everywhere; arguments here are small.
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / n as f64;
        sum += term / (2 * n + 1) as f64;
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

pub fn activation(name: &str, x: f64) -> f64 {
    match name {
        "relu" => x.max(0.0),
        "gelu" => 0.5 * x * (1.0 + erf(x / 2f64.sqrt())),
        "gelu_tanh" => 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh()),
        "silu" => x / (1.0 + (-x).exp()),
        "sigmoid" => 1.0 / (1.0 + (-x).exp()),
        "tanh" => x.tanh(),
        "exp" => x.exp(),
        "sqrt" => x.sqrt(),
        "rsqrt" => 1.0 / x.sqrt(),
        "square" => x * x,
        "abs" => x.abs(),
        "neg" => -x,
        _ => panic!("no such function: {name}"),
    }
}

/// q k^T * scale, keys after a query's own masked.
pub fn scores(q: &Array, k: &Array, scale: f64, causal: Option<f64>) -> Vec<f64> {
    let (batch, heads, queries, dim) = (q.dim(0), q.dim(1), q.dim(2), q.dim(3));
    let (shared, keys) = (heads / k.dim(1), k.dim(2));
    let mut out = vec![];
    for b in 0..batch {
        for h in 0..heads {
            for i in 0..queries {
                for j in 0..keys {
                    let dot: f64 = (0..dim).map(|d| q.at(&[b, h, i, d]) * k.at(&[b, h / shared, j, d])).sum();
                    // The last query sees all keys.
                    let seen = causal.is_none() || j + queries <= i + keys;
                    out.push(if seen { dot * scale } else { causal.unwrap_or_default() });
                }
            }
        }
    }
    out
}

/// p v.
pub fn weighted(p: &Array, v: &Array) -> Vec<f64> {
    let (batch, heads, queries, keys) = (p.dim(0), p.dim(1), p.dim(2), p.dim(3));
    let (shared, dim) = (heads / v.dim(1), v.dim(3));
    let mut out = vec![];
    for b in 0..batch {
        for h in 0..heads {
            for i in 0..queries {
                for d in 0..dim {
                    out.push((0..keys).map(|j| p.at(&[b, h, i, j]) * v.at(&[b, h / shared, j, d])).sum());
                }
            }
        }
    }
    out
}

pub fn softmax(x: &Array, axis: usize, log: bool) -> Vec<f64> {
    let (before, along, after) = x.around(axis);
    let mut out = vec![0.0; x.data.len()];
    for i in 0..before {
        for j in 0..after {
            let place = |k: usize| (i * along + k) * after + j;
            let most = (0..along).map(|k| x.data[place(k)]).fold(f64::MIN, f64::max);
            let sum: f64 = (0..along).map(|k| (x.data[place(k)] - most).exp()).sum();
            for k in 0..along {
                let apart = x.data[place(k)] - most;
                out[place(k)] = if log { apart - sum.ln() } else { apart.exp() / sum };
            }
        }
    }
    out
}

pub fn rms_norm(x: &Array, weight: &Array, eps: f64) -> Vec<f64> {
    let row = |r: &[f64]| {
        let mean = r.iter().map(|v| v * v).sum::<f64>() / r.len() as f64;
        let scaled = r.iter().zip(&weight.data).map(|(v, w)| v / (mean + eps).sqrt() * w);
        scaled.collect::<Vec<_>>()
    };
    x.data.chunks(weight.data.len()).flat_map(row).collect()
}

pub fn layer_norm(x: &Array, weight: &Array, bias: &Array, eps: f64) -> Vec<f64> {
    let row = |r: &[f64]| {
        let mean = r.iter().sum::<f64>() / r.len() as f64;
        let variance = r.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / r.len() as f64;
        let normal = r.iter().map(|v| (v - mean) / (variance + eps).sqrt());
        normal.zip(&weight.data).zip(&bias.data).map(|((v, w), b)| v * w + b).collect::<Vec<_>>()
    };
    x.data.chunks(weight.data.len()).flat_map(row).collect()
}

/// Values over dimensions joined by `join`, from `first`; in the order of what stays.
pub fn reduced(x: &Array, axes: &[usize], first: f64, join: fn(f64, f64) -> f64) -> Vec<f64> {
    let kept: Vec<usize> = (0..x.shape.len()).filter(|k| !axes.contains(k)).collect();
    let mut out = vec![first; kept.iter().map(|k| x.shape[*k]).product()];
    for (flat, value) in x.data.iter().enumerate() {
        let index = unflat(flat, &x.shape);
        let at = kept.iter().fold(0, |at, k| at * x.shape[*k] + index[*k]);
        out[at] = join(out[at], *value);
    }
    out
}

pub fn transposed(x: &Array, axes: &[usize]) -> Vec<f64> {
    let shape: Vec<usize> = axes.iter().map(|k| x.shape[*k]).collect();
    let count = x.data.len();
    let from = |flat: usize| {
        let to = unflat(flat, &shape);
        let mut index = vec![0; axes.len()];
        axes.iter().zip(&to).for_each(|(axis, i)| index[*axis] = *i);
        x.at(&index)
    };
    (0..count).map(from).collect()
}

fn unflat(mut flat: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (k, n) in shape.iter().enumerate().rev() {
        index[k] = flat % n;
        flat /= n;
    }
    index
}
