//! A decoder of Llama's shape: the memory that it has, and which kernels make a step.

use crate::config::Config;
use crate::device::{Device, Error, Kernels, Memory};
use crate::source::Source;

const BF16: usize = 2;
const F32: usize = 4;

/// What one layer has learned.
pub struct Layer {
    pub norm: Memory,
    pub qkv: Memory,
    pub out: Memory,
    pub second_norm: Memory,
    pub gate_up: Memory,
    pub down: Memory,
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
}

/// A model on a device.
pub struct Model {
    pub config: Config,
    pub device: Device,
    pub kernels: Kernels,
    pub embedding: Memory,
    pub layers: Vec<Layer>,
    pub norm: Memory,
    pub head: Memory,
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
        let mut take = |name: &str, size: usize| source.tensor(&device, &kernels, &[name], size);
        let embedding = take("model.embed_tokens.weight", c.vocab * c.hidden)?;
        let norm = take("model.norm.weight", c.hidden)?;
        let head = take("lm_head.weight", c.vocab * c.hidden)?;
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
        let (c, k, s) = (&self.config, &self.kernels, &self.state);
        let cache = |l: &Layer| l.cache.address() + (slot * 2 * c.kv_heads * c.capacity * c.head_dim * BF16) as u64;
        let [q, p, w] = [&s.q, &s.scores, &s.weights].map(Memory::address);
        self.embed(rows)?;
        for l in &self.layers {
            self.attend(l, cache(l), rows, |o| {
                // SAFETY: `State::new` made room for the rows of the longest prompt.
                unsafe {
                    k.prompt_scores([q, cache(l), p], rows)?;
                    k.prompt_weights([p, w], rows)?;
                    k.prompt_values([w, cache(l), o], rows)
                }
            })?;
        }
        let last = ((rows - 1) * c.hidden * BF16) as u64;
        self.finish(s.x[0].address() + last, 1)
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
        let [q, p, w, position] = [&s.q, &s.scores, &s.weights, &s.position].map(Memory::address);
        self.embed(batch)?;
        for l in &self.layers {
            let cache = l.cache.address();
            self.attend(l, cache, batch, |o| {
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

    /// One layer around the kernels of its attention, which are given where their result goes.
    fn attend(
        &self,
        l: &Layer,
        cache: u64,
        rows: usize,
        attention: impl Fn(u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (k, s) = (&self.kernels, &self.state);
        let at = Memory::address;
        let [x, x2, h, y, o] = [&s.x[0], &s.x[1], &s.h, &s.y, &s.o].map(at);
        // SAFETY: `State::new` made room for the rows, `Layer::load` for the weights; positions were checked.
        unsafe {
            k.rms_norm([x, at(&l.norm), h], rows)?;
            k.qkv([h, at(&l.qkv), y], rows)?;
            k.append([y, at(&s.slot), at(&s.position), at(&self.angle), cache], rows)?;
            k.turn([y, at(&s.position), at(&self.angle), at(&s.q)], rows)?;
        }
        attention(o)?;
        // SAFETY: as above.
        unsafe {
            k.out([o, at(&l.out), x, x2], rows)?;
            k.rms_norm([x2, at(&l.second_norm), h], rows)?;
            k.gate_up([h, at(&l.gate_up), at(&s.gate_up)], rows)?;
            k.gated([at(&s.gate_up), at(&s.units)], rows)?;
            k.down([at(&s.units), at(&l.down), x2, x], rows)
        }
    }

    /// Probabilities and the likeliest token of `batch` hidden states from `x` on.
    fn finish(&self, x: u64, batch: usize) -> Result<(), Error> {
        let (k, s) = (&self.kernels, &self.state);
        let at = Memory::address;
        // SAFETY: `State::new` made room for all sequences.
        unsafe {
            k.rms_norm([x, at(&self.norm), at(&s.h)], batch)?;
            k.head([at(&s.h), at(&self.head), at(&s.logits)], batch)?;
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
            source.tensor(device, kernels, &names.iter().map(String::as_str).collect::<Vec<_>>(), size)
        };
        let q = c.heads * c.head_dim;
        let kv = 2 * c.kv_heads * c.head_dim;
        Ok(Layer {
            norm: take(&["input_layernorm"], c.hidden)?,
            qkv: take(&["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"], (q + kv) * c.hidden)?,
            out: take(&["self_attn.o_proj"], c.hidden * q)?,
            second_norm: take(&["post_attention_layernorm"], c.hidden)?,
            gate_up: take(&["mlp.gate_proj", "mlp.up_proj"], 2 * c.inner * c.hidden)?,
            down: take(&["mlp.down_proj"], c.hidden * c.inner)?,
            cache: device.zeros(c.slots * kv * c.capacity * BF16)?,
        })
    }
}

impl State {
    fn new(c: &Config, device: &Device) -> Result<State, Error> {
        // The longest prompt and the most sequences that go on.
        let rows = c.prompt.iter().copied().max().unwrap_or(1) as usize;
        let rows = rows.max(c.slots);
        let scores = c.heads * (rows * rows).max(c.slots * c.capacity);
        let of = |elements: usize, size: usize| device.zeros(elements * size);
        Ok(State {
            token: of(rows, F32)?,
            position: of(rows, F32)?,
            slot: of(rows, F32)?,
            x: [of(rows * c.hidden, BF16)?, of(rows * c.hidden, BF16)?],
            h: of(rows * c.hidden, BF16)?,
            y: of(rows * (c.heads + 2 * c.kv_heads) * c.head_dim, BF16)?,
            q: of(rows * c.heads * c.head_dim, BF16)?,
            scores: of(scores, F32)?,
            weights: of(scores, BF16)?,
            o: of(rows * c.heads * c.head_dim, BF16)?,
            gate_up: of(rows * 2 * c.inner, BF16)?,
            units: of(rows * c.inner, BF16)?,
            logits: of(c.slots * c.vocab, F32)?,
            probabilities: of(c.slots * c.vocab, F32)?,
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
