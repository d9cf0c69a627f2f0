//===- program.h - The seam between compiler and runtime ----------*- C -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A training executable is the prebuilt runtime followed by one payload, an ELF
// shared object that exports
//
//   const unsigned char harmony_program[];         the blob described here
//   const uint64_t      harmony_program_size;
//   const HmRangeFunction harmony_kernels[];       the generated kernels
//
// The blob is position independent: sections are (offset, count) pairs relative
// to its first byte, everything else is an index. It is written by
// compiler/Target and read by runtime/engine; nothing else is shared by the
// two. All integers are little-endian; sizes and offsets are in bytes.
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_PROGRAM_H
#define RUNTIME_PROGRAM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HM_PROGRAM_MAGIC 0x31474d50524148ULL /* "HARPMG1" */
#define HM_PROGRAM_VERSION 5u
#define HM_NONE 0xffffffffu

/* A kernel computes the indices [begin, end) of its outermost parallel
   dimension. `buffers` are the addresses of its operands, in the order of the
   launch's references. Any split of [0, extent) gives the same bits. */
typedef void (*HmRangeFunction)(void *const *buffers, int64_t begin,
                                int64_t end);

typedef struct HmSection {
  uint32_t offset; /* from the first byte of the blob; aligned to 8 */
  uint32_t count;  /* elements; for the string section: bytes. A section of a
                      queue,  program or variable is a part of the header's
                      section of its kind,  its offset counted from the first
                      byte  of the blob as well */
} HmSection;

typedef uint32_t
    HmString; /* offset in the string section of a NUL-terminated string */

enum HmType {
  HM_F32,
  HM_F64,
  HM_I64,
  HM_I32,
  HM_I8,
  HM_U8,
  HM_BOOL,
  HM_F16,
  HM_BF16
};

/* ---- memory ------------------------------------------------------------- */

enum HmSpace {
  HM_SPACE_DEVICE,  /* the arena of device `device` */
  HM_SPACE_HOST,    /* the host store */
  HM_SPACE_BATCH,   /* the minibatch as the data loader laid it out: see HmInput
                     */
  HM_SPACE_SCALARS, /* the step's scalars: an array of float, see HmScalar */
  HM_SPACE_CONSTANT, /* the blob's constant section, read only */
  HM_SPACE_DUMP,     /* gradients on their way to --dump-grads. Allocated only
                        then; commands with a reference here are skipped (but
                        signal) unless the step is dumped */
  HM_SPACE_RESULTS   /* the engine's own, never in a blob: what an execution
                        leaves at the homes of loss terms, kept from the next */
};

/* address = base(space, device) + offset + slot * stride + (i % d) * part,
   where slot = modulo ? (i / d) % modulo : i / d, d = divide or 1 where that is
   0, and i the iteration of the enclosing loop, 0 outside of one. d > 1: this
   loop's microbatch is the d-th part of the one that a slot holds. */
typedef struct HmRef {
  uint8_t space; /* HmSpace */
  uint8_t device;
  uint16_t access; /* bit 0: read, bit 1: written */
  uint32_t modulo;
  int64_t offset;
  int64_t stride;
  int64_t bytes; /* touched from the address on */
  int64_t part;
  uint32_t divide;
  uint32_t reserved;
} HmRef;

/* ---- kernels ------------------------------------------------------------ */

enum HmKernelKind {
  HM_KERNEL_GENERATED,
  HM_KERNEL_GEMM,
  HM_KERNEL_CONVOLUTION
};

typedef struct HmKernel {
  HmString name;
  uint32_t kind;  /* HmKernelKind */
  uint32_t index; /* generated: in harmony_kernels; else in the section of gemms
                     or convolutions */
  uint32_t family; /* HmFamily: what the time report groups by */
} HmKernel;

