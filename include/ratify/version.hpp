// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Version of the library; the inline ABI namespace carries its major number.
#define RATIFY_VERSION_MAJOR 0
#define RATIFY_VERSION_MINOR 1
#define RATIFY_VERSION_PATCH 0
