
// A launch that may begin before the one before it has ended: the kernel waits itself where it has to.
static int dl_launch_pdl(const daylight_@NAME@ *kernels, int function, const unsigned *grid, const unsigned *block,
    CUstream stream, void **args)
{
    // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION.
    enum { PROGRAMMATIC_STREAM_SERIALIZATION = 6 };
    struct dl_attribute attribute = {.id = PROGRAMMATIC_STREAM_SERIALIZATION, .value = {.on = 1}};
    struct dl_config config = {
        {grid[0], grid[1], grid[2]},
        {block[0], block[1], block[2]},
        (unsigned)dl_functions[function].shared_bytes,
        stream,
        &attribute,
        1,
    };
    if (kernels->driver.launch_with == NULL)
        return DL_NOT_SUPPORTED;
    return kernels->driver.launch_with(&config, kernels->functions[function], args, NULL);
}