enum HmFamily {
  HM_FAMILY_GEMM,
  HM_FAMILY_POINTWISE,
  HM_FAMILY_ROW,
  HM_FAMILY_COLUMN,
  HM_FAMILY_GATHER,
  HM_FAMILY_COPY,
  HM_FAMILY_UPDATE,
  HM_FAMILY_COUNT
};

/* C[b] = beta * C[b] + op(A[b]) * op(B[b]), row-major f32, for every index b of
   the batch dimensions. The output is cut into blocks of blockM x blockN, the
   last of a row or column being smaller; the range of the launch runs over
   batch[0] * batch[1] * batch[2] * ceil(m/blockM) * ceil(n/blockN) blocks,
   column blocks fastest. Each block is one single-threaded library call, so the
   bits depend on this struct and the instruction set alone. A launch has three
   references: A, B, C. */
typedef struct HmGemm {
  int64_t m, n, k;
  int64_t lda, ldb, ldc;                      /* elements */
  int64_t batch[3];                           /* extents, 1 where unused */
  int64_t strideA[3], strideB[3], strideC[3]; /* elements */
  int64_t blockM, blockN;
  uint8_t transA, transB; /* the operand is stored [k, m] (A) or [n, k] (B) */
  uint8_t accumulate;     /* beta is 1 rather than 0 */
  uint8_t reserved[5];
} HmGemm;

/* The direction of a convolution, and its three references. */
enum HmConvolutionDirection {
  HM_CONVOLUTION_FORWARD, /* image, weights, result (written) */
  HM_CONVOLUTION_IMAGE,   /* gradient of the result, weights, gradient of the
                             image (written) */
  HM_CONVOLUTION_WEIGHTS, /* gradient of the result, image, gradients of the
                             weights (written): one of each block of samples,
                             one after the other */
  HM_CONVOLUTION_DIRECTION_COUNT
};

/* A convolution of f32 images [samples, image.., channels] with results
   [samples, out.., outputs], row-major. Window o along an axis begins at
   o * stride - low; elements beyond the image are 0. Weights lie in blocks of
   `lanes` channels and outputs:

     forward, weights  [outputs/lanes, channels/lanes, kernel.., lanes
                        (channels), lanes (outputs)]
     image             the same with the two innermost exchanged
     forward, weights of fewer channels than lanes
                       [outputs/lanes, kernel.., channels, lanes]

   The range of the launch runs over ceil(samples / blockSamples) blocks, the
   last being smaller. Each block is one single-threaded library call, so the
   bits depend on this struct and the instruction set alone. */
typedef struct HmConvolution {
  int64_t samples, blockSamples;
  int64_t channels, outputs;
  int64_t image[2], out[2], kernel[2], strides[2];
  int64_t low[2], high[2]; /* padding in front and behind */
  uint32_t direction;      /* HmConvolutionDirection */
  uint32_t lanes;          /* 8 or 16 */
} HmConvolution;

/* ---- commands ----------------------------------------------------------- */

enum HmOpcode {
  HM_OP_LOOP, /* repeat up to the matching END: a = iterations. Loops do not
                 nest */
  HM_OP_END,
  HM_OP_WAIT,   /* until timeline[queue] >= step * period[queue] + a + (i / d) *
                   b, i the iteration, d = count or 1 where that is 0 (the
                   awaited loop's microbatch is d of this one's); a may be
                   negative (the step before). Iterations below `first` do not
                   wait. LOOP and END have no signal */
  HM_OP_COPY,   /* ref[first] = ref[first + 1], bytes of ref[first]; traffic =
                   HmTraffic */
  HM_OP_FILL,   /* every byte of ref[first] = a */
  HM_OP_LAUNCH, /* kernel over [0, a), at least b indices to a worker at a time
                 */
  HM_OP_RELEASE /* the bytes of ref[first] are dead: poisoned where asked for,
                   else nothing */
};

/* What a copy is counted as. */
enum HmTraffic {
  HM_TRAFFIC_SWAP_IN,
  HM_TRAFFIC_SWAP_OUT,
  HM_TRAFFIC_PEER,
  HM_TRAFFIC_INPUT,
  HM_TRAFFIC_OUTPUT,
  HM_TRAFFIC_COUNT
};

