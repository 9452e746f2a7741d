//! A decoder of Llama's shape: the memory that it has, and which kernels make a step.

use crate::config::Config;
use crate::device::{Device, Error, Kernels, Memory};
use crate::source::Source;
use crate::weights::Weights;

/// Bytes of bfloat16 and float16.
const HALF: usize = 2;
const F32: usize = 4;

/// What one layer has learned.
pub struct Layer {
    pub norm: Memory,
    pub qkv: Weights,
    pub out: Weights,
    pub second_norm: Memory,
    pub gate_up: Weights,
    pub down: Weights,
    /// Keys and values of all sequences.
    pub cache: Memory,
}

/// What a step leaves behind from one kernel to the next.
pub struct State {
    pub token: Memory,
    pub position: Memory,
    pub slot: Memory,
    /// Hidden states, before and after attention.
    pub x: [Memory; 2],
    pub h: Memory,
    pub y: Memory,
    pub q: Memory,
    pub scores: Memory,
    pub weights: Memory,
    pub o: Memory,
    pub gate_up: Memory,
    pub units: Memory,
    pub logits: Memory,
    pub probabilities: Memory,
    /// Packed weights as numbers again.
    pub dense: Memory,
}

/// A model on a device.
pub struct Model {
    pub config: Config,
    pub device: Device,
    pub kernels: Kernels,
    pub embedding: Memory,
    pub layers: Vec<Layer>,
    pub norm: Memory,
    pub head: Weights,
    pub angle: Memory,
    pub state: State,
}

impl Model {
    /// Lays the model out and fills it from `source`.
    pub fn load(config: Config, device: Device, source: &mut Source) -> Result<Model, Error> {
        let kernels = Kernels::load(&device)?;
        let c = &config;
        let mut layers = vec![];
        for i in 0..c.layers {
            layers.push(Layer::load(i, c, &device, &kernels, source)?);
        }
        let mut take = |name: &str, size: usize| source.tensor((&device, &kernels, c.dtype), &[name], size);
        let embedding = take("model.embed_tokens.weight", c.vocab * c.hidden)?;
        let norm = take("model.norm.weight", c.hidden)?;
        let head = take("lm_head.weight", c.vocab * c.hidden)?;
        let head = Weights::of(head, c.vocab * c.hidden, c, &device, &kernels)?;
        let angle = angles(c, &device)?;
        let state = State::new(c, &device)?;
        Ok(Model { embedding, layers, norm, head, angle, state, kernels, device, config })
    }

    /// Reads the prompt of one sequence into its cache; what follows it is then known as [`Model::tokens`] says.
    pub fn prompt(&mut self, slot: usize, tokens: &[i32]) -> Result<(), Error> {
        let positions: Vec<i32> = (0..tokens.len() as i32).collect();
        self.device.write(&mut self.state.token, 0, bytes(tokens))?;
        self.device.write(&mut self.state.position, 0, bytes(&positions))?;
        self.device.write(&mut self.state.slot, 0, bytes(&vec![0i32; tokens.len()]))?;
        self.run_prompt(slot, tokens.len())
    }

    /// Starts the kernels of [`Model::prompt`] for tokens that are in place.
    pub fn run_prompt(&self, slot: usize, rows: usize) -> Result<(), Error> {
        let c = &self.config;
        let cache = |l: &Layer| l.cache.address() + (slot * 2 * c.kv_heads * c.capacity * c.head_dim * HALF) as u64;
        self.embed(rows)?;
        for l in &self.layers {
            self.attend(l, cache(l), rows, || {
                self.chunks(rows).try_for_each(|(first, length)| self.look_back(cache(l), first, length))
            })?;
        }
        let last = ((rows - 1) * c.hidden * HALF) as u64;
        self.finish(self.state.x[0].address() + last, 1)
    }

    /// The queries of a prompt that are looked at together: the first and how many. No query sees what comes after it, so
    /// that the scores of a chunk reach as far as its own end.
    pub fn chunks(&self, rows: usize) -> impl Iterator<Item = (usize, usize)> {
        let chunk = self.config.chunk;
        (0..rows).step_by(chunk).map(move |first| (first, chunk.min(rows - first)))
    }

