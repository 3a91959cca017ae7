// SPDX-License-Identifier: Apache-2.0
/// A block owns some value columns of one value head of one request: it reads them, takes them through the request's
/// rows and writes them after each row. It reads its columns before it writes any, so the slot a request starts from
/// may be among those it writes.
#pragma once

#include <ratify/detail/recurrence_traits.cuh>
#include <ratify/device/recurrence.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class Policy, int ColumnThreads>
struct recurrence_kernel {
  using params = recurrence_params<Policy>;
  using traits = recurrence_traits<Policy, ColumnThreads>;
  using output_format = typename Policy::output_format;
  static constexpr char const* name = "recurrence_kernel";
  static constexpr int block_threads = traits::block_threads;
  static constexpr int lanes = device::recurrence_lanes<ColumnThreads>;
  static constexpr int keys = traits::key_dim / ColumnThreads;  ///< of a column that a thread holds
  static constexpr int columns = traits::thread_columns;
  /// Floats of a thread's keys in shared storage, and of a row of them: the four between threads put the 16-byte reads
  /// of eight threads into different banks.
  static constexpr int part_floats = traits::alone ? keys : keys + 4;
  static constexpr int row_floats = part_floats * ColumnThreads;
  static constexpr int slots_per_lane = 32 / traits::warp_threads;

  template <class Block>
  struct shared_storage {
    alignas(16) float k[traits::chunk_rows][row_floats];
    alignas(16) float q[traits::chunk_rows][row_floats];
    float v[traits::chunk_rows][traits::columns];
    float decay[traits::chunk_rows];
    float beta[traits::chunk_rows];
    int32_t snapshot[32];
  };

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const request = block.block_z(), head = block.block_y();
    // All indices are requested from memory before any is looked at, so that their latencies fall together.
    int32_t snapshots[slots_per_lane];
    RATIFY_UNROLL
    for (int i = 0; i < slots_per_lane; ++i) {
      int const t = i * traits::warp_threads + block.lane();
      snapshots[i] = t < p.max_rows ? p.snapshot_slot.row(request)[t] : -1;
    }
    int const first = p.query_start[request], last = p.query_start[request + 1];
    int const initial = p.initial_slot[request], selector = p.selector[request];
    int const fresh = p.fresh != nullptr ? p.fresh[request] : 0;
    int64_t const source = starting_slot(p, request, initial, selector, fresh);
    bool const stored = store_snapshot_slots(block, p, snapshots, last - first, storage);

