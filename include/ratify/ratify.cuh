// SPDX-License-Identifier: Apache-2.0
/// Every operation. Including the one you need compiles faster.
#pragma once

#include <ratify/acceptance.cuh>
#include <ratify/activation.cuh>
#include <ratify/attention.cuh>
#include <ratify/cache.cuh>
#include <ratify/convolution.cuh>
#include <ratify/decoder.cuh>
#include <ratify/drafting.cuh>
#include <ratify/embedding.cuh>
#include <ratify/normalization.cuh>
#include <ratify/projection.cuh>
#include <ratify/recurrence.cuh>
#include <ratify/shadow.cuh>
