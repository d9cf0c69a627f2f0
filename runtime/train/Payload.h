//===- Payload.h - How an executable carries its program ----------*- C -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A training executable is, in this order,
//
//   1. the prebuilt runtime, harmony-train-host, byte for byte;
//   2. zeros up to a multiple of HM_PAYLOAD_ALIGNMENT;
//   3. the payload, an ELF shared object that exports harmony_program,
//      harmony_program_size and harmony_kernels (runtime/program.h) and needs
//      no other library;
//   4. HmPayloadTrailer, the last bytes of the file.
//
// The number of kernels is the size of the symbol harmony_kernels. The blob is
// aligned to HM_PROGRAM_ALIGNMENT in memory.
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_TRAIN_PAYLOAD_H
#define RUNTIME_TRAIN_PAYLOAD_H

#include <stdint.h>

#define HM_PAYLOAD_ALIGNMENT 4096
#define HM_PROGRAM_ALIGNMENT 64
#define HM_PAYLOAD_MAGIC "HARMEXE1" /* 8 bytes, without the NUL */

#define HM_SYMBOL_PROGRAM "harmony_program"
#define HM_SYMBOL_PROGRAM_SIZE "harmony_program_size"
#define HM_SYMBOL_KERNELS "harmony_kernels"

/* harmony-train-host --library-scratch avx2|avx512, without a payload, reads
   HmGemm structs from standard input up to its end and writes a line for each:
   the bytes that the product library allocates in the largest of its calls
   (HmDevice.libraryBytes is the largest over a program's products). */
#define HM_FLAG_LIBRARY_SCRATCH "--library-scratch"

/* harmony-train-host --measure-machine avx2|avx512 THREADS, without a payload,
   prints what MeasureMachine.h says; of 0 threads the names alone. */
#define HM_FLAG_MEASURE_MACHINE "--measure-machine"

/* The initial weights stand beside the executable, under its path with this
 * suffix. */
#define HM_WEIGHTS_SUFFIX ".weights.safetensors"
/* Key of the header's fingerprint in the __metadata__ of a weights file. */
#define HM_FINGERPRINT_KEY "fingerprint"
/* Key of the tensors that the weights file leaves in the files of the model
   (harmonyc compile --weights-from-model): JSON, written and read by
   Safetensors.cpp. */
#define HM_EXTERNAL_KEY "external"

typedef struct HmPayloadTrailer {
  uint64_t offset; /* of the payload in the file */
  uint64_t size;   /* of the payload: it ends where the trailer begins */
  char magic[8];
} HmPayloadTrailer;

#endif /* RUNTIME_TRAIN_PAYLOAD_H */