typedef struct HmCommand {
  uint8_t op; /* HmOpcode */
  uint8_t
      signal; /* 1: the queue's timeline advances by one when this is done */
  uint8_t traffic; /* HmTraffic, copies alone */
  uint8_t begins;  /* 1: the first command of its task */
  uint32_t kernel; /* launch: index of the kernel; wait: index of the queue in
                      its program */
  uint32_t first;  /* first reference; wait: the first iteration that waits */
  uint32_t count;  /* number of references; wait: d */
  uint32_t id;     /* of the plan's event: shared by plan, trace and profile */
  HmString label;  /* for traces: layer and kernel, or tensor */
  int64_t a, b;
  double seconds; /* predicted, launches alone: of this launch and those after
                     it that have 0. Copies are predicted from their link; all
                     else takes no time */
  double lastSeconds; /* launches: beside that, in the last iteration of the
                         enclosing loop, or outside of one */
  uint32_t task; /* launches and fills: 1 + index in the section of tasks; 0:
                    none */
  uint32_t reserved;
} HmCommand;

/* What the launches of a task compute together. A task's commands follow each
   other in one queue. */
enum HmTaskKind {
  HM_TASK_FORWARD,
  HM_TASK_RECOMPUTE,
  HM_TASK_BACKWARD,
  HM_TASK_PROLOGUE,
  HM_TASK_CONTRIBUTION,
  HM_TASK_EPILOGUE,
  HM_TASK_UPDATE,
  HM_TASK_KIND_COUNT
};

/* A layer function in one direction at one microbatch size, an update, or work
   of the host: what --profile measures. */
typedef struct HmTask {
  HmString name; /* function, direction and microbatch size */
  HmString key;  /* digest of its code: kernels, extents and products */
  uint32_t kind; /* HmTaskKind */
  uint32_t reserved;
  int64_t bytes; /* updates: of the parameter */
} HmTask;

enum HmQueueKind {
  HM_QUEUE_COMPUTE,
  HM_QUEUE_IN,
  HM_QUEUE_OUT,
  HM_QUEUE_PEER, /* copies from one device to another: `device` sends */
  HM_QUEUE_HOST
};

typedef struct HmQueue {
  HmString name;
  uint32_t kind;   /* HmQueueKind */
  uint32_t device; /* whose; HM_NONE for the host's */
  HmSection commands;
  int64_t period; /* signals per execution of the program */
} HmQueue;

/* A program is executed by all of its queues at once, each in its own order.
   The queues of one program start at timeline 0 and run on over its executions:
   a queue may be in the next execution of the step program while others are in
   this one, and waits alone keep them apart. At most two executions overlap;
   batch and scalars are two copies, of which executions take turns. Other
   programs' executions do not overlap with anything. */
enum HmProgramKind {
  HM_PROGRAM_LOAD,  /* host store -> what stays on the devices; before the first
                       step */
  HM_PROGRAM_STEP,  /* one training step, repeated */
  HM_PROGRAM_STORE, /* what stays on the devices -> host store; before saving */
  HM_PROGRAM_EVALUATE, /* one batch in evaluation mode; parameters are read from
                          the host store */
  HM_PROGRAM_COUNT
};

typedef struct HmProgram {
  uint32_t present;  /* 0: not compiled in (no queues) */
  uint32_t combines; /* nonzero: what is computed for one sample depends on the
                        others of the execution, so that there must be `batch`
                        of them */
  HmSection queues;
  int64_t batch;                     /* samples that one execution consumes */
  int64_t traffic[HM_TRAFFIC_COUNT]; /* bytes per execution, as planned */
  double seconds; /* per execution in steady state, as planned; 0: not known */
} HmProgram;

/* ---- what the program works on ------------------------------------------ */

