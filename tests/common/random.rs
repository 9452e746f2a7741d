//! Random tensor functions as text: element-wise stages, reductions over any axes, two of them alike, sums
//! of products, transposes, reversals, strides, padding, reshapes, one symbolic extent; sizes small and odd.

use super::schedule::SplitMix;

/// An extent as text and its value in tests.
#[derive(Clone, PartialEq)]
struct Dim(String, usize);

/// A buffer and its shape.
#[derive(Clone)]
struct Known {
    name: String,
    shape: Vec<Dim>,
}

/// The value that tests give the symbolic extent.
const N: usize = 5;

/// The text of a random function of one to four stages.
pub fn function(rng: &mut SplitMix) -> String {
    let symbolic = rng.below(5) == 0;
    let mut first = dims(rng, symbolic);
    if symbolic {
        first[0] = Dim("n".to_string(), N);
    }
    let mut known = vec![Known { name: "A".to_string(), shape: first }];
    known.push(Known { name: "B".to_string(), shape: dims(rng, symbolic) });
    let stages = 1 + rng.below(4);
    let (mut body, mut allocs) = (String::new(), String::new());
    let mut last: Option<Stage> = None;
    for k in 0..stages {
        let name = if k + 1 == stages { "O".to_string() } else { format!("t{k}") };
        // Now and then a stage is like the last one and does not read what that wrote.
        let twin = last.take().filter(|_| rng.below(2) == 0);
        let seen = if twin.is_some() { &known[..known.len() - 1] } else { &known[..] };
        let stage = twin.unwrap_or_else(|| stage(rng, symbolic, &known));
        let (text, shape) = stage.text(rng, &name, symbolic, seen);
        last = Some(stage).filter(|s| s.reduce.contains(&true));
        body += &text;
        if k + 1 < stages {
            allocs += &format!("    {name} = T.sblock_alloc_buffer({})\n", tuple(&shape));
        }
        known.push(Known { name, shape });
    }
    let params = [&known[0], &known[1], &known[known.len() - 1]];
    let names: Vec<String> = params.iter().map(|p| format!("h_{}: T.handle", p.name)).collect();
    let matches: String = params
        .iter()
        .map(|p| format!("    {} = T.match_buffer(h_{}, {}, \"float32\")\n", p.name, p.name, tuple(&p.shape)))
        .collect();
    let extent = if symbolic { "    n = T.int64()\n" } else { "" };
    format!("@T.prim_func\ndef f({}):\n{extent}{matches}{allocs}{body}", names.join(", "))
}

fn dims(rng: &mut SplitMix, symbolic: bool) -> Vec<Dim> {
    (0..1 + rng.below(3)).map(|_| dim(rng, symbolic)).collect()
}

fn dim(rng: &mut SplitMix, symbolic: bool) -> Dim {
    if symbolic && rng.below(3) == 0 {
        return Dim("n".to_string(), N);
    }
    let size = [1, 2, 3, 4, 5, 6, 7, 4, 6][rng.below(9)];
    Dim(if symbolic { format!("T.int64({size})") } else { size.to_string() }, size)
}

fn tuple(shape: &[Dim]) -> String {
    format!("({},)", shape.iter().map(|d| d.0.as_str()).collect::<Vec<_>>().join(", "))
}

/// The iterators of a stage.
struct Iters {
    names: Vec<String>,
    dims: Vec<Dim>,
    reduce: Vec<bool>,
}

/// A nest: its extents, and which of them are reduced.
struct Stage {
    dims: Vec<Dim>,
    reduce: Vec<bool>,
}

fn stage(rng: &mut SplitMix, symbolic: bool, known: &[Known]) -> Stage {
    let newest = &known[known.len() - 1];
    let dims = if rng.below(2) == 0 { newest.shape.clone() } else { dims(rng, symbolic) };
    let reduces = rng.below(3) == 0;
    let reduce = dims.iter().map(|_| reduces && rng.below(2) == 0).collect();
    Stage { dims, reduce }
}

impl Stage {
    /// The nest, which writes `name`, and the shape it gives the buffer.
    fn text(&self, rng: &mut SplitMix, name: &str, symbolic: bool, known: &[Known]) -> (String, Vec<Dim>) {
        let names = (0..self.dims.len()).map(|k| format!("v{k}_{name}")).collect();
        let it = Iters { names, dims: self.dims.clone(), reduce: self.reduce.clone() };
        nest(rng, name, symbolic, known, it)
    }
}

