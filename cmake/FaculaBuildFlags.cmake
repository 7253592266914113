# How our own code is compiled. Nothing here reaches the users of the installed library.

set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Programs go to bin/: at the top, the program `facula` would clash with the target of that name.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # It cannot see whether precompiled headers use __TIME__ or macros of the files that follow: no.
  # Files are compared by their contents (depend mode), never by what the preprocessor makes of them:
  # GCC would read those again whose text differs from a precompiled header's in comments or spaces.
  # The name keeps apart what was compiled before that.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=true CCACHE_NAMESPACE=facula-by-content
    ${CCACHE_PROGRAM})
endif()

# Sanitizers change the ABI of the standard containers' annotations, so they apply to every target.
if(FACULA_SANITIZE STREQUAL "address")
  set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=undefined)
elseif(FACULA_SANITIZE STREQUAL "thread")
  set(sanitize -fsanitize=thread)
elseif(FACULA_SANITIZE)
  message(FATAL_ERROR "FACULA_SANITIZE is '${FACULA_SANITIZE}'; use address, thread or nothing")
endif()
if(FACULA_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "FACULA_FUZZ needs Clang (libFuzzer); configure with CXX=clang++")
  endif()
  list(APPEND sanitize -fsanitize=fuzzer-no-link)
  add_compile_options(-Wno-unknown-warning-option)  # our headers silence one that only GCC has
endif()
if(sanitize)
  # What is compiled soonest, and line numbers are all that reports show: only what ops run takes long
  # enough to be worth -O1, which is twice to five times as fast to compile as -O3. A fuzzer runs long.
  set(sanitized_level -O0)
  set(facula_sanitized_loops -O1)
  if(FACULA_FUZZ)
    set(sanitized_level -O2)
    set(facula_sanitized_loops "")
  endif()
  add_compile_options(
    "$<$<COMPILE_LANGUAGE:CXX>:${sanitize};-fno-omit-frame-pointer;${sanitized_level};-g1>")
  add_link_options(${sanitize})
endif()

# Where internal code finds headers: src/ for ours, the root for backends, generated/ for ops.
set(FACULA_GENERATED_DIR ${PROJECT_BINARY_DIR}/generated)
add_library(facula_internal_headers INTERFACE)
target_compile_features(facula_internal_headers INTERFACE cxx_std_20)
target_include_directories(facula_internal_headers INTERFACE
  ${PROJECT_SOURCE_DIR}/include
  ${FACULA_GENERATED_DIR}/include
  ${PROJECT_SOURCE_DIR}/src
  ${PROJECT_SOURCE_DIR}
  ${FACULA_GENERATED_DIR})

add_library(facula_warnings INTERFACE)
target_compile_options(facula_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall$<SEMICOLON>-Wextra>)

add_library(facula_build_flags INTERFACE)
target_link_libraries(facula_build_flags INTERFACE facula_internal_headers facula_warnings)
target_compile_options(facula_build_flags INTERFACE
  -fvisibility=hidden
  -fvisibility-inlines-hidden
  # The mode word and the free lists are read on every op; the default TLS model costs a call.
  -ftls-model=initial-exec
  -fno-semantic-interposition
  # A product and a sum fused on one machine and not on another would break equal bits.
  -ffp-contract=off)

configure_file(${PROJECT_SOURCE_DIR}/cmake/version.h.in
               ${FACULA_GENERATED_DIR}/include/facula/version.h @ONLY)
