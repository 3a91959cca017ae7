// SPDX-License-Identifier: Apache-2.0
/// The weights of a model in the memory of an executor. Linear layers that read the same rows lie one below the other,
/// so that one projection serves them all. Each of them is a segment with a global scale of its own.
#pragma once

#include <common/layers.hpp>
#include <common/memory.hpp>
#include <common/rotary.hpp>
#include <common/safetensors.hpp>
#include <generate/geometry.hpp>
#include <ratify/numeric.hpp>

#include <cmath>
#include <set>
#include <string>
#include <vector>

namespace generate {

/// NVFP4 weights [n, k] in checkpoint layout.
template <class Executor>
struct linear {
  int n = 0, k = 0, segments = 0;
  example::buffer<uint8_t, Executor> packed;       ///< [n, k/2]
  example::buffer<ratify::e4m3, Executor> scale;   ///< [n, k/16]
  example::buffer<float, Executor> global;         ///< [segments]
  example::buffer<int32_t, Executor> segment_end;  ///< [segments]

  example::linear_view view() const {
    return {n, k, packed.data(), scale.data(), global.data(), segment_end.data(), segments};
  }
};

/// One layer: a gated delta net or attention (the weights of the other are empty), then the MLP.
template <class Executor>
struct layer_weights {
  example::buffer<float, Executor> norm, mlp_norm;  ///< [hidden]
  linear<Executor> in;  ///< gated delta net: q, k, v, z, a, b; attention: query and gate by head, then k, v
  linear<Executor> out, gate_up, down;

  example::buffer<ratify::f16, Executor> convolution;  ///< [channels, width]
  example::buffer<float, Executor> a_log, dt_bias;     ///< [value_heads]
  example::buffer<float, Executor> value_norm;         ///< [value_dim]

  example::buffer<float, Executor> q_norm, k_norm;  ///< [head_dim]
};

namespace detail {

/// Takes tensors out of a file, and keeps track of those that nobody has asked for.
template <class Executor>
class weight_reader {
 public:
  weight_reader(Executor& on, safetensors::file const& f) : on_(on), f_(f) {}

  template <class T>
  example::buffer<T, Executor> tensor(std::string const& name, safetensors::dtype type,
                                      safetensors::shape_type const& shape) {
    return {on_, take(name, type, shape).template copy<T>()};
  }
  example::buffer<float, Executor> floats(std::string const& name, int n) {
    return tensor<float>(name, safetensors::dtype::f32, {n});
  }

  struct part {
    char const* name;
    int n;
  };
  /// The linear layers whose names begin with `prefix`, one below the other.
  linear<Executor> fuse(std::string const& prefix, std::vector<part> const& parts, int k) {
    linear<Executor> l;
    l.k = k;
    std::vector<uint8_t> packed;
    std::vector<ratify::e4m3> scale;
    std::vector<float> global;
    std::vector<int32_t> segment_end;
    for (auto const& p : parts) {
      std::string const name = prefix + p.name + ".weight";
      append(packed, take(name + "_packed", safetensors::dtype::u8, {p.n, k / 2}).template copy<uint8_t>());
      append(scale, take(name + "_scale", safetensors::dtype::f8_e4m3, {p.n, k / 16}).template copy<ratify::e4m3>());
      float const divisor = take(name + "_global_scale", safetensors::dtype::f32, {1}).template copy<float>()[0];
      if (!std::isfinite(divisor) || divisor <= 0 || !std::isfinite(1.0f / divisor))
        throw safetensors::error(f_.name() + ": tensor '" + name + "_global_scale': is no positive number");
      global.push_back(1.0f / divisor);
      l.n += p.n;
      segment_end.push_back(l.n);
    }
    l.segments = static_cast<int>(parts.size());
    l.packed = {on_, packed};
    l.scale = {on_, scale};
    l.global = {on_, global};
    l.segment_end = {on_, segment_end};
    return l;
  }

