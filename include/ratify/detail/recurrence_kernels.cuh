// SPDX-License-Identifier: Apache-2.0
/// A block owns some value columns of one value head of one request: it reads them and takes them through the request's
/// rows. In mode snapshots it writes them after each row; it reads its columns before it writes any, so the slot a
/// request starts from may be among those it writes. In mode replay it first takes them over the kept rows of the ring,
/// and puts what each new row does at the places after them, where no block of the launch reads.
#pragma once

#include <ratify/detail/recurrence_traits.cuh>
#include <ratify/detail/requests.cuh>
#include <ratify/device/activation.cuh>
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
  static constexpr int columns_of_block = traits::columns;
  /// Floats of a thread's keys in shared storage, and of a row of them: the four between threads put the 16-byte reads
  /// of eight threads into different banks.
  static constexpr int part_floats = traits::alone ? keys : keys + 4;
  static constexpr int row_floats = part_floats * ColumnThreads;
  static constexpr int slots_per_lane = 32 / traits::warp_threads;
  static constexpr bool keeps_snapshots = Policy::mode == recurrence_mode::snapshots;
  static constexpr bool replays = Policy::mode == recurrence_mode::replay;

  template <class Block>
  struct shared_storage {
    alignas(16) float k[traits::chunk_rows][row_floats];
    alignas(16) float q[traits::chunk_rows][row_floats];
    float v[traits::chunk_rows][traits::columns];
    float decay[traits::chunk_rows];
    float beta[traits::chunk_rows];
    int32_t snapshot[keeps_snapshots ? 32 : 1];
    float kept_decay[replays && traits::alone ? 64 : 1];
  };

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const request = block.block_z(), head = block.block_y();
    // All indices are requested from memory before any is looked at, so that their latencies fall together.
    int32_t snapshots[slots_per_lane];
    if constexpr (keeps_snapshots) load_snapshot_slots(block, p, request, snapshots);
    int const first = p.query_start[request], last = p.query_start[request + 1];
    int const begin = max_of(first, 0), end = min_of(last, p.rows);
    int const rows = begin < end ? end - begin : 0;
    int const fresh = p.fresh != nullptr ? p.fresh[request] : 0;
    start const from = start_of(p, request, rows, fresh);
    bool stored = true;
    if constexpr (keeps_snapshots) stored = store_snapshot_slots(block, p, snapshots, rows, storage);
    bool const all_claim =
        block.ballot(!all_claim_rows(p.query_start, p.requests, p.rows, block.lane(), traits::warp_threads)) == 0;

    if (rows == 0) return;
    if (!all_claim && !claims_rows(p.query_start, request, p.rows)) {
      unclaimed_rows gaps(p.query_start, p.requests, p.rows, {begin, end});
      for (row_range gap; gaps.next(gap);) write_zeros(block, p, gap.begin, gap.end, head);
      return;
    }
    if (rows > p.max_rows || !stored || from.slot == refused) {
      write_zeros(block, p, begin, end, head);
      return;
    }
    for (int tile = 0; tile < traits::tiles; ++tile) run_tile(block, p, storage, begin, rows, head, from, tile);
  }
 private:
  static constexpr int64_t refused = -1;

  /// What a request starts from.
  struct start {
    int64_t slot;        ///< `refused` for a retired or ill-formed request
    bool zero = false;   ///< a zero state, whatever the slot holds
    int ring_start = 0;  ///< mode replay: the place of the first kept row
    int kept = 0;        ///< and how many there are
    bool flush = false;  ///< the state goes to the slot before the first new row
  };

  RATIFY_HD static start start_of(params const& p, int request, int rows, int fresh) {
    (void)rows;
    if constexpr (replays) {
      int const slot = p.slot[request], flush = p.flush[request];
      int const ring_start = p.ring_start[request], kept = p.ring_count[request];
      if (slot < 0 || slot >= p.slots || ring_start < 0 || ring_start >= p.ring_places || kept < 0 ||
          kept > p.ring_places - rows || flush < 0 || flush > 1 || fresh < 0 || fresh > 1 || (fresh == 1 && kept != 0))
        return {refused};
      return {slot, fresh == 1, ring_start, kept, flush == 1 || fresh == 1};
    } else {
      int const initial = p.initial_slot[request];
      int selector = 0;
      if constexpr (keeps_snapshots) selector = p.selector[request];
      if (initial < 0 || initial >= p.slots || selector < 0 || selector > p.max_rows || fresh < 0 || fresh > 1 ||
          (fresh == 1 && selector != 0))
        return {refused};
      if constexpr (keeps_snapshots) {
        if (selector != 0) {
          int const chosen = p.snapshot_slot.row(request)[selector - 1];
          return {chosen >= 0 && chosen < p.slots ? chosen : refused};
        }
      }
      return {initial, fresh == 1};
    }
  }

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void load_snapshot_slots(Block const& block, params const& p, int request,
                                            int32_t (&snapshots)[slots_per_lane]) {
    RATIFY_UNROLL
    for (int i = 0; i < slots_per_lane; ++i) {
      int const t = i * traits::warp_threads + block.lane();
      snapshots[i] = t < p.max_rows ? p.snapshot_slot.row(request)[t] : -1;
    }
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
    // Bounds may hold more rows than T, so that their elements exceed an int.
    for (int64_t i = block.thread(); i < int64_t{end - begin} * width; i += block_threads)
      p.out.at(begin + i / width, head)[first_column + i % width] = convert<output_format>(0.0f);
  }

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run_tile(Block const& block, params const& p, shared_storage<Block>& storage, int begin,
                                 int rows, int head, start const& from, int tile) {
    constexpr int warp_columns = traits::warp_threads / ColumnThreads;
    int const first_column = (block.block_x() * traits::tiles + tile) * traits::columns;
    int const in_warp = block.thread() % traits::warp_threads;
    int const part = in_warp / traits::lane_stride % ColumnThreads;
    int const group = block.thread() / traits::warp_threads * warp_columns +
                      (traits::lane_stride == 1 ? in_warp / ColumnThreads : in_warp % traits::lane_stride);
    int const column = group * columns;  // in the tile

    int64_t const at = int64_t{head} * traits::key_dim * traits::value_dim;
    float state[keys][columns];
    float* const in_pool = p.state_pool + from.slot * p.slot_stride + at;
    if (from.zero) {
      RATIFY_UNROLL
      for (int n = 0; n < keys; ++n) {
        RATIFY_UNROLL
        for (int c = 0; c < columns; ++c) state[n][c] = 0.0f;
      }
    } else {
      RATIFY_UNROLL
      for (int n = 0; n < keys; ++n) {
        RATIFY_UNROLL
        for (int c = 0; c < columns; ++c) state[n][c] = in_pool[element(n, part, first_column + column + c)];
      }
    }
    if constexpr (replays) {
      if constexpr (traits::alone)
        advance_alone(p, storage, head, from, tile, first_column, state);
      else
        advance(block, p, storage, head, from, first_column, part, column, state);
      if (from.flush) write_state(in_pool, part, first_column + column, state);
    }

    for (int chunk = 0; chunk < rows; chunk += traits::chunk_rows) {
      int const count = min_of(rows - chunk, traits::chunk_rows);
      if (chunk > 0 || tile > 0 || from.kept > 0) block.barrier();
      if constexpr (traits::alone) {
        // One chunk holds every row, so the first tile's q and k serve all.
        if (tile == 0) stage_rows(block, p, storage, begin + chunk, count, head, from, chunk);
        stage_values(p, storage, begin + chunk, count, head, first_column);
      } else {
        stage_chunk(block, p, storage, begin + chunk, count, head, first_column, from, chunk);
      }
      block.barrier();
      if constexpr (replays) {
        // Every block of a key head has its keys; one of them keeps them.
        if (tile == 0 && block.block_x() == 0 && head % (p.value_heads / p.key_heads) == 0)
          keep_keys(block, p, storage, head, from, chunk, count);
      }
      for (int t = 0; t < count; ++t) {
        float k[keys], q[keys], v[columns], u[columns], o[columns];
        RATIFY_UNROLL
        for (int n = 0; n < keys; ++n) k[n] = storage.k[t][part * part_floats + n];
        RATIFY_UNROLL
        for (int n = 0; n < keys; ++n) q[n] = storage.q[t][part * part_floats + n];
        RATIFY_UNROLL
        for (int c = 0; c < columns; ++c) v[c] = storage.v[t][column + c];
        device::recurrence_row<ColumnThreads, traits::lane_stride>(block, state, k, q, storage.decay[t],
                                                                   storage.beta[t], v, u, o);
        if constexpr (keeps_snapshots) {
          int64_t const slot = storage.snapshot[chunk + t];
          if (slot >= 0) write_state(p.state_pool + slot * p.slot_stride + at, part, first_column + column, state);
        }
        if (part == 0) {
          if constexpr (replays) {
            float* const to = ring_u(p, from, from.kept + chunk + t, head) + first_column + column;
            RATIFY_UNROLL
            for (int c = 0; c < columns; ++c) to[c] = canonical_result(u[c]);
          }
          auto* const out = p.out.at(begin + chunk + t, head) + first_column + column;
          RATIFY_UNROLL
          for (int c = 0; c < columns; ++c) out[c] = convert<output_format>(mul_rn(p.scale, o[c]));
        }
      }
    }
  }

  /// A thread's part of a state, into one head's place of the pool.
  RATIFY_HD static void write_state(float* to, int part, int column, float const (&state)[keys][columns]) {
    RATIFY_UNROLL
    for (int n = 0; n < keys; ++n) {
      RATIFY_UNROLL
      for (int c = 0; c < columns; ++c) to[element(n, part, column + c)] = canonical_result(state[n][c]);
    }
  }

  /// Place of a request's row in its rings: row 0 is the first kept one.
  RATIFY_HD static int64_t place(params const& p, start const& from, int row) {
    return (from.ring_start + row) & (p.ring_places - 1);
  }
  RATIFY_HD static float* ring_k(params const& p, start const& from, int row, int head) {
    int const key_head = head / (p.value_heads / p.key_heads);
    return p.ring_k.row(from.slot) + (place(p, from, row) * p.key_heads + key_head) * traits::key_dim;
  }
  RATIFY_HD static float* ring_u(params const& p, start const& from, int row, int head) {
    return p.ring_u.row(from.slot) + (place(p, from, row) * p.value_heads + head) * traits::value_dim;
  }
  RATIFY_HD static float* ring_g(params const& p, start const& from, int row, int head) {
    return p.ring_g.row(from.slot) + place(p, from, row) * p.value_heads + head;
  }

  /// Where a key of a row stands among the row's floats in shared storage.
  RATIFY_HD static int shared_key(int key) {
    device::recurrence_place const at = device::recurrence_place_of<ColumnThreads>(key);
    return at.j * part_floats + at.n;
  }

  /// One thread: takes a tile of the state over the kept rows.
  template <class Storage>
  RATIFY_HD static void advance_alone(params const& p, Storage& storage, int head, start const& from, int tile,
                                      int first_column, float (&state)[keys][columns]) {
    for (int row = 0; row < from.kept; ++row) {
      if (tile == 0) storage.kept_decay[row] = exp_ordered(*ring_g(p, from, row, head));
      float const* const from_k = ring_k(p, from, row, head);
      float const* const from_u = ring_u(p, from, row, head) + first_column;
      float k[keys], u[columns];
      for (int n = 0; n < keys; ++n) k[n] = from_k[n];
      for (int c = 0; c < columns; ++c) u[c] = from_u[c];
      device::recurrence_advance(state, k, storage.kept_decay[row], u);
    }
  }

  /// Many threads: the same. The next rows are requested from memory before those in shared storage are used.
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void advance(Block const& block, params const& p, shared_storage<Block>& storage, int head,
                                start const& from, int first_column, int part, int column,
                                float (&state)[keys][columns]) {
    constexpr int rows = traits::ring_rows, key_dim = traits::key_dim;
    constexpr int key_loads = rows * key_dim / block_threads,
                  value_loads = ceil_div(rows * columns_of_block, block_threads);
    static_assert(rows >= 1 && rows * key_dim % block_threads == 0, "ratify: a ring row is shared out evenly");
    static_assert(block_threads >= rows, "ratify: a row's decay is a thread's");
    int const thread = block.thread();
    float k[key_loads], u[value_loads], g = 0.0f;
    auto const load = [&](int first) {
      int const last = from.kept - 1;
      RATIFY_UNROLL
      for (int i = 0; i < key_loads; ++i) {
        int const at = i * block_threads + thread;
        k[i] = ring_k(p, from, min_of(first + at / key_dim, last), head)[at % key_dim];
      }
      RATIFY_UNROLL
      for (int i = 0; i < value_loads; ++i) {
        int const at = i * block_threads + thread;
        u[i] = ring_u(p, from, min_of(first + at / columns_of_block, last), head)[first_column + at % columns_of_block];
      }
      if (thread < rows) g = *ring_g(p, from, min_of(first + thread, last), head);
    };
    if (from.kept > 0) load(0);
    for (int first = 0; first < from.kept; first += rows) {
      if (first > 0) block.barrier();
      RATIFY_UNROLL
      for (int i = 0; i < key_loads; ++i) {
        int const at = i * block_threads + thread;
        storage.k[at / key_dim][shared_key(at % key_dim)] = k[i];
      }
      RATIFY_UNROLL
      for (int i = 0; i < value_loads; ++i) {
        int const at = i * block_threads + thread;
        if (at < rows * columns_of_block) storage.v[at / columns_of_block][at % columns_of_block] = u[i];
      }
      if (thread < rows) storage.decay[thread] = exp_ordered(g);
      block.barrier();
      if (first + rows < from.kept) load(first + rows);
      int const count = min_of(from.kept - first, rows);
      for (int t = 0; t < count; ++t) {
        float row_k[keys], row_u[columns];
        RATIFY_UNROLL
        for (int n = 0; n < keys; ++n) row_k[n] = storage.k[t][part * part_floats + n];
        RATIFY_UNROLL
        for (int c = 0; c < columns; ++c) row_u[c] = storage.v[t][column + c];
        device::recurrence_advance(state, row_k, storage.decay[t], row_u);
      }
    }
  }

  /// The keys of a chunk, as used, to their places in the ring.
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void keep_keys(Block const& block, params const& p, shared_storage<Block> const& storage, int head,
                                  start const& from, int chunk, int count) {
    for (int i = block.thread(); i < count * traits::key_dim; i += block_threads) {
      int const t = i / traits::key_dim, key = i % traits::key_dim;
      ring_k(p, from, from.kept + chunk + t, head)[key] = canonical(storage.k[t][shared_key(key)]);
    }
  }

  /// A row's gates.
  RATIFY_HD static device::gates gates_of(params const& p, int row, int head) {
    if constexpr (Policy::fused_gating) {
      return device::gating(to_float(p.a.row(row)[head]), to_float(p.b.row(row)[head]), p.a_log[head], p.dt_bias[head]);
    } else {
      int64_t const i = int64_t{row} * p.value_heads + head;
      return {p.g[i], p.beta[i]};
    }
  }
  /// In mode replay: a row's g to its place in the ring.
  RATIFY_HD static void keep_gate(params const& p, int head, start const& from, int row, float g) {
    if constexpr (replays) *ring_g(p, from, from.kept + row, head) = canonical(g);
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
                                   int count, int head, start const& from, int chunk) {
    int const key_head = head / (p.value_heads / p.key_heads);
    for (int t = 0; t < count; ++t) {
      for (int which = 0; which < 2; ++which) {
        float x[keys];
        load_vector(p, begin + t, key_head, which, 0, x);
        store_vector(block, storage, t, which, 0, true, x);
      }
      device::gates const gate = gates_of(p, begin + t, head);
      keep_gate(p, head, from, chunk + t, gate.g);
      storage.decay[t] = exp_ordered(gate.g);
      storage.beta[t] = gate.beta;
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
                                    int count, int head, int first_column, start const& from, int chunk) {
    constexpr int groups = block_threads / ColumnThreads;
    constexpr int vectors = 2 * traits::chunk_rows;
    constexpr int at_once = groups < vectors ? 2 : 1;
    constexpr int values = traits::chunk_rows * traits::columns / block_threads;
    static_assert(block_threads >= traits::chunk_rows, "ratify: a row's gates are a thread's");
    int const thread = block.thread(), part = thread % ColumnThreads, group = thread / ColumnThreads;
    int const key_head = head / (p.value_heads / p.key_heads);

    float v[values];
    device::gates gate{0.0f, 0.0f};
    RATIFY_UNROLL
    for (int i = 0; i < values; ++i) {
      int const at = i * block_threads + thread, t = min_of(at / traits::columns, count - 1);
      v[i] = to_float(p.v.at(begin + t, head)[first_column + at % traits::columns]);
    }
    if (thread < count) gate = gates_of(p, begin + thread, head);
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
      storage.decay[thread] = exp_ordered(gate.g);
      storage.beta[thread] = gate.beta;
      if (block.block_x() == 0) keep_gate(p, head, from, chunk + thread, gate.g);
    }
  }
};

}  // namespace detail
RATIFY_END_NAMESPACE
