//! From a Program to CUDA C++ or C text.