    int const begin = max_of(first, 0), end = min_of(last, p.rows);
    if (begin >= end) return;
    bool const valid = first >= 0 && last <= p.rows && end - begin <= p.max_rows && stored && source != refused;
    if (!valid) {
      write_zeros(block, p, begin, end, head);
      return;
    }
    for (int tile = 0; tile < traits::tiles; ++tile)
      run_tile(block, p, storage, begin, end - begin, head, source, tile);
  }
 private:
  static constexpr int64_t refused = -1, zero_state = -2;

  /// The slot a request starts from; `zero_state` for a fresh one, `refused` for a retired or ill-formed one.
  RATIFY_HD static int64_t starting_slot(params const& p, int request, int initial, int selector, int fresh) {
    if (initial < 0 || initial >= p.slots || selector < 0 || selector > p.max_rows) return refused;
    if (fresh != 0) return fresh == 1 && selector == 0 ? zero_state : refused;
    if (selector == 0) return initial;
    int const chosen = p.snapshot_slot.row(request)[selector - 1];
    return chosen >= 0 && chosen < p.slots ? chosen : refused;
  }

  /// Puts the slots that a warp's lanes hold into shared storage. @return whether those of the request's rows are all
  /// -1 or slots of the pool.
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static bool store_snapshot_slots(Block const& block, params const& p,
                                             int32_t const (&snapshots)[slots_per_lane], int rows,
                                             shared_storage<Block>& storage) {
    bool bad = false;
    RATIFY_UNROLL
    for (int i = 0; i < slots_per_lane; ++i) {
      int const t = i * traits::warp_threads + block.lane();
      bad = bad || (t < rows && (snapshots[i] < -1 || snapshots[i] >= p.slots));
      if (block.warp() == 0) storage.snapshot[t] = snapshots[i];
    }
    return block.ballot(bad) == 0;
  }

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void write_zeros(Block const& block, params const& p, int begin, int end, int head) {
    constexpr int width = traits::columns * traits::tiles;
    int const first_column = block.block_x() * width;
    for (int i = block.thread(); i < (end - begin) * width; i += block_threads)
      p.out.at(begin + i / width, head)[first_column + i % width] = convert<output_format>(0.0f);
  }

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run_tile(Block const& block, params const& p, shared_storage<Block>& storage, int begin,
                                 int rows, int head, int64_t source, int tile) {
    constexpr int warp_columns = traits::warp_threads / ColumnThreads;
    int const first_column = (block.block_x() * traits::tiles + tile) * traits::columns;
    int const in_warp = block.thread() % traits::warp_threads;
    int const part = in_warp / traits::lane_stride % ColumnThreads;
    int const group = block.thread() / traits::warp_threads * warp_columns +
                      (traits::lane_stride == 1 ? in_warp / ColumnThreads : in_warp % traits::lane_stride);
    int const column = group * columns;  // in the tile

    int64_t const at = int64_t{head} * traits::key_dim * traits::value_dim;
    float state[keys][columns];
    if (source == zero_state) {
      RATIFY_UNROLL
      for (int n = 0; n < keys; ++n) {
        RATIFY_UNROLL
        for (int c = 0; c < columns; ++c) state[n][c] = 0.0f;
      }
    } else {
      float const* const from = p.state_pool + source * p.slot_stride + at;
      RATIFY_UNROLL
      for (int n = 0; n < keys; ++n) {
        RATIFY_UNROLL
        for (int c = 0; c < columns; ++c) state[n][c] = from[element(n, part, first_column + column + c)];
      }
    }

    for (int chunk = 0; chunk < rows; chunk += traits::chunk_rows) {
      int const count = min_of(rows - chunk, traits::chunk_rows);
      if (chunk > 0 || tile > 0) block.barrier();
      if constexpr (traits::alone) {
        // One chunk holds every row, so the first tile's q and k serve all.
        if (tile == 0) stage_rows(block, p, storage, begin + chunk, count, head);
        stage_values(p, storage, begin + chunk, count, head, first_column);
      } else {
        stage_chunk(block, p, storage, begin + chunk, count, head, first_column);
      }
      block.barrier();
      for (int t = 0; t < count; ++t) {
        float k[keys], q[keys], v[columns], o[columns];
        RATIFY_UNROLL
        for (int n = 0; n < keys; ++n) k[n] = storage.k[t][part * part_floats + n];
        RATIFY_UNROLL
        for (int n = 0; n < keys; ++n) q[n] = storage.q[t][part * part_floats + n];
        RATIFY_UNROLL
        for (int c = 0; c < columns; ++c) v[c] = storage.v[t][column + c];
        device::recurrence_row<ColumnThreads, traits::lane_stride>(block, state, k, q, storage.decay[t],
                                                                   storage.beta[t], v, o);
        int64_t const slot = storage.snapshot[chunk + t];
        if (slot >= 0) {
          float* const to = p.state_pool + slot * p.slot_stride + at;
          RATIFY_UNROLL
          for (int n = 0; n < keys; ++n) {
            RATIFY_UNROLL
            for (int c = 0; c < columns; ++c)
              to[element(n, part, first_column + column + c)] = canonical_result(state[n][c]);
          }
        }
        if (part == 0) {
          auto* const out = p.out.at(begin + chunk + t, head) + first_column + column;
          RATIFY_UNROLL
          for (int c = 0; c < columns; ++c) out[c] = convert<output_format>(mul_rn(p.scale, o[c]));
        }
      }
    }
  }

  /// Where element n of a thread's keys of a value column lies in a head's state.
  RATIFY_HD static int element(int n, int part, int column) {
    int const key = device::recurrence_key<ColumnThreads>(n, part);
    return Policy::state_layout == recurrence_layout::kv ? key * traits::value_dim + column
                                                         : column * traits::key_dim + key;
  }

  /// The canonical NaN for any. On a card arithmetic gives no other, and the compiler may see that a maximum with
  /// itself changes nothing; canonical() would cost three instructions an element.
  RATIFY_HD static float canonical_result(float x) {
    if constexpr (traits::alone)
      return canonical(x);
    else
      return max_rn(x, x);
  }

  /// A row's key (which = 0) or query (1), as a thread's part of it.
  template <class Part>
  RATIFY_HD static void load_vector(params const& p, int row, int key_head, int which, int part, Part& x) {
    auto const* const from = which == 0 ? p.k.at(row, key_head) : p.q.at(row, key_head);
    RATIFY_UNROLL
    for (int n = 0; n < keys; ++n) x[n] = to_float(from[device::recurrence_key<ColumnThreads>(n, part)]);
  }

  /// Normalises vectors and puts them where the rows find them. All threads of a warp call.
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void store_vector(Block const& block, shared_storage<Block>& storage, int t, int which, int part,
                                     bool wanted, float (&x)[keys]) {
    if constexpr (Policy::l2norm) device::recurrence_l2norm<ColumnThreads, 1>(block, x);
    if (!wanted) return;
    float* const to = (which == 0 ? storage.k[t] : storage.q[t]) + part * part_floats;
    RATIFY_UNROLL
    for (int n = 0; n < keys; ++n) to[n] = x[n];
  }

  /// One thread: q and k of the rows, normalised, and their gates.
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void stage_rows(Block const& block, params const& p, shared_storage<Block>& storage, int begin,
                                   int count, int head) {
    int const key_head = head / (p.value_heads / p.key_heads);
    for (int t = 0; t < count; ++t) {
      for (int which = 0; which < 2; ++which) {
        float x[keys];
        load_vector(p, begin + t, key_head, which, 0, x);
        store_vector(block, storage, t, which, 0, true, x);
      }
      int64_t const i = int64_t{begin + t} * p.value_heads + head;
      storage.decay[t] = exp_ordered(p.g[i]);
      storage.beta[t] = p.beta[i];
    }
  }

  /// One thread: the values of a tile.
  template <class Storage>
  RATIFY_HD static void stage_values(params const& p, Storage& storage, int begin, int count, int head,
                                     int first_column) {
    for (int t = 0; t < count; ++t)
      for (int c = 0; c < columns; ++c) storage.v[t][c] = to_float(p.v.at(begin + t, head)[first_column + c]);
  }

  /// Many threads: q, k, gates and values of up to chunk_rows rows. A value, a gate and two vectors a thread are
  /// requested from memory before any is used, so that their latencies fall together.
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void stage_chunk(Block const& block, params const& p, shared_storage<Block>& storage, int begin,
                                    int count, int head, int first_column) {
    constexpr int groups = block_threads / ColumnThreads;
    constexpr int vectors = 2 * traits::chunk_rows;
    constexpr int at_once = groups < vectors ? 2 : 1;
    constexpr int values = traits::chunk_rows * traits::columns / block_threads;
    static_assert(block_threads >= traits::chunk_rows, "ratify: a row's gates are a thread's");
    int const thread = block.thread(), part = thread % ColumnThreads, group = thread / ColumnThreads;
    int const key_head = head / (p.value_heads / p.key_heads);

    float v[values], g = 0.0f, beta = 0.0f;
    RATIFY_UNROLL
    for (int i = 0; i < values; ++i) {
      int const at = i * block_threads + thread, t = min_of(at / traits::columns, count - 1);
      v[i] = to_float(p.v.at(begin + t, head)[first_column + at % traits::columns]);
    }
    if (thread < count) {
      int64_t const i = int64_t{begin + thread} * p.value_heads + head;
      g = p.g[i];
      beta = p.beta[i];
    }
    // Vectors 2 t and 2 t + 1 are k and q of row t. Every thread takes every turn: the sums meet whole warps.
    for (int first = 0; first < 2 * count; first += groups * at_once) {
      float x[at_once][keys];
      RATIFY_UNROLL
      for (int i = 0; i < at_once; ++i) {
        int const vector = first + i * groups + group;
        load_vector(p, begin + min_of(vector / 2, count - 1), key_head, vector % 2, part, x[i]);
      }
      RATIFY_UNROLL
      for (int i = 0; i < at_once; ++i) {
        int const vector = first + i * groups + group;
        store_vector(block, storage, vector / 2, vector % 2, part, vector < 2 * count, x[i]);
      }
    }
    RATIFY_UNROLL
    for (int i = 0; i < values; ++i) {
      int const at = i * block_threads + thread;
      storage.v[at / traits::columns][at % traits::columns] = v[i];
    }
    if (thread < count) {
      storage.decay[thread] = exp_ordered(g);
      storage.beta[thread] = beta;
    }
  }
};

}  // namespace detail
RATIFY_END_NAMESPACE