fn nest(rng: &mut SplitMix, name: &str, symbolic: bool, known: &[Known], it: Iters) -> (String, Vec<Dim>) {
    let loops: Vec<String> = (0..it.dims.len()).map(|k| format!("i{k}_{name}")).collect();
    let mut text = String::new();
    for (k, l) in loops.iter().enumerate() {
        text += &format!("{}for {l} in range({}):\n", "    ".repeat(k + 1), it.dims[k].0);
    }
    let pad = "    ".repeat(loops.len() + 1);
    text += &format!("{pad}with T.sblock(\"{name}\"):\n");
    for (k, l) in loops.iter().enumerate() {
        let axis = if it.reduce[k] { "reduce" } else { "spatial" };
        text += &format!("{pad}    {} = T.axis.{axis}({}, {l})\n", it.names[k], it.dims[k].0);
    }
    let (at, shape) = target(rng, &it, symbolic);
    let out = format!("{name}[{at}]");
    let value = value(rng, &it, known);
    if it.reduce.contains(&true) {
        let (start, combined) = match rng.below(2) {
            0 => ("T.float32(0)", format!("{out} + {value}")),
            _ => ("T.float32(-1000)", format!("T.max({out}, {value})")),
        };
        text += &format!("{pad}    with T.init():\n{pad}        {out} = {start}\n{pad}    {out} = {combined}\n");
    } else {
        text += &format!("{pad}    {out} = {value}\n");
    }
    (text, shape)
}

/// Where the stage writes: its spatial iterators in order, swapped, or two of them flattened.
fn target(rng: &mut SplitMix, it: &Iters, symbolic: bool) -> (String, Vec<Dim>) {
    let mut spatial: Vec<usize> = (0..it.dims.len()).filter(|k| !it.reduce[*k]).collect();
    if spatial.is_empty() {
        return (if symbolic { "T.int64(0)" } else { "0" }.to_string(), vec![Dim("1".to_string(), 1)]);
    }
    if rng.below(5) == 0 {
        spatial.reverse();
    }
    let constant = spatial.iter().all(|k| it.dims[*k].0 != "n");
    if spatial.len() > 1 && constant && rng.below(6) == 0 {
        let (a, b) = (spatial[0], spatial[1]);
        let size = it.dims[a].1 * it.dims[b].1;
        let mut at = vec![format!("{} * {} + {}", it.names[a], it.dims[b].1, it.names[b])];
        let mut shape = vec![Dim(if symbolic { format!("T.int64({size})") } else { size.to_string() }, size)];
        at.extend(spatial[2..].iter().map(|k| it.names[*k].clone()));
        shape.extend(spatial[2..].iter().map(|k| it.dims[*k].clone()));
        return (at.join(", "), shape);
    }
    let at: Vec<&str> = spatial.iter().map(|k| it.names[*k].as_str()).collect();
    (at.join(", "), spatial.iter().map(|k| it.dims[*k].clone()).collect())
}

fn value(rng: &mut SplitMix, it: &Iters, known: &[Known]) -> String {
    let (a, b) = (load(rng, it, known), load(rng, it, known));
    match rng.below(10) {
        7 => format!("({a} * {})", load(rng, it, &known[..2])),
        8 | 9 if it.reduce.contains(&true) => format!("({a} * {})", load(rng, it, &known[..2])),
        0 => format!("({a} + T.float32(1))"),
        1 => format!("T.max({a}, {b})"),
        2 => format!("({a} - {b})"),
        3 => format!("({a} + {a} + {b})"),
        4 => format!("T.if_then_else({} < {}, {a}, T.float32(1))", it.names[0], 1 + rng.below(4)),
        5 => format!("T.Select({} % 2 == 0, {a}, {b})", it.names[0]),
        _ => format!("({a} * T.float32(2))"),
    }
}

/// A load of a known buffer, most often the newest, with every index inside its bounds.
fn load(rng: &mut SplitMix, it: &Iters, known: &[Known]) -> String {
    let k = if rng.below(3) > 0 { known.len() - 1 } else { rng.below(known.len()) };
    let indices: Vec<String> = known[k].shape.iter().enumerate().map(|(at, d)| index(rng, it, at, d)).collect();
    format!("{}[{}]", known[k].name, indices.join(", "))
}

/// An index below `d`: the iterator at the same place where it fits, or an odd use of another.
fn index(rng: &mut SplitMix, it: &Iters, at: usize, d: &Dim) -> String {
    let same = at < it.dims.len() && it.dims[at] == *d;
    if same && rng.below(4) > 0 {
        return it.names[at].clone();
    }
    let k = rng.below(it.dims.len());
    let (name, extent) = (&it.names[k], &it.dims[k]);
    let max = d.1 - 1;
    if d.0 == "n" || extent.0 == "n" {
        return if extent == d { format!("n - 1 - {name}") } else { "0".to_string() };
    }
    match rng.below(5) {
        0 if extent.1 <= d.1 => format!("{max} - {name}"),
        1 if extent.1 <= d.1 => name.clone(),
        2 if (extent.1 - 1) * 2 <= max => format!("{name} * 2"),
        3 => format!("T.min({name} // 2, {max})"),
        _ => format!("({name} + 1) % {}", d.1),
    }
}
