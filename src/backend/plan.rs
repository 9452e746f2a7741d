//! `Plan`: how to launch a compiled function. One entry of `manifest.json`'s `functions[]` without
//! its name, key, rung, time and files; enough for a loader in any language.

use super::plan_map::dtype_text;
use super::{Dim, PlanTensorMap};
use crate::codegen::dynamic_shared_bytes;
use crate::ir::kernel::{KernelParam, Launch, Program};
use crate::ir::{DType, Name, Param, PrimFunc, Role};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// How to launch a compiled function.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Plan {
    /// The function's parameters, in order.
    pub params: Vec<PlanParam>,
    /// Scratch memory, by position.
    pub workspaces: Vec<PlanWorkspace>,
    /// The launches, in order on one stream.
    pub launches: Vec<PlanLaunch>,
}

/// A parameter of the function.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PlanParam {
    /// Position.
    pub index: usize,
    /// The user's name.
    pub name: String,
    /// Element type.
    #[serde(with = "dtype_text")]
    pub dtype: DType,
    /// Extents, outermost first, in elements; empty for scalars.
    pub shape: Vec<Dim>,
    /// How the function uses it.
    pub role: Role,
}

impl PlanParam {
    /// True for tensors, false for scalars and extents.
    pub fn is_tensor(&self) -> bool {
        matches!(self.role, Role::In | Role::Out | Role::Inout)
    }

    /// Number of elements for given extents.
    ///
    /// # Errors
    /// A sentence, when an extent is unknown or the product does not fit in 63 bits.
    pub fn len(&self, extents: &BTreeMap<String, i64>) -> Result<usize, String> {
        let mut n = 1i64;
        for dim in &self.shape {
            let d = super::eval(dim, extents)?;
            let product = n.checked_mul(d).filter(|p| *p >= 0);
            n = product.ok_or_else(|| format!("parameter `{}` has an impossible size", self.name))?;
        }
        Ok(n as usize)
    }
}

/// Scratch device memory.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PlanWorkspace {
    /// Size in bytes.
    pub bytes: Dim,
    /// What it must hold before the launches.
    pub init: Init,
}

/// What a workspace must hold before the launches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Init {
    /// Anything.
    None,
    /// Zeros before the first run; the function leaves zeros behind.
    ZeroOnce,
    /// Zeros before every run.
    ZeroEach,
}

/// One kernel launch.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PlanLaunch {
    /// Symbol in the compiled file.
    pub symbol: String,
    /// Blocks per axis x, y, z.
    pub grid: [Dim; 3],
    /// Threads per axis x, y, z.
    pub block: [Dim; 3],
    /// Blocks per cluster along x, y, z. The kernel says so itself (`__cluster_dims__`): a launch has to say
    /// nothing of it.
    pub cluster: [Dim; 3],
    /// Bytes of shared memory sized at launch.
    pub dynamic_smem: Dim,
    /// Programmatic dependent launch.
    pub pdl: bool,
    /// The kernel's arguments in order: pointers, then scalars.
    pub args: Vec<Arg>,
}

/// An argument of a kernel.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Arg {
    /// Pointer to the tensor parameter at that position.
    Param {
        /// Position in `params`.
        param: usize,
    },
    /// Pointer to the workspace at that position.
    Workspace {
        /// Position in `workspaces`.
        workspace: usize,
    },
    /// The value of an extent or scalar parameter.
    Scalar {
        /// Its name.
        scalar: String,
        /// Its type: how many bytes the kernel takes.
        #[serde(with = "dtype_text")]
        dtype: DType,
    },
    /// A tensor map, made before the launch and passed by value: 128 bytes, aligned to 64.
    TensorMap {
        /// What it says.
        tensor_map: PlanTensorMap,
    },
}

impl Plan {
    /// The plan of a lowered function. `roles` has one role per parameter.
    ///
    /// # Errors
    /// A sentence, when an extent can't be written for the manifest or a kernel takes something that
    /// is neither parameter, workspace nor extent.
    pub fn of(program: &Program, func: &PrimFunc, roles: &[Role]) -> Result<Plan, String> {
        let names = Names::of(func);
        let name = |n: &Name| names.get(n);
        let workspaces = program.workspaces.iter().map(|w| {
            let bytes = crate::ir::Expr::i64(w.dtype.bytes() as i64);
            Ok(PlanWorkspace { bytes: Dim::of(&(w.len.clone() * bytes), &name)?, init: Init::None })
        });
        let launches = program.launches.iter().map(|l| launch(program, l, &name));
        Ok(Plan {
            params: Plan::params(func, roles)?,
            workspaces: workspaces.collect::<Result<_, String>>()?,
            launches: launches.collect::<Result<_, String>>()?,
        })
    }

