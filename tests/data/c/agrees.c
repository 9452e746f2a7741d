// The source of a package beside cuda.h: sizes, places and numbers are the same.
#include <cuda.h>

#include "kernels.c"

#define SAME(what, a, b) _Static_assert((a) == (b), what)

SAME("launch attribute", sizeof(struct dl_attribute), sizeof(CUlaunchAttribute));
SAME("its value", offsetof(struct dl_attribute, value), offsetof(CUlaunchAttribute, value));
SAME("launch configuration", sizeof(struct dl_config), sizeof(CUlaunchConfig));
SAME("its blocks", offsetof(struct dl_config, block), offsetof(CUlaunchConfig, blockDimX));
SAME("its shared memory", offsetof(struct dl_config, shared_bytes), offsetof(CUlaunchConfig, sharedMemBytes));
SAME("its stream", offsetof(struct dl_config, stream), offsetof(CUlaunchConfig, hStream));
SAME("its attributes", offsetof(struct dl_config, attributes), offsetof(CUlaunchConfig, attrs));
SAME("their number", offsetof(struct dl_config, attribute_count), offsetof(CUlaunchConfig, numAttrs));
SAME("tensor map", sizeof(struct dl_tensor_map), sizeof(CUtensorMap));
// CUDA 12 asks for 64 bytes, CUDA 13 for 128.
SAME("its alignment", _Alignof(struct dl_tensor_map) % _Alignof(CUtensorMap), 0);
SAME("results", sizeof(CUresult), sizeof(int));
SAME("invalid value", (int)DL_INVALID_VALUE, (int)CUDA_ERROR_INVALID_VALUE);
SAME("out of memory", (int)DL_OUT_OF_MEMORY, (int)CUDA_ERROR_OUT_OF_MEMORY);
SAME("no binary", (int)DL_NO_BINARY, (int)CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME("no symbol", (int)DL_NO_SYMBOL, (int)CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND);
SAME("no driver", (int)DL_NO_DRIVER, (int)CUDA_ERROR_SHARED_OBJECT_INIT_FAILED);
SAME("not supported", (int)DL_NOT_SUPPORTED, (int)CUDA_ERROR_NOT_SUPPORTED);
SAME("major", 75, (int)CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME("minor", 76, (int)CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME("shared memory", 8, (int)CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME("dependent launch", 6, (int)CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SAME("UINT8", 0, (int)CU_TENSOR_MAP_DATA_TYPE_UINT8);
SAME("UINT16", 1, (int)CU_TENSOR_MAP_DATA_TYPE_UINT16);
SAME("UINT32", 2, (int)CU_TENSOR_MAP_DATA_TYPE_UINT32);
SAME("UINT64", 4, (int)CU_TENSOR_MAP_DATA_TYPE_UINT64);
SAME("interleave", 0, (int)CU_TENSOR_MAP_INTERLEAVE_NONE);
SAME("no swizzle", 0, (int)CU_TENSOR_MAP_SWIZZLE_NONE);
SAME("32 bytes", 1, (int)CU_TENSOR_MAP_SWIZZLE_32B);
SAME("64 bytes", 2, (int)CU_TENSOR_MAP_SWIZZLE_64B);
SAME("128 bytes", 3, (int)CU_TENSOR_MAP_SWIZZLE_128B);
SAME("no promotion", 0, (int)CU_TENSOR_MAP_L2_PROMOTION_NONE);
SAME("64 bytes at once", 1, (int)CU_TENSOR_MAP_L2_PROMOTION_L2_64B);
SAME("128 bytes at once", 2, (int)CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
SAME("256 bytes at once", 3, (int)CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
SAME("out of bounds", 0, (int)CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