    /// Attention of `length` queries of a prompt, from `first` on.
    fn look_back(&self, cache: u64, first: usize, length: usize) -> Result<(), Error> {
        let (c, k, s) = (&self.config, &self.kernels, &self.state);
        let [q, p, w, o] = [&s.q, &s.scores, &s.weights, &s.o].map(Memory::address);
        let (at, reach) = ((first * c.heads * c.head_dim * HALF) as u64, first + length);
        // SAFETY: `State::new` made room for the rows of the longest prompt.
        unsafe {
            k.prompt_scores([q + at, cache, p], length, reach)?;
            k.prompt_weights([p, w], length, reach)?;
            k.prompt_values([w, cache, o + at], length, reach)
        }
    }

    /// Puts the last token and its position in place for each sequence that goes on.
    pub fn place(&mut self, tokens: &[i32], positions: &[i32]) -> Result<(), Error> {
        let slots: Vec<i32> = (0..tokens.len() as i32).collect();
        self.device.write(&mut self.state.slot, 0, bytes(&slots))?;
        self.device.write(&mut self.state.token, 0, bytes(tokens))?;
        self.device.write(&mut self.state.position, 0, bytes(positions))
    }

    /// Starts the kernels of one more token for each of the first `batch` sequences, which look at `span` positions: more than
    /// the longest has.
    pub fn run_step(&self, batch: usize, span: usize) -> Result<(), Error> {
        let (k, s) = (&self.kernels, &self.state);
        let [q, p, w, position, o] = [&s.q, &s.scores, &s.weights, &s.position, &s.o].map(Memory::address);
        self.embed(batch)?;
        for l in &self.layers {
            let cache = l.cache.address();
            self.attend(l, cache, batch, || {
                // SAFETY: `State::new` made room for all sequences.
                unsafe {
                    k.scores([q, cache, position, p], batch, span)?;
                    k.weights([p, w], batch, span)?;
                    k.values([w, cache, o], batch, span)
                }
            })?;
        }
        self.finish(s.x[0].address(), batch)
    }

    fn embed(&self, rows: usize) -> Result<(), Error> {
        let s = &self.state;
        // SAFETY: `State::new` made room for the rows; tokens were checked.
        unsafe { self.kernels.embed([&s.token, &self.embedding, &s.x[0]].map(Memory::address), rows) }
    }

    /// One layer around the kernels of its attention.
    fn attend(
        &self,
        l: &Layer,
        cache: u64,
        rows: usize,
        attention: impl Fn() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (k, s) = (&self.kernels, &self.state);
        let at = Memory::address;
        let [x, x2, h, y] = [&s.x[0], &s.x[1], &s.h, &s.y].map(at);
        // SAFETY: `State::new` made room for the rows, `Layer::load` for the weights; positions were checked.
        unsafe {
            if rows == 1 {
                self.normed_qkv(l)?;
            } else {
                k.rms_norm([x, at(&l.norm), h], rows)?;
                self.qkv(l, rows)?;
            }
            k.rope([y, at(&s.slot), at(&s.position), at(&self.angle), cache, at(&s.q)], rows)?;
            attention()?;
            self.out(l, rows)?;
            if self.norms_with_units(rows) {
                self.normed_units(l)?;
            } else {
                k.rms_norm([x2, at(&l.second_norm), h], rows)?;
                self.units(l, rows)?;
            }
            self.down(l, rows)
        }
    }

    /// Queries, keys and values of hidden states.
    pub fn qkv(&self, l: &Layer, rows: usize) -> Result<(), Error> {
        let (k, s) = (&self.kernels, &self.state);
        let [h, y] = [&s.h, &s.y].map(Memory::address);
        // SAFETY of this and the following: as in `attend`.
        unsafe { self.multiply(&l.qkv, rows, |w| k.qkv([h, w, y], rows), |[w, scale]| k.qkv4([h, w, scale, y], rows)) }
    }

    /// The same of the hidden states of one token before they are normed.
    pub fn normed_qkv(&self, l: &Layer) -> Result<(), Error> {
        let (k, s) = (&self.kernels, &self.state);
        let [x, norm, y] = [&s.x[0], &l.norm, &s.y].map(Memory::address);
        let packed = |[w, scale]: [u64; 2]| unsafe { k.normed_qkv4([x, norm, w, scale, y]) };
        unsafe { self.multiply(&l.qkv, 1, |w| k.normed_qkv([x, norm, w, y]), packed) }
    }

