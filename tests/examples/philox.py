# SPDX-License-Identifier: Apache-2.0
"""Philox4x32-10 in integers of any size."""

MASK = (1 << 32) - 1


def philox(seed, position, purpose):
    key = [seed & MASK, seed >> 32 & MASK]
    c = [position & MASK, position >> 32 & MASK, purpose, 0]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ key[0], b & MASK, a >> 32 ^ c[3] ^ key[1], a & MASK]
        key = [(key[0] + 0x9E3779B9) & MASK, (key[1] + 0xBB67AE85) & MASK]
    return c[0]
