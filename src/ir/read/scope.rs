//! Names of the text and what they stand for.

use super::error::{Problem, Span, problem};
use crate::ir::layout::TileLayout;
use crate::ir::{Buffer, DType, Expr, Extent, Name};
use std::collections::{BTreeMap, HashMap};

/// What a name of the text stands for.
#[derive(Clone)]
pub(super) enum Binding {
    /// A scalar variable.
    Var(Expr),
    /// A buffer of the table.
    Buffer(Name),
    /// A variable of a thread, `x: T.int64` without a value: the only element of a local buffer.
    Scalar(Name),
    /// Declared by `n = T.int64()` or `TypeVar`, not used yet: an extent when it is first used.
    Declared(DType),
    /// A `T.handle` parameter, by position, that waits for its `T.match_buffer`.
    Handle(usize),
    /// A layout that was given a name.
    Layout(TileLayout),
    /// Slices and indices that were given a name, for use between brackets.
    Slices(Vec<Dim>),
}

/// One dimension of a region.
#[derive(Clone)]
pub(super) enum Dim {
    /// One index.
    Point(Expr),
    /// First index and end, where they are given.
    Range(Option<Expr>, Option<Expr>),
}

/// Everything known while one function is read.
pub(super) struct Scope<'a> {
    pub text: &'a str,
    /// True for the dialect of older TVM, where `T.alloc_buffer` belongs to a block.
    pub old: bool,
    /// True for a tile program: index arithmetic is `int64`, buffers may have layouts.
    pub tile: bool,
    frames: Vec<HashMap<String, Binding>>,
    pub buffers: Vec<Buffer>,
    pub extents: Vec<Extent>,
    /// Where each extent was used first.
    pub first_use: Vec<Span>,
    pub display: BTreeMap<Name, String>,
    /// First value and extent of every loop so far.
    pub loops: HashMap<Name, (Expr, Expr)>,
    /// Levels of statements around the current one.
    pub depth: usize,
    next: usize,
}

