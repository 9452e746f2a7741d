//! Reads a step back from its line of text.

use super::{IndexMap, Operand, Step};
use crate::ir::{AttrValue, BinOp, DType, Expr, Name, Scope, ThreadTag};
use std::str::FromStr;

/// An argument as written.
#[derive(Clone, PartialEq, Debug)]
enum Arg {
    Word(String),
    Int(i64),
    Float(f64),
    Str(String),
    List(Vec<Arg>),
    Dict(Vec<(String, Arg)>),
    Call(String, Vec<Arg>),
    Binary(BinOp, Box<Arg>, Box<Arg>),
}

impl FromStr for Step {
    type Err = String;

    /// Reads one line such as `split(i1, [None, 4])`.
    fn from_str(text: &str) -> Result<Step, String> {
        let mut cursor = Cursor { text, at: 0, operators: 0 };
        let (name, args) = match cursor.arg().and_then(|a| cursor.end().map(|()| a)) {
            Ok(Arg::Call(name, args)) => (name, args),
            Ok(_) => return Err(format!("cannot read step \"{text}\": expected name(arguments)")),
            Err(why) => return Err(format!("cannot read step \"{text}\" at column {}: {why}", cursor.at + 1)),
        };
        step(&name, &args).map_err(|why| format!("cannot read step \"{text}\": {why}"))
    }
}

fn step(name: &str, args: &[Arg]) -> Result<Step, String> {
    match (name, args) {
        ("split", [at, factors]) => Ok(Step::Split { at: word(at)?, factors: list(factors, factor)? }),
        ("fuse", loops) => Ok(Step::Fuse { loops: words(loops)? }),
        ("reorder", loops) => Ok(Step::Reorder { loops: words(loops)? }),
        ("bind", [at, tag]) => Ok(Step::Bind { at: word(at)?, tag: thread_tag(tag)? }),
        ("parallel", [at]) => Ok(Step::Parallel { at: word(at)? }),
        ("vectorize", [at]) => Ok(Step::Vectorize { at: word(at)? }),
        ("unroll", [at]) => Ok(Step::Unroll { at: word(at)? }),
        ("annotate", [at, key, value]) => {
            Ok(Step::Annotate { at: word(at)?, key: string(key)?, value: attr_value(value)? })
        }
        ("compute_inline", [block]) => Ok(Step::ComputeInline { block: word(block)? }),
        ("reverse_compute_inline", [block]) => Ok(Step::ReverseComputeInline { block: word(block)? }),
        ("compute_at", [block, at]) => Ok(Step::ComputeAt { block: word(block)?, at: word(at)? }),
        ("reverse_compute_at", [block, at]) => Ok(Step::ReverseComputeAt { block: word(block)?, at: word(at)? }),
        ("cache_read", [block, buffer, s]) => {
            Ok(Step::CacheRead { block: word(block)?, buffer: word(buffer)?, scope: scope(s)? })
        }
        ("cache_write", [block, buffer, s]) => {
            Ok(Step::CacheWrite { block: word(block)?, buffer: word(buffer)?, scope: scope(s)? })
        }
        ("storage_align", [buffer, axis, factor, offset]) => Ok(Step::StorageAlign {
            buffer: word(buffer)?,
            axis: axis_number(axis)?,
            factor: integer(factor)?,
            offset: integer(offset)?,
        }),
        ("set_scope", [buffer, s]) => Ok(Step::SetScope { buffer: word(buffer)?, scope: scope(s)? }),
        ("rfactor", [at, axis]) => Ok(Step::Rfactor { at: word(at)?, axis: axis_number(axis)? }),
        ("decompose_reduction", [block, at]) => Ok(Step::DecomposeReduction { block: word(block)?, at: word(at)? }),
        ("merge_reductions", [first, second]) => {
            Ok(Step::MergeReductions { first: word(first)?, second: word(second)? })
        }
        ("online_reductions", [first, second, at]) => {
            Ok(Step::OnlineReductions { first: word(first)?, second: word(second)?, at: word(at)? })
        }
        ("transform_block_layout", [block, map]) => {
            Ok(Step::TransformBlockLayout { block: word(block)?, map: list(map, |group| list(group, word))? })
        }
        ("stage_write", [block, s]) => Ok(Step::StageWrite { block: word(block)?, scope: scope(s)? }),
        ("relax_arithmetic", [block, way]) => Ok(Step::RelaxArithmetic { block: word(block)?, way: string(way)? }),
        ("blockize", [at]) => Ok(Step::Blockize { at: word(at)? }),
        ("transform_layout", [buffer, from, to]) => {
            let map = IndexMap { from: list(from, word)?, to: list(to, index)? };
            Ok(Step::TransformLayout { buffer: word(buffer)?, map })
        }
        ("flatten_buffer", [buffer]) => Ok(Step::FlattenBuffer { buffer: word(buffer)? }),
        ("share", [blocks, buffer, s]) => {
            let buffer = Some(word(buffer)?).filter(|b| b.as_str() != "None");
            Ok(Step::Share { blocks: list(blocks, word)?, buffer, scope: scope(s)? })
        }
        ("add_unit_loop", [at]) => Ok(Step::AddUnitLoop { at: word(at)? }),
        ("reindex", [block, part, map]) => {
            let map = list(map, |group| list(group, word))?;
            Ok(Step::Reindex { block: word(block)?, operand: operand(part)?, map })
        }
        ("pad_einsum", [block, multiples]) => {
            Ok(Step::PadEinsum { block: word(block)?, multiples: list(multiples, whole)? })
        }
        _ => Err(format!("no step is called {name} with {} arguments", args.len())),
    }
}

