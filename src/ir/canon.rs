//! Canonical names: `p0`, `s0`, `n0`, `t0`, `i0`, `v0`, `b0`, `x0`, in program order.

use super::{Block, Buffer, Expr, ExprKind, Name, Param, PrimFunc, Region, Stmt};
use std::collections::HashMap;

/// Renames everything in a function in program order: tensor parameters `p`, scalar parameters `s`,
/// extents `n`, other buffers `t`, loops `i`, block iterators `v`, blocks `b`, lets `x`. What the
/// user called things moves along in `display`.
pub fn canonicalize(func: PrimFunc) -> PrimFunc {
    let map = Order::of(&func).map;
    let mut f = func.rename(&map);
    let rank = |b: &Buffer| {
        let param = f.params.iter().position(|p| matches!(p, Param::Buffer(n) if *n == b.name));
        let number = b.name.as_str()[1..].parse::<usize>().unwrap_or(usize::MAX);
        (param.unwrap_or(usize::MAX), number)
    };
    let mut buffers = f.buffers.clone();
    buffers.sort_by_key(rank);
    f.buffers = buffers;
    f.extents.sort_by_key(|e| e.name.as_str()[1..].parse::<usize>().unwrap_or(usize::MAX));
    f
}

/// Hands out names in order of first appearance.
pub(super) struct Order<'f> {
    func: &'f PrimFunc,
    pub map: HashMap<Name, Name>,
    counts: HashMap<char, usize>,
}

impl<'f> Order<'f> {
    pub fn of(func: &'f PrimFunc) -> Order<'f> {
        let mut o = Order { func, map: HashMap::new(), counts: HashMap::new() };
        for p in &func.params {
            match p {
                Param::Buffer(name) => o.buffer(name, 'p'),
                Param::Scalar { name, .. } => o.name(name, 's'),
            }
        }
        func.allocs.iter().for_each(|b| o.buffer(b, 't'));
        func.body.iter().for_each(|s| o.stmt(s));
        // What the body never mentions comes last.
        func.extents.iter().for_each(|e| o.name(&e.name, 'n'));
        func.buffers.iter().for_each(|b| o.buffer(&b.name, 't'));
        o
    }

    pub fn name(&mut self, name: &Name, letter: char) {
        if self.map.contains_key(name) {
            return;
        }
        let count = self.counts.entry(letter).or_insert(0);
        self.map.insert(name.clone(), Name::new(format!("{letter}{count}")));
        *count += 1;
    }

    fn buffer(&mut self, name: &Name, letter: char) {
        self.name(name, letter);
        let func = self.func;
        if let Some(b) = func.find_buffer(name) {
            b.shape.iter().chain(&b.strides).chain(&b.elem_offset).for_each(|e| self.expr(e));
        }
    }

    pub fn expr(&mut self, e: &Expr) {
        e.visit(&mut |e| match e.kind() {
            ExprKind::Var { name, .. } if self.func.extents.iter().any(|x| x.name == *name) => self.name(name, 'n'),
            ExprKind::Let { var, .. } => self.name(var, 'x'),
            _ => {}
        });
    }

    fn stmt(&mut self, s: &Stmt) {
        s.for_each_expr(|e| self.expr(e));
        match s {
            Stmt::For(l) => self.name(&l.var, 'i'),
            Stmt::Block(b) => self.block(b),
            Stmt::Let { var, .. } => self.name(var, 'x'),
            Stmt::Alloc { buffer } => self.buffer(buffer, 't'),
            Stmt::If { .. } | Stmt::While { .. } | Stmt::Store { .. } | Stmt::Evaluate(_) | Stmt::Attr { .. } => {}
        }
        s.for_each_child(|c| self.stmt(c));
    }

    fn block(&mut self, b: &Block) {
        self.name(&b.name, 'b');
        b.iters.iter().for_each(|it| self.name(&it.var, 'v'));
        b.allocs.iter().for_each(|n| self.buffer(n, 't'));
        b.matches.iter().for_each(|(n, _)| self.buffer(n, 't'));
    }
}

impl PrimFunc {
    /// Replaces names everywhere; names that the map lacks stay. The new names must be unique.
    pub fn rename(&self, map: &HashMap<Name, Name>) -> PrimFunc {
        let r = Renamer { map };
        PrimFunc {
            name: self.name.clone(),
            private: self.private,
            params: self.params.iter().map(|p| r.param(p)).collect(),
            buffers: self.buffers.iter().map(|b| r.buffer(b)).collect(),
            extents: self.extents.iter().map(|e| super::Extent { name: r.name(&e.name), dtype: e.dtype }).collect(),
            attrs: self.attrs.clone(),
            allocs: self.allocs.iter().map(|n| r.name(n)).collect(),
            body: self.body.iter().map(|s| r.stmt(s)).collect(),
            display: self
                .display
                .iter()
                .filter(|d| map.contains_key(d.0))
                .map(|(k, v)| (r.name(k), v.clone()))
                .collect(),
        }
    }
}

pub(super) struct Renamer<'m> {
    pub map: &'m HashMap<Name, Name>,
}