    /// The parameters of every plan of a function.
    ///
    /// # Errors
    /// A sentence, when an extent can't be written for the manifest.
    pub fn params(func: &PrimFunc, roles: &[Role]) -> Result<Vec<PlanParam>, String> {
        let names = Names::of(func);
        let params = func.params.iter().zip(roles).enumerate();
        params.map(|(i, (p, role))| param(func, i, p, *role, &|n| names.get(n))).collect()
    }

    /// The names that a plan has for a function's extents, by the user's.
    pub fn extents(func: &PrimFunc) -> BTreeMap<String, String> {
        let names = Names::of(func);
        func.extents.iter().map(|e| (func.display_name(&e.name).to_string(), names.get(&e.name))).collect()
    }

    /// Extents that follow from the shapes of the tensor parameters (one list per parameter, empty
    /// for scalars), by matching dimensions that are a bare extent.
    ///
    /// # Errors
    /// A sentence, when a rank or a size disagrees.
    pub fn infer_extents(&self, shapes: &[Vec<i64>]) -> Result<BTreeMap<String, i64>, String> {
        let mut extents = BTreeMap::new();
        let tensors = || self.params.iter().zip(shapes).filter(|(p, _)| p.is_tensor());
        for (p, shape) in tensors() {
            if p.shape.len() != shape.len() {
                return Err(format!("`{}` has {} dimensions, {} were given", p.name, p.shape.len(), shape.len()));
            }
            for (dim, size) in p.shape.iter().zip(shape) {
                if let Dim::Expr(e) = dim
                    && let Some(name) = e.as_var()
                {
                    extents.entry(name.to_string()).or_insert(*size);
                }
            }
        }
        for (p, shape) in tensors() {
            for (axis, (dim, size)) in p.shape.iter().zip(shape).enumerate() {
                let want = super::eval(dim, &extents)?;
                if want != *size {
                    return Err(format!("dimension {axis} of `{}` is {size}, expected {want}", p.name));
                }
            }
        }
        Ok(extents)
    }
}

