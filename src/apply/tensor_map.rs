//! Tensor maps in generated launches: made for the address of the tensor at each launch, which costs the processor less
//! than a microsecond and holds no state.

use super::lang::braced;
use crate::backend::PlanTensorMap;
use crate::ir::{DType, MapSwizzle};

/// A value of one of the driver's enumerations: the end of its name, and its number.
type Value = (&'static str, u32);

/// The driver's values for the type, the swizzle and the bytes that the L2 fetches at once.
///
/// # Errors
/// A sentence, where no swizzle has the map's span.
fn values(m: &PlanTensorMap) -> Result<[Value; 3], String> {
    let swizzle = match m.map_swizzle()? {
        MapSwizzle::None => ("NONE", 0),
        MapSwizzle::B32 => ("32B", 1),
        MapSwizzle::B64 => ("64B", 2),
        MapSwizzle::B128 => ("128B", 3),
    };
    let l2 = match m.l2 {
        64 => ("L2_64B", 1),
        128 => ("L2_128B", 2),
        256 => ("L2_256B", 3),
        _ => ("NONE", 0),
    };
    Ok([data_type(m.dtype), swizzle, l2])
}

/// The driver's name of a type: copies keep bits, so that any type of the size does.
fn data_type(dtype: DType) -> Value {
    match dtype.bytes() {
        1 => ("UINT8", 0),
        2 => ("UINT16", 1),
        4 => ("UINT32", 2),
        _ => ("UINT64", 4),
    }
}

/// The Rust expression of a map, of the tensor at `address`.
///
/// # Errors
/// A sentence, where no swizzle has the map's span.
pub fn rust(m: &PlanTensorMap, address: &str) -> Result<String, String> {
    let [(data_type, _), (swizzle, _), (l2, _)] = values(m)?;
    let fields = [
        format!("data_type: sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_{data_type}"),
        format!("dims: &{:?}", m.dims),
        format!("strides_bytes: &{:?}", m.strides_bytes),
        format!("box_dims: &{:?}", m.box_dims),
        format!("elem_strides: &{:?}", m.elem_strides),
        format!("swizzle: sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
        format!("l2: sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_{l2}"),
    ];
    Ok(format!("TensorMap {{ {} }}.at({address})?", fields.join(", ")))
}

/// The C initialiser of a `struct dl_tiles`.
///
/// # Errors
/// A sentence, where no swizzle has the map's span.
pub fn c(m: &PlanTensorMap) -> Result<String, String> {
    let [data_type, swizzle, l2] = values(m)?;
    let words = |all: &[u64]| braced(&all.iter().map(|n| format!("{n}ULL")).collect::<Vec<_>>());
    let short = |all: &[u32]| braced(&all.iter().map(|n| format!("{n}U")).collect::<Vec<_>>());
    let named = |(name, number): Value, of: &str| format!("{number} /* {of}_{name} */");
    let fields = [
        named(data_type, "DATA_TYPE"),
        m.dims.len().to_string(),
        words(&m.dims),
        words(&m.strides_bytes),
        short(&m.box_dims),
        short(&m.elem_strides),
        named(swizzle, "SWIZZLE"),
        named(l2, "L2_PROMOTION"),
    ];
    Ok(format!("{{{}}}", fields.join(", ")))
}
