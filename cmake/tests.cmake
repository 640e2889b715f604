# tests.cmake - test programs from file names.
#
#   tests/c/test_<layer>_*.c       -> program test_<layer>: those files, tests/c/<layer>_*.c (helpers), the runner, the layer and all
#                                     layers under it. They may include the inside headers of any layer (they test the inside).
#   tests/c/sim/<x>.c              -> program <x>_sim, tests/c/crash/<x>.c -> <x>_crash: the runner, tests/c/<x>_*.c (helpers) and everything.
#                                     (x_sim.c is also x_sim.) Folders of tests/c/sim are what simulations run on: library sk_sim.
#   tests/c/model/<x>_model.c      -> program <x>_model (label model): all other files of that folder, the runner and base. They include the
#                                     sources of the engine that they check, so the engine itself is not linked.
# ctest labels: unit, sim, model, crash, fuzz.

# Most tests of engines wait for other processes: several at a time, besides the programs that ctest runs side by side.
include(ProcessorCount)
ProcessorCount(cores)
math(EXPR SK_TEST_JOBS "2 * ${cores} + 2")

function(skate_test_program name label libs)
  add_executable(${name} ${ARGN})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/tests/c)
  target_compile_definitions(${name} PRIVATE SK_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE skate_flags test_runner -Wl,--start-group ${libs} -Wl,--end-group Threads::Threads m ${CMAKE_DL_LIBS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  add_test(NAME ${name} COMMAND ${name} -j ${SK_TEST_JOBS})
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 7200) # a backstop: each test has a deadline of its own
  if(label MATCHES "model|crash") # the longest first, so that the end is not one of them alone
    set_tests_properties(${name} PROPERTIES COST 30)
  endif()
endfunction()

add_library(test_runner OBJECT ${CMAKE_SOURCE_DIR}/tests/c/runner.c ${SK_EMULATOR_C})
target_include_directories(test_runner PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/tests/c)
target_link_libraries(test_runner PRIVATE skate_flags)

set(SK_TEST_ALSO_exec shuffle) # runs with an exchange
foreach(layer IN LISTS SK_LAYERS)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/c/test_${layer}_*.c)
  if(sources)
    file(GLOB helpers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/c/${layer}_*.c)
    if(layer STREQUAL shuffle) # exchanges run on exec's step
      list(APPEND helpers ${CMAKE_SOURCE_DIR}/tests/c/exec_rig.c)
    endif()
    skate_closure(libs ${layer} ${SK_TEST_ALSO_${layer}})
    skate_test_program(test_${layer} unit "${libs}" ${sources} ${helpers})
  endif()
endforeach()

# The runner is tested on a program whose tests fail on purpose.
if(TARGET test_base)
  add_executable(victim ${CMAKE_SOURCE_DIR}/tests/c/victim/victim.c)
  target_include_directories(victim PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/tests/c)
  target_link_libraries(victim PRIVATE skate_flags test_runner sk_base)
  set_target_properties(victim PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  target_compile_definitions(test_base PRIVATE "SK_VICTIM=\"$<JOIN:${CMAKE_CROSSCOMPILING_EMULATOR}, > $<TARGET_FILE:victim>\"")
  add_dependencies(test_base victim)
endif()

skate_closure(everything ${SK_LAYERS})
foreach(kind IN ITEMS sim crash)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/c/${kind}/*.c)
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    string(REGEX REPLACE "_${kind}$" "" name ${name})
    file(GLOB helpers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/c/${name}_*.c)
    skate_test_program(${name}_${kind} ${kind} "${everything};sk_sim" ${source} ${helpers})
  endforeach()
endforeach()

if(TARGET sk_engine)
  file(GLOB models CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/c/model/*_model.c)
  file(GLOB helpers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/c/model/*.c)
  list(REMOVE_ITEM helpers ${models})
  foreach(source IN LISTS models)
    get_filename_component(name ${source} NAME_WE)
    skate_test_program(${name} model sk_base ${source} ${helpers})
  endforeach()
endif()

if(TARGET sk_api) # against the same pipelines in Python (tests/py/data/test_equal_to_c.py)
  skate_closure(api_libs api)
  add_executable(equal_blocks ${CMAKE_SOURCE_DIR}/tests/c/equal_blocks.c)
  target_include_directories(equal_blocks PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(equal_blocks PRIVATE skate_flags -Wl,--start-group ${api_libs} -Wl,--end-group Threads::Threads m ${CMAKE_DL_LIBS})
  set_target_properties(equal_blocks PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
endif()

if(TARGET wordcount) # against cat, tr, sort and uniq
  add_test(NAME wordcount COMMAND sh ${CMAKE_SOURCE_DIR}/tests/c/wordcount.sh $<TARGET_FILE:wordcount>)
  set_tests_properties(wordcount PROPERTIES LABELS unit TIMEOUT 120 ENVIRONMENT "SK_EMULATOR=$<JOIN:${CMAKE_CROSSCOMPILING_EMULATOR}, >")
endif()

if(TARGET pipeline) # the other examples, against awk and seq
  add_test(NAME examples COMMAND sh ${CMAKE_SOURCE_DIR}/tests/c/examples.sh ${CMAKE_BINARY_DIR}/bin)
  set_tests_properties(examples PROPERTIES LABELS unit TIMEOUT 120 ENVIRONMENT "SK_EMULATOR=$<JOIN:${CMAKE_CROSSCOMPILING_EMULATOR}, >")
endif()

if(TARGET cloudsort)
  add_test(NAME cloudsort COMMAND sh ${CMAKE_SOURCE_DIR}/tests/c/cloudsort.sh ${CMAKE_BINARY_DIR}/bin)
  set_tests_properties(cloudsort PROPERTIES LABELS unit TIMEOUT 120 ENVIRONMENT "SK_EMULATOR=$<JOIN:${CMAKE_CROSSCOMPILING_EMULATOR}, >")
endif()

# tests/c/fuzz/<x>_fuzz.c -> program <x>_fuzz (label fuzz): some rounds of its own driver, and the corpus. With SK_FUZZ also
# <x>_hunt: the same target under libFuzzer, for ./dev soak fuzz.
option(SK_FUZZ "build the fuzz targets for libFuzzer (clang)" OFF)
if(TARGET sk_data)
  skate_closure(fuzz_libs data shuffle image)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/c/fuzz/*_fuzz.c)
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    string(REGEX REPLACE "_fuzz$" "" x ${name})
    set(programs ${name})
    if(SK_FUZZ)
      list(APPEND programs ${x}_hunt)
    endif()
    foreach(program IN LISTS programs)
      add_executable(${program} ${source} ${CMAKE_SOURCE_DIR}/tests/c/block_read.c)
      target_include_directories(${program} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/tests/c)
      target_compile_definitions(${program} PRIVATE SK_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
      target_link_libraries(${program} PRIVATE skate_flags -Wl,--start-group ${fuzz_libs} -Wl,--end-group Threads::Threads m ${CMAKE_DL_LIBS})
      set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
    endforeach()
    if(SK_FUZZ)
      target_compile_definitions(${x}_hunt PRIVATE SK_LIBFUZZER)
      target_link_options(${x}_hunt PRIVATE -fsanitize=fuzzer)
    endif()
    file(GLOB corpus CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/c/fuzz/corpus/${x}/*)
    add_test(NAME ${name} COMMAND ${name} ${corpus})
    set_tests_properties(${name} PROPERTIES LABELS fuzz)
  endforeach()
endif()
