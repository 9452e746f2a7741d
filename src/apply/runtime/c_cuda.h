
// As cuda.h has them, which may be included as well.
typedef struct CUstream_st *CUstream;
#if defined(_WIN64) || defined(__LP64__)
typedef unsigned long long CUdeviceptr;
#else
typedef unsigned int CUdeviceptr;
#endif

// The kernels for NVIDIA GPUs, loaded for one device. Any thread may launch from it.
typedef struct daylight_@NAME@ daylight_@NAME@;

// Loads the kernels for the device whose context is current, which is current at launches too. Finds the driver, so that a
// program needs no CUDA to be built: 303 where there is none, 302 where it is older than CUDA 11.
int daylight_@NAME@_load(daylight_@NAME@ **kernels);

// Unloads them; what was launched must be done. Takes NULL.
void daylight_@NAME@_unload(daylight_@NAME@ *kernels);

// Launches are put on the stream and return: nothing is allocated or awaited, and all may be captured in a graph. Addresses
// are of the device and aligned as those of an allocation. The workspace holds NAME_workspace_bytes bytes; it may be 0 where
// that is 0, and launches that may overlap need one each.
