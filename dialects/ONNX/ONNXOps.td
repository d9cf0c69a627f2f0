//===- ONNXOps.td - The onnx dialect -----------------------*- tablegen -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_ONNX_ONNXOPS_TD
#define DIALECTS_ONNX_ONNXOPS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

//===----------------------------------------------------------------------===//
// Dialect
//===----------------------------------------------------------------------===//

def ONNX_Dialect : Dialect {
  let name = "onnx";
  let cppNamespace = "::harmony::onnx";
  let summary = "An ONNX model as its file states it";
  let description = [{
    Nothing added, nothing lost: one generic operation stands for every ONNX
    node and is verified against the schemas of the ONNX library, so there is no
    second list of operators to keep in step. Meaning is given to nodes by the
    conversion to the `nn` dialect.

    A module holds
      * `onnx.initializer` symbols, one per initializer,
      * one `onnx.graph` for inference, and
      * for every TrainingInfoProto of the model an `onnx.training` with the
        graphs of its step and of its initialization.

    Attributes of the module: `onnx.ir_version` (i64), `onnx.opset` (dictionary
    from domain to i64; ONNX's own is "ai.onnx"), `onnx.producer`, `onnx.producer_version`,
    `onnx.metadata` (dictionary of strings) and, where initializers lie in other
    files, `onnx.source`: the path of the model, whose folder those files must
    be in.

    Attributes of a graph's arguments and results: `onnx.name`, and `onnx.dims`,
    an array with one integer, symbol (string) or "" (unknown) per dimension.

    A node's location is its name or, where it has none, its first output's.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
}

//===----------------------------------------------------------------------===//
// Types and attributes
//===----------------------------------------------------------------------===//

class ONNX_Type<string name, string typeMnemonic> : TypeDef<ONNX_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def ONNX_SequenceType : ONNX_Type<"Sequence", "seq"> {
  let summary = "A sequence of values of one type";
  let parameters = (ins "::mlir::Type":$elementType);
  let assemblyFormat = "`<` $elementType `>`";
}

def ONNX_OptionalType : ONNX_Type<"Optional", "optional"> {
  let summary = "A value that may be absent at run time";
  let parameters = (ins "::mlir::Type":$elementType);
  let assemblyFormat = "`<` $elementType `>`";
}

def ONNX_UnknownType : ONNX_Type<"Unknown", "unknown"> {
  let summary = "A value whose type neither the file nor shape inference tells";
}

def ONNX_ExternalAttr : AttrDef<ONNX_Dialect, "External"> {
  let mnemonic = "external";
  let summary = "A range of bytes of a file in the folder of the model";
  let description = [{
    `offset` and `length` are in bytes. The file is named relative to the folder
    of the model and is never read by the importer; see InitializerData.h.
  }];
  let parameters = (ins StringRefParameter<"file name">:$file,
                        "uint64_t":$offset, "uint64_t":$length);
  let assemblyFormat = "`<` $file `,` $offset `,` $length `>`";
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

class ONNX_Op<string opMnemonic, list<Trait> traits = []>
    : Op<ONNX_Dialect, opMnemonic, traits>;

def ONNX_NodeOp : ONNX_Op<"node", [
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "One node of a graph";
  let description = [{
    ```mlir
    %y = onnx.node "Gemm"(%x, %w, %none) version 13 {alpha = 1.0 : f32, transB = 1 : si64}
         : (tensor<?x4xf32>, tensor<8x4xf32>, none) -> tensor<?x8xf32>
    ```
    `version` is the operator's since-version. An absent optional input is an
    `onnx.none`; an absent output has type `none`. ONNX attributes map to:
    FLOAT f32, INT si64, STRING string, TENSOR elements, TYPE_PROTO type,
    FLOATS `array<f32: ...>`, INTS `array<i64: ...>`, STRINGS and TENSORS array.

    `result_names` keeps the names of the outputs ("" where absent).

    Verified against the schema: operator and version exist, attributes are
    known, of the right kind, and present where required, and the numbers of
    inputs and outputs fit.
  }];
  let arguments = (ins StrAttr:$op_type,
                       DefaultValuedStrAttr<StrAttr, "">:$domain,
                       I64Attr:$version,
                       DictionaryAttr:$node_attributes,
                       OptionalAttr<StrArrayAttr>:$result_names,
                       Variadic<AnyType>:$inputs);
  let results = (outs Variadic<AnyType>:$outputs);
  let assemblyFormat = [{
    $op_type `(` $inputs `)` (`domain` $domain^)? `version` custom<PlainInteger>($version)
    $node_attributes (`names` $result_names^)? attr-dict-with-keyword
    `:` functional-type($inputs, $outputs)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The node's name, or its first output's.
    ::llvm::StringRef getNodeName();
    /// Whether input `index` is there: within the list and not an onnx.none.
    bool hasInput(unsigned index);
    /// Input `index`, or null where it is absent.
    ::mlir::Value getInputOrNull(unsigned index);
    /// The ONNX attribute `name`, or null.
    ::mlir::Attribute getNodeAttribute(::llvm::StringRef name);
  }];
}

def ONNX_GradientOp : ONNX_Op<"gradient", [
    AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "ai.onnx.preview.training.Gradient, its names resolved";
  let description = [{
    ```mlir
    %dW, %db = onnx.gradient %loss : tensor<f32> xs(%W, %b : ...) zs(%x : ...)
               at(%W, %b, %x : ...) -> tensor<4x4xf32>, tensor<4xf32>
    ```
    The derivative of the sum of the elements of `y` with respect to every one
    of `xs`, where `y` is a function of `xs` and `zs` alone, at the point where
    the i-th of `xs` and `zs` has the value of the i-th operand of `at`. A
    result has the type of its `x`, or `none` where the output is absent. The
    ONNX node names `y`, `xs` and `zs` by strings; here they are operands, so
    that no transformation can break them.
  }];
  let arguments = (ins AnyType:$y, Variadic<AnyType>:$xs, Variadic<AnyType>:$zs,
                       Variadic<AnyType>:$at, OptionalAttr<StrArrayAttr>:$result_names);
  let results = (outs Variadic<AnyType>:$gradients);
  let assemblyFormat = [{
    $y `:` type($y) `xs` `(` $xs `:` type($xs) `)` (`zs` `(` $zs^ `:` type($zs) `)`)?
    `at` `(` $at `:` type($at) `)` (`names` $result_names^)? attr-dict
    `->` type($gradients)
  }];
  let hasVerifier = 1;
}

def ONNX_NoneOp : ONNX_Op<"none", [
    Pure, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "An optional input that is not there";
  let results = (outs NoneType:$result);
  let assemblyFormat = "attr-dict";
}

def ONNX_InitializerOp : ONNX_Op<"initializer", [Symbol]> {
  let summary = "A named constant or parameter of the model";
  let description = [{
    ```mlir
    onnx.initializer @fc1.weight : tensor<64x32xf32> = #onnx.external<"m.data", 0, 8192> {kind = "PARAMETER"}
    ```
    `value` is an `#onnx.external`, a dense attribute or a dense resource; read
    it with InitializerData.h. `kind` is what PyTorch's exporter says about the
    value: PARAMETER, BUFFER or CONSTANT_TENSOR. An initializer of a training
    graph has `training` and kind STATE (a binding writes it) or
    CONSTANT_TENSOR. `metadata` is the file's, without what `kind` says.
    `original_name` is the ONNX name where the symbol had to differ from it.
    `overridable`: the graph also lists it as an input, which makes the value a
    default.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<AnyTensor>:$type, AnyAttr:$value,
                       OptionalAttr<StrAttr>:$original_name, OptionalAttr<StrAttr>:$kind,
                       OptionalAttr<FlatSymbolRefAttr>:$training,
                       OptionalAttr<DictionaryAttr>:$metadata, UnitAttr:$overridable);
  let assemblyFormat = [{
    $sym_name `:` $type `=` $value attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType();
    /// The ONNX name.
    ::llvm::StringRef getOnnxName() { return getOriginalName().value_or(getSymName()); }
    /// Size of the data in ONNX's raw layout, in bytes.
    uint64_t getByteSize();
  }];
}

def ONNX_InitialValueOp : ONNX_Op<"initial_value", [
    Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "The value of an initializer";
  let arguments = (ins FlatSymbolRefAttr:$initializer);
  let results = (outs AnyTensor:$result);
  let assemblyFormat = "$initializer attr-dict `:` type($result)";
}

def ONNX_GraphOp : ONNX_Op<"graph", [
    FunctionOpInterface, IsolatedFromAbove, SingleBlockImplicitTerminator<"ReturnOp">,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "A graph";
  let description = [{
    Arguments are the graph's inputs that have no initializer. The graph of a
    training step is the combined training graph of the ONNX specification:
    inputs, nodes and outputs of the inference graph, then those of the
    algorithm.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::mlir::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    /// The ONNX name of argument or result `index`; "" where it has none.
    ::llvm::StringRef getArgumentName(unsigned index);
    ::llvm::StringRef getResultName(unsigned index);
  }];
}

def ONNX_ReturnOp : ONNX_Op<"return", [Pure, ReturnLike, Terminator, HasParent<"GraphOp">]> {
  let summary = "The outputs of a graph";
  let arguments = (ins Variadic<AnyType>:$operands);
  let builders = [OpBuilder<(ins), "build($_builder, $_state, ::mlir::ValueRange());">];
  let assemblyFormat = "attr-dict ($operands^ `:` type($operands))?";
  let hasVerifier = 1;
}

def ONNX_TrainingOp : ONNX_Op<"training", [
    Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "One TrainingInfoProto";
  let description = [{
    ```mlir
    onnx.training @step algorithm @algorithm update [[@W, "new_W"], [@T, "new_T"]]
                  initialization @initialization set [[@W, "init_W"]]
    ```
    After a run of the algorithm's graph every initializer on the left of
    `update` gets the value of the result on the right, all at once; `set` does
    the same after the initialization graph, which runs only when a user asks
    for it. Results are named by their `onnx.name`. No initializer is updated
    twice, in the whole module.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$algorithm,
                       ArrayAttr:$update, OptionalAttr<FlatSymbolRefAttr>:$initialization,
                       OptionalAttr<ArrayAttr>:$set);
  let assemblyFormat = [{
    $sym_name `algorithm` $algorithm `update` $update
    (`initialization` $initialization^ `set` $set)? attr-dict
  }];
  let hasVerifier = 1;
}

#endif // DIALECTS_ONNX_ONNXOPS_TD
