# CPU kernels, compiled once per instruction set. Every op with a functor gets three lines in a
# generated translation unit, which it shares with those that begin alike: reading headers takes
# longer than an op. Every file of backends/cpu/kernels is compiled as it stands.
# The result is one object library per instruction set, collected in FACULA_KERNEL_OBJECTS.

include(FaculaIsas)
set(facula_isa_flags_baseline "")
set(facula_isa_flags_avx2 -march=x86-64-v3)
set(facula_isa_flags_avx512 -march=x86-64-v4 -mprefer-vector-width=512)

# -O2 of GCC 12 does not vectorise these loops. With trapping maths a select stays scalar, 12 times
# slower; without contraction every instruction set gives the same bits. Never -ffast-math: it
# breaks NaN and denormal numbers. Sanitizers have a level of their own.
set(facula_kernel_flags -fno-math-errno -fno-trapping-math -ffp-contract=off)
if(FACULA_FUZZ)
  list(APPEND facula_kernel_flags -O1 -fno-sanitize=all)  # no parser is in them
elseif(FACULA_SANITIZE)
  list(PREPEND facula_kernel_flags ${facula_sanitized_loops})
else()
  list(PREPEND facula_kernel_flags -O3)
  # GCC makes "rep stos" of loops that clear a few partial results: they take longer than a row.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND facula_isa_flags_avx2 -fno-tree-loop-distribute-patterns)
  endif()
  # Processors without AVX2 are old: for them the size of the library counts more. -O3 triples that
  # of reductions. Loops throw nothing; without tables for that a debugger does not see their callers.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND avx2 IN_LIST facula_isas)
    set(facula_isa_flags_baseline -O2 -ftree-vectorize -fvect-cost-model=dynamic
      -fno-exceptions -fno-asynchronous-unwind-tables)
  endif()
endif()

set(facula_kernel_dir ${FACULA_GENERATED_DIR}/cpu)
set(facula_kernel_units "")
set(facula_kernel_list "")

function(facula_add_op_units kind macro)
  set(initials "")
  foreach(op IN LISTS ARGN)
    string(SUBSTRING ${op} 0 1 initial)
    list(APPEND initials ${initial})
    string(APPEND ops_of_${initial}
"#include \"ops/defs/${op}.h\"
#define FACULA_OP ${op}
#include \"backends/cpu/kernels/${kind}_tu.inc\"
")
    string(APPEND facula_kernel_list "${macro}(${op})\n")
  endforeach()
  list(REMOVE_DUPLICATES initials)
  foreach(initial IN LISTS initials)
    set(unit ${facula_kernel_dir}/${kind}_${initial}.cpp)
    file(CONFIGURE OUTPUT ${unit} CONTENT "${ops_of_${initial}}")
    list(APPEND facula_kernel_units ${unit})
    # Partial redundancy elimination turns selects between selects back into branches. Jump threading
    # copies what follows a clamp for either bound: a tenth more instructions once vectorised.
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      set_source_files_properties(${unit} PROPERTIES COMPILE_OPTIONS
                                  "-fno-tree-pre;-fno-thread-jumps")
    endif()
    # Partial results stay in registers if loops over them are unrolled, for which -O3 is not needed.
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND kind STREQUAL reduction AND NOT FACULA_SANITIZE)
      set(options "-O2;-ftree-vectorize;-fvect-cost-model=dynamic;-fpeel-loops"
        -fno-tree-loop-distribute-patterns)
      set(is_baseline "$<STREQUAL:$<TARGET_PROPERTY:NAME>,facula_kernels_baseline>")
      set_property(SOURCE ${unit} APPEND PROPERTY COMPILE_OPTIONS
                   "$<$<NOT:${is_baseline}>:${options}>")
    endif()
  endforeach()
  return(PROPAGATE facula_kernel_units facula_kernel_list)
endfunction()

facula_add_op_units(elementwise FACULA_ELEMENTWISE_KERNEL ${FACULA_ELEMENTWISE_OPS})
facula_add_op_units(reduction FACULA_REDUCTION_KERNEL ${FACULA_REDUCTION_OPS})

