# layer.cmake - one folder of src/ is one static library that sees only the contracts it was given.
#
#   skate_layer(exec DEPS base block plan engine)
#
# makes library sk_exec from src/exec/*.c and its folders, three deep. Its include path is a tree of links made here,
# build/<preset>/inc/exec, that holds exec/ whole, base/ whole, and of each other dependency only <dep>/<dep>.h, with the headers of types
# that it is made of (SK_CONTRACT_<dep>): an include of a higher layer, or of another layer's inside, does not compile. A dependency
# <dep>/<side> gives the side contract <dep>/<side>.h, too, and `skate` the public header. (Included by "../" it would be a path that is not there for ninja, which
# does not follow links: all that depends on it was made again by each build.) A new file is found by itself (CONFIGURE_DEPENDS). An empty folder makes no
# library and does no harm.
# SK_LAYERS lists the layers that exist; SK_LAYER_DEPS_<name> what each was given.

set(SK_CONTRACT_engine value resources task)
set(SK_CONTRACT_kernel aggregates)
set(SK_CONTRACT_data batch)

function(skate_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 L "" "" "DEPS")
  set(dir ${CMAKE_SOURCE_DIR}/src/${name})
  set(tree ${CMAKE_BINARY_DIR}/inc/${name})
  file(REMOVE_RECURSE ${tree})
  file(MAKE_DIRECTORY ${tree})
  if(IS_DIRECTORY ${dir})
    file(CREATE_LINK ${dir} ${tree}/${name} SYMBOLIC)
  endif()
  foreach(dep IN LISTS L_DEPS)
    if(dep STREQUAL base)
      file(CREATE_LINK ${CMAKE_SOURCE_DIR}/src/base ${tree}/base SYMBOLIC)
    elseif(EXISTS ${CMAKE_SOURCE_DIR}/src/${dep}.h)
      get_filename_component(where ${tree}/${dep}.h DIRECTORY)
      file(MAKE_DIRECTORY ${where})
      file(CREATE_LINK ${CMAKE_SOURCE_DIR}/src/${dep}.h ${tree}/${dep}.h SYMBOLIC)
    else()
      file(MAKE_DIRECTORY ${tree}/${dep})
      foreach(header IN ITEMS ${dep} ${SK_CONTRACT_${dep}})
        if(EXISTS ${CMAKE_SOURCE_DIR}/src/${dep}/${header}.h) # dag has side contracts alone
          file(CREATE_LINK ${CMAKE_SOURCE_DIR}/src/${dep}/${header}.h ${tree}/${dep}/${header}.h SYMBOLIC)
        endif()
      endforeach()
    endif()
  endforeach()
  list(FILTER L_DEPS EXCLUDE REGEX "/|^skate$")
  set(SK_LAYER_DEPS_${name} ${L_DEPS} PARENT_SCOPE)

  file(GLOB sources CONFIGURE_DEPENDS ${dir}/*.c ${dir}/*/*.c ${dir}/*/*/*.c ${dir}/*/*/*/*.c)
  skate_registry(${name} generated)
  if(NOT sources AND NOT generated)
    return()
  endif()
  add_library(sk_${name} STATIC ${sources} ${generated})
  set_target_properties(sk_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(sk_${name} PRIVATE ${tree})
  target_link_libraries(sk_${name} PRIVATE skate_flags)
  list(APPEND SK_LAYERS ${name})
  set(SK_LAYERS ${SK_LAYERS} PARENT_SCOPE)
endfunction()

# Libraries of a layer and everything under it, for linking (INTERFACE target sk_closure_<name> would hide the order; a list does not).
function(skate_closure out)
  set(todo ${ARGN})
  set(seen "")
  while(todo)
    list(POP_FRONT todo name)
    if(name IN_LIST seen)
      continue()
    endif()
    list(APPEND seen ${name})
    list(APPEND todo ${SK_LAYER_DEPS_${name}})
  endwhile()
  set(libs "")
  foreach(name IN LISTS seen)
    if(name IN_LIST SK_LAYERS)
      list(APPEND libs sk_${name})
    endif()
  endforeach()
  set(${out} ${libs} PARENT_SCOPE)
endfunction()
