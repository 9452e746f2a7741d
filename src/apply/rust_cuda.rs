//! The `cuda` module of `kernels.rs`: one type per function with a safe launch on `cudarc` buffers
//! and a raw one on device pointers and a stream. A launch allocates and synchronises nothing.

use super::ident::camel;
use super::interface::Interface;
use super::unit::{Content, Unit};
use crate::backend::plan::Init;
use crate::backend::{Arg, Plan, PlanLaunch, Role};
use crate::ir::DType;
use std::fmt::Write;

/// Workspaces start at multiples of this many bytes.
const WORKSPACE_ALIGN: i64 = 256;

/// The module's text.
///
/// # Errors
/// A sentence, when an extent cannot be written in Rust.
pub fn module(functions: &[Vec<&Unit>]) -> Result<String, String> {
    let mut out = String::from("/// Kernels for NVIDIA GPUs.\npub mod cuda {\n");
    out.push_str(include_str!("runtime/cuda.rs"));
    out.push_str(include_str!("runtime/extents.rs"));
    let holds_text = functions.iter().flatten().any(|u| u.content != Content::Cubin);
    out.push_str(if holds_text { include_str!("runtime/nvrtc.rs") } else { include_str!("runtime/no_nvrtc.rs") });
    let launches = functions.iter().flatten().flat_map(|u| &u.plan.launches);
    if launches.flat_map(|l| &l.args).any(|a| matches!(a, Arg::TensorMap { .. })) {
        out.push_str(include_str!("runtime/tensor_map.rs"));
    }
    for variants in functions {
        out.push('\n');
        out.push_str(&function(variants)?);
    }
    out.push_str("}\n");
    Ok(out)
}

