//! The `cuda` module of `kernels.rs`: one type per function with a safe launch on `cudarc` buffers
//! and a raw one on device pointers and a stream. A launch allocates and synchronises nothing.

use super::ident::camel;
use super::interface::{Function, Interface, interface};
use super::lang::Lang;
use super::unit::{Content, Safety, Unit};
use super::workspace;
use crate::backend::plan::Init;
use crate::backend::{Arg, PlanLaunch, Role, nvrtc};
use crate::ir::DType;
use std::fmt::Write;

/// The module's text.
///
/// # Errors
/// A sentence, when an extent cannot be written in Rust.
pub fn module(functions: &[Function<'_>]) -> Result<String, String> {
    let mut out = String::from(
        "/// Kernels for NVIDIA GPUs.\n#[allow(dead_code, non_snake_case, unused_variables, clippy::all)]\npub mod cuda {\n",
    );
    out.push_str(include_str!("runtime/cuda.rs"));
    out.push_str(include_str!("runtime/extents.rs"));
    let units = || functions.iter().flatten().copied().flatten();
    let holds_text = units().any(|u| u.content != Content::Cubin);
    out.push_str(&if holds_text { nvrtc() } else { include_str!("runtime/no_nvrtc.rs").to_string() });
    if units().flat_map(|u| &u.plan.launches).flat_map(|l| &l.args).any(|a| matches!(a, Arg::TensorMap { .. })) {
        out.push_str(include_str!("runtime/tensor_map.rs"));
    }
    if units().flat_map(|u| &u.plan.launches).any(|l| l.pdl) {
        out.push_str(include_str!("runtime/overlap.rs"));
    }
    for f in functions {
        out.push('\n');
        out.push_str(&function(f)?);
    }
    out.push_str("}\n");
    Ok(out)
}

/// What compiles text where it is loaded, with the options of kernels that were measured.
fn nvrtc() -> String {
    let options = nvrtc::OPTIONS;
    let text = include_str!("runtime/nvrtc.rs").replace("@COUNT@", &options.len().to_string());
    text.replace("@OPTIONS@", &format!("{options:?}"))
}

fn function(f: &Function<'_>) -> Result<String, String> {
    let i = interface(f, Lang::Rust);
    let mut text = String::new();
    for part in [kind(f, &i), load(f), workspace(f, &i)?, launch(f, &i)?, raw(f, &i)] {
        text.push_str(&part);
        text.push('\n');
    }
    for units in f {
        text.push_str(&variant(units, &i)?);
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push_str("\n}\n");
    let indented = text.lines().map(|l| if l.is_empty() { "\n".into() } else { format!("    {l}\n") });
    Ok(indented.collect())
}

/// The kernels that the variant with the most of them has.
fn most_kernels(f: &Function<'_>) -> usize {
    f.iter().map(|units| units.iter().map(|u| u.plan.launches.len()).sum()).max().unwrap_or(0)
}

/// The type and the start of its `impl`.
fn kind(f: &Function<'_>, i: &Interface) -> String {
    let name = &f[0][0].name;
    let mut out = format!("/// `{name}`, loaded for one device.\n///\n");
    out.extend(i.docs().map(|d| format!("/// - {d}\n")));
    out.extend(f.iter().copied().flatten().map(|u| format!("///\n/// {}.\n", u.provenance())));
    let (ty, kernels) = (camel(name), most_kernels(f));
    out.push_str(&format!(
        "#[derive(Debug)]\npub struct {ty} {{\n    kernels: [Kernel; {kernels}],\n    variant: usize,\n    context: Arc<CudaContext>,\n    _modules: Vec<Module>,\n}}\n\nimpl {ty} {{"
    ));
    out
}

/// `load`: picks the variant of the device.
fn load(f: &Function<'_>) -> String {
    let archs: Vec<&str> = f.iter().map(|units| units[0].target.arch.as_str()).collect();
    let mut out = String::new();
    out.push_str("    /// Loads the kernels for the device of `context`.\n    ///\n    /// # Errors\n");
    out.push_str("    /// When they were built for other GPUs, or the driver refuses.\n");
    out.push_str("    pub fn load(context: &Arc<CudaContext>) -> Result<Self, Error> {\n");
    out.push_str("        let device = context.compute_capability()?;\n");
    for (k, units) in f.iter().enumerate() {
        let target = &units[0].target;
        let exact = target.arch.ends_with('a');
        let (major, minor) = (target.sm / 10, target.sm % 10);
        out.push_str(&format!("        if runs_on(({major}, {minor}), {exact}, device) {{\n"));
        let images: String =
            units.iter().map(|u| format!("                Module::load(context, &{})?,\n", image(u))).collect();
        out.push_str(&format!("            let modules = vec![\n{images}            ];\n"));
        let of_unit = |(m, u): (usize, &&Unit)| {
            let all =
                u.plan.launches.iter().map(|l| format!("modules[{m}].kernel(\"{}\", {})?", l.symbol, l.dynamic_smem));
            all.collect::<Vec<_>>()
        };
        let mut kernels: Vec<String> = units.iter().enumerate().flat_map(of_unit).collect();
        // Variants with fewer launches repeat their last kernel, which is then never used.
        while let (Some(last), true) = (kernels.last().cloned(), kernels.len() < most_kernels(f)) {
            kernels.push(last);
        }
        out.push_str(&format!("            let kernels = [{}];\n", kernels.join(", ")));
        out.push_str(&format!(
            "            return Ok(Self {{ kernels, variant: {k}, context: context.clone(), _modules: modules }});\n        }}\n"
        ));
    }
    let built_for = archs.join(", ");
    out.push_str(&format!("        Err(Error::Architecture {{ device, built_for: \"{built_for}\" }})\n    }}\n"));
    out
}

/// What a module is loaded from.
fn image(u: &Unit) -> String {
    match u.content {
        Content::Cubin => format!("Image::Cubin(include_bytes!(\"{}\"))", u.file),
        Content::Cuda | Content::C => {
            format!("Image::Source {{ text: include_str!(\"{}\"), architecture: \"{}\" }}", u.file, u.target.arch)
        }
    }
}

/// The arms of a `match` over the variants.
fn arms(f: &Function<'_>, mut value: impl FnMut(&[&Unit]) -> Result<String, String>) -> Result<String, String> {
    let mut out = String::new();
    for (k, units) in f.iter().enumerate() {
        let pattern = if k + 1 == f.len() { "_".to_string() } else { k.to_string() };
        out.push_str(&format!("            {pattern} => {},\n", value(units)?));
    }
    Ok(out)
}

/// `workspace_bytes`: how much scratch memory the caller has to bring.
fn workspace(f: &Function<'_>, i: &Interface) -> Result<String, String> {
    let mut out = String::from("    /// Bytes of scratch memory that a launch needs; 0 for none.\n");
    out.push_str(&format!("    pub fn workspace_bytes(&self{}) -> usize {{\n", i.scalar_params()));
    out.extend(i.extent_lines(false).map(|line| format!("        {line}\n")));
    let sizes = arms(f, |units| workspace::bytes(units, i))?;
    out.push_str(&format!("        let bytes: i64 = match self.variant {{\n{sizes}        }};\n"));
    out.push_str("        usize::try_from(bytes).unwrap_or(0)\n    }\n");
    Ok(out)
}

/// The launch on buffers, safe where all that a kernel accesses follows from sizes.
fn launch(f: &Function<'_>, i: &Interface) -> Result<String, String> {
    let align = f.iter().map(|units| units[0].target.max_load_bytes).max().unwrap_or(16);
    let mut out =
        String::from("    /// Launches on `stream`, which belongs to the context of `load`. Nothing is allocated or\n");
    out.push_str(
        "    /// awaited. `workspace` is memory of [`Self::workspace_bytes`] bytes, `None` where that is 0;\n",
    );
    out.push_str("    /// launches that may overlap need one each.\n    ///\n    /// # Errors\n");
    out.push_str("    /// When a buffer is too short or misaligned, an extent is none that there are kernels for, or the driver\n    /// refuses.\n");
    let Safety { docs, keyword, known } = f[0][0].safety();
    out.extend(docs.lines().map(|l| format!("    {l}\n")));
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
        "    pub {keyword}fn launch(&self, stream: &CudaStream{tensors}{}, workspace: Option<&mut cudarc::driver::CudaSlice<u8>>) -> Result<(), Error> {{\n",
        i.scalar_params()
    ));
    out.extend(i.extent_lines(true).map(|line| format!("        {line}\n")));
    for t in &i.tensors {
        let get = if t.written { "device_ptr_mut" } else { "device_ptr" };
        out.push_str(&format!("        let len = {}.len();\n", t.ident));
        out.push_str(&format!("        let ({0}, _guard_{0}) = {0}.{get}(stream);\n", t.ident));
        out.push_str(&format!("        check(\"{0}\", len, {1}, {0}, {align})?;\n", t.ident, i.len(t)?));
    }
    let values = i.outer_values();
    out.push_str(&format!("        let need = self.workspace_bytes({});\n", values.trim_start_matches(", ")));
    out.push_str("        let (workspace, _guard) = match workspace {\n");
    out.push_str("            Some(w) if w.len() >= need => {\n                let (pointer, guard) = w.device_ptr_mut(stream);\n                (pointer, Some(guard))\n            }\n");
    out.push_str("            None if need == 0 => (0, None),\n");
    out.push_str("            _ => return Err(Error::Argument(format!(\"the launch needs {need} bytes of workspace\"))),\n        };\n");
    let pointers: Vec<&str> = i.tensors.iter().map(|t| t.ident.as_str()).collect();
    out.push_str("        self.context.bind_to_thread()?;\n");
    out.push_str(&format!("        // SAFETY: the buffers were checked against the extents{known}.\n"));
    let call = format!("self.launch_raw(stream.cu_stream().cast(), &[{}]{values}, workspace)", pointers.join(", "));
    out.push_str(&format!("        unsafe {{ {call} }}\n    }}\n"));
    Ok(out)
}

