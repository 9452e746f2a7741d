//! What is known of a tile program: the roles of its parameters.

use crate::ir::device::{DStmt, DeviceFunc};
use crate::ir::instr::Access;
use crate::ir::{Name, Param, Role, TileArg, TileCall};

/// The role of every parameter, in order. A tensor that the program neither reads nor writes is an
/// input.
pub fn program_roles(program: &DeviceFunc) -> Vec<Role> {
    let role = |p: &Param| match p {
        Param::Scalar { .. } => Role::Scalar,
        Param::Buffer(name) => {
            let mut seen = Seen { name, read_first: false, written: false };
            program.body.iter().for_each(|s| s.visit(&mut |s| seen.stmt(s)));
            match (seen.read_first, seen.written) {
                (_, false) => Role::In,
                (true, true) => Role::Inout,
                (false, true) => Role::Out,
            }
        }
    };
    program.func.params.iter().map(role).collect()
}

/// What happened to one buffer so far.
struct Seen<'n> {
    name: &'n Name,
    read_first: bool,
    written: bool,
}

impl Seen<'_> {
    fn stmt(&mut self, s: &DStmt) {
        s.for_each_expr(|e| self.read_first |= !self.written && e.loads(self.name));
        s.for_each_access(|buffer, _, access| self.written |= access == Access::Write && buffer == self.name);
        if let DStmt::Tile(call) = s {
            self.call(call);
        }
    }

    fn call(&mut self, call: &TileCall) {
        let ours = |a: &TileArg| matches!(a, TileArg::Tile(t) if t.buffer == *self.name);
        let into = call.dst.buffer == *self.name;
        let read = call.args.iter().chain(call.operands.values()).any(ours) || (into && call.accum);
        self.read_first |= read && !self.written;
        self.written |= into;
    }
}