impl Renamer<'_> {
    pub fn name(&self, n: &Name) -> Name {
        self.map.get(n).unwrap_or(n).clone()
    }

    fn param(&self, p: &Param) -> Param {
        match p {
            Param::Buffer(n) => Param::Buffer(self.name(n)),
            Param::Scalar { name, dtype } => Param::Scalar { name: self.name(name), dtype: *dtype },
        }
    }

    fn buffer(&self, b: &Buffer) -> Buffer {
        let exprs = |v: &[Expr]| v.iter().map(|e| self.expr(e)).collect();
        Buffer {
            name: self.name(&b.name),
            shape: exprs(&b.shape),
            strides: exprs(&b.strides),
            elem_offset: b.elem_offset.as_ref().map(|e| self.expr(e)),
            ..b.clone()
        }
    }

    pub fn expr(&self, e: &Expr) -> Expr {
        match e.kind() {
            ExprKind::Var { name, dtype } => match self.map.get(name) {
                Some(new) => Expr::var(new.clone(), *dtype),
                None => e.clone(),
            },
            ExprKind::Load { buffer, indices, dtype } => {
                Expr::load(self.name(buffer), indices.iter().map(|i| self.expr(i)).collect(), *dtype)
            }
            ExprKind::Let { var, value, body } => {
                Expr::new(ExprKind::Let { var: self.name(var), value: self.expr(value), body: self.expr(body) })
            }
            _ => e.map_children(|c| self.expr(c)),
        }
    }

    /// Expressions first, then the names that statements hold themselves.
    fn stmt(&self, s: &Stmt) -> Stmt {
        let mut s = s.map_exprs(&mut |e| self.expr(e));
        self.names(&mut s);
        s
    }

    fn list(&self, stmts: &mut [Stmt]) {
        stmts.iter_mut().for_each(|s| self.names(s));
    }

    fn names(&self, s: &mut Stmt) {
        match s {
            Stmt::For(l) => {
                l.var = self.name(&l.var);
                self.list(&mut l.body);
            }
            Stmt::Block(b) => self.block(b),
            Stmt::If { then, otherwise, .. } => {
                self.list(then);
                self.list(otherwise);
            }
            Stmt::While { body, .. } | Stmt::Attr { body, .. } => self.list(body),
            Stmt::Store { buffer, .. } | Stmt::Alloc { buffer } => *buffer = self.name(buffer),
            Stmt::Let { var, .. } => *var = self.name(var),
            Stmt::Evaluate(_) => {}
        }
    }

    fn block(&self, b: &mut Block) {
        b.name = self.name(&b.name);
        b.iters.iter_mut().for_each(|it| it.var = self.name(&it.var));
        b.allocs.iter_mut().for_each(|n| *n = self.name(n));
        if let Some(r) = &mut b.regions {
            r.reads.iter_mut().chain(&mut r.writes).for_each(|r| self.region(r));
        }
        for (alias, region) in &mut b.matches {
            *alias = self.name(alias);
            self.region(region);
        }
        self.list(&mut b.init);
        self.list(&mut b.body);
    }

    fn region(&self, r: &mut Region) {
        r.buffer = self.name(&r.buffer);
    }
}
