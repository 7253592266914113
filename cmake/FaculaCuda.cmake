# The CUDA part, optional. `cuda_functors` compiles every functor for two GPU generations, which
# proves that the op files stay fit for the device; it needs the toolkit but no GPU. test_cuda runs
# them where there is one.

set(facula_cuda_functors ${PROJECT_SOURCE_DIR}/tests/cuda/functors.cu)
set(FACULA_CUDA_FOUND OFF)
if(NOT FACULA_CUDA STREQUAL "OFF" AND FACULA_TESTS AND NOT FACULA_SANITIZE
   AND EXISTS ${facula_cuda_functors})
  include(CheckLanguage)
  find_program(FACULA_NVCC nvcc HINTS /usr/local/cuda/bin)
  if(FACULA_NVCC)
    set(ENV{CUDACXX} ${FACULA_NVCC})
    check_language(CUDA)
  endif()
  if(CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real)
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    set(FACULA_CUDA_FOUND ON)
  elseif(FACULA_CUDA STREQUAL "ON")
    message(FATAL_ERROR "FACULA_CUDA is ON, but no working nvcc was found")
  elseif(FACULA_NVCC)
    message(WARNING "${FACULA_NVCC} does not work (why: see the logs in CMakeFiles/), so the CUDA "
      "tests are left out. Give it a host compiler that it takes, as with CUDAHOSTCXX=g++-12, or "
      "set -DFACULA_CUDA=OFF; then configure with --fresh")
  endif()
endif()

if(FACULA_CUDA_FOUND)
  add_library(cuda_functors OBJECT ${facula_cuda_functors})
  target_link_libraries(cuda_functors PRIVATE facula_internal_headers)
  set_target_properties(cuda_functors PROPERTIES CUDA_STANDARD 20 CUDA_EXTENSIONS OFF)
  # Products and sums stay apart, as on the CPU.
  target_compile_options(cuda_functors PRIVATE -std=c++20 --expt-relaxed-constexpr -fmad=false)
endif()
