//! Reads the notation of layouts.
//!
//! ```text
//! layout  := tile | swizzle | ComposeLayout(swizzle, tile) | ComposeLayout(n, n, n, tile [, inner])
//! tile    := TileLayout(spec) | spec
//! swizzle := SwizzleLayout(n, n, n [, inner])
//! inner   := [swizzle_inner =] (True | False)
//! spec    := part { + part }              one S, at most one R, offsets
//! part    := S[iters] | R[iters] | n [@ axis]
//! iters   := extents [ : strides ]        both a tuple, a number, or several with commas
//! stride  := n [@ axis] | "axis" | (n, "axis")
//! n       := [-] digits { * digits }
//! ```
//!
//! Names may be qualified (`T.S`, `Axis.laneid`). Without strides, iters are row-major on `m`. A
//! bare swizzle is a swizzle over one of its periods of memory.

use super::{Axis, Iter, MAX_RANK, Swizzle, TileLayout, row_major_iters};
use std::collections::BTreeMap;

/// Longest text that is read, in bytes.
const MAX_TEXT: usize = 4096;

impl TileLayout {
    /// Reads a layout. The error is a sentence that says what was expected at which column.
    pub fn parse(text: &str) -> Result<TileLayout, String> {
        if text.len() > MAX_TEXT {
            return Err(format!("a layout is written in at most {MAX_TEXT} bytes, but {} are given", text.len()));
        }
        let mut p = Parser { text, chars: text.char_indices().collect(), pos: 0 };
        let layout = p.layout()?;
        match p.peek() {
            None => Ok(layout),
            Some(_) => Err(p.expected("the end")),
        }
    }
}

struct Parser<'t> {
    text: &'t str,
    chars: Vec<(usize, char)>,
    pos: usize,
}

/// What a term of a `+` chain is.
enum Term {
    Shard(Vec<Iter>),
    Replica(Vec<Iter>),
    Offset(i64, Axis),
}

impl<'t> Parser<'t> {
    /// The next character that is no space.
    fn peek(&mut self) -> Option<char> {
        while self.chars.get(self.pos).is_some_and(|c| c.1.is_whitespace()) {
            self.pos += 1;
        }
        self.chars.get(self.pos).map(|c| c.1)
    }

    fn eat(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        self.pos += usize::from(found);
        found
    }

    fn need(&mut self, c: char) -> Result<(), String> {
        if self.eat(c) { Ok(()) } else { Err(self.expected(&format!("\"{c}\""))) }
    }

    fn fail(&self, pos: usize, why: &str) -> String {
        format!("layout \"{}\": {why} at column {}", self.text, pos + 1)
    }

    fn expected(&mut self, what: &str) -> String {
        let found = self.peek().map_or("the end".to_string(), |c| format!("\"{c}\""));
        self.fail(self.pos, &format!("expected {what}, found {found}"))
    }

    /// A name without its qualifiers, and where it starts.
    fn name(&mut self, what: &str) -> Result<(&'t str, usize), String> {
        loop {
            let Some(c) = self.peek() else { return Err(self.expected(what)) };
            if !c.is_alphabetic() && c != '_' {
                return Err(self.expected(what));
            }
            let start = self.pos;
            while self.chars.get(self.pos).is_some_and(|c| c.1.is_alphanumeric() || c.1 == '_') {
                self.pos += 1;
            }
            let word = self.slice(start);
            if !self.eat('.') {
                return Ok((word, start));
            }
        }
    }

