// SPDX-License-Identifier: Apache-2.0
/// The sizes of a model, as the metadata of its file states them.
#pragma once

#include <common/geometry.hpp>
#include <common/safetensors.hpp>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <string>

namespace generate {

struct geometry : example::geometry {
  int end_token = 0;
  double rope_theta = 0;
  float k_scale = 1, v_scale = 1;  ///< factors of the stored keys and values
};

namespace detail {

inline double metadata_number(safetensors::file const& f, std::string const& name, double lowest, double highest) {
  auto const found = f.metadata().find(name);
  if (found == f.metadata().end()) throw safetensors::error(f.name() + ": metadata '" + name + "' is missing");
  char* end = nullptr;
  double const value = std::strtod(found->second.c_str(), &end);
  if (found->second.empty() || *end != '\0' || !(value >= lowest && value <= highest))
    throw safetensors::error(f.name() + ": metadata '" + name + "' is not a number this program can use");
  return value;
}

inline int metadata_integer(safetensors::file const& f, std::string const& name, int lowest, int highest) {
  double const value = metadata_number(f, name, lowest, highest);
  if (value != std::floor(value))
    throw safetensors::error(f.name() + ": metadata '" + name + "' is not a whole number");
  return static_cast<int>(value);
}

}  // namespace detail

/// @throws safetensors::error naming what is missing, malformed or contradictory
inline geometry read_geometry(safetensors::file const& f) {
  using namespace detail;
  geometry g;
  g.hidden = metadata_integer(f, "hidden_size", 16, 1 << 16);
  g.layers = metadata_integer(f, "num_hidden_layers", 1, 1024);
  g.attention_interval = metadata_integer(f, "full_attention_interval", 1, 1024);
  g.q_heads = metadata_integer(f, "num_attention_heads", 1, 256);
  g.kv_heads = metadata_integer(f, "num_key_value_heads", 1, 256);
  g.head_dim = metadata_integer(f, "head_dim", 16, 1024);
  g.rotary_dim = metadata_integer(f, "rotary_dim", 2, g.head_dim);
  g.key_heads = metadata_integer(f, "linear_num_key_heads", 1, 256);
  g.value_heads = metadata_integer(f, "linear_num_value_heads", 1, 256);
  g.key_dim = metadata_integer(f, "linear_key_head_dim", 16, 1024);
  g.value_dim = metadata_integer(f, "linear_value_head_dim", 16, 1024);
  g.convolution_width = metadata_integer(f, "linear_conv_kernel_dim", 2, 4);
  g.mlp = metadata_integer(f, "intermediate_size", 16, 1 << 18);
  g.vocabulary = metadata_integer(f, "vocab_size", 256, 1 << 20);
  g.end_token = metadata_integer(f, "end_token", 256, g.vocabulary - 1);
  g.context = metadata_integer(f, "max_position_embeddings", 2, 1 << 18);
  g.rope_theta = metadata_number(f, "rope_theta", 1, 1e12);
  g.norm_eps = static_cast<float>(metadata_number(f, "rms_norm_eps", 0, 1));
  if (f.metadata().count("k_scale")) g.k_scale = static_cast<float>(metadata_number(f, "k_scale", 1e-6, 1e6));
  if (f.metadata().count("v_scale")) g.v_scale = static_cast<float>(metadata_number(f, "v_scale", 1e-6, 1e6));
  auto const require = [&](bool good, char const* what) {
    if (!good) throw safetensors::error(f.name() + ": metadata contradicts itself: " + what);
  };
  require(g.q_heads % g.kv_heads == 0, "num_attention_heads is no multiple of num_key_value_heads");
  require(g.value_heads % g.key_heads == 0, "linear_num_value_heads is no multiple of linear_num_key_heads");
  require(g.rotary_dim % 2 == 0, "rotary_dim is odd");
  require(g.hidden % 16 == 0 && g.mlp % 16 == 0 && g.head_dim % 16 == 0 && g.value_dim % 16 == 0,
          "a projection's width is no multiple of 16");
  return g;
}

}  // namespace generate
