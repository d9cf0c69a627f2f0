# What the project builds on; docs/Dependencies.md says why each was chosen.
find_package(MLIR 22.1 REQUIRED CONFIG PATHS /usr/lib/llvm-22 NO_DEFAULT_PATH)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)
# mlir_tablegen takes its search path from here.
include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})

find_package(Protobuf REQUIRED) # module mode, before ONNX, which does not look for it
find_package(ONNX REQUIRED CONFIG PATHS ${HARMONY_DEPS} NO_DEFAULT_PATH)

# Debian's dnnl-config.cmake insists on OpenCL, which the CPU engine does not need.
find_path(DNNL_INCLUDE_DIR dnnl.h REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(DNNL::dnnl SHARED IMPORTED GLOBAL)
set_target_properties(DNNL::dnnl PROPERTIES
  IMPORTED_LOCATION ${DNNL_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR})

find_package(nlohmann_json REQUIRED)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(GTest REQUIRED)