    fn slice(&self, start: usize) -> &'t str {
        let at = |i: usize| self.chars.get(i).map_or(self.text.len(), |c| c.0);
        &self.text[at(start)..at(self.pos)]
    }

    fn at_number(&mut self) -> bool {
        self.peek().is_some_and(|c| c.is_ascii_digit() || c == '-')
    }

    fn layout(&mut self) -> Result<TileLayout, String> {
        if self.at_number() {
            return self.spec();
        }
        let (name, start) = self.name("a layout such as S[(4, 8)]")?;
        match name {
            "ComposeLayout" => self.compose(),
            "SwizzleLayout" => {
                let swizzle = self.swizzle_arguments()?;
                TileLayout::row_major(&[swizzle.period()])?.compose(swizzle)
            }
            _ => {
                self.pos = start;
                self.tile()
            }
        }
    }

    /// `(swizzle, tile)` or `(n, n, n, tile [, inner])`.
    fn compose(&mut self) -> Result<TileLayout, String> {
        self.need('(')?;
        let start = self.pos;
        let (tile, swizzle) = if self.peek().is_some_and(|c| c.is_ascii_digit()) {
            let [m, b, s] = self.three()?;
            self.need(',')?;
            let tile = self.tile()?;
            let inner = self.direction()?;
            (tile, Swizzle::new(m, b, s, inner).map_err(|why| self.fail(start, &why))?)
        } else {
            let (name, at) = self.name("a swizzle such as SwizzleLayout(3, 3, 3)")?;
            if name != "SwizzleLayout" {
                return Err(self.fail(at, &format!("expected SwizzleLayout, found {name}")));
            }
            let swizzle = self.swizzle_arguments()?;
            self.need(',')?;
            (self.tile()?, swizzle)
        };
        self.need(')')?;
        tile.compose(swizzle)
    }

    fn swizzle_arguments(&mut self) -> Result<Swizzle, String> {
        self.need('(')?;
        let start = self.pos;
        let [m, b, s] = self.three()?;
        let inner = self.direction()?;
        self.need(')')?;
        Swizzle::new(m, b, s, inner).map_err(|why| self.fail(start, &why))
    }

    fn three(&mut self) -> Result<[u32; 3], String> {
        let mut out = [0; 3];
        for (i, slot) in out.iter_mut().enumerate() {
            if i > 0 {
                self.need(',')?;
            }
            let start = self.pos;
            let n = self.number()?;
            *slot = u32::try_from(n).map_err(|_| self.fail(start, &format!("{n} is no number of bits")))?;
        }
        Ok(out)
    }

    /// `, swizzle_inner=False`, which may be absent.
    fn direction(&mut self) -> Result<bool, String> {
        if !self.eat(',') {
            return Ok(true);
        }
        let (mut word, mut at) = self.name("swizzle_inner=True or swizzle_inner=False")?;
        if word == "swizzle_inner" {
            self.need('=')?;
            (word, at) = self.name("True or False")?;
        }
        match word {
            "True" => Ok(true),
            "False" => Ok(false),
            _ => Err(self.fail(at, &format!("expected True or False, found {word}"))),
        }
    }

    fn tile(&mut self) -> Result<TileLayout, String> {
        if self.at_number() {
            return self.spec();
        }
        let (name, start) = self.name("TileLayout or S")?;
        if name != "TileLayout" {
            self.pos = start;
            return self.spec();
        }
        self.need('(')?;
        let layout = self.spec()?;
        self.need(')')?;
        Ok(layout)
    }

    fn spec(&mut self) -> Result<TileLayout, String> {
        let start = self.pos;
        let (mut shard, mut replica, mut offset) = (None, None, BTreeMap::new());
        loop {
            let at = self.pos;
            match self.term()? {
                Term::Shard(iters) if shard.is_none() => shard = Some(iters),
                Term::Replica(iters) if replica.is_none() => replica = Some(iters),
                Term::Shard(_) => return Err(self.fail(at, "found a second S[...], where one is allowed")),
                Term::Replica(_) => return Err(self.fail(at, "found a second R[...], where one is allowed")),
                Term::Offset(value, axis) => {
                    let slot = offset.entry(axis).or_insert(0i64);
                    *slot = slot.checked_add(value).ok_or_else(|| self.fail(at, "the offset is too large"))?;
                }
            }
            if !self.eat('+') {
                break;
            }
        }
        let Some(shard) = shard else { return Err(self.expected("\"+\" and S[...]")) };
        TileLayout::new(shard, replica.unwrap_or_default(), offset, None).map_err(|why| self.fail(start, &why))
    }

    fn term(&mut self) -> Result<Term, String> {
        if self.at_number() {
            let (value, axis) = self.on_axis()?;
            return Ok(Term::Offset(value, axis));
        }
        let (name, at) = self.name("S[...], R[...] or an offset")?;
        match name {
            "S" => Ok(Term::Shard(self.iters()?)),
            "R" => Ok(Term::Replica(self.iters()?)),
            _ => Err(self.fail(at, &format!("expected S[...], R[...] or an offset, found {name}"))),
        }
    }

    /// `[extents : strides]`.
    fn iters(&mut self) -> Result<Vec<Iter>, String> {
        self.need('[')?;
        let start = self.pos;
        let extents = self.items(Parser::number)?;
        let strides = if self.eat(':') { Some(self.items(Parser::stride)?) } else { None };
        let end = self.pos;
        self.need(']')?;
        match strides {
            None => row_major_iters(&extents).map_err(|why| self.fail(start, &why)),
            Some(strides) if strides.len() == extents.len() => {
                Ok(extents.iter().zip(strides).map(|(e, (s, axis))| Iter::new(*e, s, axis)).collect())
            }
            Some(strides) => {
                let why = format!("expected as many strides as extents ({}), found {}", extents.len(), strides.len());
                Err(self.fail(end, &why))
            }
        }
    }

    /// A tuple in parentheses, or items with commas between.
    fn items<T>(&mut self, item: fn(&mut Parser<'t>) -> Result<T, String>) -> Result<Vec<T>, String> {
        let close = if self.eat('(') { Some(')') } else { None };
        let mut out = vec![];
        while close.is_none() || self.peek() != close {
            if out.len() == MAX_RANK {
                return Err(self.fail(self.pos, &format!("expected at most {MAX_RANK} iters, found another")));
            }
            out.push(item(self)?);
            if !self.eat(',') || (close.is_none() && self.peek() == Some(']')) {
                break;
            }
        }
        match close {
            Some(_) if self.eat(')') => Ok(out),
            Some(_) => Err(self.expected("\",\" or \")\"")),
            None => Ok(out),
        }
    }

    fn stride(&mut self) -> Result<(i64, Axis), String> {
        match self.peek() {
            Some('"' | '\'') => Ok((1, self.quoted_axis()?)),
            Some('(') => {
                self.need('(')?;
                let value = self.number()?;
                self.need(',')?;
                let axis = self.quoted_axis()?;
                self.need(')')?;
                Ok((value, axis))
            }
            _ => self.on_axis(),
        }
    }

    /// `n`, or `n @ axis`.
    fn on_axis(&mut self) -> Result<(i64, Axis), String> {
        let value = self.number()?;
        Ok((value, if self.eat('@') { self.axis()? } else { Axis::M }))
    }

    /// The name of an axis as a Python string.
    fn quoted_axis(&mut self) -> Result<Axis, String> {
        let quote = if self.eat('\'') { '\'' } else { '"' };
        if quote == '"' {
            self.need('"')?;
        }
        let axis = self.axis()?;
        self.need(quote)?;
        Ok(axis)
    }

    fn axis(&mut self) -> Result<Axis, String> {
        let (name, at) = self.name("the name of an axis")?;
        Axis::by_name(name).ok_or_else(|| {
            let known = Axis::ALL.map(|e| e.1).join(", ");
            self.fail(at, &format!("there is no axis {name} (there are {known})"))
        })
    }

    /// An integer, or a product of integers.
    fn number(&mut self) -> Result<i64, String> {
        let negative = self.eat('-');
        let start = self.pos;
        let mut value = self.digits()?;
        while self.eat('*') {
            let factor = self.digits()?;
            value = value.checked_mul(factor).ok_or_else(|| self.fail(start, "the product is too large"))?;
        }
        Ok(if negative { -value } else { value })
    }

    fn digits(&mut self) -> Result<i64, String> {
        if !self.peek().is_some_and(|c| c.is_ascii_digit()) {
            return Err(self.expected("a number"));
        }
        let start = self.pos;
        while self.chars.get(self.pos).is_some_and(|c| c.1.is_ascii_digit()) {
            self.pos += 1;
        }
        self.slice(start).parse().map_err(|_| self.fail(start, "the number is too large"))
    }
}