/// The raw launch.
fn raw(f: &Function<'_>, i: &Interface) -> String {
    let mut out = String::from(
        "    /// Launches on bare device addresses, one per tensor in order, and a `CUstream`; may be captured in a graph.\n    ///\n",
    );
    out.push_str("    /// # Errors\n    /// When there is no kernel for these extents, or the driver refuses.\n    ///\n    /// # Safety\n");
    out.push_str(
        "    /// Each address must be valid on the device of `load`, large enough for its tensor and aligned\n",
    );
    out.push_str("    /// as an allocation is, the workspace's too; extents are 1 to 2147483647; the context is bound to this thread.\n");
    let n = i.tensors.len();
    out.push_str(&format!(
        "    pub unsafe fn launch_raw(&self, stream: *mut c_void, tensors: &[u64; {n}]{}, workspace: u64) -> Result<(), Error> {{\n",
        i.scalar_params()
    ));
    out.extend(i.extent_lines(false).map(|line| format!("        {line}\n")));
    out.push_str("        let stream: sys::CUstream = stream.cast();\n");
    let call = |units: &[&Unit]| {
        let call = format!("self.launch_{}(stream, tensors{}, workspace)", units[0].arch_ident(), i.scalar_values());
        Ok(format!("unsafe {{ {call} }}"))
    };
    let calls = arms(f, call).unwrap_or_default();
    out.push_str(&format!(
        "        // SAFETY: as the caller promised.\n        match self.variant {{\n{calls}        }}\n    }}\n"
    ));
    out
}

