# The kinds of target that the project has. Headers stand beside sources and are
# included from the repository root.

add_library(harmony_flags INTERFACE)
target_include_directories(harmony_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
target_compile_options(harmony_flags INTERFACE
  -Wall -Wextra -Werror -Wno-unused-parameter
  -Wno-deprecated-declarations # libstdc++ 12's own stable_sort
  -fno-math-errno -ffp-contract=off)
if(HARMONY_SANITIZE)
  target_compile_options(harmony_flags INTERFACE -fsanitize=${HARMONY_SANITIZE} -fno-omit-frame-pointer -g)
  target_link_options(harmony_flags INTERFACE -fsanitize=${HARMONY_SANITIZE})
endif()

if(HARMONY_FUZZ)
  target_compile_options(harmony_flags INTERFACE -fsanitize=fuzzer-no-link -fno-sanitize-recover=all)
endif()

# Code on MLIR: the flags of the distribution's libraries (no exceptions, RTTI on),
# and only the two shared libraries, never the static components beside them.
add_library(harmony_mlir INTERFACE)
target_include_directories(harmony_mlir SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
separate_arguments(llvmDefinitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
target_compile_options(harmony_mlir INTERFACE ${llvmDefinitions} -fno-exceptions)
target_link_libraries(harmony_mlir INTERFACE harmony_flags MLIR LLVM)

# One precompiled header serves every MLIR target.
file(WRITE ${CMAKE_BINARY_DIR}/HarmonyPrecompiled.cpp "")
add_library(HarmonyPrecompiled OBJECT ${CMAKE_BINARY_DIR}/HarmonyPrecompiled.cpp)
target_link_libraries(HarmonyPrecompiled PUBLIC harmony_mlir)
target_compile_options(HarmonyPrecompiled PRIVATE -Xclang -fno-pch-timestamp)
target_precompile_headers(HarmonyPrecompiled PRIVATE
  <mlir/Bytecode/BytecodeOpInterface.h>
  <mlir/Dialect/Arith/IR/Arith.h>
  <mlir/Dialect/Func/IR/FuncOps.h>
  <mlir/Dialect/Math/IR/Math.h>
  <mlir/Dialect/MemRef/IR/MemRef.h>
  <mlir/Dialect/SCF/IR/SCF.h>
  <mlir/Dialect/Tensor/IR/Tensor.h>
  <mlir/IR/Builders.h>
  <mlir/IR/BuiltinOps.h>
  <mlir/IR/PatternMatch.h>
  <mlir/Interfaces/InferTypeOpInterface.h>
  <mlir/Interfaces/SideEffectInterfaces.h>
  <mlir/Pass/Pass.h>
  <mlir/Transforms/GreedyPatternRewriteDriver.h>)

# harmony_mlir_library(NAME sources... [DEPENDS tablegen targets] [LINK libraries])
function(harmony_mlir_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC harmony_mlir ${ARG_LINK})
  target_compile_options(${name} PRIVATE -Xclang -fno-pch-timestamp)
  target_precompile_headers(${name} REUSE_FROM HarmonyPrecompiled)
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
  foreach(dependency ${ARG_LINK})
    if(TARGET ${dependency}IncGen)
      add_dependencies(${name} ${dependency}IncGen)
    endif()
  endforeach()
endfunction()

# harmony_mlir_tool(NAME sources... LINK libraries)
function(harmony_mlir_tool name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE harmony_mlir ${ARG_LINK})
  set_target_properties(${name} PROPERTIES BUILD_RPATH /usr/lib/llvm-22/lib)
endfunction()

# harmony_library(NAME sources... [LINK libraries]): plain C++, exceptions on, no MLIR.
function(harmony_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC harmony_flags ${ARG_LINK})
endfunction()

# harmony_dialect(NAME dialect-name td-file): the generated headers of one dialect,
# as <folder>/<Name>{Dialect,Ops,Attributes,Types,Enums}.{h,cpp}.inc
function(harmony_dialect name dialect td)
  set(LLVM_TARGET_DEFINITIONS ${td})
  set(MLIR_INCLUDE_FLAGS -I${CMAKE_SOURCE_DIR})
  mlir_tablegen(${name}Dialect.h.inc -gen-dialect-decls -dialect=${dialect} -I${CMAKE_SOURCE_DIR})
  mlir_tablegen(${name}Dialect.cpp.inc -gen-dialect-defs -dialect=${dialect} -I${CMAKE_SOURCE_DIR})
  mlir_tablegen(${name}Ops.h.inc -gen-op-decls -I${CMAKE_SOURCE_DIR})
  mlir_tablegen(${name}Ops.cpp.inc -gen-op-defs -I${CMAKE_SOURCE_DIR})
  mlir_tablegen(${name}Attributes.h.inc -gen-attrdef-decls -attrdefs-dialect=${dialect} -I${CMAKE_SOURCE_DIR})
  mlir_tablegen(${name}Attributes.cpp.inc -gen-attrdef-defs -attrdefs-dialect=${dialect} -I${CMAKE_SOURCE_DIR})
  mlir_tablegen(${name}Types.h.inc -gen-typedef-decls -typedefs-dialect=${dialect} -I${CMAKE_SOURCE_DIR})
  mlir_tablegen(${name}Types.cpp.inc -gen-typedef-defs -typedefs-dialect=${dialect} -I${CMAKE_SOURCE_DIR})
  mlir_tablegen(${name}Enums.h.inc -gen-enum-decls -I${CMAKE_SOURCE_DIR})
  mlir_tablegen(${name}Enums.cpp.inc -gen-enum-defs -I${CMAKE_SOURCE_DIR})
  add_public_tablegen_target(Harmony${name}DialectIncGen)
endfunction()

# harmony_passes(NAME td-file): <folder>/Passes.h.inc; target Harmony<Name>IncGen
function(harmony_passes name td)
  set(LLVM_TARGET_DEFINITIONS ${td})
  mlir_tablegen(Passes.h.inc -gen-pass-decls -name ${name})
  add_public_tablegen_target(Harmony${name}IncGen)
endfunction()
