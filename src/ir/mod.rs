//! The intermediate representation: tensor functions (`PrimFunc`) as read from TVMScript, and the
//! `Program` they are lowered to. Uses no other module and knows no target.

// A path begins with a module of `daylight` everywhere, in that module too.
extern crate self as ir;

mod builder;
mod canon;
mod canon_device;
pub mod device;
mod device_print;
mod dtype;
mod expr;
mod func;
pub mod instr;
pub mod kernel;
mod kernel_print;
mod key;
pub mod layout;
mod mark;
mod matrix_desc;
mod name;
mod nearest;
mod ops;
mod print;
mod read;
mod reason;
pub mod relax;
mod role;
mod stmt;
mod tensor_map;
pub mod text;
mod tile;
mod tile_check;
mod verify;
mod verify_device;

pub use builder::{BlockBuilder, PrimFuncBuilder, Reducer, TensorVar};
pub use canon::canonicalize;
pub use canon_device::canonicalize_device;
pub use device::{DeviceFunc, Function};
pub use device_print::DeviceLaunch;
pub use dtype::DType;
pub use expr::{BinOp, Expr, ExprKind, Intrin, UnOp};
pub use func::{Buffer, Extent, Param, PrimFunc, STRICT, Scope};
pub use instr::Instr;
pub use key::{program_key, workload_key};
pub use mark::Mark;
pub use matrix_desc::{Contiguous, MatrixDesc};
pub use name::Name;
pub use nearest::nearest;
pub use read::{ReadError, read, read_any, read_relax};
pub use reason::Reason;
pub use role::Role;
pub use stmt::{AttrValue, Block, For, ForKind, IterKind, IterVar, Range, Region, Regions, Stmt, ThreadTag};
pub use tensor_map::{MapSwizzle, TensorMap};
pub use tile::{ExecScope, Tile, TileArg, TileCall, TileOp};
pub use verify::{VerifyError, verify};
pub use verify_device::verify_device;
