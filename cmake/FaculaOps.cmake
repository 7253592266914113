# Runs tools/generate_ops.py at configure time. It reads the signature lines of the op files and
# writes declarations, Tensor methods, attribute structs, the registration list and the op lists.
# Adding or removing an op file, or editing one, re-runs CMake, which takes about a second; a
# generated file is rewritten only when its content changes.

file(GLOB facula_op_files CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/src/ops/defs/*.h ${PROJECT_SOURCE_DIR}/src/ops/defs/*.cpp
  ${PROJECT_SOURCE_DIR}/src/ops/composite/*.cpp)
set(facula_op_generator ${PROJECT_SOURCE_DIR}/tools/generate_ops.py)
set(FACULA_GENERATED_SOURCES "")
set(FACULA_ELEMENTWISE_OPS "")
set(FACULA_REDUCTION_OPS "")

if(EXISTS ${facula_op_generator})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    ${facula_op_generator} ${facula_op_files})
  execute_process(
    COMMAND ${Python3_EXECUTABLE} ${facula_op_generator}
            --ops ${facula_op_files} --out ${FACULA_GENERATED_DIR}
    RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "The op generator rejected an op file; its message is above")
  endif()
  file(GLOB FACULA_GENERATED_SOURCES
    ${FACULA_GENERATED_DIR}/ops/*.cpp ${FACULA_GENERATED_DIR}/ops/define/*.cpp)
  include(${FACULA_GENERATED_DIR}/ops/list.cmake)
endif()
