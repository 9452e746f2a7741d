//! Tensor maps in generated Rust: made for the address of the tensor at each launch, which costs the processor less
//! than a microsecond and holds no state.

use crate::backend::PlanTensorMap;
use crate::ir::{DType, MapSwizzle};

/// The expression of a map, of the tensor at `address`.
///
/// # Errors
/// A sentence, where no swizzle has the map's span.
pub fn map(m: &PlanTensorMap, address: &str) -> Result<String, String> {
    let swizzle = match m.map_swizzle()? {
        MapSwizzle::None => "NONE",
        MapSwizzle::B32 => "32B",
        MapSwizzle::B64 => "64B",
        MapSwizzle::B128 => "128B",
    };
    let l2 = match m.l2 {
        64 => "L2_64B",
        128 => "L2_128B",
        256 => "L2_256B",
        _ => "NONE",
    };
    let fields = [
        format!("data_type: sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_{}", data_type(m.dtype)),
        format!("dims: &{:?}", m.dims),
        format!("strides_bytes: &{:?}", m.strides_bytes),
        format!("box_dims: &{:?}", m.box_dims),
        format!("elem_strides: &{:?}", m.elem_strides),
        format!("swizzle: sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
        format!("l2: sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_{l2}"),
    ];
    Ok(format!("TensorMap {{ {} }}.at({address})?", fields.join(", ")))
}

/// The driver's name of a type: copies keep bits, so that any type of the size does.
fn data_type(dtype: DType) -> &'static str {
    match dtype.bytes() {
        1 => "UINT8",
        2 => "UINT16",
        4 => "UINT32",
        _ => "UINT64",
    }
}
