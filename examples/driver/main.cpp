// SPDX-License-Identifier: Apache-2.0
/// A policy chosen at run time, without a CUDA compiler at build time: NVRTC compiles its kernels for the card that is
/// here, a file keeps them, the driver API launches them, and the host executor checks the bits.
#include <driver/driver_executor.hpp>
#include <ratify/attention.cuh>
#include <ratify/describe.hpp>
#include <ratify/dispatch.hpp>
#include <ratify/host.hpp>

#include <nvrtc.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

namespace {

enum exit_code { equal = 0, bits_differ = 1, not_possible_here = 2, arguments_are_bad = 3 };

constexpr char const* usage =
    "run_time_policy PARTITION_WIDTH PV_UNROLL CACHE_FOLDER [HEADERS]\n"
    "Compiles attention for this machine's card, runs it and compares its bits with the host executor's.\n"
    "  PARTITION_WIDTH  64, 256, 1024 or 4096\n"
    "  PV_UNROLL        1, 4, 8 or 16\n"
    "  CACHE_FOLDER     where compiled kernels are kept from one run to the next\n"
    "  HEADERS          the folder that holds ratify/attention.cuh; those that this program was built with if left "
    "out\n"
    "Exit code: 0 equal bits, 1 bits differ, 2 no driver, no card or another failure, 3 wrong arguments\n";

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

/// What to compile: kernels (name expressions) of the headers in a folder, for an architecture.
struct request {
  std::filesystem::path headers;
  std::string architecture;
  std::vector<std::string> kernels;
};

compiled compile(request const& what) {
  nvrtcProgram program = nullptr;
  require(nvrtcCreateProgram(&program, "#include <ratify/attention.cuh>\n", "policy.cu", 0, nullptr, nullptr),
          "nvrtcCreateProgram");
  for (auto const& k : what.kernels) require(nvrtcAddNameExpression(program, k.c_str()), k);
  std::string const target = "-arch=" + what.architecture, headers = "-I" + what.headers.string();
  char const* const options[] = {target.c_str(), "-std=c++17", headers.c_str(), "-I" RATIFY_CCCL,
                                 "-I" RATIFY_CUDA_INCLUDE};
  if (nvrtcCompileProgram(program, 5, options) != NVRTC_SUCCESS) {
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
  for (auto const& k : what.kernels) {
    char const* name = nullptr;
    require(nvrtcGetLoweredName(program, k.c_str(), &name), k);
    out.names.push_back(name);
  }
  require(nvrtcDestroyProgram(&program), "nvrtcDestroyProgram");
  return out;
}

/// Digest (FNV-1a) of everything that the compiled code depends on. The headers count by their contents: they are read
/// when the kernels are compiled, and may have changed since this program or a cached file was made.
std::string cache_key(request const& what) {
  uint64_t key = 14695981039346656037ull;
  auto const add = [&](std::string const& text) {
    for (char const c : text) key = (key ^ static_cast<unsigned char>(c)) * 1099511628211ull;
    key = (key ^ 256u) * 1099511628211ull;  // where one text ends and the next begins
  };
  int major = 0, minor = 0;
  require(nvrtcVersion(&major, &minor), "nvrtcVersion");
  add(what.architecture);
  add("NVRTC " + std::to_string(major) + "." + std::to_string(minor));
  for (auto const& k : what.kernels) add(k);
  std::vector<std::filesystem::path> headers;
  for (auto const& entry : std::filesystem::recursive_directory_iterator(what.headers / "ratify"))
    if (entry.is_regular_file()) headers.push_back(entry.path());
  std::sort(headers.begin(), headers.end());
  for (auto const& h : headers) {
    add(h.lexically_relative(what.headers).generic_string());
    add(read(h));
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(key));
  return text;
}

/// From the cache, or compiled and put there: one file of names, one of code.
compiled cached(std::filesystem::path const& folder, request const& what) {
  auto const stem = folder / (what.architecture + "_" + cache_key(what));
  auto const code = stem.string() + ".cubin", names = stem.string() + ".names";
  if (std::filesystem::exists(code) && std::filesystem::exists(names)) {
    compiled out{read(code), {}};
    std::istringstream lines(read(names));
    for (std::string line; std::getline(lines, line);) out.names.push_back(line);
    std::printf("from the cache: %s\n", code.c_str());
    return out;
  }
  auto const begin = std::chrono::steady_clock::now();
  compiled const out = compile(what);
  std::printf("compiled for %s in %.2f s\n", what.architecture.c_str(),
              std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  std::filesystem::create_directories(folder);
  std::ofstream(code, std::ios::binary) << out.image;
  std::ofstream list(names);
  for (auto const& n : out.names) list << n << '\n';
  return out;
}

/// The first card, with its primary context current.
class card {
 public:
  card() {
    CUresult const r = cuInit(0);
    if (r == CUDA_ERROR_STUB_LIBRARY) throw std::runtime_error("no CUDA driver is installed (libcuda.so.1)");
    example::require(r, "the CUDA driver does not start");
    example::require(cuDeviceGet(&device_, 0), "cuDeviceGet");
    CUcontext context = nullptr;
    example::require(cuDevicePrimaryCtxRetain(&context, device_), "cuDevicePrimaryCtxRetain");
    example::require(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  }
  card(card const&) = delete;
  card& operator=(card const&) = delete;
  ~card() { (void)cuDevicePrimaryCtxRelease(device_); }

  std::string architecture() const {
    int major = 0, minor = 0;
    (void)cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device_);
    (void)cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device_);
    return "sm_" + std::to_string(10 * major + minor);
  }
 private:
  CUdevice device_ = 0;
};

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

void require(ratify::status s) {
  if (!s) throw std::runtime_error(s.reason());
}

template <class Operation>
exit_code attend(card const& here, std::filesystem::path const& cache, std::filesystem::path const& headers) {
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

  typename Operation::params p;
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

  ratify::host_executor cpu;
  point(q.data(), k.data(), v.data(), table.data(), &length, starts, &one, expected.data());
  std::vector<unsigned char> scratch(Operation::workspace_bytes(p, cpu));
  require(Operation::launch(p, {scratch.data(), scratch.size()}, cpu));

  compiled const module =
      cached(cache, {headers, here.architecture(), ratify::kernel_expressions<typename Operation::policy>()});
  example::driver_executor on(nullptr);
  on.load(module.image, module.names);
  on_card const dq(q.data(), q.size() * 4), dk(k.data(), k.size()), dv(v.data(), v.size()),
      dt(table.data(), table.size() * 4), dl(&length, 4), ds(starts, 8), scale(&one, 4), out(nullptr, got.size() * 4);
  point(dq.as<float>(), dk.as<ratify::e4m3>(), dv.as<ratify::e4m3>(), dt.as<int32_t>(), dl.as<int32_t>(),
        ds.as<int32_t>(), scale.as<float>(), out.as<float>());
  require(Operation::can_launch(p, on));
  size_t const bytes = Operation::workspace_bytes(p, on);
  on_card const dw(nullptr, bytes);
  require(Operation::launch(p, {dw.as<void>(), bytes}, on));
  out.read(got.data(), got.size() * 4);

  size_t differing = 0;
  for (size_t i = 0; i < got.size(); ++i) differing += std::memcmp(&got[i], &expected[i], 4) != 0;
  std::printf("%s: %zu elements, %zu differ from the host executor\n",
              ratify::describe<typename Operation::policy>().c_str(), got.size(), differing);
  return differing == 0 ? equal : bits_differ;
}

/// A number and nothing else; 0 for anything that is none, which no argument may be.
int number(char const* text) {
  int value = 0;
  char const* const end = text + std::strlen(text);
  auto const parsed = std::from_chars(text, end, value);
  return parsed.ec == std::errc() && parsed.ptr == end ? value : 0;
}

exit_code run(int width, int unroll, std::filesystem::path const& cache, std::filesystem::path const& headers) {
  using namespace ratify;
  exit_code result = arguments_are_bad;
  auto const s =
      dispatch(width, values<64, 256, 1024, 4096>{}, "PARTITION_WIDTH is 64, 256, 1024 or 4096", [&](auto w) {
        return dispatch(unroll, values<1, 4, 8, 16>{}, "PV_UNROLL is 1, 4, 8 or 16", [&](auto u) {
          using operation = attention<q_format<float>, decoder<decoder_revision::fp16_shift>,
                                      partition_width<decltype(w)::value>, pv_unroll<decltype(u)::value>>;
          result = attend<operation>(card(), cache, headers);
          return status{};
        });
      });
  if (!s) std::fprintf(stderr, "run_time_policy: %s\n%s", s.reason(), usage);
  return result;
}

}  // namespace

int main(int count, char** arguments) try {
  if (count == 2 && (std::strcmp(arguments[1], "--help") == 0 || std::strcmp(arguments[1], "-h") == 0)) {
    std::fputs(usage, stdout);
    return 0;
  }
  if (count != 4 && count != 5) {
    std::fprintf(stderr, "run_time_policy: it takes three or four arguments\n%s", usage);
    return arguments_are_bad;
  }
  return run(number(arguments[1]), number(arguments[2]), arguments[3], count == 5 ? arguments[4] : RATIFY_INCLUDE);
} catch (std::exception const& e) {
  std::fprintf(stderr, "run_time_policy: %s\n", e.what());
  return not_possible_here;
}