fn word(arg: &Arg) -> Result<Name, String> {
    match arg {
        Arg::Word(w) => Ok(Name::new(w)),
        other => Err(format!("expected a name, found {other:?}")),
    }
}

fn words(args: &[Arg]) -> Result<Vec<Name>, String> {
    args.iter().map(word).collect()
}

fn list<T>(arg: &Arg, item: impl Fn(&Arg) -> Result<T, String>) -> Result<Vec<T>, String> {
    match arg {
        Arg::List(items) => items.iter().map(item).collect(),
        other => Err(format!("expected a list, found {other:?}")),
    }
}

fn string(arg: &Arg) -> Result<String, String> {
    match arg {
        Arg::Str(s) => Ok(s.clone()),
        other => Err(format!("expected a quoted string, found {other:?}")),
    }
}

fn scope(arg: &Arg) -> Result<Scope, String> {
    string(arg).map(|s| Scope::by_name(&s))
}

fn operand(arg: &Arg) -> Result<Operand, String> {
    let name = string(arg)?;
    let found = Operand::ALL.into_iter().find(|o| o.name() == name);
    found.ok_or_else(|| format!("no operand is called {name}: there are left, right and result"))
}

fn whole(arg: &Arg) -> Result<i64, String> {
    match arg {
        Arg::Int(n) => Ok(*n),
        other => Err(format!("expected an integer, found {other:?}")),
    }
}

/// An index in terms of names.
fn index(arg: &Arg) -> Result<Expr, String> {
    match arg {
        Arg::Word(w) => Ok(Expr::var(w.as_str(), DType::I32)),
        Arg::Int(n) if i32::try_from(*n).is_ok() => Ok(Expr::int(*n, DType::I32)),
        Arg::Binary(op, a, b) => Ok(Expr::binary(*op, index(a)?, index(b)?)),
        other => Err(format!("expected an index such as i // 4, found {other:?}")),
    }
}

fn factor(arg: &Arg) -> Result<Option<i64>, String> {
    match arg {
        Arg::Int(n) => Ok(Some(*n)),
        Arg::Word(w) if w == "None" => Ok(None),
        other => Err(format!("expected an integer or None, found {other:?}")),
    }
}

fn integer(arg: &Arg) -> Result<i64, String> {
    match arg {
        Arg::Int(n) => Ok(*n),
        other => Err(format!("expected an integer, found {other:?}")),
    }
}

fn axis_number(arg: &Arg) -> Result<usize, String> {
    match arg {
        Arg::Int(n) if *n >= 0 => Ok(*n as usize),
        other => Err(format!("expected a position from 0, found {other:?}")),
    }
}

fn thread_tag(arg: &Arg) -> Result<ThreadTag, String> {
    let name = word(arg)?;
    ThreadTag::by_name(name.as_str()).ok_or_else(|| format!("no hardware axis is called {name}"))
}

fn attr_value(arg: &Arg) -> Result<AttrValue, String> {
    Ok(match arg {
        Arg::Word(w) if w == "True" => AttrValue::Bool(true),
        Arg::Word(w) if w == "False" => AttrValue::Bool(false),
        Arg::Word(w) if w == "inf" => AttrValue::Float(f64::INFINITY.to_bits()),
        Arg::Word(w) => return Err(format!("expected a value, found {w}")),
        Arg::Int(n) => AttrValue::Int(*n),
        Arg::Float(x) => AttrValue::Float(x.to_bits()),
        Arg::Str(s) => AttrValue::Str(s.clone()),
        Arg::List(items) => AttrValue::List(items.iter().map(attr_value).collect::<Result<_, _>>()?),
        Arg::Dict(items) => {
            let pair = |(k, v): &(String, Arg)| Ok((k.clone(), attr_value(v)?));
            AttrValue::Dict(items.iter().map(pair).collect::<Result<_, String>>()?)
        }
        Arg::Binary(..) => return Err("expected a value, found an operation".to_string()),
        Arg::Call(name, args) => match (name.as_str(), args.as_slice()) {
            ("raw", [Arg::Str(s)]) => AttrValue::Raw(s.clone()),
            (dtype, [Arg::Int(n)]) => AttrValue::Typed(*n, dtype.parse::<DType>()?),
            _ => return Err(format!("expected a value, found {name}(...)")),
        },
    })
}

