//===- HostTarget.cpp - Objects for the host ------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Target/Host/HostTarget.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace harmony;

FailureOr<HostTarget> HostTarget::detect() {
  // Feature bits alone: LLVM's name for the processor is a guess that may be
  // wrong.
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  auto hasAll = [&](ArrayRef<StringRef> names) {
    return llvm::all_of(names,
                        [&](StringRef name) { return features.lookup(name); });
  };
  if (!hasAll(
          {"avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "popcnt", "movbe"}))
    return failure();
  if (hasAll({"avx512f", "avx512vl", "avx512dq", "avx512bw", "avx512cd"}))
    return HostTarget{Isa::Avx512};
  return HostTarget{Isa::Avx2};
}

FailureOr<HostTarget> HostTarget::parse(StringRef name) {
  if (name == "avx2")
    return HostTarget{Isa::Avx2};
  if (name == "avx512")
    return HostTarget{Isa::Avx512};
  return failure();
}

/// A machine for generic x86-64 with named features, never the processor that
/// runs this.
static std::unique_ptr<llvm::TargetMachine>
createMachine(const HostTarget &target, unsigned optimization,
              std::string &error) {
  static bool initialised = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    return true;
  }();
  (void)initialised;
  llvm::Triple triple("x86_64-unknown-linux-gnu");
  const llvm::Target *backend =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend)
    return nullptr;
  std::string features = "+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt,+movbe";
  if (target.isa == HostTarget::Isa::Avx512)
    features += ",+avx512f,+avx512vl,+avx512dq,+avx512bw,+avx512cd";
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(backend->createTargetMachine(
      triple, "x86-64", features, options, llvm::Reloc::PIC_,
      llvm::CodeModel::Small,
      optimization >= 3 ? llvm::CodeGenOptLevel::Aggressive
                        : llvm::CodeGenOptLevel::Default));
}

static llvm::GlobalVariable *addConstant(llvm::Module &module, StringRef name,
                                         llvm::Constant *value,
                                         unsigned alignment) {
  auto *variable =
      new llvm::GlobalVariable(module, value->getType(), /*isConstant=*/true,
                               llvm::GlobalValue::ExternalLinkage, value, name);
  variable->setAlignment(llvm::Align(alignment));
  return variable;
}

static LogicalResult addPayload(llvm::Module &module, const Payload &payload,
                                ModuleOp at) {
  llvm::LLVMContext &context = module.getContext();
  StringRef bytes(payload.program.data(), payload.program.size());
  addConstant(
      module, "harmony_program",
      llvm::ConstantDataArray::getString(context, bytes, /*AddNull=*/false),
      64);
  addConstant(module, "harmony_program_size",
              llvm::ConstantInt::get(llvm::Type::getInt64Ty(context),
                                     payload.program.size()),
              8);
  auto *pointer = llvm::PointerType::get(context, 0);
  SmallVector<llvm::Constant *> functions;
  for (const std::string &name : payload.kernels) {
    llvm::Function *function = module.getFunction(name);
    if (!function || function->isDeclaration())
      return at.emitError("no kernel is named '") << name << "'";
    functions.push_back(function);
  }
  // A table without kernels keeps its symbol.
  if (functions.empty())
    functions.push_back(llvm::ConstantPointerNull::get(pointer));
  auto *type = llvm::ArrayType::get(pointer, functions.size());
  addConstant(module, "harmony_kernels",
              llvm::ConstantArray::get(type, functions), 8);
  return success();
}

static void optimise(llvm::Module &module, llvm::TargetMachine &machine,
                     unsigned level) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  llvm::PassBuilder builder(&machine, tuning);
  // The payload is linked with nothing: no loop may become a call of memset or
  // memcpy.
  llvm::TargetLibraryInfoImpl library(module.getTargetTriple());
  library.disableAllFunctions();
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  llvm::OptimizationLevel optimization =
      level == 0   ? llvm::OptimizationLevel::O0
      : level == 1 ? llvm::OptimizationLevel::O1
      : level == 2 ? llvm::OptimizationLevel::O2
                   : llvm::OptimizationLevel::O3;
  (level == 0 ? builder.buildO0DefaultPipeline(optimization)
              : builder.buildPerModuleDefaultPipeline(optimization))
      .run(module, modules);
}

/// Fails where an object needs a symbol from elsewhere.
static LogicalResult verifySelfContained(ArrayRef<char> object, ModuleOp at) {
  auto file = llvm::object::ObjectFile::createObjectFile(
      llvm::MemoryBufferRef(StringRef(object.data(), object.size()), "object"));
  if (!file)
    return at.emitError("object cannot be read back: ")
           << llvm::toString(file.takeError());
  for (const llvm::object::SymbolRef &symbol : (*file)->symbols()) {
    auto flags = symbol.getFlags();
    auto name = symbol.getName();
    if (!flags || !name) {
      llvm::consumeError(flags.takeError());
      llvm::consumeError(name.takeError());
      continue;
    }
    if ((*flags & llvm::object::SymbolRef::SF_Undefined) && !name->empty())
      return at.emitError("kernels call '")
             << *name << "' of a library, which is not part of the executable";
  }
  return success();
}

static FailureOr<SmallVector<char, 0>> compile(ModuleOp module,
                                               const HostTarget &target,
                                               const Payload *payload,
                                               const ObjectOptions &options) {
  registerBuiltinDialectTranslation(*module.getContext());
  registerLLVMDialectTranslation(*module.getContext());
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> translated =
      translateModuleToLLVMIR(module, context, "kernels");
  if (!translated)
    return failure();
  std::string error;
  std::unique_ptr<llvm::TargetMachine> machine =
      createMachine(target, options.optimization, error);
  if (!machine)
    return module.emitError("no code generator for x86-64: ") << error,
           failure();
  translated->setTargetTriple(machine->getTargetTriple());
  translated->setDataLayout(machine->createDataLayout());
  translated->setPICLevel(llvm::PICLevel::BigPIC);
  for (llvm::Function &function : *translated)
    if (function.hasLocalLinkage() && !function.isDeclaration())
      function.addFnAttr(
          llvm::Attribute::NoInline); // its pointers do not alias; inlined ones
                                      // might
  if (payload && failed(addPayload(*translated, *payload, module)))
    return failure();
  optimise(*translated, *machine, options.optimization);

  SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager emission;
  if (machine->addPassesToEmitFile(emission, stream, nullptr,
                                   llvm::CodeGenFileType::ObjectFile))
    return module.emitError("no object emitter for x86-64"), failure();
  emission.run(*translated);
  if (!options.allowLibraryCalls && failed(verifySelfContained(object, module)))
    return failure();
  return object;
}

FailureOr<SmallVector<char, 0>>
harmony::compileToObject(ModuleOp module, const HostTarget &target,
                         const ObjectOptions &options) {
  return compile(module, target, nullptr, options);
}

FailureOr<SmallVector<char, 0>>
harmony::compileToObject(ModuleOp module, const HostTarget &target,
                         const Payload &payload, const ObjectOptions &options) {
  return compile(module, target, &payload, options);
}
