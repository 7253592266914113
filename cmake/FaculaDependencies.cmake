# Third-party libraries, linked privately: no public header names any of them.

# The distribution's Python first: the parity tests import its PyTorch.
find_program(Python3_EXECUTABLE python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json 3 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(LibLZMA REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)

# Not find_package(dnnl): Debian's package file of oneDNN 2.6 demands the OpenCL headers.
find_path(FACULA_DNNL_INCLUDE_DIR dnnl.hpp REQUIRED)
find_library(FACULA_DNNL_LIBRARY dnnl REQUIRED)
add_library(facula_dnnl UNKNOWN IMPORTED)
set_target_properties(facula_dnnl PROPERTIES
  IMPORTED_LOCATION ${FACULA_DNNL_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES ${FACULA_DNNL_INCLUDE_DIR})

find_path(FACULA_NETTLE_INCLUDE_DIR nettle/sha2.h REQUIRED)
find_library(FACULA_NETTLE_LIBRARY nettle REQUIRED)
add_library(facula_nettle UNKNOWN IMPORTED)
set_target_properties(facula_nettle PROPERTIES
  IMPORTED_LOCATION ${FACULA_NETTLE_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES ${FACULA_NETTLE_INCLUDE_DIR})

find_path(FACULA_XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
find_library(FACULA_XXHASH_LIBRARY xxhash REQUIRED)
add_library(facula_xxhash UNKNOWN IMPORTED)
set_target_properties(facula_xxhash PROPERTIES
  IMPORTED_LOCATION ${FACULA_XXHASH_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES ${FACULA_XXHASH_INCLUDE_DIR})

# One header, which ours declares a structure of instead of including it.
find_path(FACULA_DLPACK_INCLUDE_DIR dlpack/dlpack.h REQUIRED)
add_library(facula_dlpack INTERFACE IMPORTED)
target_include_directories(facula_dlpack INTERFACE ${FACULA_DLPACK_INCLUDE_DIR})

add_library(facula_dependencies INTERFACE)
target_link_libraries(facula_dependencies INTERFACE
  fmt::fmt spdlog::spdlog nlohmann_json::nlohmann_json ZLIB::ZLIB LibLZMA::LibLZMA
  JPEG::JPEG PNG::PNG facula_nettle facula_xxhash facula_dlpack
  facula_dnnl OpenMP::OpenMP_CXX Threads::Threads ${CMAKE_DL_LIBS})
