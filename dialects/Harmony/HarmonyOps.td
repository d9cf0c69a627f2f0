//===- HarmonyOps.td - Tasks, programs and memory -----------*- tablegen -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_HARMONY_HARMONYOPS_TD
#define DIALECTS_HARMONY_HARMONYOPS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"

def Harmony_Dialect : Dialect {
  let name = "harmony";
  let cppNamespace = "::harmony::schedule";
  let summary = "A training step as queues of commands over planned memory";
  let description = [{
    Two levels.

    A *task* is one layer function, for one microbatch size, as a list of kernel
    launches over slots: its arguments, results, saved block and workspace. It knows
    neither devices nor addresses, and equal layers share it.

    A *program* is what one execution (a training step, an evaluation batch, loading
    or storing what stays on the devices) does. It is built as one sequence in issue order
    (`harmony.pack` for all microbatches of a pack of layers, transfers around and in
    it, collectives around the updates) and then split into the sequential queues of the
    devices and of the host, which wait for each other's timelines. Its operands are
    *places*: buffers of a device, homes in the host store, batch inputs and step scalars,
    all symbols.

    Timelines. Every queue counts its `harmony.signal`s. A signal states the value that the
    timeline has reached when all before it is done; a wait states the value it needs.
    Both are for the first iteration of the enclosing loop and for the first execution; they
    grow by `slope` with each iteration (a wait: with each `every` iterations) and by the
    queue's signals with each execution.
  }];
  let useDefaultAttributePrinterParser = 1;
}

//===----------------------------------------------------------------------===//
// Enums
//===----------------------------------------------------------------------===//

class Harmony_Enum<string name, string summary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::harmony::schedule";
  let genSpecializedAttr = 0;
}

/// An enum that is an attribute of an op, rather than a parameter of one.
class Harmony_EnumAttr<string name, string summary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::harmony::schedule";
}

def Harmony_SlotKind : Harmony_Enum<"SlotKind", "what a task's slot is bound to", [
  I32EnumAttrCase<"argument", 0>, I32EnumAttrCase<"result", 1>, I32EnumAttrCase<"saved", 2>,
  I32EnumAttrCase<"workspace", 3>, I32EnumAttrCase<"cotangent", 4>, I32EnumAttrCase<"gradient", 5>,
  I32EnumAttrCase<"parameter", 6>, I32EnumAttrCase<"state", 7>, I32EnumAttrCase<"scalar", 8>]>;

def Harmony_Access : Harmony_Enum<"Access", "how a reference touches its bytes; the bits of HmRef::access", [
  I32EnumAttrCase<"Read", 1, "r">, I32EnumAttrCase<"Write", 2, "w">, I32EnumAttrCase<"ReadWrite", 3, "rw">]>;

def Harmony_Family : Harmony_EnumAttr<"Family", "what a kernel is counted as: HmFamily", [
  I32EnumAttrCase<"gemm", 0>, I32EnumAttrCase<"pointwise", 1>, I32EnumAttrCase<"row", 2>,
  I32EnumAttrCase<"column", 3>, I32EnumAttrCase<"gather", 4>, I32EnumAttrCase<"copy", 5>, I32EnumAttrCase<"update", 6>]>;

def Harmony_Content : Harmony_EnumAttr<"Content", "what a buffer or home holds", [
  I32EnumAttrCase<"tensor", 0>, I32EnumAttrCase<"state", 1>, I32EnumAttrCase<"gradient", 2>,
  I32EnumAttrCase<"value", 3>, I32EnumAttrCase<"value_gradient", 4>, I32EnumAttrCase<"recomputed_value", 5>,
  I32EnumAttrCase<"saved", 6>, I32EnumAttrCase<"workspace", 7>, I32EnumAttrCase<"scalar", 8>,
  I32EnumAttrCase<"variable", 9>]>;

def Harmony_ProgramKind : Harmony_EnumAttr<"ProgramKind", "what an execution does: HmProgramKind", [
  I32EnumAttrCase<"load", 0>, I32EnumAttrCase<"step", 1>, I32EnumAttrCase<"store", 2>, I32EnumAttrCase<"evaluate", 3>]>;