fn is_name(text: &str) -> bool {
    !text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

fn param(
    func: &PrimFunc,
    index: usize,
    p: &Param,
    role: Role,
    name: &dyn Fn(&Name) -> String,
) -> Result<PlanParam, String> {
    match p {
        Param::Buffer(b) => {
            let buffer = func.buffer(b);
            let shape = buffer.shape.iter().map(|e| Dim::of(e, name)).collect::<Result<_, _>>()?;
            Ok(PlanParam { index, name: name(b), dtype: buffer.dtype, shape, role })
        }
        Param::Scalar { name: n, dtype } => Ok(PlanParam { index, name: name(n), dtype: *dtype, shape: vec![], role }),
    }
}

fn launch(program: &Program, l: &Launch, name: &dyn Fn(&Name) -> String) -> Result<PlanLaunch, String> {
    let args = l.kernel.params.iter().map(|p| argument(program, p, name));
    let [x, y, z] = &l.grid;
    Ok(PlanLaunch {
        symbol: l.kernel.symbol.clone(),
        grid: [Dim::of(x, name)?, Dim::of(y, name)?, Dim::of(z, name)?],
        block: l.block.map(|b| Dim::Const(i64::from(b))),
        cluster: [Dim::Const(i64::from(l.cluster)), Dim::Const(1), Dim::Const(1)],
        dynamic_smem: Dim::Const(dynamic_shared_bytes(&l.kernel) as i64),
        pdl: false,
        args: args.collect::<Result<_, _>>()?,
    })
}

fn argument(program: &Program, p: &KernelParam, name: &dyn Fn(&Name) -> String) -> Result<Arg, String> {
    let position = |n: &Name| program.params.iter().position(|p| matches!(p, Param::Buffer(b) if b == n));
    match p {
        KernelParam::TensorMap(map) => match position(&map.buffer) {
            Some(param) => Ok(Arg::TensorMap { tensor_map: PlanTensorMap::of(map, param) }),
            None => Err(format!("the tensor map `{}` is of `{}`, which is no parameter", map.name, map.buffer)),
        },
        KernelParam::Scalar { name: n, dtype } => Ok(Arg::Scalar { scalar: name(n), dtype: *dtype }),
        KernelParam::Pointer { name: n, .. } => {
            let workspace = || program.workspaces.iter().position(|w| w.name == *n);
            position(n)
                .map(|param| Arg::Param { param })
                .or_else(|| workspace().map(|workspace| Arg::Workspace { workspace }))
                .ok_or_else(|| format!("the kernel takes `{n}`, which is neither a parameter nor a workspace"))
        }
    }
}

/// The user's names, where they are unique and plain words; else canonical ones.
struct Names(BTreeMap<Name, String>);

impl Names {
    fn of(func: &PrimFunc) -> Names {
        let params = func.params.iter().map(|p| match p {
            Param::Buffer(b) => b,
            Param::Scalar { name, .. } => name,
        });
        let all: BTreeSet<&Name> = params.chain(func.extents.iter().map(|e| &e.name)).collect();
        let display = |n: &Name| func.display_name(n).to_string();
        let unique = |text: &str| all.iter().filter(|n| display(n) == text || n.as_str() == text).count() == 1;
        let usable = |text: &str| is_name(text) && !["min", "max", ""].contains(&text) && unique(text);
        let pick = |n: &&Name| Some(display(n)).filter(|d| usable(d)).unwrap_or_else(|| n.to_string());
        Names(all.iter().map(|n| ((*n).clone(), pick(n))).collect())
    }

    fn get(&self, n: &Name) -> String {
        self.0.get(n).cloned().unwrap_or_else(|| n.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::kernel::{Kernel, Workspace};
    use crate::ir::{BinOp, Buffer, Expr, Extent, Scope};

    fn program() -> (Program, PrimFunc) {
        let n = || Expr::var("n0", DType::I64);
        let buffer = |name: &str| Buffer::new(name.into(), DType::F32, vec![n(), Expr::i64(4)], Scope::Global);
        let params = vec![Param::Buffer("p0".into()), Param::Buffer("p1".into())];
        let func = PrimFunc {
            name: "copy".to_string(),
            private: false,
            params: params.clone(),
            buffers: vec![buffer("p0"), buffer("p1")],
            extents: vec![Extent { name: "n0".into(), dtype: DType::I64 }],
            attrs: vec![],
            allocs: vec![],
            body: vec![],
            display: BTreeMap::from([("p0".into(), "A".to_string()), ("n0".into(), "n".to_string())]),
        };
        let pointer = |name: &str, written| KernelParam::Pointer {
            name: name.into(),
            dtype: DType::F32,
            written,
            len: n() * Expr::i64(4),
        };
        let kernel = Kernel {
            symbol: "copy_kernel".to_string(),
            params: vec![
                pointer("p0", false),
                pointer("t0", true),
                KernelParam::Scalar { name: "n0".into(), dtype: DType::I64 },
            ],
            arrays: vec![],
            body: vec![],
        };
        let blocks = Expr::binary(BinOp::FloorDiv, n() + Expr::i64(255), Expr::i64(256));
        let launch = Launch {
            kernel,
            grid: [blocks, Expr::i64(1), Expr::i64(1)],
            block: [256, 1, 1],
            cluster: 1,
            min_blocks: None,
        };
        let workspaces = vec![Workspace { name: "t0".into(), dtype: DType::F32, len: n() }];
        let extents = vec![("n0".into(), DType::I64)];
        let program = Program {
            name: "copy".to_string(),
            params,
            extents,
            workspaces,
            launches: vec![launch],
            trace: vec![],
            variants: vec![],
        };
        (program, func)
    }

    #[test]
    fn json_is_the_manifest_form_and_reads_back() {
        let (program, func) = program();
        let plan = Plan::of(&program, &func, &[Role::In, Role::Out]).unwrap();
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(
            text,
            concat!(
                r#"{"params":[{"index":0,"name":"A","dtype":"float32","shape":["n",4],"role":"in"},"#,
                r#"{"index":1,"name":"p1","dtype":"float32","shape":["n",4],"role":"out"}],"#,
                r#""workspaces":[{"bytes":"n * 4","init":"none"}],"#,
                r#""launches":[{"symbol":"copy_kernel","grid":["(n + 255) // 256",1,1],"block":[256,1,1],"#,
                r#""cluster":[1,1,1],"dynamic_smem":0,"pdl":false,"#,
                r#""args":[{"param":0},{"workspace":0},{"scalar":"n","dtype":"int64"}]}]}"#
            )
        );
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    }

    #[test]
    fn extents_follow_from_shapes() {
        let (program, func) = program();
        let plan = Plan::of(&program, &func, &[Role::In, Role::Out]).unwrap();
        let extents = plan.infer_extents(&[vec![7, 4], vec![7, 4]]).unwrap();
        assert_eq!(extents, BTreeMap::from([("n".to_string(), 7)]));
        let wrong = plan.infer_extents(&[vec![7, 4], vec![8, 4]]);
        assert_eq!(wrong, Err("dimension 0 of `p1` is 8, expected 7".to_string()));
    }

    #[test]
    fn a_clash_of_user_names_falls_back_to_canonical_ones() {
        let (program, mut func) = program();
        func.display.insert("p1".into(), "A".to_string());
        let plan = Plan::of(&program, &func, &[Role::In, Role::Out]).unwrap();
        assert_eq!((plan.params[0].name.as_str(), plan.params[1].name.as_str()), ("p0", "p1"));
    }
}
