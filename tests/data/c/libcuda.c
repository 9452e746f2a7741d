// A CUDA driver that says on standard output what it is asked for, and does nothing. The environment says which device there
// is (FAKE_DEVICE=90) and which function fails (FAKE_FAILS=cuLaunchKernel).
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Arguments of the kernels of files: addresses, numbers of 64 bits, floats, tensor maps. The first row whose file begins so
// holds; others are not read.
static const struct {
    const char *file, *symbol, *args;
} KERNELS[] = {
    {"scaled.", "scaled_k0", "aaf"},
    {"sums.n", "sums_k0", "aa"},
    {"sums.", "sums_k0", "aal"},
    {"total.", "total_k0", "aa"},
    {"total.", "total_k1", "aa"},
    {"product.sm_90a.", "product_k0", "aaamm"},
    {"product_2.sm_90a.", "product_k0", "aaamm"},
    {"shares.", "shares_k0", "aa"},
};

struct function {
    const char *file, *symbol;
};

static int says(const char *function)
{
    const char *fails = getenv("FAKE_FAILS");
    return fails != NULL && strcmp(fails, function) == 0 ? 700 : 0;
}

int cuCtxGetDevice(int *device)
{
    *device = 3;
    return says("cuCtxGetDevice");
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    int of = atoi(getenv("FAKE_DEVICE"));
    if (device != 3 || (attribute != 75 && attribute != 76))
        return 1;
    *value = attribute == 75 ? of / 10 : of % 10;
    return says("cuDeviceGetAttribute");
}

// A module is its image, which these tests make of text.
int cuModuleLoadData(const char **module, const char *image)
{
    *module = image;
    printf("load %s, aligned to 16: %d\n", image, (uintptr_t)image % 16 == 0);
    return says("cuModuleLoadData");
}

int cuModuleUnload(const char *module)
{
    printf("unload %s\n", module);
    return says("cuModuleUnload");
}

int cuModuleGetFunction(struct function **function, const char *module, const char *symbol)
{
    static struct function functions[64];
    static int count = 0;
    if (count == 64)
        return 2;
    *function = &functions[count++];
    **function = (struct function){module, symbol};
    printf("function %s of %s\n", symbol, module);
    return says("cuModuleGetFunction");
}

int cuFuncSetAttribute(const struct function *function, int attribute, int value)
{
    printf("attribute %d of %s is %d\n", attribute, function->symbol, value);
    return says("cuFuncSetAttribute");
}

int cuMemsetD8Async(unsigned long long at, unsigned char value, size_t bytes, void *stream)
{
    printf("set %zu bytes at %#llx to %d on %p\n", bytes, at, value, stream);
    return says("cuMemsetD8Async");
}

static void list64(const char *name, const uint64_t *all, uint32_t n)
{
    printf(" %s", name);
    for (uint32_t i = 0; i < n; ++i)
        printf(" %llu", (unsigned long long)all[i]);
}

static void list32(const char *name, const uint32_t *all, uint32_t n)
{
    printf(" %s", name);
    for (uint32_t i = 0; i < n; ++i)
        printf(" %u", all[i]);
}

// Writes the address into the map.
int cuTensorMapEncodeTiled(uint64_t *map, int type, uint32_t rank, void *at, const uint64_t *dims, const uint64_t *strides,
    const uint32_t *box, const uint32_t *elem_strides, int interleave, int swizzle, int l2, int oob)
{
    printf("map of %p, aligned to 64: %d, type %d rank %u", at, (uintptr_t)map % 64 == 0, type, rank);
    list64("dims", dims, rank);
    list64("strides", strides, rank - 1);
    list32("box", box, rank);
    list32("steps", elem_strides, rank);
    printf(" interleave %d swizzle %d l2 %d oob %d\n", interleave, swizzle, l2, oob);
    map[0] = (uint64_t)(uintptr_t)at;
    return says("cuTensorMapEncodeTiled");
}

static void arguments(const struct function *f, void **args)
{
    const char *kinds = NULL;
    for (size_t i = 0; i < sizeof KERNELS / sizeof KERNELS[0] && kinds == NULL; ++i)
        if (strcmp(KERNELS[i].symbol, f->symbol) == 0 && strncmp(KERNELS[i].file, f->file, strlen(KERNELS[i].file)) == 0)
            kinds = KERNELS[i].args;
    kinds = kinds == NULL ? "" : kinds;
    for (size_t i = 0; kinds[i] != 0; ++i)
        switch (kinds[i]) {
        case 'a':
            printf(" %#llx", *(unsigned long long *)args[i]);
            break;
        case 'l':
            printf(" %lld", *(long long *)args[i]);
            break;
        case 'f':
            printf(" %g", (double)*(float *)args[i]);
            break;
        case 'm':
            printf(" map(%#llx)", (unsigned long long)*(uint64_t *)args[i]);
            break;
        }
}

int cuLaunchKernel(const struct function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
    unsigned shared, void *stream, void **args, void **extra)
{
    printf("launch %s of %s grid %u %u %u block %u %u %u shared %u stream %p args", f->symbol, f->file, gx, gy, gz, bx, by, bz, shared, stream);
    arguments(f, args);
    printf(extra == NULL ? "\n" : " and more\n");
    return says("cuLaunchKernel");
}

struct attribute {
    int id, pad;
    int value[16];
};

struct config {
    unsigned grid[3], block[3], shared;
    void *stream;
    struct attribute *attributes;
    unsigned count;
};

int cuLaunchKernelEx(const struct config *with, const struct function *f, void **args, void **extra)
{
    for (unsigned i = 0; i < with->count; ++i)
        printf("with attribute %d = %d, ", with->attributes[i].id, with->attributes[i].value[0]);
    const unsigned *g = with->grid, *b = with->block;
    return cuLaunchKernel(f, g[0], g[1], g[2], b[0], b[1], b[2], with->shared, with->stream, args, extra);
}
