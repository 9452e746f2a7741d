
    /// Launches a kernel that itself waits for what was launched before it, and may start before that is done.
    ///
    /// # Safety
    /// As for [`result::launch_kernel`].
    unsafe fn launch_overlapping(
        function: sys::CUfunction,
        grid: (u32, u32, u32),
        block: (u32, u32, u32),
        dynamic_smem: u32,
        stream: sys::CUstream,
        args: &mut [*mut c_void],
    ) -> Result<(), DriverError> {
        let mut overlap = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let config = sys::CUlaunchConfig {
            gridDimX: grid.0,
            gridDimY: grid.1,
            gridDimZ: grid.2,
            blockDimX: block.0,
            blockDimY: block.1,
            blockDimZ: block.2,
            sharedMemBytes: dynamic_smem,
            hStream: stream,
            attrs: &raw mut overlap,
            numAttrs: 1,
        };
        // SAFETY: as the caller promised; the attribute outlives the call.
        unsafe { sys::cuLaunchKernelEx(&raw const config, function, args.as_mut_ptr(), std::ptr::null_mut()) }.result()
    }
