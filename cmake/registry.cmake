# registry.cmake - the table of a by/ folder, made from its file names at configure time.
#
# File src/exec/by/chain.c must define `const struct sk_policy sk_exec_by_chain`; the generated table refers to it, so a file without its
# symbol fails the link, and a new file needs no other edit. The table is
#     extern const struct sk_policy *const sk_exec_table[];  extern const unsigned sk_exec_table_n;
# ordered by name. A folder that does not exist yet gives no table.

set(SK_REGISTRY_engine sk_engine_class)
set(SK_REGISTRY_exec sk_policy)
set(SK_REGISTRY_shuffle sk_shuffle_ops)
set(SK_REGISTRY_data sk_data_op)

function(skate_registry layer out)
  set(${out} "" PARENT_SCOPE)
  if(NOT DEFINED SK_REGISTRY_${layer})
    return()
  endif()
  set(type ${SK_REGISTRY_${layer}})
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${layer}/by/*.c)
  if(NOT files)
    return()
  endif()
  list(SORT files)
  set(externs "")
  set(rows "")
  foreach(file IN LISTS files)
    get_filename_component(stem ${file} NAME_WE)
    string(APPEND externs "extern const struct ${type} sk_${layer}_by_${stem};\n")
    string(APPEND rows "    &sk_${layer}_by_${stem},\n")
  endforeach()
  list(LENGTH files n)
  set(path ${CMAKE_BINARY_DIR}/gen/${layer}_table.c)
  file(CONFIGURE OUTPUT ${path} @ONLY CONTENT
"/* Made by cmake/registry.cmake from src/@layer@/by/. Do not edit. */
struct @type@;
@externs@extern const struct @type@ *const sk_@layer@_table[];
extern const unsigned sk_@layer@_table_n;
const struct @type@ *const sk_@layer@_table[] = {
@rows@};
const unsigned sk_@layer@_table_n = @n@;
")
  set(${out} ${path} PARENT_SCOPE)
endfunction()
