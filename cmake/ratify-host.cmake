# SPDX-License-Identifier: Apache-2.0
# ratify::host = ratify::ratify with Boost.Context and threads, where they are. Used by the build and by the package.
find_package(Threads)
find_package(Boost 1.74 QUIET CONFIG COMPONENTS context)
if(Threads_FOUND AND Boost_FOUND AND NOT TARGET ratify::host)
  add_library(ratify::host INTERFACE IMPORTED)
  target_link_libraries(ratify::host INTERFACE ratify::ratify Boost::context Threads::Threads)
  set_target_properties(ratify::host PROPERTIES IMPORTED_GLOBAL TRUE)
endif()
