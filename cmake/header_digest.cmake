# SPDX-License-Identifier: Apache-2.0
# The digest of the headers' contents that detail/header_digest.hpp holds.
#   cmake -P cmake/header_digest.cmake               writes it: after every change of a header
#   cmake -DCHECK=ON -P cmake/header_digest.cmake    fails where it is not that of the headers
# -DHEADERS=FOLDER: of another tree; the folder is the one that holds version.hpp.
cmake_minimum_required(VERSION 3.25)

# Sets `result` to the first 64 bits of the SHA-256 of the names and contents of all headers but the one that holds it.
# Line ends count as LF, so that a checkout on another system has the same.
function(ratify_digest_headers folder result)
  file(GLOB_RECURSE headers RELATIVE ${folder} ${folder}/*.hpp ${folder}/*.cuh)
  list(REMOVE_ITEM headers detail/header_digest.hpp)
  list(SORT headers)
  set(all "")
  foreach(header IN LISTS headers)
    file(READ ${folder}/${header} contents)
    string(REPLACE "\r\n" "\n" contents "${contents}")
    string(SHA256 digest "${contents}")
    string(APPEND all "${digest} ${header}\n")
  endforeach()
  string(SHA256 digest "${all}")
  string(SUBSTRING ${digest} 0 16 digest)
  set(${result} ${digest} PARENT_SCOPE)
endfunction()

# Sets `result` to the digest that the headers in `folder` say they have; empty if none.
function(ratify_read_header_digest folder result)
  set(digest "")
  if(EXISTS ${folder}/detail/header_digest.hpp)
    file(STRINGS ${folder}/detail/header_digest.hpp line REGEX "^#define RATIFY_HEADER_DIGEST \"[0-9a-f]+\"$")
    string(REGEX REPLACE ".*\"(.*)\"" "\\1" digest "${line}")
  endif()
  set(${result} "${digest}" PARENT_SCOPE)
endfunction()

function(ratify_write_header_digest digest file)
  file(CONFIGURE OUTPUT ${file} @ONLY CONTENT [[
// SPDX-License-Identifier: Apache-2.0
/// Which headers these are. Whoever changes one runs `cmake -P cmake/header_digest.cmake`, which writes this file; a
/// test fails where it was not run.
#pragma once

/// The first 64 bits of the SHA-256 of the names and contents of all other headers.
#define RATIFY_HEADER_DIGEST "@digest@"
]])
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  if(NOT HEADERS)
    set(HEADERS ${CMAKE_CURRENT_LIST_DIR}/../include/ratify)
  endif()
  file(REAL_PATH ${HEADERS} HEADERS)
  ratify_digest_headers(${HEADERS} digest)
  ratify_read_header_digest(${HEADERS} held)
  if(NOT CHECK)
    ratify_write_header_digest(${digest} ${HEADERS}/detail/header_digest.hpp)
    message(STATUS "header digest: ${digest}")
  elseif(NOT digest STREQUAL held)
    message(FATAL_ERROR "detail/header_digest.hpp holds '${held}', the headers' digest is ${digest}: run "
      "cmake -P cmake/header_digest.cmake")
  endif()
endif()