enum HmRole {
  HM_ROLE_PARAMETER, /* trained: saved, has gradients */
  HM_ROLE_FROZEN,    /* a parameter that is not trained: saved */
  HM_ROLE_BUFFER,    /* running statistics and tables: saved */
  HM_ROLE_STATE, /* owned by the training graph (moments, counters): saved */
  HM_ROLE_OPTIMIZER, /* state of a built-in optimizer: zero at first, in
                        checkpoints alone */
  HM_ROLE_CONSTANT   /* folded by the compiler: neither named in the model nor
                        saved */
};

typedef struct HmVariable {
  HmString
      name;     /* the initializer's; optimizer state: "<initializer>.<slot>" */
  uint8_t type; /* HmType */
  uint8_t role; /* HmRole */
  uint8_t rank;
  uint8_t reserved;
  uint32_t dims; /* first of `rank` entries of the dims section */
  uint32_t reserved2;
  int64_t bytes;
  int64_t home;    /* offset in the host store */
  int64_t initial; /* constants: offset in the constant section; otherwise -1 */
  HmSection gradients; /* parameters: entries of the gradient section, in the
                          order of addition */
} HmVariable;

/* Where a use's gradient lies in the dump space after a dumped step. A
   parameter's gradient is the sum over its uses, added in order. */
typedef struct HmGradient {
  int64_t home;
} HmGradient;

/* Where an input's values come from. */
enum HmInputSource {
  HM_INPUT_DATA, /* the files of --data */
  HM_INPUT_KEYS  /* the loader: [samples, 3] of int64, (sample within the batch,
                    step counted from 1, seed): what random numbers depend on */
};

/* One graph input. The loader lays out `batch` samples, contiguous, at `offset`
   of the batch space. Values of index inputs are checked against [low, high)
   when they are loaded, `ignored` being allowed too when hasIgnored is set. */
typedef struct HmInput {
  HmString name;
  uint8_t type; /* HmType */
  uint8_t rank; /* with the sample axis, which is 0; 0 where every step reads
                   the same value */
  uint8_t checked;
  uint8_t hasIgnored;
  uint32_t dims; /* first of `rank` entries of the dims section; the sample axis
                    holds 0 */
  uint32_t perStep; /* 0: one value per sample; 1: the whole array is one value
                       for every step */
  int64_t sampleBytes;
  int64_t offset;
  int64_t low, high, ignored;
  uint32_t usedBy; /* bit p: program kind p reads it */
  uint32_t source; /* HmInputSource */
} HmInput;

/* A result of the evaluation program, or of a forward-only program: after an
   execution `batch` samples (or one value, perStep) lie at `home` in the host
   store. */
typedef struct HmOutput {
  HmString name;
  uint8_t type, rank, perStep, reserved;
  uint32_t dims;
  uint32_t reserved2;
  int64_t sampleBytes;
  int64_t home;
} HmOutput;

/* One term for each group of devices that computes a part of the loss:
   loss = sum over terms of scale * (f32 at numerator) / (f32 at denominator),
   both in the host store once an execution is over. */
typedef struct HmLossTerm {
  int64_t numerator, denominator;
  float scale;
  uint32_t program; /* HmProgramKind */
} HmLossTerm;

/* What the runtime writes at `index` of the scalar space before each step. t
   counts steps from 1 over the whole run, resumed runs included. */
enum HmScalarKind {
  HM_SCALAR_LR,
  HM_SCALAR_DECAY_FACTOR, /* 1 - lr * weight_decay (adamw) */
  HM_SCALAR_WEIGHT_DECAY, /* adam, sgd: added to the gradient as weight_decay *
                             w */
  HM_SCALAR_BETA1,
  HM_SCALAR_BETA2,
  HM_SCALAR_EPSILON,
  HM_SCALAR_STEP_SIZE,        /* lr / (1 - beta1^t) */
  HM_SCALAR_SQRT_CORRECTION2, /* sqrt(1 - beta2^t) */
  HM_SCALAR_MOMENTUM, /* sgd: 0 in the first step of a run, the flag afterwards
                       */
  HM_SCALAR_ONE_MINUS_BETA1,
  HM_SCALAR_ONE_MINUS_BETA2,
  HM_SCALAR_MAX_NORM,  /* clipping: the global norm that gradients may have */
  HM_SCALAR_GRAD_NORM, /* written by the program: the norm that they had */
  HM_SCALAR_COUNT
};
typedef struct HmScalar {
  uint32_t kind; /* HmScalarKind */
  uint32_t index;
} HmScalar;