    /// What attention found, added to hidden states.
    pub fn out(&self, l: &Layer, rows: usize) -> Result<(), Error> {
        let (k, s) = (&self.kernels, &self.state);
        let [o, x, y] = [&s.o, &s.x[0], &s.x[1]].map(Memory::address);
        let packed = |[w, scale]: [u64; 2]| unsafe { k.out4([o, w, scale, x, y], rows) };
        unsafe { self.multiply(&l.out, rows, |w| k.out([o, w, x, y], rows), packed) }
    }

    /// Gated units of hidden states.
    pub fn units(&self, l: &Layer, rows: usize) -> Result<(), Error> {
        let (k, s) = (&self.kernels, &self.state);
        let [h, y, u] = [&s.h, &s.gate_up, &s.units].map(Memory::address);
        let packed = |[w, scale]: [u64; 2]| unsafe { k.gate_up4([h, w, scale, y], rows) };
        unsafe {
            self.multiply(&l.gate_up, rows, |w| k.gate_up([h, w, y], rows), packed)?;
            k.gated([y, u], rows)
        }
    }

    /// True where one kernel norms and multiplies: for one token, unless weights are packed, where it takes longer than two.
    pub fn norms_with_units(&self, rows: usize) -> bool {
        rows == 1 && !self.config.int4
    }

    /// Gated units of the hidden states of one token before they are normed.
    pub fn normed_units(&self, l: &Layer) -> Result<(), Error> {
        let (k, s) = (&self.kernels, &self.state);
        let [x, norm, y, u] = [&s.x[1], &l.second_norm, &s.gate_up, &s.units].map(Memory::address);
        let packed = |_| Err("packed weights are not multiplied so".into());
        unsafe {
            self.multiply(&l.gate_up, 1, |w| k.normed_gate_up([x, norm, w, y]), packed)?;
            k.gated([y, u], 1)
        }
    }

    /// Gated units, added to hidden states.
    pub fn down(&self, l: &Layer, rows: usize) -> Result<(), Error> {
        let (k, s) = (&self.kernels, &self.state);
        let [u, x, y] = [&s.units, &s.x[1], &s.x[0]].map(Memory::address);
        let packed = |[w, scale]: [u64; 2]| unsafe { k.down4([u, w, scale, x, y], rows) };
        unsafe { self.multiply(&l.down, rows, |w| k.down([u, w, x, y], rows), packed) }
    }

    /// What hidden states say of each word.
    pub fn words(&self, batch: usize) -> Result<(), Error> {
        let (k, s) = (&self.kernels, &self.state);
        let [h, y] = [&s.h, &s.logits].map(Memory::address);
        let packed = |[w, scale]: [u64; 2]| unsafe { k.head4([h, w, scale, y], batch) };
        unsafe { self.multiply(&self.head, batch, |w| k.head([h, w, y], batch), packed) }
    }