  /// Throws if a tensor has not been taken: it would be a part of the model that is silently left out.
  void finish() const {
    for (auto const& [name, t] : f_.tensors())
      if (taken_.count(name) == 0)
        throw safetensors::error(f_.name() + ": tensor " + safetensors::detail::quote(name) + " " +
                                 safetensors::to_string(t.shape) + " is no part of this model");
  }
 private:
  safetensors::tensor const& take(std::string const& name, safetensors::dtype type,
                                  safetensors::shape_type const& shape) {
    taken_.insert(name);
    return f_.at(name, type, shape);
  }
  template <class T>
  static void append(std::vector<T>& to, std::vector<T> const& from) {
    to.insert(to.end(), from.begin(), from.end());
  }

  Executor& on_;
  safetensors::file const& f_;
  std::set<std::string> taken_;
};

}  // namespace detail

template <class Executor>
struct model {
  geometry shape;
  example::buffer<ratify::f16, Executor> embedding;  ///< [vocabulary, hidden]
  std::vector<layer_weights<Executor>> layers;
  example::buffer<float, Executor> norm;       ///< [hidden]
  linear<Executor> head;                       ///< [vocabulary, hidden]
  example::buffer<float, Executor> cos, sin;   ///< [context, rotary_dim / 2]
  example::buffer<float, Executor> kv_scales;  ///< of k, of v

  /// @throws safetensors::error naming tensor and fault
  model(Executor& on, safetensors::file const& f) : shape(read_geometry(f)) {
    auto const& g = shape;
    detail::weight_reader<Executor> read(on, f);
    embedding = read.template tensor<ratify::f16>("model.embed_tokens.weight", safetensors::dtype::f16,
                                                  {g.vocabulary, g.hidden});
    for (int i = 0; i < g.layers; ++i) {
      std::string const at = "model.layers." + std::to_string(i) + ".";
      layer_weights<Executor> l;
      l.norm = read.floats(at + "input_layernorm.weight", g.hidden);
      if (g.is_attention(i))
        read_attention(read, at + "self_attn.", l);
      else
        read_gdn(read, at + "linear_attn.", l);
      l.mlp_norm = read.floats(at + "post_attention_layernorm.weight", g.hidden);
      l.gate_up = read.fuse(at + "mlp.", {{"gate_proj", g.mlp}, {"up_proj", g.mlp}}, g.hidden);
      l.down = read.fuse(at + "mlp.", {{"down_proj", g.hidden}}, g.mlp);
      layers.push_back(std::move(l));
    }
    norm = read.floats("model.norm.weight", g.hidden);
    head = read.fuse("", {{"lm_head", g.vocabulary}}, g.hidden);
    read.finish();
    auto const rotary = example::make_rotary_tables(g.context, g.rotary_dim, g.rope_theta);
    cos = {on, rotary.cos};
    sin = {on, rotary.sin};
    kv_scales = {on, std::vector<float>{g.k_scale, g.v_scale}};
  }
 private:
  void read_gdn(detail::weight_reader<Executor>& read, std::string const& at, layer_weights<Executor>& l) const {
    auto const& g = shape;
    int const channels = g.gdn_channels(), values = g.gdn_values();
    l.in = read.fuse(
        at,
        {{"in_proj_qkv", channels}, {"in_proj_z", values}, {"in_proj_a", g.value_heads}, {"in_proj_b", g.value_heads}},
        g.hidden);
    l.convolution = read.template tensor<ratify::f16>(at + "conv1d.weight", safetensors::dtype::f16,
                                                      {channels, 1, g.convolution_width});
    l.a_log = read.floats(at + "A_log", g.value_heads);
    l.dt_bias = read.floats(at + "dt_bias", g.value_heads);
    l.value_norm = read.floats(at + "norm.weight", g.value_dim);
    l.out = read.fuse(at, {{"out_proj", g.hidden}}, values);
  }

  void read_attention(detail::weight_reader<Executor>& read, std::string const& at, layer_weights<Executor>& l) const {
    auto const& g = shape;
    l.in = read.fuse(at, {{"q_proj", 2 * g.q_width()}, {"k_proj", g.kv_width()}, {"v_proj", g.kv_width()}}, g.hidden);
    l.q_norm = read.floats(at + "q_norm.weight", g.head_dim);
    l.k_norm = read.floats(at + "k_norm.weight", g.head_dim);
    l.out = read.fuse(at, {{"o_proj", g.hidden}}, g.q_width());
  }
};

}  // namespace generate
