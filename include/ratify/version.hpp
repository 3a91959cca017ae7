// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Version of the library, and the only place where it is written: the ABI namespace, the revision of compiled modules
/// and the build files derive from these three numbers. The inline ABI namespace carries major and minor: until 1.0 a
/// minor one may change layouts.
#define RATIFY_VERSION_MAJOR 0
#define RATIFY_VERSION_MINOR 1
#define RATIFY_VERSION_PATCH 0

/// One number to compare with: `#if RATIFY_VERSION >= 200` holds from 0.2.0 on.
#define RATIFY_VERSION (10000 * RATIFY_VERSION_MAJOR + 100 * RATIFY_VERSION_MINOR + RATIFY_VERSION_PATCH)