/// How deep lists and dictionaries may nest in the text of a step.
const MAX_DEPTH: usize = 64;

/// How many operators the text of a step may hold.
const MAX_OPERATORS: usize = 256;

/// A place in the text; `at` counts bytes.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
    /// Operators read so far.
    operators: usize,
}

impl Cursor<'_> {
    fn arg(&mut self) -> Result<Arg, String> {
        self.nested(0)
    }

    /// An operand, or a sum of products of them.
    fn nested(&mut self, depth: usize) -> Result<Arg, String> {
        if depth > MAX_DEPTH {
            return Err(format!("nested deeper than {MAX_DEPTH} levels"));
        }
        let operators = [("+", BinOp::Add), ("-", BinOp::Sub)];
        self.operands(&operators, |c| c.product(depth))
    }

    fn product(&mut self, depth: usize) -> Result<Arg, String> {
        let operators = [("*", BinOp::Mul), ("//", BinOp::FloorDiv), ("%", BinOp::FloorMod)];
        self.operands(&operators, |c| c.operand(depth))
    }

    /// Operands with operators of one rank between them, which associate to the left.
    fn operands(
        &mut self,
        operators: &[(&str, BinOp)],
        mut operand: impl FnMut(&mut Self) -> Result<Arg, String>,
    ) -> Result<Arg, String> {
        let mut all = operand(self)?;
        loop {
            self.peek();
            let rest = &self.text[self.at..];
            let Some((sign, op)) = operators.iter().find(|(sign, _)| rest.starts_with(sign)) else { return Ok(all) };
            self.operators += 1;
            if self.operators > MAX_OPERATORS {
                return Err(format!("more than {MAX_OPERATORS} operators"));
            }
            self.at += sign.len();
            all = Arg::Binary(*op, Box::new(all), Box::new(operand(self)?));
        }
    }

    fn operand(&mut self, depth: usize) -> Result<Arg, String> {
        match self.peek() {
            Some('(') => {
                self.expect('(')?;
                let inner = self.nested(depth + 1)?;
                self.expect(')').map(|()| inner)
            }
            Some('[') => self.items('[', ']', |c| c.nested(depth + 1)).map(Arg::List),
            Some('{') => self.items('{', '}', |c| c.pair(depth + 1)).map(Arg::Dict),
            Some('"') => self.string().map(Arg::Str),
            Some(c) if c.is_ascii_digit() || c == '-' => self.number(),
            Some(c) if c.is_alphabetic() || c == '_' => {
                let word = self.take(|c| c.is_alphanumeric() || c == '_' || c == '.');
                match self.peek() {
                    Some('(') => Ok(Arg::Call(word, self.items('(', ')', |c| c.nested(depth + 1))?)),
                    _ => Ok(Arg::Word(word)),
                }
            }
            Some(c) => Err(format!("unexpected {c:?}")),
            None => Err("unexpected end".to_string()),
        }
    }

    fn pair(&mut self, depth: usize) -> Result<(String, Arg), String> {
        self.peek();
        let key = self.string()?;
        self.expect(':')?;
        Ok((key, self.nested(depth)?))
    }

    /// `open item, item, ... close`
    fn items<T>(
        &mut self,
        open: char,
        close: char,
        mut item: impl FnMut(&mut Self) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        self.expect(open)?;
        let mut items = vec![];
        while self.peek() != Some(close) {
            if !items.is_empty() {
                self.expect(',')?;
            }
            items.push(item(self)?);
        }
        self.expect(close)?;
        Ok(items)
    }

    fn number(&mut self) -> Result<Arg, String> {
        let mut before = 'e';
        let text = self.take(|c| {
            let sign = matches!(c, '-' | '+') && matches!(before, 'e' | 'E');
            before = c;
            sign || c.is_ascii_alphanumeric() || c == '.'
        });
        if let Ok(n) = text.parse::<i64>() {
            return Ok(Arg::Int(n));
        }
        text.parse::<f64>().map(Arg::Float).map_err(|_| format!("{text} is not a number"))
    }

    fn string(&mut self) -> Result<String, String> {
        self.expect('"')?;
        let mut out = String::new();
        loop {
            match self.next() {
                Some('"') => return Ok(out),
                Some('\\') => match self.next() {
                    Some('n') => out.push('\n'),
                    Some(c) => out.push(c),
                    None => return Err("the string does not end".to_string()),
                },
                Some(c) => out.push(c),
                None => return Err("the string does not end".to_string()),
            }
        }
    }

    fn next(&mut self) -> Option<char> {
        let c = self.text[self.at..].chars().next()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// The next character that is not a space, left in place.
    fn peek(&mut self) -> Option<char> {
        self.take(char::is_whitespace);
        self.text[self.at..].chars().next()
    }

    fn take(&mut self, mut keep: impl FnMut(char) -> bool) -> String {
        let rest = &self.text[self.at..];
        let len = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.at += len;
        rest[..len].to_string()
    }

    fn expect(&mut self, want: char) -> Result<(), String> {
        match self.peek() {
            Some(c) if c == want => {
                self.at += c.len_utf8();
                Ok(())
            }
            Some(c) => Err(format!("expected {want:?}, found {c:?}")),
            None => Err(format!("expected {want:?}, found the end")),
        }
    }

    fn end(&mut self) -> Result<(), String> {
        match self.peek() {
            None => Ok(()),
            Some(c) => Err(format!("unexpected {c:?} after the step")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: [&str; 37] = [
        "split(i1, [None, 4])",
        "split(i1, [2, 3, 4])",
        "fuse(i0, i1)",
        "reorder(i1, i0)",
        "bind(i0, blockIdx.x)",
        "bind(i0, vthread.y)",
        "parallel(i0)",
        "vectorize(i0)",
        "unroll(i0)",
        "annotate(i0, \"min_blocks\", 4)",
        "annotate(b0, \"a \\\"quoted\\\\ \\n key\", [True, -2, 1.5, \"x\", int64(3), {\"k\": False}, raw(\"None\")])",
        "compute_inline(b0)",
        "reverse_compute_inline(b1)",
        "compute_at(b0, i1)",
        "reverse_compute_at(b1, i0)",
        "cache_read(b0, p0, \"shared.dyn\")",
        "cache_write(b0, p1, \"local\")",
        "set_scope(t0, \"wmma.accumulator\")",
        "storage_align(t0, 1, 32, 1)",
        "rfactor(i1_1, 0)",
        "decompose_reduction(b0, i1_0)",
        "transform_block_layout(b0, [[v0, v2], [], [v1]])",
        "add_unit_loop(b0)",
        "reindex(b0, \"left\", [[v0], [], [v1, v2]])",
        "pad_einsum(b0, [1, 128, 8])",
        "merge_reductions(b0, b1)",
        "online_reductions(b0, b1, i1_0)",
        "flatten_buffer(t0)",
        "transform_layout(t0, [i, j], [j, i // 4, (i % 4 + 1) * 2 - (j - i // 1)])",
        "transform_layout(t0, [], [0])",
        "blockize(i1)",
        "relax_arithmetic(b0, \"reciprocal\")",
        "stage_write(b0, \"local\")",
        "share([b0, b1], p0, \"local\")",
        "share([b1, b2], None, \"local\")",
        "annotate(i0, \"x\", [])",
        "annotate(i0, \"x\", -1e300)",
    ];

    #[test]
    fn steps_print_as_they_were_read() {
        for line in LINES {
            let step: Step = line.parse().unwrap();
            let again: Step = step.to_string().parse().unwrap();
            assert_eq!(step, again);
            if !line.contains("e300") {
                assert_eq!(step.to_string(), line);
            }
        }
    }

    #[test]
    fn bad_lines_say_what_is_wrong() {
        let error = |line: &str| line.parse::<Step>().unwrap_err();
        assert_eq!(error("split(i1"), "cannot read step \"split(i1\" at column 9: expected ',', found the end");
        assert_eq!(error("split(i1)"), "cannot read step \"split(i1)\": no step is called split with 1 arguments");
        assert_eq!(error("jump(i1)"), "cannot read step \"jump(i1)\": no step is called jump with 1 arguments");
        assert_eq!(
            error("split(i1, [x])"),
            "cannot read step \"split(i1, [x])\": expected an integer or None, found Word(\"x\")"
        );
        assert_eq!(
            error("unroll(i0) x"),
            "cannot read step \"unroll(i0) x\" at column 12: unexpected 'x' after the step"
        );
        assert_eq!(error("bind(i0, lane)"), "cannot read step \"bind(i0, lane)\": no hardware axis is called lane");
        assert!(error(&"[".repeat(100_000)).contains("nested deeper than 64 levels"));
        assert_eq!(
            error("transform_layout(t0, [i], [i / 4])"),
            "cannot read step \"transform_layout(t0, [i], [i / 4])\" at column 30: expected ',', found '/'"
        );
        assert!(
            error(&format!("transform_layout(t0, [i], [i{}])", " + i".repeat(300))).contains("more than 256 operators")
        );
        assert_eq!(error(""), "cannot read step \"\" at column 1: unexpected end");
    }
}