def Harmony_PackKind : Harmony_EnumAttr<"PackKind", "which direction of its layers a pack computes", [
  I32EnumAttrCase<"forward", 0>, I32EnumAttrCase<"turn", 1>, I32EnumAttrCase<"backward", 2>]>;

def Harmony_Direction : Harmony_EnumAttr<"Direction", "what a run computes", [
  I32EnumAttrCase<"forward", 0>, I32EnumAttrCase<"recompute", 1>, I32EnumAttrCase<"backward", 2>, I32EnumAttrCase<"prologue", 3>,
  I32EnumAttrCase<"contribution", 4>, I32EnumAttrCase<"epilogue", 5>]>;

def Harmony_QueueKind : Harmony_EnumAttr<"QueueKind", "what a queue executes: HmQueueKind", [
  I32EnumAttrCase<"compute", 0>, I32EnumAttrCase<"in", 1>, I32EnumAttrCase<"out", 2>,
  I32EnumAttrCase<"peer", 3>, I32EnumAttrCase<"host", 4>]>;

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

class Harmony_Attr<string name, string attrMnemonic> : AttrDef<Harmony_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Harmony_SlotAttr : Harmony_Attr<"Slot", "slot"> {
  let summary = "an operand of a task: kind, index, size in bytes";
  let description = [{
    In a layer's tasks: `argument` i and `result` r of the forward function, `cotangent` r of result r,
    `gradient` i of argument i, `saved` s segment s of the saved block. In an update: `parameter` 0, `gradient` k its k-th
    part, `state` s, `scalar` k; in a contribution: `gradient` k and `result` 0. In prologue and epilogue: `argument`
    and `result`.
    `workspace` 0 holds what lives within one run alone.
  }];
  let parameters = (ins EnumParameter<Harmony_SlotKind>:$kind, "int64_t":$index, "int64_t":$bytes);
  let assemblyFormat = "`<` $kind $index `,` $bytes `>`";
  let genVerifyDecl = 1;
}
def Harmony_SlotArrayAttr : TypedArrayAttrBase<Harmony_SlotAttr, "slots">;

def Harmony_RefAttr : Harmony_Attr<"Ref", "ref"> {
  let summary = "bytes [offset, offset + bytes) of a task's slot, by position in its `slots`";
  let parameters = (ins "int64_t":$slot, "int64_t":$offset, "int64_t":$bytes, EnumParameter<Harmony_Access>:$access);
  let assemblyFormat = "`<` $slot `+` $offset `,` $bytes `,` $access `>`";
}
def Harmony_RefArrayAttr : TypedArrayAttrBase<Harmony_RefAttr, "references">;

def Harmony_AtAttr : Harmony_Attr<"At", "at"> {
  let summary = "an address: a place and bytes from its start (of the iteration's slot)";
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$place, DefaultValuedParameter<"int64_t", "0">:$offset);
  let assemblyFormat = "`<` $place (`+` $offset^)? `>`";
}
def Harmony_AtArrayAttr : TypedArrayAttrBase<Harmony_AtAttr, "addresses">;

/// A count, number or offset: unlike I64Attr's accessor, signed.
def Int : TypedSignlessIntegerAttrBase<I64, "int64_t", "64-bit integer"> {
  let convertFromStorage = "$_self.getValue().getSExtValue()";
}

//===----------------------------------------------------------------------===//
// Tasks
//===----------------------------------------------------------------------===//

class Harmony_Op<string mnemonic, list<Trait> traits = []> : Op<Harmony_Dialect, mnemonic, traits>;

