// The driver of the tests for programs in C, which says what it is asked for, with what a loader in Python asks besides.
#define cuModuleLoadData loaded
#define cuModuleGetFunction found
#include "../../tests/data/c/libcuda.c"
#undef cuModuleLoadData
#undef cuModuleGetFunction

static void *current = NULL;

__attribute__((constructor)) static void unbuffered(void) { setvbuf(stdout, NULL, _IONBF, 0); }

int cuInit(unsigned flags) { return flags == 0 ? says("cuInit") : 1; }

int cuGetErrorName(int code, const char **name)
{
    *name = code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_INVALID_VALUE";
    return 0;
}

int cuDeviceGet(int *device, int index)
{
    // GPU 0 of the machine has the number that the other functions expect.
    *device = index + 3;
    return index == 0 ? says("cuDeviceGet") : 101;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    *context = &current;
    printf("context of %d\n", device);
    return says("cuDevicePrimaryCtxRetain");
}

int cuCtxGetCurrent(void **context)
{
    *context = current;
    return 0;
}

int cuCtxPushCurrent_v2(void *context)
{
    current = context;
    printf("push\n");
    return 0;
}

int cuCtxPopCurrent_v2(void **context)
{
    *context = current;
    current = NULL;
    printf("pop\n");
    return 0;
}

int cuThreadExchangeStreamCaptureMode(int *mode)
{
    static int now = 0;
    const int before = now;
    now = *mode;
    *mode = before;
    printf("capture mode %d\n", now);
    return 0;
}

// Images and names are kept: the caller's memory is not.
int cuModuleLoadData(const char **module, const char *image)
{
    const int code = loaded(module, image);
    *module = strdup(image);
    return code;
}

int cuModuleGetFunction(struct function **function, const char *module, const char *symbol)
{
    return found(function, module, strdup(symbol));
}