enum HmOptimizer {
  HM_OPTIMIZER_GRAPH,
  HM_OPTIMIZER_ADAMW,
  HM_OPTIMIZER_ADAM,
  HM_OPTIMIZER_SGD,
  HM_OPTIMIZER_NONE
};
enum HmIsa { HM_ISA_AVX2, HM_ISA_AVX512 };

typedef struct HmDevice {
  int64_t capacity; /* bytes of the arena: the larger of the peaks. What the
                       machine has beyond is not reserved */
  int64_t peak;     /* highest end address of the step program, as planned */
  int64_t evaluatePeak; /* the same of the evaluation program */
  int64_t libraryBytes; /* scratch of one library call, the largest of all: per
                           worker, beside the arena */
} HmDevice;

/* What several links share: a root port, a switch. */
typedef struct HmResource {
  HmString name;
  uint32_t reserved;
  double bytesPerSecond;
} HmResource;

#define HM_HOST_ENDPOINT (-1)
#define HM_LINK_SHARES 4

/* A directed link between two devices, or a device and the host. A transfer
   takes the latency and then its bytes at its rate. Rates are max-min fair over
   links and the resources that they share: those of all transfers under way, in
   their latency or after, grow alike until a link or resource is full, where
   those that cross it stay while the others grow on. On a fixed link a transfer
   has all of bytesPerSecond, whoever else is under way. Copies within one
   device or within the host, and those to the dump space, take no time. At most
   one link from one endpoint to another; where there is none, transfers are not
   timed. Read by --virtual-time and --enforce-links alone. */
typedef struct HmLink {
  int32_t from, to; /* device, or HM_HOST_ENDPOINT */
  double bytesPerSecond;
  double latencySeconds;
  uint32_t shares[HM_LINK_SHARES]; /* of the resource section; HM_NONE: none */
  uint32_t fixed;                  /* 0 or 1 */
  uint32_t reserved;
} HmLink;

typedef struct HmHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t size;     /* of the blob */
  HmString model;    /* file name, without folders */
  HmString compiler; /* version of harmonyc */
  HmString numericsKey;
  HmString fingerprint; /* of variables and graph, hexadecimal: weights files
                           carry it */
  HmString planSummary; /* what --print-plan prints */
  uint32_t isa;         /* HmIsa: the least processor */
  uint32_t optimizer;   /* HmOptimizer */
  uint32_t weightsKind; /* 0: EXE.weights.safetensors beside the executable */
  int64_t hostBytes;    /* size of the host store */
  int64_t dumpBytes;    /* size of the dump space */
  int64_t batchBytes;   /* size of the batch space, of which there are two
                           copies */
  int64_t scalarCount;  /* floats in the scalar space */
  HmProgram programs[HM_PROGRAM_COUNT];
  HmSection strings, dims /* int64_t */, constants /* bytes, aligned to 64 */;
  HmSection devices, variables, gradients, inputs, outputs, lossTerms, scalars;
  HmSection kernels, gemms, convolutions, refs, commands, queues;
  HmSection links, resources, tasks;
  HmString diskPath; /* folder of a host store on disk; empty: in memory. Both
                        are defaults of the executable's flags */
  uint32_t reserved;
  int64_t diskMemory; /* bytes of that store in memory at once; 0: chosen */
} HmHeader;

#ifdef __cplusplus
}
#endif

#endif /* RUNTIME_PROGRAM_H */