    /// A product with weights: packed ones are read as they are by few rows, and made numbers again for many.
    fn multiply(
        &self,
        weights: &Weights,
        rows: usize,
        plain: impl Fn(u64) -> Result<(), Error>,
        packed: impl Fn([u64; 2]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (words, scales, size) = match weights {
            Weights::Plain(w) => return plain(w.address()),
            Weights::Packed { words, scales, size } => (words.address(), scales.address(), *size),
        };
        if rows <= self.config.slots {
            return packed([words, scales]);
        }
        let dense = self.state.dense.address();
        // SAFETY: `State::new` made room for the largest matrix.
        unsafe { self.kernels.unpack([words, scales, dense], size) }?;
        plain(dense)
    }

    /// Probabilities and the likeliest token of `batch` hidden states from `x` on.
    fn finish(&self, x: u64, batch: usize) -> Result<(), Error> {
        let (k, s) = (&self.kernels, &self.state);
        let at = Memory::address;
        // SAFETY: `State::new` made room for all sequences.
        unsafe {
            k.rms_norm([x, at(&self.norm), at(&s.h)], batch)?;
            self.words(batch)?;
            k.softmax([at(&s.logits), at(&s.probabilities)], batch)?;
            k.pick([at(&s.probabilities), at(&s.token)], batch)
        }
    }

    /// The likeliest next tokens of the step before, when it is done.
    pub fn tokens(&self, batch: usize) -> Result<Vec<i32>, Error> {
        let mut raw = vec![0; batch * 4];
        self.device.read(&self.state.token, &mut raw)?;
        Ok(raw.chunks_exact(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
    }

    /// The bytes of the probabilities of the step before, `[batch, vocab]` in float32.
    pub fn probabilities(&self, batch: usize) -> Result<Vec<u8>, Error> {
        let mut raw = vec![0; batch * self.config.vocab * F32];
        self.device.read(&self.state.probabilities, &mut raw)?;
        Ok(raw)
    }
}

impl Layer {
    fn load(i: usize, c: &Config, device: &Device, kernels: &Kernels, source: &mut Source) -> Result<Layer, Error> {
        let mut take = |names: &[&str], size: usize| {
            let names: Vec<String> = names.iter().map(|n| format!("model.layers.{i}.{n}.weight")).collect();
            source.tensor((device, kernels, c.dtype), &names.iter().map(String::as_str).collect::<Vec<_>>(), size)
        };
        let weights = |plain: Memory, size: usize| Weights::of(plain, size, c, device, kernels);
        let q = c.heads * c.head_dim;
        let kv = 2 * c.kv_heads * c.head_dim;
        Ok(Layer {
            norm: take(&["input_layernorm"], c.hidden)?,
            qkv: weights(
                take(&["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"], (q + kv) * c.hidden)?,
                (q + kv) * c.hidden,
            )?,
            out: weights(take(&["self_attn.o_proj"], c.hidden * q)?, c.hidden * q)?,
            second_norm: take(&["post_attention_layernorm"], c.hidden)?,
            gate_up: weights(take(&["mlp.gate_proj", "mlp.up_proj"], 2 * c.inner * c.hidden)?, 2 * c.inner * c.hidden)?,
            down: weights(take(&["mlp.down_proj"], c.hidden * c.inner)?, c.hidden * c.inner)?,
            cache: device.zeros(c.slots * kv * c.capacity * HALF)?,
        })
    }
}

impl State {
    fn new(c: &Config, device: &Device) -> Result<State, Error> {
        // The longest prompt and the most sequences that go on.
        let rows = c.prompt.iter().copied().max().unwrap_or(1) as usize;
        let rows = rows.max(c.slots);
        // Those of a prompt's chunk, or of a step.
        let [chunk, step] = [c.chunk * rows, c.slots * c.capacity].map(|n| c.heads * n);
        let largest = [c.vocab, 2 * c.inner, (c.heads + 2 * c.kv_heads) * c.head_dim].into_iter().max().unwrap_or(0);
        let of = |elements: usize, size: usize| device.zeros(elements * size);
        Ok(State {
            token: of(rows, F32)?,
            position: of(rows, F32)?,
            slot: of(rows, F32)?,
            x: [of(rows * c.hidden, HALF)?, of(rows * c.hidden, HALF)?],
            h: of(rows * c.hidden, HALF)?,
            y: of(rows * (c.heads + 2 * c.kv_heads) * c.head_dim, HALF)?,
            q: of(rows * c.heads * c.head_dim, HALF)?,
            scores: device.zeros((chunk * HALF).max(step * F32))?,
            weights: of(chunk.max(step), HALF)?,
            o: of(rows * c.heads * c.head_dim, HALF)?,
            gate_up: of(rows * 2 * c.inner, HALF)?,
            units: of(rows * c.inner, HALF)?,
            logits: of(c.slots * c.vocab, F32)?,
            probabilities: of(c.slots * c.vocab, F32)?,
            dense: of(if c.int4 { largest * c.hidden } else { 0 }, HALF)?,
        })
    }
}

/// Cosines, then sines, of the angles that each position turns each pair of a head by.
fn angles(c: &Config, device: &Device) -> Result<Memory, Error> {
    let half = c.head_dim / 2;
    let mut table = vec![0f32; c.capacity * 2 * half];
    for (at, value) in table.iter_mut().enumerate() {
        let (position, sine, pair) = (at / (2 * half), at / half % 2 == 1, at % half);
        let angle = position as f64 / c.rope_base.powf(pair as f64 / half as f64);
        *value = if sine { angle.sin() } else { angle.cos() } as f32;
    }
    let mut memory = device.zeros(table.len() * F32)?;
    device.write(&mut memory, 0, bytes(&table))?;
    Ok(memory)
}

/// A number of 4 bytes.
pub trait Word: Copy {}
impl Word for i32 {}
impl Word for u32 {}
impl Word for f32 {}

/// Numbers as the bytes that they are in memory.
pub fn bytes<T: Word>(words: &[T]) -> &[u8] {
    // SAFETY: every `Word` is four bytes without padding.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), std::mem::size_of_val(words)) }
}
