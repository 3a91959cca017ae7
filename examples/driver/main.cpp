// SPDX-License-Identifier: Apache-2.0
/// A policy chosen at run time, without a CUDA compiler at build time: NVRTC compiles its kernels for the card that is
/// here, a file keeps them, the driver API launches them, and the host executor checks the bits.
///
/// run_time_policy PARTITION_WIDTH PV_UNROLL CACHE_FOLDER
#include <driver/driver_executor.hpp>
#include <policies.hpp>
#include <ratify/attention.cuh>
#include <ratify/dispatch.hpp>
#include <ratify/host.hpp>
#include <ratify/revision.hpp>

#include <nvrtc.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

namespace {

void require(nvrtcResult r, std::string const& what) {
  if (r != NVRTC_SUCCESS) throw std::runtime_error(what + ": " + nvrtcGetErrorString(r));
}

std::string read(std::filesystem::path const& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

struct compiled {
  std::string image;
  std::vector<std::string> names;
};

/// Compiles kernels (name expressions) for an architecture.
compiled compile(std::string const& architecture, std::vector<std::string> const& kernels) {
  nvrtcProgram program = nullptr;
  require(nvrtcCreateProgram(&program, "#include <policies.hpp>\n#include <ratify/attention.cuh>\n", "policy.cu", 0,
                             nullptr, nullptr),
          "nvrtcCreateProgram");
  for (auto const& k : kernels) require(nvrtcAddNameExpression(program, k.c_str()), k);
  std::string const target = "-arch=" + architecture;
  char const* const options[] = {target.c_str(),       "-std=c++17",     "-I" RATIFY_INCLUDE,
                                 "-I" RATIFY_EXAMPLES, "-I" RATIFY_CCCL, "-I" RATIFY_CUDA_INCLUDE};
  if (nvrtcCompileProgram(program, 6, options) != NVRTC_SUCCESS) {
    size_t n = 0;
    require(nvrtcGetProgramLogSize(program, &n), "log");
    std::string log(n, '\0');
    require(nvrtcGetProgramLog(program, log.data()), "log");
    throw std::runtime_error(log);
  }
  compiled out;
  size_t n = 0;
  require(nvrtcGetCUBINSize(program, &n), "cubin");
  out.image.resize(n);
  require(nvrtcGetCUBIN(program, out.image.data()), "cubin");
  for (auto const& k : kernels) {
    char const* name = nullptr;
    require(nvrtcGetLoweredName(program, k.c_str(), &name), k);
    out.names.push_back(name);
  }
  require(nvrtcDestroyProgram(&program), "nvrtcDestroyProgram");
  return out;
}

/// From the cache, or compiled and put there: one file of names, one of code.
compiled cached(std::filesystem::path const& folder, std::string const& architecture,
                std::vector<std::string> const& kernels) {
  size_t const key = std::hash<std::string>{}(architecture + kernels.front() + RATIFY_REVISION);
  auto const stem = folder / (architecture + "_" + std::to_string(key));
  auto const code = stem.string() + ".cubin", names = stem.string() + ".names";
  if (std::filesystem::exists(code) && std::filesystem::exists(names)) {
    compiled out{read(code), {}};
    std::istringstream lines(read(names));
    for (std::string line; std::getline(lines, line);) out.names.push_back(line);
    std::printf("from the cache: %s\n", code.c_str());
    return out;
  }
  auto const begin = std::chrono::steady_clock::now();
  compiled const out = compile(architecture, kernels);
  std::printf("compiled for %s in %.2f s\n", architecture.c_str(),
              std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  std::filesystem::create_directories(folder);
  std::ofstream(code, std::ios::binary) << out.image;
  std::ofstream list(names);
  for (auto const& n : out.names) list << n << '\n';
  return out;
}

/// Device memory with a copy of host data, released at the end.
class on_card {
 public:
  on_card(void const* data, size_t bytes) {
    example::require(cuMemAlloc(&p_, bytes), "cuMemAlloc");
    if (data != nullptr) example::require(cuMemcpyHtoD(p_, data, bytes), "cuMemcpyHtoD");
  }
  on_card(on_card const&) = delete;
  on_card& operator=(on_card const&) = delete;
  ~on_card() { (void)cuMemFree(p_); }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(p_);
  }
  void read(void* to, size_t bytes) const { example::require(cuMemcpyDtoH(to, p_, bytes), "cuMemcpyDtoH"); }
 private:
  CUdeviceptr p_ = 0;
};

template <class Policy>
int attend(char const* policy, std::filesystem::path const& cache) {
  using op = ratify::attention<Policy>;
  constexpr int rows = 8, q_heads = 6, context = 3000, page = 64, pages = (context + page - 1) / page, d = 256;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> q(rows * q_heads * d), expected(q.size()), got(q.size());
  std::vector<ratify::e4m3> k(static_cast<size_t>(pages) * page * d), v(k.size());
  for (auto& x : q) x = normal(random);
  for (auto& x : k) x = ratify::convert<ratify::e4m3>(normal(random));
  for (auto& x : v) x = ratify::convert<ratify::e4m3>(normal(random));
  std::vector<int32_t> table(pages);
  for (int i = 0; i < pages; ++i) table[static_cast<size_t>(i)] = pages - 1 - i;
  int32_t const length = context, starts[2] = {0, rows};
  float const one = 1.0f;

  typename op::params p;
  p.rows = rows;
  p.requests = p.kv_heads = 1;
  p.q_heads = q_heads;
  p.page_size = page;
  p.max_pages = pages;
  p.max_context = context;
  p.softmax_scale = 0.0625f;
  auto const point = [&](float* pq, ratify::e4m3* pk, ratify::e4m3* pv, int32_t const* pt, int32_t const* pl,
                         int32_t const* ps, float const* scale, float* out) {
    p.q = {pq, q_heads * d, d};
    p.k_pages = {pk, page * d, d, d};
    p.v_pages = {pv, page * d, d, d};
    p.block_table = {pt, pages};
    p.context_len = pl;
    p.query_start = ps;
    p.k_scale = p.v_scale = scale;
    p.out = {out, q_heads * d, d};
  };
  auto const check = [](ratify::status s) {
    if (!s) throw std::runtime_error(s.reason());
  };

  ratify::host_executor cpu;
  point(q.data(), k.data(), v.data(), table.data(), &length, starts, &one, expected.data());
  std::vector<unsigned char> scratch(op::workspace_bytes(p, cpu));
  check(op::launch(p, {scratch.data(), scratch.size()}, cpu));

  example::require(cuInit(0), "cuInit");
  CUdevice device = 0;
  CUcontext context_of_device = nullptr;
  example::require(cuDeviceGet(&device, 0), "cuDeviceGet");
  example::require(cuDevicePrimaryCtxRetain(&context_of_device, device), "cuDevicePrimaryCtxRetain");
  example::require(cuCtxSetCurrent(context_of_device), "cuCtxSetCurrent");
  int major = 0, minor = 0;
  (void)cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  (void)cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  auto const entry = [&](char const* kernel) {
    return std::string("ratify::detail::entry<ratify::detail::") + kernel + "<" + policy + ">>";
  };
  compiled const module = cached(cache, "sm_" + std::to_string(10 * major + minor),
                                 {entry("attention_partial_kernel"), entry("attention_combine_kernel")});
  {
    example::driver_executor card(nullptr);
    card.load(module.image, module.names);
    on_card const dq(q.data(), q.size() * 4), dk(k.data(), k.size()), dv(v.data(), v.size()),
        dt(table.data(), table.size() * 4), dl(&length, 4), ds(starts, 8), scale(&one, 4), out(nullptr, got.size() * 4),
        dw(nullptr, scratch.size());
    point(dq.as<float>(), dk.as<ratify::e4m3>(), dv.as<ratify::e4m3>(), dt.as<int32_t>(), dl.as<int32_t>(),
          ds.as<int32_t>(), scale.as<float>(), out.as<float>());
    check(op::can_launch(p, card));
    check(op::launch(p, {dw.as<void>(), scratch.size()}, card));
    out.read(got.data(), got.size() * 4);
  }
  example::require(cuDevicePrimaryCtxRelease(device), "cuDevicePrimaryCtxRelease");
  size_t differing = 0;
  for (size_t i = 0; i < got.size(); ++i) differing += std::memcmp(&got[i], &expected[i], 4) != 0;
  std::printf("%s: %zu elements, %zu differ from the host executor\n", policy, got.size(), differing);
  return differing == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) try {
  if (count != 4) return std::fputs("run_time_policy PARTITION_WIDTH PV_UNROLL CACHE_FOLDER\n", stderr), 2;
  int const width = std::atoi(arguments[1]), unroll = std::atoi(arguments[2]);
  int result = 2;
  auto const s = ratify::dispatch(
      width, ratify::values<64, 256, 1024, 4096>{}, "PARTITION_WIDTH is 64, 256, 1024 or 4096", [&](auto w) {
        return ratify::dispatch(unroll, ratify::values<1, 4, 8, 16>{}, "PV_UNROLL is 1, 4, 8 or 16", [&](auto u) {
          using policy = ratify_examples::attention_p<256, decltype(w)::value, decltype(u)::value,
                                                      ratify::decoder_revision::fp16_shift, ratify::e4m3>;
          std::string const name = "ratify_examples::attention_p<256, " + std::to_string(width) + ", " +
                                   std::to_string(unroll) + ", ratify::decoder_revision::fp16_shift, ratify::e4m3>";
          result = attend<policy>(name.c_str(), arguments[3]);
          return ratify::status{};
        });
      });
  if (!s) std::fprintf(stderr, "%s\n", s.reason());
  return result;
} catch (std::exception const& e) {
  std::fprintf(stderr, "run_time_policy: %s\n", e.what());
  return 2;
}
