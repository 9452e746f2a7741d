//! Tensor maps as the driver encodes them.

use crate::backend::PlanTensorMap;
use crate::ir::{DType, MapSwizzle};
use crate::runner::device::Outcome;
use crate::runner::{RunError, RunFailure};
use cudarc::driver::sys;

/// Encodes the map of the tensor at a device address.
pub fn encode(at: u64, map: &PlanTensorMap) -> Outcome<sys::CUtensorMap> {
    let bad = |why: String| RunError::new(RunFailure::BadRequest, why);
    let rank = map.dims.len();
    let lengths = [map.strides_bytes.len() + 1, map.box_dims.len(), map.elem_strides.len()];
    if !(1..=5).contains(&rank) || lengths.iter().any(|n| *n != rank) {
        return Err(bad(format!("a tensor map has 1 to 5 dimensions and as many extents, not {rank}")));
    }
    let swizzle = swizzle(map.map_swizzle().map_err(bad)?);
    let mut out = sys::CUtensorMap { opaque: [0; 16] };
    // SAFETY: the lists have `rank` entries, the strides one less, as the call asks; the driver, which
    // is of CUDA 12.8 or newer, has the function. It checks all values.
    let status = unsafe {
        sys::cuTensorMapEncodeTiled(
            &mut out,
            data_type(map.dtype),
            rank as u32,
            at as *mut _,
            map.dims.as_ptr(),
            map.strides_bytes.as_ptr(),
            map.box_dims.as_ptr(),
            map.elem_strides.as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle,
            promotion(map.l2),
            sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    };
    let refused =
        |e| RunError::new(RunFailure::BadRequest, format!("{} while encoding a tensor map", super::driver::text(e)));
    status.result().map_err(refused)?;
    Ok(out)
}

fn swizzle(s: MapSwizzle) -> sys::CUtensorMapSwizzle {
    match s {
        MapSwizzle::None => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
        MapSwizzle::B32 => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_32B,
        MapSwizzle::B64 => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_64B,
        MapSwizzle::B128 => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
    }
}

fn promotion(bytes: u32) -> sys::CUtensorMapL2promotion {
    match bytes {
        64 => sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
        128 => sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        256 => sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        _ => sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_NONE,
    }
}

/// The type of elements: copies keep their bits, so that any type of their size does.
fn data_type(dtype: DType) -> sys::CUtensorMapDataType {
    use sys::CUtensorMapDataType as T;
    match dtype {
        DType::Bool | DType::I8 | DType::U8 | DType::E4M3 | DType::E5M2 | DType::E8M0 => {
            T::CU_TENSOR_MAP_DATA_TYPE_UINT8
        }
        DType::I16 | DType::U16 => T::CU_TENSOR_MAP_DATA_TYPE_UINT16,
        DType::I32 => T::CU_TENSOR_MAP_DATA_TYPE_INT32,
        DType::U32 => T::CU_TENSOR_MAP_DATA_TYPE_UINT32,
        DType::I64 => T::CU_TENSOR_MAP_DATA_TYPE_INT64,
        DType::U64 | DType::Handle => T::CU_TENSOR_MAP_DATA_TYPE_UINT64,
        DType::F16 => T::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        DType::BF16 => T::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        DType::F32 => T::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        DType::F64 => T::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
    }
}