def Harmony_TaskOp : Harmony_Op<"task", [Symbol, IsolatedFromAbove, SingleBlock, NoTerminator, NoRegionArguments]> {
  let summary = "a layer function, at one microbatch size, as a list of launches";
  let description = [{
    The body's ops run in order; each refers to bytes of slots. A slot of kind `gradient` in a
    backward task is added to or stored as the task's name says; the task's own refs tell which.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Harmony_SlotArrayAttr:$slots);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `slots` $slots attr-dict-with-keyword $body";
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::llvm::ArrayRef<SlotAttr>":$slots)>];
  let extraClassDeclaration = [{
    SlotAttr getSlot(int64_t position) { return ::llvm::cast<SlotAttr>(getSlots()[position]); }
    /// Position of the slot of a kind and index, or -1.
    int64_t findSlot(SlotKind kind, int64_t index = 0);
    /// Bytes of the workspace slot, 0 without one.
    int64_t getWorkspaceBytes();
    ::mlir::Block &getBlock() { return getBody().front(); }
  }];
}

class Harmony_TaskBodyOp<string mnemonic> : Harmony_Op<mnemonic, [HasParent<"TaskOp">]> {
  let hasVerifier = 1;
}

def Harmony_LaunchOp : Harmony_TaskBodyOp<"launch"> {
  let summary = "a generated kernel over [0, extent), at least `grain` indices to a worker at a time";
  let description = [{ The references are the buffers of the HmRangeFunction, in order. }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Harmony_RefArrayAttr:$refs, Int:$extent, Int:$grain, Harmony_Family:$family);
  let assemblyFormat = "$kernel $refs `extent` $extent `grain` $grain `family` $family attr-dict";
  let builders = [OpBuilder<(ins "::llvm::StringRef":$kernel, "::llvm::ArrayRef<RefAttr>":$refs, "int64_t":$extent, "int64_t":$grain, "Family":$family)>];
}

def Harmony_GemmOp : Harmony_TaskBodyOp<"gemm"> {
  let summary = "a library product: HmGemm of runtime/program.h";
  let description = [{
    `shape` is [m, n, k], `leading` [lda, ldb, ldc] and the strides of the batch dimensions are in elements
    (f32), `block` is [blockM, blockN]. The references are A, B, C.
  }];
  let arguments = (ins Harmony_RefArrayAttr:$refs, DenseI64ArrayAttr:$shape, DenseI64ArrayAttr:$leading,
                       DenseI64ArrayAttr:$batch, DenseI64ArrayAttr:$strideA, DenseI64ArrayAttr:$strideB,
                       DenseI64ArrayAttr:$strideC, DenseI64ArrayAttr:$block,
                       UnitAttr:$transA, UnitAttr:$transB, UnitAttr:$accumulate);
  let assemblyFormat = [{
    $refs `shape` $shape `leading` $leading `batch` $batch `strides` $strideA `,` $strideB `,` $strideC `block` $block
    (`transA` $transA^)? (`transB` $transB^)? (`accumulate` $accumulate^)? attr-dict
  }];
  let builders = [OpBuilder<(ins "const ::HmGemm &":$gemm, "::llvm::ArrayRef<RefAttr>":$refs)>];
  let extraClassDeclaration = [{ ::HmGemm getGemm(); }];
}

def Harmony_ConvolutionDirection : Harmony_EnumAttr<"ConvolutionDirection", "HmConvolutionDirection", [
  I32EnumAttrCase<"forward", 0>, I32EnumAttrCase<"image", 1>, I32EnumAttrCase<"weights", 2>]>;

def Harmony_ConvolutionOp : Harmony_TaskBodyOp<"convolution"> {
  let summary = "a library convolution: HmConvolution of runtime/program.h";
  let description = [{
    `samples` is those of the microbatch and of a block, `channels` those of image and result, `lanes` the
    channels in a block of the weights. The references are in the order of HmConvolutionDirection.
  }];
  let arguments = (ins Harmony_ConvolutionDirection:$direction, Harmony_RefArrayAttr:$refs,
                       DenseI64ArrayAttr:$samples, DenseI64ArrayAttr:$channels, DenseI64ArrayAttr:$image,
                       DenseI64ArrayAttr:$out, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high, Int:$lanes);
  let assemblyFormat = [{
    $direction $refs `samples` $samples `channels` $channels `image` $image `out` $out `kernel` $kernel
    `strides` $strides `low` $low `high` $high `lanes` $lanes attr-dict
  }];
  let builders = [OpBuilder<(ins "const ::HmConvolution &":$convolution, "::llvm::ArrayRef<RefAttr>":$refs)>];
  let extraClassDeclaration = [{ ::HmConvolution getConvolution(); }];
}

def Harmony_FillOp : Harmony_TaskBodyOp<"fill"> {
  let summary = "every byte of the reference becomes `value`";
  let arguments = (ins Harmony_RefAttr:$ref, Int:$value);
  let assemblyFormat = "$ref `value` $value attr-dict";
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

def Harmony_DeviceOp : Harmony_Op<"device", [Symbol]> {
  let summary = "a device and the bytes of its arena";
  let arguments = (ins SymbolNameAttr:$sym_name, Int:$index, Int:$capacity);
  let assemblyFormat = "$sym_name `index` $index `capacity` $capacity attr-dict";
}

def Harmony_ResourceOp : Harmony_Op<"resource", [Symbol]> {
  let summary = "what several links share: HmResource";
  let arguments = (ins SymbolNameAttr:$sym_name, F64Attr:$bytes_per_second);
  let assemblyFormat = "$sym_name `bytes_per_second` $bytes_per_second attr-dict";
}

def Harmony_LinkOp : Harmony_Op<"link", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a directed link between devices, or a device and the host (-1): HmLink";
  let description = [{ `fixed`: transfers do not share its rate. }];
  let arguments = (ins Int:$from, Int:$to, F64Attr:$bytes_per_second, F64Attr:$latency_seconds, FlatSymbolRefArrayAttr:$shares,
                       UnitAttr:$fixed);
  let assemblyFormat = "`from` $from `to` $to `bytes_per_second` $bytes_per_second `latency` $latency_seconds `shares` $shares attr-dict";
}

def Harmony_InputOp : Harmony_Op<"input", [Symbol]> {
  let summary = "a graph input, in the host's batch memory";
  let description = [{
    The samples of one execution lie one after the other, `sample_bytes` each; `per_step` inputs are one value
    for every step, of `sample_bytes` in all. `name` is the graph's. `range` = [low, high) is what index inputs
    are checked against, `ignored` being allowed too.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Int:$index, StrAttr:$name, Int:$sample_bytes,
                       UnitAttr:$per_step, TypeAttr:$type, OptionalAttr<DenseI64ArrayAttr>:$range, OptionalAttr<Int>:$ignored);
  let assemblyFormat = [{
    $sym_name `index` $index `name` $name `sample_bytes` $sample_bytes (`per_step` $per_step^)?
    (`range` $range^)? (`ignored` $ignored^)? attr-dict `:` $type
  }];
}

def Harmony_ScalarOp : Harmony_Op<"scalar", [Symbol]> {
  let summary = "a float of the step's scalars, written before each step";
  let description = [{ `kind` is a HmScalarKind where the runtime computes it, -1 where the prologue does. }];
  let arguments = (ins SymbolNameAttr:$sym_name, Int:$index, Int:$kind, FlatSymbolRefAttr:$variable);
  let assemblyFormat = "$sym_name `index` $index `kind` $kind `variable` $variable attr-dict";
}

def Harmony_HomeOp : Harmony_Op<"home", [Symbol]> {
  let summary = "a place in the host store";
  let description = [{
    A value has all samples of the batch: sample s lies at s * `sample_bytes`, behind the `fixed_bytes` of all
    microbatches before. `variables` are the model's
    variables that live here, one after the other, each aligned to 64 bytes. `at` appears when
    addresses are assigned. `id` is the home's number in the plan of the step (of the evaluation where that is the only
    program), or -1. `temporary` homes serve the swaps that elide-swaps removes, and go with them.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Harmony_Content:$content, Int:$bytes,
                       DefaultValuedAttr<Int, "0">:$sample_bytes, DefaultValuedAttr<Int, "0">:$fixed_bytes,
                       FlatSymbolRefArrayAttr:$variables, Int:$id, UnitAttr:$temporary, OptionalAttr<Int>:$offset);
  let assemblyFormat = [{
    $sym_name `content` $content `bytes` $bytes (`sample_bytes` $sample_bytes^)? (`fixed_bytes` $fixed_bytes^)?
    `variables` $variables `id` $id (`temporary` $temporary^)? (`at` $offset^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Harmony_BufferOp : Harmony_Op<"buffer", [Symbol]> {
  let summary = "bytes of a device's arena while they hold one thing";
  let description = [{
    `program` is step or evaluate: the plan that it is of. `slots` blocks of `bytes`, `stride` apart: iteration i of a loop uses block i mod slots. `object` is the planner's
    number of the tensor, value, layer or scalar, `use` the part of a gradient, the group of a loss accumulator (-1
    elsewhere). `from` is the first sample of the phases whose microbatches it holds. `home` is the host's
    place of the same thing: a home, an input, or absent for what never leaves the device. `persistent`
    buffers stay from one execution to the next. `live` = [first, last] are the plan's events that bound its
    life. `at` appears when addresses are assigned.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Harmony_ProgramKind:$program, Int:$device, Harmony_Content:$content, Int:$object, Int:$use,
                       DefaultValuedAttr<Int, "0">:$first_sample, Int:$bytes, Int:$slots, Int:$stride, OptionalAttr<FlatSymbolRefAttr>:$home,
                       UnitAttr:$persistent, DenseI64ArrayAttr:$live, Int:$id, OptionalAttr<Int>:$offset);
  let assemblyFormat = [{
    $sym_name `of` $program `on` $device `content` $content $object `use` $use (`from` $first_sample^)? `bytes` $bytes `slots` $slots `stride` $stride
    (`home` $home^)? (`persistent` $persistent^)? `live` $live `id` $id (`at` $offset^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    int64_t getTotalBytes() { return (getSlots() - 1) * getStride() + getBytes(); }
  }];
}

def Harmony_LossOp : Harmony_Op<"loss"> {
  let summary = "a term of a program's loss: scale * numerator / denominator, both f32 in the host store";
  let arguments = (ins Harmony_ProgramKind:$program, FlatSymbolRefAttr:$numerator, FlatSymbolRefAttr:$denominator, F64Attr:$scale);
  let assemblyFormat = "$program $numerator `over` $denominator `scale` $scale attr-dict";
}

def Harmony_OutputOp : Harmony_Op<"output"> {
  let summary = "a result of the evaluation program: where its samples lie in the host store";
  let arguments = (ins StrAttr:$name, FlatSymbolRefAttr:$home, Int:$sample_bytes, UnitAttr:$per_step, TypeAttr:$type);
  let assemblyFormat = "$name `in` $home `sample_bytes` $sample_bytes (`per_step` $per_step^)? attr-dict `:` $type";
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

class Harmony_RegionOp<string mnemonic, list<Trait> traits = []>
    : Harmony_Op<mnemonic, !listconcat([SingleBlock, NoTerminator, NoRegionArguments], traits)> {
  let regions = (region SizedRegion<1>:$body);
  let extraClassDeclaration = [{ ::mlir::Block &getBlock() { return getBody().front(); } }];
}

def Harmony_ProgramOp : Harmony_RegionOp<"program", [Symbol, SymbolTable]> {
  let summary = "one execution: a sequence in issue order, later queues";
  let arguments = (ins SymbolNameAttr:$sym_name, Harmony_ProgramKind:$kind, Int:$batch);
  let assemblyFormat = "$sym_name `kind` $kind `batch` $batch attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

def Harmony_PackOp : Harmony_RegionOp<"pack", [HasParent<"ProgramOp">]> {
  let summary = "all microbatches of a pack of layers, in one direction";
  let description = [{
    The body is one microbatch: value transfers and runs; it is repeated `trips` times, for the samples from `from`
    on, before which lie `after` microbatches. `phase` and `event` (of its first run) are the plan's, `group` is the
    data-parallel one.
  }];
  let arguments = (ins StrAttr:$name, Harmony_PackKind:$kind, Int:$first_layer, Int:$last_layer,
                       Int:$microbatch, Int:$trips, DefaultValuedAttr<Int, "0">:$first_sample,
                       DefaultValuedAttr<Int, "0">:$first_microbatch, DefaultValuedAttr<Int, "0">:$group,
                       Int:$device, Int:$phase, Int:$event);
  let assemblyFormat = [{
    $name $kind `layers` $first_layer `to` $last_layer `microbatch` $microbatch `trips` $trips (`from` $first_sample^)?
    (`after` $first_microbatch^)? (`group` $group^)? `on` $device `phase` $phase `event` $event
    attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
}

def Harmony_RunOp : Harmony_Op<"run", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a task on bound places: one layer in one direction, or work before and after all of them";
  let description = [{
    `at` has one address for each slot of the task. `layer` is -1 outside of packs: in the prologue, in the contribution
    of a gradient to what all updates read, and in the epilogue that makes that of the contributions. `seconds` is the
    predicted time, `last_seconds` what the last iteration takes beside that.
  }];
  let arguments = (ins FlatSymbolRefAttr:$task, Harmony_AtArrayAttr:$at, Harmony_Direction:$direction, Int:$layer,
                       StrAttr:$label, Int:$event, OptionalAttr<F64Attr>:$seconds, OptionalAttr<F64Attr>:$last_seconds);
  let assemblyFormat = "$direction $task `at` $at `layer` $layer `label` $label `event` $event attr-dict";
}

def Harmony_UpdateOp : Harmony_Op<"update", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the optimizer on one parameter: consumes all parts of its gradient, added in order";
  let description = [{ Reads and writes homes on the host's queue (`on` -1), buffers on a device's. }];
  let arguments = (ins FlatSymbolRefAttr:$variable, FlatSymbolRefAttr:$task, Harmony_AtArrayAttr:$at, Int:$device, Int:$event,
                       OptionalAttr<F64Attr>:$seconds);
  let assemblyFormat = "$variable `by` $task `at` $at `on` $device `event` $event attr-dict";
}

def Harmony_ZeroOp : Harmony_Op<"zero"> {
  let summary = "zeroes a buffer: a gradient or a loss accumulator, before the first addition";
  let arguments = (ins FlatSymbolRefAttr:$buffer, Int:$event);
  let assemblyFormat = "$buffer `event` $event attr-dict";
}

/// `bytes` are those of one iteration. The host's side begins `at` bytes into its place and advances by `step` bytes
/// an iteration (0 outside a loop and for what is there once), the device's side by the buffer's slots. `slice`: the
/// byte of the device's side from which a part of a tensor is moved.
class Harmony_CopyOp<string mnemonic, string summaryText> : Harmony_Op<mnemonic> {
  let summary = summaryText;
  let arguments = (ins FlatSymbolRefAttr:$source, FlatSymbolRefAttr:$destination, Int:$bytes,
                       DefaultValuedAttr<Int, "0">:$offset, Int:$step, Int:$device, Int:$event,
                       DefaultValuedAttr<Int, "0">:$first_byte);
  let assemblyFormat = [{
    $source `to` $destination `bytes` $bytes (`at` $offset^)? `step` $step `on` $device `event` $event
    (`slice` $first_byte^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Harmony_SwapInOp : Harmony_CopyOp<"swap_in", "host store to device: tensors, states, stashes, gradients">;
def Harmony_SwapOutOp : Harmony_CopyOp<"swap_out", "device to host store">;
def Harmony_LoadInputOp : Harmony_CopyOp<"load_input", "batch memory, or a seed of the prologue, to a device">;
def Harmony_StoreOutputOp : Harmony_CopyOp<"store_output", "a result or a loss accumulator to the host store">;

def Harmony_P2POp : Harmony_Op<"p2p"> {
  let summary = "device to device, on the sender's peer queue";
  let description = [{ `bytes` are those of one iteration; both sides advance by their buffer's slots. `from` sends, `on` receives.
                        `slice`: the byte of both sides from which a part of a tensor is moved. }];
  let arguments = (ins FlatSymbolRefAttr:$source, FlatSymbolRefAttr:$destination, Int:$bytes, Int:$source_device, Int:$device, Int:$event,
                       DefaultValuedAttr<Int, "0">:$first_byte);
  let assemblyFormat = [{
    $source `to` $destination `bytes` $bytes `from` $source_device `on` $device `event` $event (`slice` $first_byte^)?
    attr-dict
  }];
  let hasVerifier = 1;
}

/// Transfer i copies `bytes`[i] of buffer `sources`[i] to buffer `destinations`[i] of another device. Each is one
/// harmony.p2p once the collective is expanded, on the peer queue of the device that the source lies on.
class Harmony_CollectiveOp<string mnemonic, string summaryText> : Harmony_Op<mnemonic, [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = summaryText;
  let arguments = (ins DenseI64ArrayAttr:$devices, FlatSymbolRefArrayAttr:$sources, FlatSymbolRefArrayAttr:$destinations,
                       DenseI64ArrayAttr:$bytes);
  let assemblyFormat = "`over` $devices $sources `to` $destinations `bytes` $bytes attr-dict";
}
def Harmony_ReduceScatterOp : Harmony_CollectiveOp<"reduce_scatter",
    "the parts of gradients to their tensors' owners, whose updates add them in the order of parts">;
def Harmony_AllGatherOp : Harmony_CollectiveOp<"all_gather",
    "updated tensors from their owners to the devices that hold them too">;

def Harmony_AllReduceOp : Harmony_Op<"all_reduce", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a reduce_scatter before the updates that follow it, an all_gather behind them";
  let description = [{ `count` updates follow the op: that of the tensors whose gradients it reduces. }];
  let arguments = (ins DenseI64ArrayAttr:$devices, FlatSymbolRefArrayAttr:$sources, FlatSymbolRefArrayAttr:$destinations,
                       DenseI64ArrayAttr:$bytes, Int:$count, FlatSymbolRefArrayAttr:$gather_sources,
                       FlatSymbolRefArrayAttr:$gather_destinations, DenseI64ArrayAttr:$gather_bytes);
  let assemblyFormat = [{
    `over` $devices $sources `to` $destinations `bytes` $bytes `updates` $count
    `gather` $gather_sources `to` $gather_destinations `bytes` $gather_bytes attr-dict
  }];
  let hasVerifier = 1;
}

def Harmony_QueueOp : Harmony_RegionOp<"queue", [Symbol, HasParent<"ProgramOp">]> {
  let summary = "commands that a device (or the host, `on` -1) executes in order";
  let arguments = (ins SymbolNameAttr:$sym_name, Harmony_QueueKind:$kind, Int:$device, Int:$period);
  let assemblyFormat = "$sym_name $kind `on` $device `period` $period attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

def Harmony_ForOp : Harmony_RegionOp<"for", [HasParent<"QueueOp">]> {
  let summary = "repeats its body: the microbatches of a pack";
  let arguments = (ins Int:$trips, StrAttr:$label);
  let assemblyFormat = "$trips `of` $label attr-dict-with-keyword $body";
}

def Harmony_WaitOp : Harmony_Op<"wait", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "until a queue's timeline has reached value + slope * (iteration / every)";
  let description = [{
    With `previous_step` the value is of the execution before, and reached in the first. In a loop, iterations below
    `from` do not wait. `every` is 1 unless one microbatch of the awaited loop makes several of this one.
  }];
  let arguments = (ins FlatSymbolRefAttr:$queue, Int:$value, DefaultValuedAttr<Int, "0">:$slope,
                       DefaultValuedAttr<Int, "1">:$every, DefaultValuedAttr<Int, "0">:$from, UnitAttr:$previous_step);
  let assemblyFormat = [{
    $queue `until` $value (`slope` $slope^)? (`every` $every^)? (`from` $from^)? (`previous_step` $previous_step^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Harmony_SignalOp : Harmony_Op<"signal"> {
  let summary = "the queue's timeline is at value + slope * iteration once all before is done";
  let arguments = (ins Int:$value, DefaultValuedAttr<Int, "0">:$slope);
  let assemblyFormat = "$value (`slope` $slope^)? attr-dict";
}

def Harmony_ReleaseOp : Harmony_Op<"release"> {
  let summary = "the bytes of a buffer (of the iteration's slot, in a loop) are dead";
  let arguments = (ins FlatSymbolRefAttr:$buffer);
  let assemblyFormat = "$buffer attr-dict";
}

#endif // DIALECTS_HARMONY_HARMONYOPS_TD
