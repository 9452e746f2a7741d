
    /// How boxes of a tensor are found in device memory.
    struct TensorMap {
        data_type: sys::CUtensorMapDataType,
        dims: &'static [u64],
        strides_bytes: &'static [u64],
        box_dims: &'static [u32],
        elem_strides: &'static [u32],
        swizzle: sys::CUtensorMapSwizzle,
        l2: sys::CUtensorMapL2promotion,
    }

    impl TensorMap {
        /// The map of the tensor at a device address, as a kernel takes it.
        fn at(&self, address: sys::CUdeviceptr) -> Result<sys::CUtensorMap, DriverError> {
            let mut map = std::mem::MaybeUninit::zeroed();
            // SAFETY: the lists have as many entries as there are dimensions, the strides one less.
            unsafe {
                sys::cuTensorMapEncodeTiled(
                    map.as_mut_ptr(),
                    self.data_type,
                    self.dims.len() as u32,
                    address as *mut c_void,
                    self.dims.as_ptr(),
                    self.strides_bytes.as_ptr(),
                    self.box_dims.as_ptr(),
                    self.elem_strides.as_ptr(),
                    sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                    self.swizzle,
                    self.l2,
                    sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
                )
            }
            .result()?;
            // SAFETY: zeros are a value, and the driver has written the map.
            Ok(unsafe { map.assume_init() })
        }
    }