/// The launches for one architecture.
fn variant(units: &[&Unit], i: &Interface) -> Result<String, String> {
    let n = i.tensors.len();
    let mut out = format!(
        "    unsafe fn launch_{}(&self, stream: sys::CUstream, tensors: &[u64; {n}]{}, workspace: u64) -> Result<(), Error> {{\n",
        units[0].arch_ident(),
        i.inner_params()
    );
    let mut first = 0;
    out.push_str(&i.by_size(units, |u| {
        let text = launches(u, first, i);
        first += u.plan.launches.len();
        text
    })?);
    Ok(out + "    }\n")
}

/// The launches of one kernel, whose functions are those from `first` on.
fn launches(u: &Unit, first: usize, i: &Interface) -> Result<String, String> {
    let mut out = String::new();
    for (k, w) in u.plan.workspaces.iter().enumerate() {
        if w.init == Init::ZeroEach {
            let (at, bytes) = (workspace::offset(u, k, i)?, i.extent(&w.bytes)?);
            out.push_str("        // SAFETY: as the caller promised.\n");
            out.push_str(&format!("        unsafe {{ result::memset_d8_async(workspace + ({at}) as u64, 0, ({bytes}) as usize, stream) }}?;\n"));
        }
    }
    for (k, l) in u.plan.launches.iter().enumerate() {
        out.push_str(&one_launch(u, first + k, l, i)?);
    }
    Ok(out)
}

fn one_launch(u: &Unit, k: usize, l: &PlanLaunch, i: &Interface) -> Result<String, String> {
    let mut out = String::from("        {\n");
    for (a, arg) in l.args.iter().enumerate() {
        let value = match arg {
            Arg::Param { param } => format!("tensors[{}]", i.position(*param)?),
            Arg::Workspace { workspace } => format!("workspace + ({}) as u64", workspace::offset(u, *workspace, i)?),
            Arg::Scalar { scalar, dtype } => scalar_value(u, i, scalar, *dtype),
            Arg::TensorMap { tensor_map: map } => {
                super::tensor_map::rust(map, &format!("tensors[{}]", i.position(map.param)?))?
            }
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
    let launch = if l.pdl { "launch_overlapping" } else { "result::launch_kernel" };
    out.push_str("            // SAFETY: as the caller promised.\n");
    writeln!(
        out,
        "            unsafe {{ {launch}(self.kernels[{k}].0, {}, {}, {smem}, stream, &mut args) }}?;",
        triple(&l.grid)?,
        triple(&l.block)?
    )
    .map_err(|e| e.to_string())?;
    out.push_str("        }\n");
    Ok(out)
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
