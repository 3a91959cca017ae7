// SPDX-License-Identifier: Apache-2.0
/// Which headers these are. Whoever changes one runs `cmake -P cmake/header_digest.cmake`, which writes this file; a
/// test fails where it was not run.
#pragma once

/// The first 64 bits of the SHA-256 of the names and contents of all other headers.
#define RATIFY_HEADER_DIGEST "fc895735271e2dd2"
