
// The driver, found when kernels are loaded. The declarations are those of cuda.h, enumerations as int.
struct CUmod_st;
struct CUfunc_st;

// CUlaunchAttribute.
struct dl_attribute {
    int id;
    int pad;
    union {
        int on;
        uint64_t room[8];
    } value;
};

// CUlaunchConfig.
struct dl_config {
    unsigned grid[3], block[3], shared_bytes;
    CUstream stream;
    struct dl_attribute *attributes;
    unsigned attribute_count;
};

// CUtensorMap.
struct dl_tensor_map {
    _Alignas(128) uint64_t opaque[16];
};

struct dl_driver {
    int (*context_device)(int *);
    int (*device_attribute)(int *, int, int);
    int (*load)(struct CUmod_st **, const void *);
    int (*unload)(struct CUmod_st *);
    int (*function)(struct CUfunc_st **, struct CUmod_st *, const char *);
    int (*set_attribute)(struct CUfunc_st *, int, int);
    int (*launch)(struct CUfunc_st *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **,
        void **);
    int (*set_bytes)(CUdeviceptr, unsigned char, size_t, CUstream);
    int (*launch_with)(const struct dl_config *, struct CUfunc_st *, void **, void **);
    int (*encode_tiled)(struct dl_tensor_map *, int, uint32_t, void *, const uint64_t *, const uint64_t *, const uint32_t *,
        const uint32_t *, int, int, int, int);
};

static const struct {
    const char *name;
    size_t at;
    int needed;
} dl_symbols[] = {
    {"cuCtxGetDevice", offsetof(struct dl_driver, context_device), 1},
    {"cuDeviceGetAttribute", offsetof(struct dl_driver, device_attribute), 1},
    {"cuModuleLoadData", offsetof(struct dl_driver, load), 1},
    {"cuModuleUnload", offsetof(struct dl_driver, unload), 1},
    {"cuModuleGetFunction", offsetof(struct dl_driver, function), 1},
    {"cuFuncSetAttribute", offsetof(struct dl_driver, set_attribute), 1},
    {"cuLaunchKernel", offsetof(struct dl_driver, launch), 1},
    {"cuMemsetD8Async", offsetof(struct dl_driver, set_bytes), 1},
    {"cuLaunchKernelEx", offsetof(struct dl_driver, launch_with), 0},
    {"cuTensorMapEncodeTiled", offsetof(struct dl_driver, encode_tiled), 0},
};

// Architectures, the newest first; with its own instructions a kernel runs on its own alone.
struct dl_variant {
    int major, minor, own;
};

// A compiled file and the architecture it is for.
struct dl_module {
    int variant;
    const unsigned char *image;
};

// A kernel of a file, with the bytes of shared memory that a launch asks for.
struct dl_function {
    int module;
    const char *symbol;
    int shared_bytes;
};
@TABLES@
struct daylight_@NAME@ {
    void *library;
    struct dl_driver driver;
    int variant;
    struct CUmod_st *modules[DL_MODULES];
    struct CUfunc_st *functions[DL_FUNCTIONS];
};

static int dl_open(daylight_@NAME@ *kernels)
{
    kernels->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (kernels->library == NULL)
        return DL_NO_DRIVER;
    for (size_t i = 0; i < sizeof dl_symbols / sizeof dl_symbols[0]; ++i) {
        void *found = dlsym(kernels->library, dl_symbols[i].name);
        if (found == NULL && dl_symbols[i].needed)
            return DL_NO_SYMBOL;
        // POSIX: a pointer to a function has the form of one to an object.
        memcpy((char *)&kernels->driver + dl_symbols[i].at, &found, sizeof found);
    }
    return 0;
}

// Chooses the variant for the device of the current context.
static int dl_choose(daylight_@NAME@ *kernels)
{
    // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
    enum { MAJOR = 75, MINOR = 76 };
    int device = 0, major = 0, minor = 0, error = kernels->driver.context_device(&device);
    if (error == 0)
        error = kernels->driver.device_attribute(&major, MAJOR, device);
    if (error == 0)
        error = kernels->driver.device_attribute(&minor, MINOR, device);
    if (error != 0)
        return error;
    for (int v = 0; v < DL_VARIANTS; ++v) {
        const struct dl_variant *of = &dl_variants[v];
        if (of->major == major && (of->own ? of->minor == minor : of->minor <= minor)) {
            kernels->variant = v;
            return 0;
        }
    }
    return DL_NO_BINARY;
}

static int dl_load(daylight_@NAME@ *kernels)
{
    // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES.
    enum { MAX_DYNAMIC_SHARED_BYTES = 8 };
    int error = 0;
    for (int m = 0; m < DL_MODULES && error == 0; ++m)
        if (dl_modules[m].variant == kernels->variant)
            error = kernels->driver.load(&kernels->modules[m], dl_modules[m].image);
    for (int f = 0; f < DL_FUNCTIONS && error == 0; ++f) {
        const struct dl_function *of = &dl_functions[f];
        if (dl_modules[of->module].variant != kernels->variant)
            continue;
        error = kernels->driver.function(&kernels->functions[f], kernels->modules[of->module], of->symbol);
        if (error == 0 && of->shared_bytes > 0)
            error = kernels->driver.set_attribute(kernels->functions[f], MAX_DYNAMIC_SHARED_BYTES, of->shared_bytes);
    }
    return error;
}

int daylight_@NAME@_load(daylight_@NAME@ **loaded)
{
    daylight_@NAME@ *kernels = calloc(1, sizeof *kernels);
    *loaded = NULL;
    if (kernels == NULL)
        return DL_OUT_OF_MEMORY;
    int error = dl_open(kernels);
    if (error == 0)
        error = dl_choose(kernels);
    if (error == 0)
        error = dl_load(kernels);
    if (error != 0) {
        daylight_@NAME@_unload(kernels);
        return error;
    }
    *loaded = kernels;
    return 0;
}

void daylight_@NAME@_unload(daylight_@NAME@ *kernels)
{
    if (kernels == NULL)
        return;
    for (int m = 0; m < DL_MODULES; ++m)
        if (kernels->modules[m] != NULL)
            kernels->driver.unload(kernels->modules[m]);
    if (kernels->library != NULL)
        dlclose(kernels->library);
    free(kernels);
}