impl<'a> Scope<'a> {
    pub fn new(text: &'a str, old: bool) -> Scope<'a> {
        Scope {
            text,
            old,
            tile: false,
            frames: vec![HashMap::new()],
            buffers: vec![],
            extents: vec![],
            first_use: vec![],
            display: BTreeMap::new(),
            loops: HashMap::new(),
            depth: 0,
            next: 0,
        }
    }

    pub fn push(&mut self) {
        self.frames.push(HashMap::new());
    }

    /// True at the top of a function and in its header.
    pub fn is_outermost(&self) -> bool {
        self.frames.len() == 1
    }

    pub fn pop(&mut self) {
        self.frames.pop();
    }

    /// A new unique name that shows as `user`.
    pub fn fresh(&mut self, user: &str) -> Name {
        let name = Name::new(format!("{user}.{}", self.next));
        self.next += 1;
        self.display.insert(name.clone(), user.to_string());
        name
    }

    /// Binds a name in the innermost scope; an outer one of that name is hidden.
    pub fn bind(&mut self, user: &str, binding: Binding) {
        self.frames.last_mut().expect("a function has a scope").insert(user.to_string(), binding);
    }

    /// Makes a new variable and binds it.
    pub fn bind_var(&mut self, user: &str, dtype: DType) -> Name {
        let name = self.fresh(user);
        self.bind(user, Binding::Var(Expr::var(name.clone(), dtype)));
        name
    }

    pub fn lookup(&self, user: &str) -> Option<&Binding> {
        self.frames.iter().rev().find_map(|f| f.get(user))
    }

    /// The variable of that name; a declared extent comes into being at its first use.
    pub fn var(&mut self, user: &str, at: Span) -> Result<Expr, Problem> {
        match self.lookup(user) {
            Some(Binding::Var(e)) => Ok(e.clone()),
            Some(Binding::Declared(dtype)) => self.extent(user, *dtype, at),
            Some(Binding::Buffer(_)) => {
                problem(at, format!("`{user}` is a buffer; an element is written `{user}[i, j]`"))
            }
            Some(Binding::Scalar(buffer)) => Ok(self.scalar_element(&buffer.clone())),
            Some(Binding::Layout(_)) => problem(at, format!("`{user}` is a layout, which has no value")),
            Some(Binding::Slices(_)) => problem(at, format!("`{user}` is a slice, which stands between brackets only")),
            Some(Binding::Handle(_)) => {
                problem(at, format!("`{user}` is a handle; give it a shape with `A = T.match_buffer({user}, ...)`"))
            }
            None => problem(at, format!("the name `{user}` is not known here{}", self.hint(user))),
        }
    }

    /// The value of a variable that may be assigned to.
    fn scalar_element(&self, buffer: &Name) -> Expr {
        Expr::load(buffer.clone(), vec![Expr::i32(0)], self.declared(buffer).dtype)
    }

    /// A variable without a value, which statements assign to.
    pub fn declare_scalar(&mut self, user: &str, dtype: DType) -> Name {
        let name = self.fresh(user);
        self.buffers.push(Buffer::new(name.clone(), dtype, vec![Expr::i32(1)], crate::ir::Scope::Local));
        self.bind(user, Binding::Scalar(name.clone()));
        name
    }

    /// The buffer of a variable that may be assigned to.
    pub fn scalar(&self, user: &str) -> Option<Name> {
        match self.lookup(user) {
            Some(Binding::Scalar(buffer)) => Some(buffer.clone()),
            _ => None,
        }
    }

    /// Makes the extent `user` and binds it where it was declared.
    pub fn extent(&mut self, user: &str, dtype: DType, at: Span) -> Result<Expr, Problem> {
        if !matches!(dtype, DType::I32 | DType::I64) {
            return problem(at, format!("the {dtype} variable `{user}` is used but never given a value"));
        }
        let name = self.fresh(user);
        let e = Expr::var(name.clone(), dtype);
        self.extents.push(Extent { name, dtype });
        self.first_use.push(at);
        let frame = self.frames.iter_mut().rev().find(|f| f.contains_key(user));
        let binding = Binding::Var(e.clone());
        match frame {
            Some(f) => f.insert(user.to_string(), binding),
            None => self.frames[0].insert(user.to_string(), binding),
        };
        Ok(e)
    }

    /// The buffer of that name.
    pub fn buffer(&self, user: &str, at: Span) -> Result<&Buffer, Problem> {
        match self.lookup(user) {
            Some(Binding::Buffer(name)) => Ok(self.declared(name)),
            Some(
                Binding::Var(_)
                | Binding::Scalar(_)
                | Binding::Declared(_)
                | Binding::Handle(_)
                | Binding::Layout(_)
                | Binding::Slices(_),
            ) => problem(at, format!("`{user}` is not a buffer")),
            None => problem(at, format!("the buffer `{user}` is not known here{}", self.nearest(user))),
        }
    }

    /// The declaration of a buffer that is in the table.
    pub fn declared(&self, name: &Name) -> &Buffer {
        self.buffers.iter().find(|b| b.name == *name).expect("a bound buffer is in the table")
    }

    /// What to do about a name that is not known.
    fn hint(&self, user: &str) -> String {
        let near = self.nearest(user);
        if near.is_empty() { "; make it a parameter, or a constant in front of the function".to_string() } else { near }
    }

    /// `; did you mean ...?` where a known name is close.
    fn nearest(&self, user: &str) -> String {
        let known = self.frames.iter().flat_map(|f| f.keys()).map(String::as_str);
        crate::ir::nearest(user, known).map_or_else(String::new, |n| format!("; did you mean `{n}`?"))
    }

    /// The source text of a place, on one line.
    pub fn source(&self, at: Span) -> String {
        let raw = self.text.get(at.start..at.end).unwrap_or("");
        raw.split('\n').map(str::trim).collect::<Vec<_>>().join(" ")
    }
}
