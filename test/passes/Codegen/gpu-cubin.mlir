// REQUIRES: ptxas
// RUN: harmony-opt --harmony-emit-gpu-kernels %S/gpu.mlir | harmony-opt --pass-pipeline='builtin.module(harmony-lower-gpu-kernels{chip=sm_90 format=bin toolkit=%cuda})' | FileCheck %s

// An ELF file for the device.
// CHECK: gpu.binary @kernels
// CHECK-SAME: bin = "\7FELF