fn function(variants: &[&Unit]) -> Result<String, String> {
    let plans: Vec<&Plan> = variants.iter().map(|u| &u.plan).collect();
    let i = Interface::of(&plans)?;
    let mut text = String::new();
    for part in [kind(variants, &i), load(variants), workspace(variants, &i)?, launch(variants, &i), raw(variants, &i)]
    {
        text.push_str(&part);
        text.push('\n');
    }
    for u in variants {
        text.push_str(&variant(u, &i)?);
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push_str("\n}\n");
    let indented = text.lines().map(|l| if l.is_empty() { "\n".into() } else { format!("    {l}\n") });
    Ok(indented.collect())
}

/// The type and the start of its `impl`.
fn kind(variants: &[&Unit], i: &Interface) -> String {
    let name = &variants[0].name;
    let mut out = format!("/// `{name}`, loaded for one device.\n///\n");
    out.extend(i.docs().map(|d| format!("/// - {d}\n")));
    out.push_str("///\n");
    out.extend(variants.iter().map(|u| format!("/// {}.\n", u.provenance())));
    let launches = variants.iter().map(|u| u.plan.launches.len()).max().unwrap_or(0);
    let ty = camel(name);
    out.push_str(&format!(
        "#[derive(Debug)]\npub struct {ty} {{\n    kernels: [Kernel; {launches}],\n    variant: usize,\n    context: Arc<CudaContext>,\n    _module: Module,\n}}\n\nimpl {ty} {{"
    ));
    out
}

/// `load`: picks the variant of the device.
fn load(variants: &[&Unit]) -> String {
    let launches = variants.iter().map(|u| u.plan.launches.len()).max().unwrap_or(0);
    let archs: Vec<&str> = variants.iter().map(|u| u.target.arch.as_str()).collect();
    let mut out = String::new();
    out.push_str("    /// Loads the kernels for the device of `context`.\n    ///\n    /// # Errors\n");
    out.push_str("    /// When they were built for other GPUs, or the driver refuses.\n");
    out.push_str("    pub fn load(context: &Arc<CudaContext>) -> Result<Self, Error> {\n");
    out.push_str("        let device = context.compute_capability()?;\n");
    for (k, u) in variants.iter().enumerate() {
        let exact = u.target.arch.ends_with('a');
        let (major, minor) = (u.target.sm / 10, u.target.sm % 10);
        let image = match u.content {
            Content::Cubin => format!("Image::Cubin(include_bytes!(\"{}\"))", u.file),
            Content::Cuda | Content::C => {
                let arch = u.target.arch.replace("sm_", "compute_");
                format!("Image::Source {{ text: include_str!(\"{}\"), architecture: \"{arch}\" }}", u.file)
            }
        };
        out.push_str(&format!("        if runs_on(({major}, {minor}), {exact}, device) {{\n"));
        out.push_str(&format!("            let module = Module::load(context, &{image})?;\n"));
        let mut kernels: Vec<String> =
            u.plan.launches.iter().map(|l| format!("module.kernel(\"{}\", {})?", l.symbol, l.dynamic_smem)).collect();
        // Variants with fewer launches repeat their last kernel, which is then never used.
        while let (Some(last), true) = (kernels.last().cloned(), kernels.len() < launches) {
            kernels.push(last);
        }
        out.push_str(&format!("            let kernels = [{}];\n", kernels.join(", ")));
        out.push_str(&format!(
            "            return Ok(Self {{ kernels, variant: {k}, context: context.clone(), _module: module }});\n        }}\n"
        ));
    }
    let built_for = archs.join(", ");
    out.push_str(&format!("        Err(Error::Architecture {{ device, built_for: \"{built_for}\" }})\n    }}\n"));
    out
}

/// `workspace_bytes`: how much scratch memory the caller has to bring.
fn workspace(variants: &[&Unit], i: &Interface) -> Result<String, String> {
    let mut out = String::from("    /// Bytes of scratch memory that a launch needs; 0 for none.\n");
    out.push_str("    #[allow(unused_variables, clippy::too_many_arguments)]\n");
    out.push_str(&format!("    pub fn workspace_bytes(&self{}) -> usize {{\n", i.scalar_params()));
    out.push_str("        let bytes: i64 = match self.variant {\n");
    for (k, u) in variants.iter().enumerate() {
        let pattern = if k + 1 == variants.len() { "_".to_string() } else { k.to_string() };
        out.push_str(&format!("            {pattern} => {},\n", offset(u, u.plan.workspaces.len(), i)?));
    }
    out.push_str("        };\n        usize::try_from(bytes).unwrap_or(0)\n    }\n");
    Ok(out)
}

/// Where the `n`th workspace of a variant starts.
fn offset(u: &Unit, n: usize, i: &Interface) -> Result<String, String> {
    let sizes: Result<Vec<String>, String> = u.plan.workspaces[..n]
        .iter()
        .map(|w| match w.bytes.as_const() {
            Some(b) => Ok((b.max(0) as u64).next_multiple_of(WORKSPACE_ALIGN as u64).to_string()),
            None => Ok(format!(
                "i64::div_euclid({} + {}, {WORKSPACE_ALIGN}) * {WORKSPACE_ALIGN}",
                i.extent(&w.bytes)?,
                WORKSPACE_ALIGN - 1
            )),
        })
        .collect();
    let sizes = sizes?;
    Ok(if sizes.is_empty() { "0".into() } else { sizes.join(" + ") })
}

/// The safe launch.
fn launch(variants: &[&Unit], i: &Interface) -> String {
    let align = variants.iter().map(|u| u.target.max_load_bytes).max().unwrap_or(16);
    let mut out =
        String::from("    /// Launches on `stream`, which belongs to the context of `load`. Nothing is allocated or\n");
    out.push_str(
        "    /// awaited. `workspace` is memory of [`Self::workspace_bytes`] bytes, `None` where that is 0;\n",
    );
    out.push_str("    /// launches that may overlap need one each.\n    ///\n    /// # Errors\n");
    out.push_str("    /// When a buffer is too short or misaligned, or the driver refuses.\n");
    out.push_str("    #[allow(clippy::too_many_arguments)]\n");
    let tensors: String = i
        .tensors
        .iter()
        .map(|t| {
            let ty = if t.written {
                format!("&mut impl DevicePtrMut<{}>", t.element)
            } else {
                format!("&impl DevicePtr<{}>", t.element)
            };
            format!(", {}: {ty}", t.ident)
        })
        .collect();
    out.push_str(&format!(
        "    pub fn launch(&self, stream: &CudaStream{tensors}{}, workspace: Option<&mut cudarc::driver::CudaSlice<u8>>) -> Result<(), Error> {{\n",
        i.scalar_params()
    ));
    out.extend(i.extents().map(|e| format!("        extent(\"{e}\", {e})?;\n")));
    for t in &i.tensors {
        let get = if t.written { "device_ptr_mut" } else { "device_ptr" };
        out.push_str(&format!("        let len = {}.len();\n", t.ident));
        out.push_str(&format!("        let ({0}, _guard_{0}) = {0}.{get}(stream);\n", t.ident));
        out.push_str(&format!("        check(\"{0}\", len, {1}, {0}, {align})?;\n", t.ident, t.len));
    }
    let values = i.scalar_values();
    out.push_str(&format!("        let need = self.workspace_bytes({});\n", values.trim_start_matches(", ")));
    out.push_str("        let (workspace, _guard) = match workspace {\n");
    out.push_str("            Some(w) if w.len() >= need => {\n                let (pointer, guard) = w.device_ptr_mut(stream);\n                (pointer, Some(guard))\n            }\n");
    out.push_str("            None if need == 0 => (0, None),\n");
    out.push_str("            _ => return Err(Error::Argument(format!(\"the launch needs {need} bytes of workspace\"))),\n        };\n");
    let pointers: String = i.tensors.iter().map(|t| format!(", {}", t.ident)).collect();
    out.push_str("        self.context.bind_to_thread()?;\n");
    out.push_str("        // SAFETY: the buffers were checked against the extents.\n");
    out.push_str(&format!(
        "        Ok(unsafe {{ self.launch_raw(stream.cu_stream(){pointers}{values}, workspace) }}?)\n    }}\n"
    ));
    out
}

/// The raw launch.
fn raw(variants: &[&Unit], i: &Interface) -> String {
    let mut out =
        String::from("    /// Launches on bare device pointers and a stream; may be captured in a graph.\n    ///\n");
    out.push_str("    /// # Errors\n    /// When the driver refuses.\n    ///\n    /// # Safety\n");
    out.push_str(
        "    /// Each pointer must be valid on the device of `load`, large enough for its tensor and aligned\n",
    );
    out.push_str("    /// as an allocation is; the context is bound to this thread.\n");
    out.push_str("    #[allow(clippy::too_many_arguments)]\n");
    let pointers: String = i.tensors.iter().map(|t| format!(", {}: sys::CUdeviceptr", t.ident)).collect();
    out.push_str(&format!(
        "    pub unsafe fn launch_raw(&self, stream: sys::CUstream{pointers}{}, workspace: sys::CUdeviceptr) -> Result<(), DriverError> {{\n",
        i.scalar_params()
    ));
    let names: Vec<&str> = i.tensors.iter().map(|t| t.ident.as_str()).collect();
    out.push_str(&format!("        let tensors = [{}];\n        match self.variant {{\n", names.join(", ")));
    for (k, u) in variants.iter().enumerate() {
        let pattern = if k + 1 == variants.len() { "_".to_string() } else { k.to_string() };
        out.push_str("            // SAFETY: as the caller promised.\n");
        out.push_str(&format!(
            "            {pattern} => unsafe {{ self.launch_{}(stream, tensors{}, workspace) }},\n",
            u.arch_ident(),
            i.scalar_values()
        ));
    }
    out.push_str("        }\n    }\n");
    out
}

/// The launches for one architecture.
fn variant(u: &Unit, i: &Interface) -> Result<String, String> {
    let mut out = String::from("    #[allow(unused_variables, clippy::too_many_arguments)]\n");
    let n = i.tensors.len();
    out.push_str(&format!(
        "    unsafe fn launch_{}(&self, stream: sys::CUstream, tensors: [sys::CUdeviceptr; {n}]{}, workspace: sys::CUdeviceptr) -> Result<(), DriverError> {{\n",
        u.arch_ident(),
        i.scalar_params()
    ));
    for (k, w) in u.plan.workspaces.iter().enumerate() {
        if w.init == Init::ZeroEach {
            let (at, bytes) = (offset(u, k, i)?, i.extent(&w.bytes)?);
            out.push_str("        // SAFETY: as the caller promised.\n");
            out.push_str(&format!("        unsafe {{ result::memset_d8_async(workspace + ({at}) as u64, 0, ({bytes}) as usize, stream) }}?;\n"));
        }
    }
    for (k, l) in u.plan.launches.iter().enumerate() {
        out.push_str(&one_launch(u, k, l, i)?);
    }
    out.push_str("        Ok(())\n    }\n");
    Ok(out)
}

fn one_launch(u: &Unit, k: usize, l: &PlanLaunch, i: &Interface) -> Result<String, String> {
    let mut out = String::from("        {\n");
    for (a, arg) in l.args.iter().enumerate() {
        let value = match arg {
            Arg::Param { param } => tensor(i, *param)?,
            Arg::Workspace { workspace } => format!("workspace + ({}) as u64", offset(u, *workspace, i)?),
            Arg::Scalar { scalar, dtype } => scalar_value(u, i, scalar, *dtype),
            Arg::TensorMap { tensor_map: map } => super::rust_map::map(map, &tensor(i, map.param)?)?,
        };
        out.push_str(&format!("            let mut arg_{a} = {value};\n"));
    }
    let args: Vec<String> = (0..l.args.len()).map(|a| format!("(&raw mut arg_{a}).cast::<c_void>()")).collect();
    out.push_str(&format!("            let mut args = [{}];\n", args.join(", ")));
    let triple = |dims: &[crate::backend::Dim; 3]| -> Result<String, String> {
        let parts: Result<Vec<String>, String> = dims
            .iter()
            .map(|d| i.extent(d).map(|t| if d.as_const().is_some() { t } else { format!("({t}) as u32") }))
            .collect();
        Ok(format!("({})", parts?.join(", ")))
    };
    let smem = i.extent(&l.dynamic_smem)?;
    out.push_str("            // SAFETY: as the caller promised.\n");
    writeln!(
        out,
        "            unsafe {{ result::launch_kernel(self.kernels[{k}].0, {}, {}, {smem}, stream, &mut args) }}?;",
        triple(&l.grid)?,
        triple(&l.block)?
    )
    .map_err(|e| e.to_string())?;
    out.push_str("        }\n");
    Ok(out)
}

/// The address of a tensor parameter.
fn tensor(i: &Interface, param: usize) -> Result<String, String> {
    let at = i.tensors.iter().position(|t| t.index == param);
    Ok(format!("tensors[{}]", at.ok_or_else(|| format!("parameter {param} is no tensor"))?))
}

/// A scalar argument with the width that the kernel takes.
fn scalar_value(u: &Unit, i: &Interface, name: &str, dtype: DType) -> String {
    let ident = i.ident(name);
    let is_scalar = u.plan.params.iter().any(|p| p.name == name && p.role == Role::Scalar);
    match (is_scalar, dtype.is_float() || dtype == DType::Bool) {
        (true, true) => ident,
        (_, _) => format!(
            "{ident} as {}",
            if dtype.is_signed() { format!("i{}", dtype.bytes() * 8) } else { format!("u{}", dtype.bytes() * 8) }
        ),
    }
}