file(GLOB facula_kernel_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/backends/cpu/kernels/*.cpp)
list(APPEND facula_kernel_units ${facula_kernel_files})
foreach(file IN LISTS facula_kernel_files)
  get_filename_component(stem ${file} NAME_WE)
  string(APPEND facula_kernel_list "FACULA_KERNEL_FILE(${stem})\n")
endforeach()

# For those who register the kernels or compile every functor once more. They define the macros they
# need before including it; the others expand to nothing, and all are undefined after.
set(facula_list_head "")
set(facula_list_tail "")
foreach(macro FACULA_ELEMENTWISE_KERNEL FACULA_REDUCTION_KERNEL FACULA_KERNEL_FILE)
  string(APPEND facula_list_head "#ifndef ${macro}\n#define ${macro}(name)\n#endif\n")
  string(APPEND facula_list_tail "#undef ${macro}\n")
endforeach()
file(CONFIGURE OUTPUT ${facula_kernel_dir}/kernel_list.inc
  CONTENT "${facula_list_head}${facula_kernel_list}${facula_list_tail}")

set(facula_functor_headers "")
foreach(op IN LISTS FACULA_ELEMENTWISE_OPS FACULA_REDUCTION_OPS)
  string(APPEND facula_functor_headers "#include \"ops/defs/${op}.h\"\n")
endforeach()
file(CONFIGURE OUTPUT ${facula_kernel_dir}/functor_headers.inc
  CONTENT "${facula_functor_headers}")

# Size again. Winograd's transforms and depthwise convolutions are the largest kernels of all;
# conversions wait for memory, and -O3 doubles them.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT FACULA_SANITIZE)
  foreach(stem winograd depthwise depthwise_planes)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/backends/cpu/kernels/${stem}.cpp PROPERTIES
      COMPILE_OPTIONS "$<$<STREQUAL:$<TARGET_PROPERTY:NAME>,facula_kernels_baseline>:-Os>")
  endforeach()
  set_source_files_properties(${PROJECT_SOURCE_DIR}/backends/cpu/kernels/convert.cpp PROPERTIES
    COMPILE_OPTIONS "-O2;-ftree-vectorize;-fvect-cost-model=dynamic")
  # Its vectors are written down; what is left over is short.
  set_source_files_properties(${PROJECT_SOURCE_DIR}/backends/cpu/kernels/interleave.cpp PROPERTIES
    COMPILE_OPTIONS "-O2;-fno-tree-vectorize")
endif()

set(FACULA_KERNEL_OBJECTS "")
if(facula_kernel_units)
  foreach(isa IN LISTS facula_isas)
    add_library(facula_kernels_${isa} OBJECT ${facula_kernel_units})
    target_link_libraries(facula_kernels_${isa} PRIVATE facula_build_flags)
    target_compile_definitions(facula_kernels_${isa} PRIVATE FACULA_KERNEL_TU FACULA_ISA=${isa})
    target_compile_options(facula_kernels_${isa} PRIVATE
      ${facula_kernel_flags} ${facula_isa_flags_${isa}})
    list(APPEND FACULA_KERNEL_OBJECTS $<TARGET_OBJECTS:facula_kernels_${isa}>)
  endforeach()
endif()

# Files of ordinary code that register implementations, in the order in which an op's list is tried:
# Winograd convolution, own kernels, libraries, the double reference.
set(facula_registration_list "")
foreach(folder winograd ops onednn reference)
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/backends/cpu/${folder}/*.cpp)
  foreach(file IN LISTS files)
    file(STRINGS ${file} registers REGEX "^void register_[a-z0-9_]+\\(\\) {")
    foreach(line IN LISTS registers)
      string(REGEX REPLACE "^void register_([a-z0-9_]+).*" "FACULA_CPU_FILE(\\1)\n" line "${line}")
      string(APPEND facula_registration_list "${line}")
    endforeach()
  endforeach()
endforeach()
file(CONFIGURE OUTPUT ${facula_kernel_dir}/registration_list.inc @ONLY CONTENT
  "${facula_registration_list}")
