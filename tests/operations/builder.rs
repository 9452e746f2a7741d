//! The builder: its functions read back from their text as they are, and what is wrong with them is said.

use daylight::ir::{BinOp, DType, Expr, ExprKind, Intrin, PrimFunc, PrimFuncBuilder, Reducer, TensorVar, read, verify};
use proptest::prelude::*;

/// The text of a function, and its canonical text, are read as the very same function.
pub fn reads_back(f: &PrimFunc) {
    verify(f).unwrap_or_else(|e| panic!("{e:?}"));
    let text = f.to_string();
    let again = read(&text, "print").unwrap_or_else(|e| panic!("{e}\n{text}")).remove(0);
    assert_eq!(&again, f, "{text}");
    let canonical = read(&f.canonical_text(), "print").expect("it reads").remove(0);
    assert_eq!(canonical.canonical_text(), f.canonical_text());
}

/// What a random function is made of: numbers that are taken in turn.
struct Draw<'d>(std::iter::Cycle<std::slice::Iter<'d, u8>>);

impl Draw<'_> {
    fn below(&mut self, n: usize) -> usize {
        *self.0.next().expect("a cycle has no end") as usize % n
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// A value of one type, at the indices of an element, from tensors of that shape and type.
    fn value(&mut self, tensors: &[TensorVar], at: &[Expr], depth: usize) -> Expr {
        let from = self.below(tensors.len());
        let leaf = tensors[from].at(at);
        if depth == 0 {
            return leaf;
        }
        let dtype = leaf.dtype();
        let a = self.value(tensors, at, depth - 1);
        match self.below(9) {
            0 => leaf,
            1 => a + self.value(tensors, at, depth - 1),
            2 => a - self.value(tensors, at, depth - 1),
            3 => a * self.value(tensors, at, depth - 1),
            4 => a.max(self.value(tensors, at, depth - 1)),
            5 if dtype.is_float() => a.math(self.of(&[Intrin::Exp, Intrin::Tanh, Intrin::Sigmoid, Intrin::Fabs])),
            6 if dtype.is_float() => a / 3.5 + 0.1,
            7 => {
                let otherwise = self.value(tensors, at, depth - 1);
                let cond = Expr::binary(BinOp::Lt, a.clone(), otherwise.clone());
                Expr::new(ExprKind::Select { cond, then: a, otherwise })
            }
            8 => -a,
            _ => Expr::cast(dtype, Expr::cast(DType::F32, a) * 2),
        }
    }

    /// Inputs, an elementwise block, a reduction of its result, and what is made of that.
    fn function(&mut self) -> Result<PrimFunc, String> {
        let mut f = PrimFuncBuilder::new("drawn");
        let dtype = self.of(&[DType::F32, DType::F16, DType::BF16, DType::I32, DType::I8, DType::F64]);
        let rank = 1 + self.below(3);
        let mut shape: Vec<Expr> = vec![];
        for k in 0..rank {
            let known = 1 + self.below(9) as i64;
            shape.push(if self.below(3) == 0 { f.extent(["n", "m", "k"][k]) } else { known.into() });
        }
        let count = 1 + self.below(3);
        let inputs: Vec<TensorVar> = (0..count).map(|k| f.param(&format!("x{k}"), dtype, shape.clone())).collect();
        let rest = shape[1..].to_vec();
        let y = f.param("y", dtype, rest.clone());
        let [t, r] = [("t", shape.clone()), ("r", rest)].map(|(name, shape)| f.intermediate(name, dtype, shape));
        f.compute("mix", &t, |at| self.value(&inputs, at, 3));
        let reducer = self.of(&[Reducer::Sum, Reducer::Prod, Reducer::Max, Reducer::Min]);
        f.reduce("over", &r, &shape[..1], reducer, |at, k| t.at([k, at].concat()));
        f.compute("out", &y, |at| self.value(std::slice::from_ref(&r), at, 2));
        f.finish()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn functions_read_back_as_they_are(bytes in proptest::collection::vec(any::<u8>(), 8..80)) {
        let f = Draw(bytes.iter().cycle()).function().expect("a function");
        reads_back(&f);
    }
}

#[test]
fn scalars_and_blocks_of_ones_own() {
    let mut f = PrimFuncBuilder::new("clip");
    let n = f.extent("n");
    let x = f.param("x", DType::F32, [n.clone()]);
    let most = f.scalar("most", DType::F32);
    let y = f.param("y", DType::F32, [n.clone()]);
    f.block("clip", |b| {
        let i = b.spatial("i", &n);
        b.store(&y, [&i], x.at([&i]).min(most));
    });
    let f = f.finish().expect("a function");
    reads_back(&f);
    assert!(f.to_string().contains("y[v_i] = T.min(x[v_i], most)"), "{f}");
}

#[test]
fn what_is_wrong_is_said() {
    let wrong = |name: &str, body: fn(&mut PrimFuncBuilder)| {
        let mut f = PrimFuncBuilder::new(name);
        body(&mut f);
        f.finish().expect_err("something is wrong")
    };
    assert!(wrong("two words", |_| {}).contains("`two words` is no name"));
    assert!(wrong("lambda", |_| {}).contains("`lambda` is no name"));
    let twice = wrong("f", |f| {
        f.extent("A");
        f.param("A", DType::F32, [8.into()]);
    });
    assert!(twice.contains("f: the name `A` stands twice"), "{twice}");
    let open = wrong("f", |f| {
        let n = f.extent("n");
        f.param("x", DType::F32, [n * 2]);
    });
    assert!(open.contains("f: no parameter has the extent `n` as a dimension"), "{open}");
    let mixed = wrong("f", |f| {
        let [x, y] = [("x", DType::F16), ("y", DType::F32)].map(|(name, dtype)| f.param(name, dtype, [8.into()]));
        f.compute("copy", &y, |at| x.at(at));
    });
    assert_eq!(mixed, "f: y: a value of float16 is stored in a buffer of float32");
    let flat = wrong("f", |f| {
        let x = f.param("x", DType::F32, [8.into(), 8.into()]);
        f.compute("flat", &x.clone(), |at| x.at([&at[0]]));
    });
    assert_eq!(flat, "f: x: 1 indices for 2 dimensions");
}
