// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Version of the library; the inline ABI namespace carries major and minor: until 1.0 a minor one may
/// change layouts.
#define RATIFY_VERSION_MAJOR 0
#define RATIFY_VERSION_MINOR 1
#define RATIFY_VERSION_PATCH 0
